//! What each worker did: written by its owner at the edges of a spell as a thief, readable by all at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one worker has done since its pool was built, or between two readings (see [`WorkerCounters::since`]).
///
/// The three times add up to the worker's age; the spell that is under way is not yet in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounters {
    /// Attempts to take a task from another worker.
    pub steal_attempts: u64,
    /// Those that took one.
    pub steals: u64,
    /// Times that the core was offered to others, or to one peer.
    pub yields: u64,
    /// Times that this worker went to sleep.
    pub sleeps: u64,
    /// Peers that this worker woke, on its policy's word.
    pub wakeups: u64,
    /// Wall-clock time with a task, waiting for a core included.
    pub busy: Duration,
    /// Wall-clock time awake without a task.
    pub thief: Duration,
    /// Wall-clock time asleep.
    pub asleep: Duration,
}

impl WorkerCounters {
    /// What was added since `earlier`, a reading of the same worker.
    pub fn since(&self, earlier: &WorkerCounters) -> WorkerCounters {
        WorkerCounters {
            steal_attempts: self.steal_attempts - earlier.steal_attempts,
            steals: self.steals - earlier.steals,
            yields: self.yields - earlier.yields,
            sleeps: self.sleeps - earlier.sleeps,
            wakeups: self.wakeups - earlier.wakeups,
            busy: self.busy.saturating_sub(earlier.busy),
            thief: self.thief.saturating_sub(earlier.thief),
            asleep: self.asleep.saturating_sub(earlier.asleep),
        }
    }

    /// The sum over a pool's workers.
    pub fn total(workers: &[WorkerCounters]) -> WorkerCounters {
        workers.iter().fold(WorkerCounters::default(), |sum, worker| WorkerCounters {
            steal_attempts: sum.steal_attempts + worker.steal_attempts,
            steals: sum.steals + worker.steals,
            yields: sum.yields + worker.yields,
            sleeps: sum.sleeps + worker.sleeps,
            wakeups: sum.wakeups + worker.wakeups,
            busy: sum.busy + worker.busy,
            thief: sum.thief + worker.thief,
            asleep: sum.asleep + worker.asleep,
        })
    }
}

/// A number that one thread writes and any reads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the owner calls this: a load and a store, no locked instruction.
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The live counters of one worker; times in nanoseconds.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) steal_attempts: Counter,
    pub(crate) steals: Counter,
    pub(crate) yields: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) wakeups: Counter,
    pub(crate) busy_ns: Counter,
    pub(crate) thief_ns: Counter,
    pub(crate) asleep_ns: Counter,
}

impl Live {
    pub(crate) fn read(&self) -> WorkerCounters {
        WorkerCounters {
            steal_attempts: self.steal_attempts.get(),
            steals: self.steals.get(),
            yields: self.yields.get(),
            sleeps: self.sleeps.get(),
            wakeups: self.wakeups.get(),
            busy: Duration::from_nanos(self.busy_ns.get()),
            thief: Duration::from_nanos(self.thief_ns.get()),
            asleep: Duration::from_nanos(self.asleep_ns.get()),
        }
    }
}
