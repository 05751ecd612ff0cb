//! A worker of a program: what it does, whether it sleeps, and where its time goes.

use std::collections::VecDeque;

use comity_policy::{Action, Event, Thief, WakeReason};

use super::kernel::{Place, Times};
use super::share::State;
use crate::program::Strand;

/// What a worker does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It is between two things, or not there.
    Nothing,
    /// It runs a strand.
    Strand(u32),
    /// It does what its thief wants; what comes of it shows when its time is over.
    Acting(Action),
    /// It has been woken.
    Rising(WakeReason),
    /// It puts an unblocked task into a worker's queue, and then goes on with its own, if it has one.
    Placing { task: Strand, at: u32, next: Option<Strand> },
    /// It takes a task from its own queue: a worker without one, or a thief that was about to hear of something else.
    Taking { instead: Option<Event> },
}

/// Whether a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Awake,
    /// Until a task or a peer wakes it.
    Asleep,
    /// Without a core, until the coordinator has one.
    Retired,
    /// It was woken, and has not been on a core since.
    Rising,
}

pub(super) struct Worker {
    pub(super) thief: Box<dyn Thief>,
    /// Ready strands, the oldest first.
    pub(super) ready: VecDeque<Strand>,
    /// When the lock of that queue will have been given back by all who have come.
    pub(super) queue_free: u64,
    pub(super) place: Place,
    pub(super) doing: Doing,
    /// Nanoseconds of its doing that are left.
    pub(super) left: u64,
    pub(super) rest: Rest,
    /// It has a task,
    pub(super) busy: bool,
    /// and had one for so many nanoseconds, on a core or not, up to a time.
    busy_time: (u64, u64),
    /// Tasks that it has begun.
    pub(super) begun: u64,
    /// Where its thread's time went.
    pub(super) times: Times,
    /// A strand that it has found and not begun.
    pub(super) found: Option<Strand>,
    /// What its thief may still do before it begins.
    pub(super) farewells: u32,
    pub(super) wakeups_owed: u32,
    pub(super) is_scout: bool,
    /// It has offered its core.
    pub(super) gives_way: bool,
    pub(super) last_core: usize,
    /// In the books of a program that shares cores,
    pub(super) state: State,
    /// and the core that it was given there.
    pub(super) core: Option<usize>,
}

impl Worker {
    pub(super) fn new(thief: Box<dyn Thief>, last_core: usize) -> Worker {
        Worker {
            thief,
            ready: VecDeque::new(),
            queue_free: 0,
            place: Place::Nowhere,
            doing: Doing::Nothing,
            left: 0,
            rest: Rest::Awake,
            busy: false,
            busy_time: (0, 0),
            begun: 0,
            times: Times::default(),
            found: None,
            farewells: 0,
            wakeups_owed: 0,
            is_scout: false,
            gives_way: false,
            last_core,
            state: State::Awake,
            core: None,
        }
    }
    pub(super) fn set_busy(&mut self, now: u64, busy: bool) {
        self.busy_time = (self.busy_time(now), now);
        self.busy = busy;
    }

    pub(super) fn busy_time(&self, now: u64) -> u64 {
        let (sum, until) = self.busy_time;
        sum + if self.busy { now - until } else { 0 }
    }
}
