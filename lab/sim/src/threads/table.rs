//! The core table, and a program's access to it: the counterpart of `comity_table::Member`, which works on a mapped
//! file.
//!
//! `comity_protocol::table` decides which cores a program claims and releases, and which programs it notifies. This
//! file drives that code: it stores the words of the cores and a slot for each program, with the time of the program's
//! last heartbeat, and removes dead programs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use comity_policy::UNCORRECTED;
use comity_policy::allotment::{Claim, Proposal};
use comity_protocol::activation::Cores;
use comity_protocol::orders::{InForce, Own, Request, Requests, Words};
use comity_protocol::table::{self, Gain, Report, Seat, Table as _};
use comity_protocol::{CoreSet, CoreWord, Party, SLOTS, STOPPED_AFTER, SlotId, Standing, Way};

/// A slot: the entry of a program in the table.
#[derive(Default)]
struct Slot {
    program: Cell<Option<u32>>,
    /// The number of the program among the programs that have had the slot.
    tenure: Cell<u64>,
    /// The requests from outside: weight, cores, pause.
    asked: [Cell<u64>; 3],
    /// True if the program has died, and no other program has noticed.
    is_dead: Cell<bool>,
    /// The program's weight.
    weight: Cell<u32>,
    /// The correction of the weight, in thousandths.
    correction: Cell<u32>,
    /// The program's proposal for the division of cores.
    proposal: Cell<Proposal>,
    /// A false correction that the program publishes instead, if any.
    false_correction: Cell<Option<u32>>,
    /// The time of the last heartbeat.
    heartbeat: Cell<u64>,
    /// The desire (`desire`) and the number of awake workers (`awake`) as of the program's last round.
    desire: Cell<u32>,
    awake: Cell<u32>,
    /// True if the program's bell rings when a core becomes free.
    wants: Cell<bool>,
    /// True if the program waits for a core (`waits`), and if it watches a free core that it may not claim yet
    /// (`watches`).
    waits: Cell<bool>,
    watches: Cell<bool>,
    /// The time in nanoseconds that a core of another program must have been free before this program claims it.
    lend_after: Cell<u64>,
}

impl Slot {
    fn words(&self) -> Words<'_, Cell<u64>> {
        Words { tenure: &self.tenure, asked: self.asked.each_ref() }
    }
}

/// The core table. All programs share it.
pub(super) struct Table {
    words: Vec<Cell<CoreWord>>,
    /// The time since which each core has its present holder, or no holder.
    since: Vec<Cell<u64>>,
    /// All cores. Every program may use all of them.
    cores: CoreSet,
    slots: Vec<Slot>,
    /// The number of slots in which `wants` is true.
    wanting: Cell<u32>,
    /// Programs whose bells were rung, in order.
    rung: RefCell<VecDeque<u32>>,
    now: Cell<u64>,
}

impl Table {
    pub(super) fn new(cores: usize) -> Table {
        Table {
            words: vec![Cell::new(CoreWord::UNUSED); cores],
            since: vec![Cell::new(0); cores],
            cores: (0..cores).collect(),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            wanting: Cell::new(0),
            rung: RefCell::default(),
            now: Cell::new(0),
        }
    }

    pub(super) fn set_now(&self, now: u64) {
        self.now.set(now);
    }

    fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[slot.index()]
    }

    pub(super) fn word(&self, core: usize) -> CoreWord {
        self.words[core].get()
    }

    pub(super) fn program_of(&self, slot: SlotId) -> Option<u32> {
        self.slot(slot).program.get()
    }

    pub(super) fn desire(&self, slot: SlotId) -> u32 {
        self.slot(slot).desire.get()
    }

    /// Returns the slots that are taken.
    fn members(&self) -> impl Iterator<Item = SlotId> {
        (0..SLOTS).filter_map(SlotId::new).filter(|slot| self.program_of(*slot).is_some())
    }

    pub(super) fn population(&self) -> usize {
        self.members().count()
    }

    /// Takes the next program whose bell was rung.
    pub(super) fn next_rung(&self) -> Option<u32> {
        self.rung.borrow_mut().pop_front()
    }

    fn ring(&self, slot: SlotId) {
        self.rung.borrow_mut().extend(self.program_of(slot));
    }

    /// Returns the table as the program in this slot sees it.
    fn view(&self, me: SlotId) -> View<'_> {
        View { table: self, me }
    }

    /// Gives the program a slot. The program claims a core of another program only after the core was free for
    /// `lend_after` ns. Returns `None` if the table is full.
    pub(super) fn join(&self, program: u32, lend_after: u64) -> Option<SlotId> {
        let can_be_had = |slot: &&Slot| slot.program.get().is_none() || slot.is_dead.get();
        let free = SlotId::new(self.slots.iter().position(|slot| can_be_had(&slot))?)?;
        self.bury(free);
        let slot = self.slot(free);
        slot.words().begin();
        slot.program.set(Some(program));
        slot.weight.set(InForce::default().weight);
        slot.correction.set(UNCORRECTED);
        slot.false_correction.set(None);
        slot.proposal.set(Proposal::Equal);
        slot.lend_after.set(lend_after);
        slot.heartbeat.set(self.now.get());
        if table::is_joining_told(free, &self.reports()) {
            self.members().filter(|other| *other != free).for_each(|other| self.ring(other));
        }
        Some(free)
    }

    /// Removes a program that has ended. It releases its cores, one after the other.
    pub(super) fn leave(&self, slot: SlotId) {
        self.slot(slot).desire.set(0);
        while table::release(&self.view(slot), None).is_some() {}
        self.bury(slot);
    }

    /// Removes the program, and its cores, from the table. If the program used a core, rings the bells of all programs
    /// that wait for a core.
    fn bury(&self, slot: SlotId) {
        let Slot { program, is_dead, desire, awake, .. } = self.slot(slot);
        if program.take().is_none() {
            return;
        }
        is_dead.set(false);
        desire.set(0);
        awake.set(0);
        self.view(slot).set_wants(false);
        self.slot(slot).waits.set(false);
        self.slot(slot).watches.set(false);
        let mut held_some = false;
        for word in &self.words {
            held_some |= word.get().holder() == Some(slot);
            word.set(word.get().without(slot).unwrap_or(word.get()));
        }
        if held_some {
            self.members().filter(|other| self.slot(*other).wants.get()).for_each(|other| self.ring(other));
        }
    }

    pub(super) fn dies(&self, slot: SlotId) {
        self.slot(slot).is_dead.set(true);
    }

    /// Clears the holder and owner of every core.
    #[cfg(test)]
    pub(super) fn clear(&self) {
        self.words.iter().for_each(|word| word.set(CoreWord::UNUSED));
    }

    /// Makes the program of this slot hold all cores, without its knowledge.
    #[cfg(test)]
    pub(super) fn claims_all(&self, slot: SlotId) {
        self.clear();
        while table::claim(&self.view(slot), false).is_some() {}
    }

    #[cfg(test)]
    pub(super) fn forget(&self, slot: SlotId) {
        self.slot(slot).program.set(None);
    }

    pub(super) fn tenure(&self, slot: SlotId) -> u64 {
        self.slot(slot).tenure.get()
    }

    /// Returns the value that a setter sees in the request word of the program in this slot.
    pub(super) fn seen(&self, slot: SlotId, request: Request) -> u64 {
        self.slot(slot).words().seen(request)
    }

    /// Sends a request to the program of this tenure. `before` is the value that the setter saw in the request word.
    /// Rings the bell of the program that has the slot now. Returns false if the request was not written: the word has
    /// changed and the program has left.
    pub(super) fn ask(&self, slot: SlotId, tenure: u64, before: u64, request: Request) -> bool {
        let (place, now) = (self.slot(slot), self.now.get());
        let words = place.words();
        let asked = words.exchange(before, request, tenure, now).is_ok()
            || words.ask(request, tenure, now, || place.program.get().is_some());
        if asked {
            self.ring(slot);
        }
        asked
    }

    /// Returns the requests to the program in this slot, including a pause that is over.
    pub(super) fn asked(&self, slot: SlotId) -> Requests {
        let Slot { asked, tenure, .. } = self.slot(slot);
        // This is called after every event, so the usual case must be fast.
        if asked.iter().all(|word| word.get() == 0) {
            return Requests::default();
        }
        self.slot(slot).words().read(tenure.get())
    }

    /// Returns the settings that are in force for the program now. Without a request, a program has the default weight
    /// and no limit of cores.
    pub(super) fn in_force(&self, slot: SlotId) -> InForce {
        match self.asked(slot) {
            nothing if nothing == Requests::default() => InForce::default(),
            asked => asked.in_force(Own::default(), self.now.get()),
        }
    }

    pub(super) fn weight(&self, slot: SlotId) -> u32 {
        self.slot(slot).weight.get()
    }

    /// Sets the program's weight.
    pub(super) fn set_weight(&self, slot: SlotId, weight: u32) {
        self.slot(slot).weight.set(weight);
    }

    /// True if a program proposes equal slowdown. Then a frame may be a probe, which lengthens the time between two
    /// turns of a program.
    pub(super) fn may_probe(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.proposal.get(), Proposal::Slowdown { .. }))
    }

    /// Makes the program publish this correction from now on, instead of the true correction.
    pub(super) fn lie(&self, slot: SlotId, correction: u32) {
        self.slot(slot).false_correction.set(Some(correction));
        self.slot(slot).correction.set(correction);
    }

    pub(super) fn held(&self, slot: SlotId) -> CoreSet {
        table::held(&self.view(slot))
    }

    pub(super) fn wants(&self, slot: SlotId) -> bool {
        self.slot(slot).wants.get()
    }

    /// True if the program in this slot waits for a core, and its bell rings for the next free core or it watches a
    /// core.
    pub(super) fn waits(&self, slot: SlotId) -> bool {
        let Slot { waits, wants, watches, .. } = self.slot(slot);
        waits.get() && (wants.get() || watches.get())
    }

    fn is_stopped(&self, slot: SlotId) -> bool {
        self.now.get() - self.slot(slot).heartbeat.get() > STOPPED_AFTER.as_nanos() as u64
    }

    /// Returns the reports of all programs that are not stopped.
    fn reports(&self) -> Vec<Report> {
        let report = |id: SlotId| {
            let slot = self.slot(id);
            let claim =
                Claim { program: slot.program.get()?.into(), weight: slot.weight.get(), desire: slot.desire.get() };
            Some(Report {
                party: Party { slot: id, claim, may_use: self.cores },
                awake: slot.awake.get(),
                correction: slot.correction.get(),
                knows_frames: true,
                proposal: Some(slot.proposal.get()),
                takes_turns: false,
                way: Way::default(),
                group: None,
            })
        };
        self.members().filter(|slot| !self.is_stopped(*slot)).filter_map(report).collect()
    }
}

/// The table as the steps of the protocol see and change it. A step takes one instant, so no other program can
/// interfere.
pub(super) struct View<'a> {
    table: &'a Table,
    me: SlotId,
}

impl table::Table for View<'_> {
    fn slot(&self) -> SlotId {
        self.me
    }

    fn cores(&self) -> CoreSet {
        self.table.cores
    }

    fn load(&self, core: usize) -> CoreWord {
        self.table.word(core)
    }

    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool {
        debug_assert_eq!(self.table.word(core), before);
        self.table.words[core].set(next);
        self.table.since[core].set(self.table.now.get());
        true
    }

    fn grant(&self, core: usize, _: CoreWord, next: CoreWord) {
        self.table.words[core].set(next);
    }

    fn beat(&self) {
        self.table.slot(self.me).heartbeat.set(self.table.now.get());
    }

    fn is_stopped(&self, slot: SlotId) -> bool {
        self.table.is_stopped(slot)
    }

    fn fence(&self) {}

    fn wants(&self, slot: SlotId) -> bool {
        self.table.wants(slot)
    }

    fn is_core_wanted(&self) -> bool {
        self.table.wanting.get() > u32::from(self.wants(self.me))
    }

    fn set_wants(&self, wants: bool) {
        let wanting = &self.table.wanting;
        let before = self.table.slot(self.me).wants.replace(wants);
        wanting.set(wanting.get() + u32::from(wants) - u32::from(before));
    }

    fn ring(&self, slot: SlotId) {
        self.table.ring(slot);
    }

    fn waits(&self) -> bool {
        self.table.slot(self.me).waits.get()
    }

    fn set_waits(&self, waits: bool) {
        self.table.slot(self.me).waits.set(waits);
    }

    fn watches(&self) -> bool {
        self.table.slot(self.me).watches.get()
    }

    fn set_watches(&self, watches: bool) {
        self.table.slot(self.me).watches.set(watches);
    }

    fn lasts(&self, core: usize) -> u64 {
        self.table.now.get() - self.table.since[core].get()
    }

    fn lend_after(&self) -> u64 {
        self.table.slot(self.me).lend_after.get()
    }
}

/// A program's access to the table, as the program's pool and coordinator use it.
pub(super) struct Part {
    table: Rc<Table>,
    slot: SlotId,
    /// The cores that the program holds, as far as it knows.
    held: Cell<CoreSet>,
    /// Nanoseconds for which the program held cores, summed over the cores, and the time until which this sum is
    /// computed.
    held_time: Cell<(u64, u64)>,
    /// Cores that the program lost to their owners.
    lost: Cell<u64>,
}

impl Part {
    pub(super) fn new(table: Rc<Table>, slot: SlotId) -> Part {
        let held_time = Cell::new((0, table.now.get()));
        Part { table, slot, held: Cell::new(CoreSet::EMPTY), held_time, lost: Cell::new(0) }
    }

    pub(super) fn held_time(&self) -> u64 {
        let (sum, until) = self.held_time.get();
        sum + (self.table.now.get() - until) * self.held.get().len() as u64
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    fn hold(&self, cores: CoreSet) {
        self.held_time.set((self.held_time(), self.table.now.get()));
        self.held.set(cores);
    }
}

impl Seat for Part {
    type View<'a> = View<'a>;

    fn view(&self) -> Option<View<'_>> {
        Some(self.table.view(self.slot))
    }

    /// Reports the round to the table, and removes dead programs. Each round looks for dead programs in all slots,
    /// because this costs nothing here.
    fn round(&self, desire: u32, awake: u32) -> Standing {
        let Part { table, slot, .. } = self;
        let own = table.slot(*slot);
        own.awake.set(awake);
        own.desire.set(desire);
        let view = table.view(*slot);
        view.beat();
        let dead: Vec<SlotId> = table.members().filter(|other| table.slot(*other).is_dead.get()).collect();
        dead.into_iter().for_each(|dead| table.bury(dead));
        let program = table.program_of(*slot).expect("a program in its round has a place");
        table::round(&view, program.into(), own.weight.get(), &table.reports(), table.now.get())
    }

    /// Publishes the correction, or the false correction of a program that lies.
    fn correct(&self, correction: u32) {
        let Slot { correction: published, false_correction, .. } = self.table.slot(self.slot);
        published.set(false_correction.get().unwrap_or(correction));
    }

    fn propose(&self, proposal: Proposal) {
        self.table.slot(self.slot).proposal.set(proposal);
    }

    fn want(&self, wants: bool) {
        table::want(&self.table.view(self.slot), wants);
    }

    fn population(&self) -> usize {
        self.table.population()
    }
}

impl Cores for Part {
    fn held(&self) -> CoreSet {
        self.hold(table::held(&self.table.view(self.slot)));
        self.held.get()
    }

    fn held_by_program(&self) -> CoreSet {
        table::held(&self.table.view(self.slot))
    }

    fn gain(&self, how: Gain) -> Option<usize> {
        let (core, _) = table::gain(&self.table.view(self.slot), how)?;
        self.hold(self.held.get().union([core].into_iter().collect()));
        Some(core)
    }

    fn reclaim(&self) {
        table::reclaim(&self.table.view(self.slot));
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let (released, _) = table::release(&self.table.view(self.slot), core)?;
        self.hold(self.held.get().iter().filter(|core| *core != released).collect());
        Some(released)
    }

    fn any_free(&self) -> bool {
        table::any_free(&self.table.view(self.slot))
    }

    fn want(&self, wants: bool) {
        Seat::want(self, wants);
    }

    fn decline(&self) {
        table::decline(&self.table.view(self.slot));
    }

    fn is_core_wanted(&self) -> bool {
        self.table.view(self.slot).is_core_wanted()
    }

    fn note_lost(&self, cores: u32) {
        self.lost.set(self.lost.get() + u64::from(cores));
    }
}
