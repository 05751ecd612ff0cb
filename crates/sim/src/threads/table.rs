//! The core table, and a program's part in it: what `comity_table::Member` does on a mapped file.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use comity_policy::allotment::Claim;
use comity_protocol::activation::Cores;
use comity_protocol::{CoreSet, CoreWord, Party, SLOTS, SlotId, Standing, TURN, partition};

/// Here all programs count alike.
const WEIGHT: u32 = 100;

/// A program's place.
#[derive(Default)]
struct Slot {
    program: Cell<Option<u32>>,
    /// It has died, and no other program has noticed.
    is_dead: Cell<bool>,
    /// As the program's last round has it.
    desire: Cell<u32>,
    awake: Cell<u32>,
    /// It waits for a core to become free.
    wants: Cell<bool>,
}

/// See the module. All programs have it in common.
pub(super) struct Table {
    words: Vec<Cell<CoreWord>>,
    slots: Vec<Slot>,
    /// Programs whose bell was rung, in order.
    rung: RefCell<Vec<u32>>,
    now: Cell<u64>,
}

impl Table {
    pub(super) fn new(cores: usize) -> Table {
        Table {
            words: vec![Cell::new(CoreWord::UNUSED); cores],
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
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

    /// The places that are taken.
    fn members(&self) -> impl Iterator<Item = SlotId> {
        (0..SLOTS).filter_map(SlotId::new).filter(|slot| self.program_of(*slot).is_some())
    }

    pub(super) fn population(&self) -> usize {
        self.members().count()
    }

    /// A program whose bell has rung.
    pub(super) fn take_rung(&self) -> Vec<u32> {
        std::mem::take(&mut *self.rung.borrow_mut())
    }

    fn ring(&self, slot: SlotId) {
        self.rung.borrow_mut().extend(self.program_of(slot));
    }

    // ---- Coming and going. ----

    /// The program takes a place. `None`: the table is full.
    pub(super) fn join(&self, program: u32) -> Option<SlotId> {
        let can_be_had = |slot: &&Slot| slot.program.get().is_none() || slot.is_dead.get();
        let free = SlotId::new(self.slots.iter().position(|slot| can_be_had(&slot))?)?;
        self.leave(free);
        self.slot(free).program.set(Some(program));
        // A program that was alone looks rarely.
        self.members().filter(|other| *other != free).for_each(|other| self.ring(other));
        Some(free)
    }

    /// Nothing of the program's is left; those that wait for a core are told.
    pub(super) fn leave(&self, slot: SlotId) {
        let Slot { program, is_dead, desire, awake, wants } = self.slot(slot);
        if program.take().is_none() {
            return;
        }
        is_dead.set(false);
        desire.set(0);
        awake.set(0);
        wants.set(false);
        for word in &self.words {
            word.set(word.get().without(slot).unwrap_or(word.get()));
        }
        self.members().filter(|other| self.wants(*other)).for_each(|other| self.ring(other));
    }

    pub(super) fn dies(&self, slot: SlotId) {
        self.slot(slot).is_dead.set(true);
    }

    /// No program holds or owns a core any more.
    #[cfg(test)]
    pub(super) fn clear(&self) {
        self.words.iter().for_each(|word| word.set(CoreWord::UNUSED));
    }

    /// Holds all cores from now on, behind its program's back.
    #[cfg(test)]
    pub(super) fn claims_all(&self, slot: SlotId) {
        self.clear();
        while self.claim(slot, false).is_some() {}
    }

    #[cfg(test)]
    pub(super) fn forget(&self, slot: SlotId) {
        self.slot(slot).program.set(None);
    }

    // ---- Cores. ----

    pub(super) fn held(&self, slot: SlotId) -> CoreSet {
        (0..self.words.len()).filter(|core| self.word(*core).holder() == Some(slot)).collect()
    }

    pub(super) fn owned(&self, slot: SlotId) -> CoreSet {
        (0..self.words.len()).filter(|core| self.word(*core).owner() == Some(slot)).collect()
    }

    fn change(&self, next: impl Fn(CoreWord) -> Option<CoreWord>) -> Option<(usize, CoreWord)> {
        let changed = |(core, word): (usize, &Cell<CoreWord>)| Some((core, word.get(), next(word.get())?));
        let (core, before, next) = self.words.iter().enumerate().find_map(changed)?;
        self.words[core].set(next);
        Some((core, before))
    }

    pub(super) fn claim(&self, slot: SlotId, own_only: bool) -> Option<usize> {
        let mut claimed = self.change(|word| word.claimed(slot).filter(|_| word.owner() == Some(slot)));
        if claimed.is_none() && !own_only {
            claimed = self.change(|word| word.claimed(slot).filter(|_| word.owner().is_none()));
            claimed = claimed.or_else(|| self.change(|word| word.claimed(slot)));
        }
        claimed.map(|(core, _)| core)
    }

    fn take_back(&self, slot: SlotId) -> Option<usize> {
        let (core, before) = self.change(|word| word.taken_back(slot))?;
        if let Some(borrower) = before.holder() {
            self.ring(borrower);
        }
        Some(core)
    }

    /// `core`, or one that is not its own, or any.
    fn release(&self, slot: SlotId, core: Option<usize>) -> Option<usize> {
        let (core, before) = match core {
            Some(core) => {
                let before = self.words[core].get();
                self.words[core].set(before.released(slot)?);
                (core, before)
            }
            None => {
                let others = self.change(|word| word.released(slot).filter(|_| word.owner() != Some(slot)));
                others.or_else(|| self.change(|word| word.released(slot)))?
            }
        };
        self.offer(before.owner(), slot);
        Some(core)
    }

    fn any_free(&self) -> bool {
        self.words.iter().any(|word| word.get().is_free())
    }

    fn wants(&self, slot: SlotId) -> bool {
        self.slot(slot).wants.get() && !self.slot(slot).is_dead.get()
    }

    pub(super) fn want(&self, slot: SlotId, wants: bool) {
        self.slot(slot).wants.set(wants);
    }

    fn is_core_wanted(&self, but: SlotId) -> bool {
        self.members().any(|slot| slot != but && self.wants(slot))
    }

    /// A core is free: its owner is told, if it waits for one, or else the next program that does.
    fn offer(&self, owner: Option<SlotId>, but: SlotId) {
        let after = |after: usize| SlotId::new((but.index() + after) % SLOTS);
        let told = owner.into_iter().chain((1..SLOTS).filter_map(after));
        if let Some(slot) = told.into_iter().find(|slot| *slot != but && self.wants(*slot)) {
            self.ring(slot);
        }
    }

    /// The program leaves the cores that are free to others.
    fn decline(&self, slot: SlotId) {
        let free = self.words.iter().map(Cell::get).filter(|word| word.is_free());
        free.for_each(|word| self.offer(word.owner(), slot));
    }

    // ---- Once each quantum. ----

    /// Buries the dead, brings the owners of the cores up to date with what all desire, and says how things stand.
    pub(super) fn round(&self, slot: SlotId, desire: u32, awake: u32) -> Standing {
        self.slot(slot).desire.set(desire);
        self.slot(slot).awake.set(awake);
        let dead: Vec<SlotId> = self.members().filter(|other| self.slot(*other).is_dead.get()).collect();
        dead.into_iter().for_each(|dead| self.leave(dead));
        let parties = self.parties();
        let before: Vec<CoreWord> = self.words.iter().map(Cell::get).collect();
        let owners: Vec<Option<SlotId>> = before.iter().map(|word| word.owner()).collect();
        let turn = self.now.get() / TURN.as_nanos() as u64;
        let after = partition(&parties, &owners, |core| before[core].holder(), turn);
        for (word, owner) in self.words.iter().zip(after) {
            word.set(word.get().granted(owner).unwrap_or(word.get()));
        }
        let has_work = |other: &SlotId| self.desire(*other) > 0 || self.slot(*other).awake.get() > 0;
        let others = self.members().filter(|other| *other != slot && has_work(other)).count() as u32;
        Standing {
            alone: parties.iter().all(|party| party.slot == slot),
            share_milli: self.words.len() as u32 * 1000 / (others + 1),
            programs: others + 1,
            ..self.standing(slot)
        }
    }

    fn parties(&self) -> Vec<Party> {
        let may_use: CoreSet = (0..self.words.len()).collect();
        let party = |slot: SlotId| {
            let claim = Claim { program: self.program_of(slot)?.into(), weight: WEIGHT, desire: self.desire(slot) };
            (claim.desire > 0).then_some(Party { slot, claim, may_use })
        };
        self.members().filter_map(party).collect()
    }

    fn standing(&self, slot: SlotId) -> Standing {
        let mut standing = Standing::default();
        for word in self.words.iter().map(Cell::get) {
            let (own, held) = (word.owner() == Some(slot), word.holder() == Some(slot));
            standing.owned += u32::from(own);
            standing.held += u32::from(held);
            standing.free += u32::from(word.is_free());
            standing.own_free += u32::from(word.is_free() && own);
            standing.lent += u32::from(own && !word.is_free() && !held);
        }
        standing
    }
}

/// A program's part of the table, as its pool has it.
pub(super) struct Part {
    table: Rc<Table>,
    slot: SlotId,
    /// The cores that the program holds, as far as it knows,
    held: Cell<CoreSet>,
    /// and for how many nanoseconds it held them, summed over the cores, up to a time.
    held_time: Cell<(u64, u64)>,
    /// Cores that it lost to their owners.
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

    fn gains(&self, core: Option<usize>) -> Option<usize> {
        core.inspect(|core| self.hold(self.held.get().union([*core].into_iter().collect())))
    }
}

impl Cores for Part {
    fn held(&self) -> CoreSet {
        self.hold(self.table.held(self.slot));
        self.held.get()
    }

    fn held_by_program(&self) -> CoreSet {
        self.table.held(self.slot)
    }

    fn claim(&self, own_only: bool) -> Option<usize> {
        self.gains(self.table.claim(self.slot, own_only))
    }

    fn take_back(&self) -> Option<usize> {
        self.gains(self.table.take_back(self.slot))
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let released = self.table.release(self.slot, core)?;
        self.hold(self.held.get().iter().filter(|core| *core != released).collect());
        Some(released)
    }

    fn any_free(&self) -> bool {
        self.table.any_free()
    }

    fn want(&self, wants: bool) {
        self.table.want(self.slot, wants);
    }

    fn decline(&self) {
        self.table.decline(self.slot);
    }

    fn is_core_wanted(&self) -> bool {
        self.table.is_core_wanted(self.slot)
    }

    fn note_lost(&self, cores: u32) {
        self.lost.set(self.lost.get() + u64::from(cores));
    }
}
