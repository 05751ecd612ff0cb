//! A core table that the programs of one test share, and the place of each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use comity_policy::UNCORRECTED;
use comity_policy::allotment::{Claim, Proposal};
use comity_protocol::table::{self, Change, Report, Seat};
use comity_protocol::{CoreSet, CoreWord, Party, SlotId, Standing, Way};

/// A core that another program owns may be claimed once it has been free for so long.
const LEND_AFTER: u64 = 1_000_000;

/// Cores, and what each program desires.
pub struct Table {
    pub words: Vec<Cell<CoreWord>>,
    pub desires: Vec<Cell<u32>>,
    pub now: Cell<u64>,
    /// Each free core may be claimed in so many nanoseconds. `None`: at once.
    pub young_for: Cell<Option<u64>>,
}

impl Table {
    pub fn new(cores: usize, programs: usize) -> Rc<Table> {
        Rc::new(Table {
            words: vec![Cell::new(CoreWord::UNUSED); cores],
            desires: vec![Cell::new(0); programs],
            now: Cell::default(),
            young_for: Cell::default(),
        })
    }

    /// Changes the first core for which there is a next word.
    pub fn change(&self, next: impl Fn(CoreWord) -> Option<CoreWord>) -> Option<usize> {
        let (core, next) = self.words.iter().enumerate().find_map(|(core, word)| Some((core, next(word.get())?)))?;
        self.words[core].set(next);
        Some(core)
    }
}

/// What a program told the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Round(u32),
    Correct(u32),
    Propose(Proposal),
    Want(bool),
}

/// A program's place, which it does not lose.
pub struct Place<T> {
    pub table: Rc<Table>,
    pub slot: SlotId,
    /// What the program told, among what else the test notes.
    pub log: RefCell<Vec<T>>,
    /// The program waits for a core, is told of those that become free, and watches one.
    pub waits: Cell<bool>,
    pub wants: Cell<bool>,
    watches: Cell<bool>,
    /// The number of programs that the program sees.
    pub population: Cell<usize>,
}

impl<T: From<Told>> Place<T> {
    pub fn new(table: &Rc<Table>, slot: usize) -> Place<T> {
        let (log, waits, wants, watches) = Default::default();
        let (table, slot) = (Rc::clone(table), SlotId::new(slot).unwrap());
        Place { table, slot, log, waits, wants, watches, population: Cell::new(1) }
    }

    pub fn note(&self, one: impl Into<T>) {
        self.log.borrow_mut().push(one.into());
    }

    pub fn held(&self) -> CoreSet {
        table::held(&self)
    }

    pub fn owned(&self) -> CoreSet {
        table::owned(&self)
    }
}

/// The first of two programs on two cores.
impl<T: From<Told>> Default for Place<T> {
    fn default() -> Place<T> {
        Place::new(&Table::new(2, 2), 0)
    }
}

impl<T: From<Told>> Seat for Place<T> {
    type View<'a>
        = &'a Self
    where
        Self: 'a;

    fn view(&self) -> Option<&Self> {
        Some(self)
    }

    fn view_at(&self, _: u64) -> Option<&Self> {
        Some(self)
    }

    fn round(&self, desire: u32, _: u32) -> Standing {
        self.note(Told::Round(desire));
        self.table.desires[self.slot.index()].set(desire);
        let report = |(nth, desire): (usize, &Cell<u32>)| {
            let slot = SlotId::new(nth).unwrap();
            let claim = Claim { program: nth as u64, weight: 100, desire: desire.get() };
            Report {
                party: Party { slot, claim, may_use: table::Table::cores(&self) },
                awake: 1,
                correction: UNCORRECTED,
                knows_frames: true,
                proposal: Some(Proposal::Equal),
                takes_turns: false,
                way: Way::default(),
                group: None,
            }
        };
        let reports: Vec<Report> = self.table.desires.iter().enumerate().map(report).collect();
        table::round(&self, self.slot.index() as u64, 100, &reports, self.table.now.get())
    }

    fn correct(&self, correction: u32) {
        self.note(Told::Correct(correction));
    }

    fn propose(&self, proposal: Proposal) {
        self.note(Told::Propose(proposal));
    }

    fn want(&self, wants: bool) {
        self.note(Told::Want(wants));
        table::want(&self, wants);
    }

    fn population(&self) -> usize {
        self.population.get()
    }

    fn has_its_place(&self) -> bool {
        true
    }
}

impl<T> table::Table for &Place<T> {
    fn slot(&self) -> SlotId {
        self.slot
    }

    fn cores(&self) -> CoreSet {
        (0..self.table.words.len()).collect()
    }

    fn load(&self, core: usize) -> CoreWord {
        self.table.words[core].get()
    }

    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool {
        assert_eq!(self.table.words[core].replace(next), before);
        true
    }

    fn grant(&self, core: usize, before: CoreWord, next: CoreWord) {
        self.exchange(core, before, next);
    }

    fn beat(&self) {}

    fn is_stopped(&self, _: SlotId) -> bool {
        false
    }

    fn note(&self, _: Change) {}

    fn fence(&self) {}

    fn wants(&self, slot: SlotId) -> bool {
        slot == self.slot && self.wants.get()
    }

    fn is_core_wanted(&self) -> bool {
        false
    }

    fn set_wants(&self, wants: bool) {
        self.wants.set(wants);
    }

    fn waits(&self) -> bool {
        self.waits.get()
    }

    fn set_waits(&self, waits: bool) {
        self.waits.set(waits);
    }

    fn watches(&self) -> bool {
        self.watches.get()
    }

    fn set_watches(&self, watches: bool) {
        self.watches.set(watches);
    }

    fn lasts(&self, _: usize) -> u64 {
        LEND_AFTER - self.table.young_for.get().unwrap_or(0)
    }

    fn lend_after(&self) -> u64 {
        LEND_AFTER
    }

    fn may_use(&self, _: SlotId, _: usize) -> bool {
        true
    }

    fn ring(&self, _: SlotId) {}
}
