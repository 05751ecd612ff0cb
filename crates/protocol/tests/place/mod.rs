//! A core table that the programs of one test share, and the place of each.
#![allow(dead_code, reason = "not every test program uses all of it")]

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use comity_policy::allotment::{Claim, Proposal};
use comity_policy::{Mode, Room, UNCORRECTED};
use comity_protocol::table::{self, Change, Report, Seat};
use comity_protocol::{CoreSet, CoreWord, Party, SlotId, Standing, Way};

/// A table: its cores, the desire of each program, and facts about the programs by their places.
#[derive(Default)]
pub struct Table {
    pub words: Vec<Cell<CoreWord>>,
    pub desires: Vec<Cell<u32>>,
    pub now: Cell<u64>,
    pub wanting: RefCell<Vec<usize>>,
    pub stopped: RefCell<Vec<usize>>,
    /// The cores that the program at a place may not use.
    pub barred: RefCell<Vec<(usize, usize)>>,
    /// The core that another program changes just before the first exchange.
    pub contended: Cell<Option<usize>>,
    /// The time in ns since each core last changed. The default is 0.
    pub lasts: RefCell<Vec<u64>>,
    /// The time in ns for which a core of another owner must have been free before it is claimed.
    pub lend_after: Cell<u64>,
}

impl Table {
    pub fn new(cores: usize, programs: usize) -> Rc<Table> {
        let words = vec![Cell::new(CoreWord::UNUSED); cores];
        Rc::new(Table { words, desires: vec![Cell::default(); programs], ..Table::default() })
    }

    /// Changes the first core that has a next word.
    pub fn change(&self, next: impl Fn(CoreWord) -> Option<CoreWord>) -> Option<usize> {
        let (core, next) = self.words.iter().enumerate().find_map(|(core, word)| Some((core, next(word.get())?)))?;
        self.words[core].set(next);
        Some(core)
    }
}

/// A change that a step made to the table, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Exchanged(usize),
    Granted(usize),
    Noted(Change),
    Fenced,
    Looked,
    Beat,
    Wants(bool),
    Waits(bool),
    Watches(bool),
    Rang(usize),
}

/// A value that a program published, or another effect on the table, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Round(u32),
    Correct(u32),
    Propose(Proposal),
    Want(bool),
    Stand { alone: bool, mode: Mode, room: Room, usable: u32 },
    Release(usize),
    Claim(usize, Option<usize>),
    TakeBack(usize, Option<usize>),
    Divide,
    Employ(usize),
    Rung(usize),
    LeaveOff(usize),
    Close(bool),
    Reopen(usize),
}

/// A program's place in the table, which it never loses.
pub struct Place {
    pub table: Rc<Table>,
    pub slot: SlotId,
    pub log: RefCell<Vec<Effect>>,
    pub steps: RefCell<Vec<Step>>,
    /// True if the program waits for a core. The field below it is true if the program watches a core.
    pub waits: Cell<bool>,
    watches: Cell<bool>,
    /// The number of programs in the table, as the program sees it.
    pub population: Cell<usize>,
}

impl Place {
    pub fn new(table: &Rc<Table>, slot: usize) -> Place {
        let (log, steps, waits, watches) = Default::default();
        Place { table: Rc::clone(table), slot: self::slot(slot), log, steps, waits, watches, population: Cell::new(1) }
    }

    pub fn note(&self, effect: Effect) {
        self.log.borrow_mut().push(effect);
    }

    fn step(&self, step: Step) {
        self.steps.borrow_mut().push(step);
    }

    pub fn held(&self) -> CoreSet {
        table::held(&self)
    }

    pub fn owned(&self) -> CoreSet {
        table::owned(&self)
    }
}

/// Makes the first of two programs on two cores.
impl Default for Place {
    fn default() -> Place {
        Place::new(&Table::new(2, 2), 0)
    }
}

impl Deref for Place {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

pub fn slot(index: usize) -> SlotId {
    SlotId::new(index).unwrap()
}

pub fn report(index: usize, program: u64, desire: u32, awake: u32, cores: usize) -> Report {
    let claim = Claim { program, weight: 100, desire };
    Report {
        party: Party { slot: slot(index), claim, may_use: (0..cores).collect() },
        awake,
        correction: UNCORRECTED,
        knows_frames: true,
        proposal: Some(Proposal::Equal),
        takes_turns: true,
        way: Way::Cores,
        group: None,
    }
}

impl Seat for Place {
    type View<'a> = &'a Self;

    fn view(&self) -> Option<&Self> {
        Some(self)
    }

    fn round(&self, desire: u32, _: u32) -> Standing {
        self.note(Effect::Round(desire));
        self.desires[self.slot.index()].set(desire);
        let desires = self.desires.iter().enumerate();
        let reports = desires.map(|(nth, desire)| report(nth, nth as u64, desire.get(), 1, self.words.len()));
        table::round(&self, self.slot.index() as u64, 100, &reports.collect::<Vec<_>>(), self.now.get())
    }

    fn correct(&self, correction: u32) {
        self.note(Effect::Correct(correction));
    }

    fn propose(&self, proposal: Proposal) {
        self.note(Effect::Propose(proposal));
    }

    fn want(&self, wants: bool) {
        self.note(Effect::Want(wants));
        table::want(&self, wants);
    }

    fn population(&self) -> usize {
        self.population.get()
    }
}

impl table::Table for &Place {
    fn slot(&self) -> SlotId {
        self.slot
    }

    fn cores(&self) -> CoreSet {
        (0..self.words.len()).filter(|core| self.may_use(self.slot, *core)).collect()
    }

    fn load(&self, core: usize) -> CoreWord {
        self.words[core].get()
    }

    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool {
        if self.contended.take() == Some(core) {
            return false;
        }
        assert_eq!(self.words[core].replace(next), before);
        self.step(Step::Exchanged(core));
        true
    }

    fn grant(&self, core: usize, before: CoreWord, next: CoreWord) {
        assert_eq!(self.words[core].replace(next), before);
        self.step(Step::Granted(core));
    }

    fn beat(&self) {
        self.step(Step::Beat);
    }

    fn is_stopped(&self, slot: SlotId) -> bool {
        self.stopped.borrow().contains(&slot.index())
    }

    fn note(&self, change: Change) {
        self.step(Step::Noted(change));
    }

    fn fence(&self) {
        self.step(Step::Fenced);
    }

    fn wants(&self, slot: SlotId) -> bool {
        self.wanting.borrow().contains(&slot.index())
    }

    fn is_core_wanted(&self) -> bool {
        self.step(Step::Looked);
        self.wanting.borrow().iter().any(|slot| *slot != self.slot.index())
    }

    fn set_wants(&self, wants: bool) {
        self.wanting.borrow_mut().retain(|slot| *slot != self.slot.index());
        self.wanting.borrow_mut().extend(wants.then_some(self.slot.index()));
        self.step(Step::Wants(wants));
    }

    fn may_use(&self, slot: SlotId, core: usize) -> bool {
        !self.barred.borrow().contains(&(slot.index(), core))
    }

    fn ring(&self, slot: SlotId) {
        self.step(Step::Rang(slot.index()));
    }

    fn waits(&self) -> bool {
        self.waits.get()
    }

    fn set_waits(&self, waits: bool) {
        self.waits.set(waits);
        self.step(Step::Waits(waits));
    }

    fn watches(&self) -> bool {
        self.watches.get()
    }

    fn set_watches(&self, watches: bool) {
        self.watches.set(watches);
        self.step(Step::Watches(watches));
    }

    fn lasts(&self, core: usize) -> u64 {
        self.lasts.borrow().get(core).copied().unwrap_or(0)
    }

    fn lend_after(&self) -> u64 {
        self.lend_after.get()
    }
}
