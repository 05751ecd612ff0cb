//! The activity of a worker, for the watch (`COMITY_WATCH`).

use std::sync::atomic::{AtomicU32, Ordering};

use comity_policy::WorkerId;

/// The activity of a worker. The worker writes it where it begins to wait and where it takes a queued job, never at a
/// push or a pop.
#[derive(Default)]
pub(crate) struct Activity {
    /// See [`Doing::encode`].
    doing: AtomicU32,
    /// See [`Activity::waits`].
    waits: AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Runs a task, or runs code of the program on a thread that a pool has adopted.
    Task,
    /// Looks for a task, or sleeps. No task of this worker waits.
    Looking,
    /// Waits for a scope, a broadcast or another pool.
    Waiting,
    /// Waits for the right half of a join, which this worker runs.
    WaitingFor(WorkerId),
}

impl Doing {
    fn encode(self) -> u32 {
        match self {
            Doing::Task => 0,
            Doing::Looking => 1,
            Doing::Waiting => 2,
            Doing::WaitingFor(WorkerId(thief)) => 3 + thief,
        }
    }

    fn decode(code: u32) -> Doing {
        match code {
            0 => Doing::Task,
            1 => Doing::Looking,
            2 => Doing::Waiting,
            thief => Doing::WaitingFor(WorkerId(thief - 3)),
        }
    }
}

impl Activity {
    pub(crate) fn set(&self, doing: Doing) {
        self.doing.store(doing.encode(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Doing {
        Doing::decode(self.doing.load(Ordering::Relaxed))
    }

    /// The number of frames on the worker's stack that wait for something. The main loop does not count.
    pub(crate) fn waits(&self) -> u32 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Adds `change`, which is 1 or -1, to the number of frames that wait.
    pub(crate) fn count_wait(&self, change: i32) {
        self.waits.store(self.waits().wrapping_add_signed(change), Ordering::Relaxed);
    }
}
