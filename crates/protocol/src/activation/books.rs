//! The books of one pool: in which state each worker is, and on which core.
//!
//! # States
//!
//! | from | to | transition |
//! |---|---|---|
//! | AWAKE | ASLEEP | `fall_asleep` |
//! | AWAKE, ASLEEP | RETIRED | `retire` |
//! | ASLEEP, RETIRED | AWAKE | `get_up`, by the worker itself |
//! | RETIRED | AWAKE | `recall`, by the coordinator, with a core |
//! | RETIRED | ASLEEP | `make_hungry` |
//!
//! # Invariants
//!
//! - They are read and written under the lock of the activation alone.
//! - `awake` and `retired` are the numbers of workers in these states; an adopted thread is in none.
//! - A worker has a core only of those that the pool holds, as far as it knows.

use alloc::boxed::Box;

use comity_policy::WorkerId;

use crate::CoreSet;

/// What a worker is, as the books have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a task or looks for one, or will once its thread runs.
    Awake,
    /// A task wakes it.
    Asleep,
    /// It rests for want of a core, or because its policy leaves cores: the coordinator wakes it, or business of its
    /// own.
    Retired,
}

/// One worker in the books.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) state: State,
    /// The core that it was given. Only a name unless the policy binds workers to cores.
    pub(super) core: Option<usize>,
    /// Where its thread was told to run, if not wherever its program wants.
    pub(super) confined: Option<CoreSet>,
    /// The core that its thread was led to, since it is awake.
    pub(super) led_to: Option<usize>,
    /// That was while it slept, and it is let go when it is up.
    pub(super) led: bool,
    /// At the last look it was awake and had a core to which its thread was not led.
    pub(super) is_late: bool,
    /// It has retired in the middle of a task, or with tasks in its queues.
    midway: bool,
    /// A program's own thread, which comes and goes as it likes: it is in no count.
    pub(super) adopted: bool,
}

/// Which worker has which core, under the lock of [`Activation`](super::Activation).
pub struct Books {
    pub(super) entries: Box<[Entry]>,
    awake: u32,
    retired: u32,
    /// Cores that this pool holds, as far as it knows: their owners may have taken some back.
    pub(super) held: CoreSet,
    /// Awake workers that are off their cores in system calls, or stuck: they need none. The coordinator sets it.
    pub off_core: u32,
    /// The cores that the pool's program wants to use, of those that the system lets it. The driver sets it.
    pub may_use: CoreSet,
}

impl Books {
    pub(super) fn new(workers: u32, adopts: bool, may_use: CoreSet) -> Books {
        let entry = |nth: u32| Entry {
            state: State::Awake,
            core: None,
            confined: None,
            led_to: None,
            led: false,
            is_late: false,
            midway: false,
            adopted: adopts && nth == 0,
        };
        let entries: Box<[Entry]> = (0..workers).map(entry).collect();
        let awake = entries.iter().filter(|entry| !entry.adopted).count() as u32;
        Books { entries, awake, retired: 0, held: CoreSet::EMPTY, off_core: 0, may_use }
    }

    // The transitions.

    /// The worker is about to park.
    pub(super) fn fall_asleep(&mut self, me: WorkerId) {
        self.change(me, &[State::Awake], State::Asleep);
    }

    /// The worker was woken, for a task or for business.
    pub(super) fn get_up(&mut self, me: WorkerId) {
        self.change(me, &[State::Asleep, State::Retired], State::Awake);
    }

    /// There is no core for the worker, awake or asleep.
    pub(super) fn retire(&mut self, worker: WorkerId) {
        self.change(worker, &[State::Awake, State::Asleep], State::Retired);
    }

    /// The coordinator wakes the worker, and gives it this core.
    pub(super) fn recall(&mut self, worker: WorkerId, core: Option<usize>) {
        self.change(worker, &[State::Retired], State::Awake);
        self.entries[worker.index()].core = core;
    }

    /// A task may wake the worker again. False: it has not retired.
    pub(super) fn make_hungry(&mut self, worker: WorkerId) -> bool {
        let has_retired = self.is(worker, State::Retired);
        if has_retired {
            self.change(worker, &[State::Retired], State::Asleep);
        }
        has_retired
    }

    fn change(&mut self, worker: WorkerId, from: &[State], to: State) {
        let entry = &mut self.entries[worker.index()];
        if entry.adopted {
            return;
        }
        let before = core::mem::replace(&mut entry.state, to);
        debug_assert!(from.contains(&before), "worker {} was {before:?} and is to be {to:?}", worker.0);
        (entry.led_to, entry.is_late) = (None, false);
        match before {
            State::Awake => self.awake -= 1,
            State::Retired => self.retired -= 1,
            State::Asleep => {}
        }
        match to {
            State::Awake => {
                entry.midway = false;
                self.awake += 1;
            }
            State::Retired => self.retired += 1,
            State::Asleep => {}
        }
    }

    /// Whether the worker, which has retired, has done so in the middle of a task or with tasks in its queues.
    pub(super) fn set_midway(&mut self, worker: WorkerId, midway: bool) {
        self.entries[worker.index()].midway = midway;
    }

    /// This core is no longer the pool's.
    pub(super) fn lose(&mut self, core: usize) {
        self.held.remove(core);
        for entry in &mut self.entries {
            entry.core = entry.core.filter(|own| *own != core);
        }
    }

    // What they say.

    /// How many workers are awake.
    pub fn awake(&self) -> u32 {
        self.awake
    }

    /// Whether any is awake, or rests in the middle of a task.
    pub fn is_at_work(&self) -> bool {
        self.awake > 0 || self.midway() > 0
    }

    /// How many have retired.
    pub fn retired(&self) -> u32 {
        self.retired
    }

    /// How many rest in the middle of a task, or with tasks in their queues.
    pub fn midway(&self) -> u32 {
        self.entries.iter().filter(|entry| entry.midway).count() as u32
    }

    /// Whether the worker is one of them.
    pub(super) fn is_midway(&self, worker: WorkerId) -> bool {
        self.entries[worker.index()].midway
    }

    /// How many cores the pool holds, as far as it knows.
    pub fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Which these are.
    pub fn cores(&self) -> CoreSet {
        self.held
    }

    /// The core that the worker was given.
    pub fn core_of(&self, worker: WorkerId) -> Option<usize> {
        self.entries[worker.index()].core
    }

    /// Where the worker's thread was told to run; `None`: wherever its program wants.
    pub fn confined(&self, worker: WorkerId) -> Option<CoreSet> {
        self.entries[worker.index()].confined
    }

    /// Whether the worker is in this state. An adopted thread is in none.
    pub fn is(&self, worker: WorkerId, state: State) -> bool {
        let entry = &self.entries[worker.index()];
        entry.state == state && !entry.adopted
    }

    /// The workers that count.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        self.all().filter(|worker| !self.entries[worker.index()].adopted)
    }

    /// Adopted threads included.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = WorkerId> + use<> {
        (0..self.entries.len() as u32).map(WorkerId)
    }

    pub(super) fn in_state(&self, state: State) -> impl Iterator<Item = WorkerId> {
        self.all().filter(move |worker| self.is(*worker, state))
    }

    /// The cores that workers have been given.
    fn cores_in_use(&self) -> CoreSet {
        let awake = self.entries.iter().filter(|entry| entry.state == State::Awake);
        awake.filter_map(|entry| entry.core).collect()
    }

    /// The cores that the pool holds and no worker was given, in ascending order.
    pub(super) fn spare(&self) -> impl Iterator<Item = usize> + use<> {
        let used = self.cores_in_use();
        self.held.iter().filter(move |core| !used.contains(*core))
    }
}
