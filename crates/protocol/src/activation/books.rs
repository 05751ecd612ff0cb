//! The books of one pool: the state of each worker, and its core.
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
//! - The books are read and written only under the lock of the activation.
//! - `awake` and `retired` are the numbers of workers in these states, without adopted threads.
//! - A worker has only a core that the pool holds, by its books.

use alloc::boxed::Box;

use comity_policy::WorkerId;

use crate::CoreSet;

/// The state of a worker in the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The worker has a task or looks for one, or will do so once its thread runs.
    Awake,
    /// The worker sleeps, and a task wakes it.
    Asleep,
    /// The worker rests because it has no core, or because its policy gives up the cores of sleepers. Only the
    /// coordinator or [business](crate::sleep::Work::has_business) wakes it.
    Retired,
}

/// The entry of one worker in the books.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) state: State,
    /// The core that the worker was given. Its thread may run on another core, unless the policy binds workers to
    /// cores.
    pub(super) core: Option<usize>,
    /// The cores to which its thread is confined. `None`: its thread may run wherever its program wants.
    pub(super) confined: Option<CoreSet>,
    /// The core to which its thread was moved since the worker has been awake.
    pub(super) led_to: Option<usize>,
    /// True if its thread was moved while the worker slept. The confinement ends when the worker is up.
    pub(super) led: bool,
    /// True if at the last look the worker was awake and had a core to which its thread had not been moved.
    pub(super) is_late: bool,
    /// True if the worker has retired in the middle of a task, or with tasks in its queues.
    midway: bool,
    /// True for a thread of the program, which enters and leaves the pool at any time. It is not counted.
    pub(super) adopted: bool,
}

/// The states and cores of all workers, under the lock of the pool's [`Activation`](super::Activation).
pub struct Books {
    pub(super) entries: Box<[Entry]>,
    awake: u32,
    retired: u32,
    /// The cores that this pool holds, by its books. Their owners may have taken some back since.
    pub(super) held: CoreSet,
    /// The number of awake workers that need no core, because they are in system calls or stuck. The coordinator sets
    /// it.
    pub off_core: u32,
    /// The cores that the pool's program wants its threads to use, and that the system allows. The driver sets it.
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

    /// Notes that the worker is about to park.
    pub(super) fn fall_asleep(&mut self, me: WorkerId) {
        self.change(me, &[State::Awake], State::Asleep);
    }

    /// Notes that the worker was woken, for a task or for business.
    pub(super) fn get_up(&mut self, me: WorkerId) {
        self.change(me, &[State::Asleep, State::Retired], State::Awake);
    }

    /// Retires a worker, awake or asleep, because there is no core for it.
    pub(super) fn retire(&mut self, worker: WorkerId) {
        self.change(worker, &[State::Awake, State::Asleep], State::Retired);
    }

    /// Notes that the coordinator wakes the worker, and gives it this core.
    pub(super) fn recall(&mut self, worker: WorkerId, core: Option<usize>) {
        self.change(worker, &[State::Retired], State::Awake);
        self.entries[worker.index()].core = core;
    }

    /// Notes that a task may wake the worker again. Returns false if the worker has not retired.
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

    /// Sets whether a retired worker is in the middle of a task or has tasks in its queues.
    pub(super) fn set_midway(&mut self, worker: WorkerId, midway: bool) {
        self.entries[worker.index()].midway = midway;
    }

    /// Removes a core that is no longer the pool's.
    pub(super) fn lose(&mut self, core: usize) {
        self.held.remove(core);
        for entry in &mut self.entries {
            entry.core = entry.core.filter(|own| *own != core);
        }
    }

    // The queries.

    /// Returns the number of workers that are awake.
    pub fn awake(&self) -> u32 {
        self.awake
    }

    /// True if a worker is awake, or rests in the middle of a task.
    pub fn is_at_work(&self) -> bool {
        self.awake > 0 || self.midway() > 0
    }

    /// Returns the number of workers that have retired.
    pub fn retired(&self) -> u32 {
        self.retired
    }

    /// Returns the number of workers that rest in the middle of a task, or with tasks in their queues.
    pub fn midway(&self) -> u32 {
        self.entries.iter().filter(|entry| entry.midway).count() as u32
    }

    /// True if the worker rests in the middle of a task, or with tasks in its queues.
    pub(super) fn is_midway(&self, worker: WorkerId) -> bool {
        self.entries[worker.index()].midway
    }

    /// Returns the number of cores that the pool holds, by its books. Owners may have taken some back since.
    pub fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Returns the cores that the pool holds, by its books. Owners may have taken some back since.
    pub fn cores(&self) -> CoreSet {
        self.held
    }

    /// Returns the core that the worker was given.
    pub fn core_of(&self, worker: WorkerId) -> Option<usize> {
        self.entries[worker.index()].core
    }

    /// Returns the cores to which the worker's thread is confined. `None`: it may run wherever its program wants.
    pub fn confined(&self, worker: WorkerId) -> Option<CoreSet> {
        self.entries[worker.index()].confined
    }

    /// True if the worker is in this state. An adopted thread is in no state.
    pub fn is(&self, worker: WorkerId, state: State) -> bool {
        let entry = &self.entries[worker.index()];
        entry.state == state && !entry.adopted
    }

    /// Returns the workers, except adopted threads.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> {
        self.all().filter(|worker| !self.entries[worker.index()].adopted)
    }

    /// Returns all workers, including adopted threads.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = WorkerId> + use<> {
        (0..self.entries.len() as u32).map(WorkerId)
    }

    pub(super) fn in_state(&self, state: State) -> impl Iterator<Item = WorkerId> {
        self.all().filter(move |worker| self.is(*worker, state))
    }

    /// Returns the cores that awake workers have been given.
    fn cores_in_use(&self) -> CoreSet {
        let awake = self.entries.iter().filter(|entry| entry.state == State::Awake);
        awake.filter_map(|entry| entry.core).collect()
    }

    /// Returns the cores that the pool holds and no worker was given, in ascending order.
    pub(super) fn spare(&self) -> impl Iterator<Item = usize> + use<> {
        let used = self.cores_in_use();
        self.held.iter().filter(move |core| !used.contains(*core))
    }
}
