//! The state of a worker as a candidate for acceleration (Robinhood §4.3): the thief that accelerates it, and
//! readings of its thread's processor-time clock.
//!
//! [`Candidate::initiator`] is the paper's `acct_initiator`. A thief takes this word by compare-and-swap from 0, with
//! acquire, and gives it back with release. So the thief sees the readings that the previous initiator has written,
//! and no two thieves pull a thread at the same time.

use comity_policy::WorkerId;

use crate::raw::sync::{AtomicU32, AtomicU64, Ordering};

/// The minimum time between two equal readings of a thread's clock, in ns. A thread that is off its core for a
/// shorter time does not count as preempted.
const STILL: u64 = 50_000;

/// The data that thieves keep about a worker as a candidate for acceleration. Only the initiator uses the other
/// fields.
#[derive(Default)]
pub(crate) struct Candidate {
    /// The number of the thief that accelerates the worker, plus 1. 0 without such a thief.
    initiator: AtomicU32,
    /// The clock of the worker's thread at the first of two readings, in ns.
    clock: AtomicU64,
    /// The time of the first reading, in ns since the pool was built.
    read_at: AtomicU64,
    /// The clock of the thread when it was last pulled, in ns.
    pulled_at: AtomicU64,
}

impl Candidate {
    #[cfg(test)]
    fn is_accelerated(&self) -> bool {
        self.initiator.load(Ordering::Relaxed) != 0
    }

    /// Makes `initiator` the thief that accelerates the worker. Returns `None` if another thief was faster.
    pub(crate) fn take(&self, initiator: WorkerId) -> Option<Taken<'_>> {
        self.initiator.compare_exchange(0, initiator.0 + 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Taken(self))
    }
}

/// A candidate that belongs to this thread until this value is dropped.
pub(crate) struct Taken<'a>(&'a Candidate);

impl Taken<'_> {
    /// True if the clock has stood still for long enough. `clock` is its reading at the time `now`.
    pub(crate) fn has_stood_still(&self, clock: u64, now: u64) -> bool {
        if clock != self.0.clock.load(Ordering::Relaxed) {
            self.notes(clock, now);
        }
        now.saturating_sub(self.0.read_at.load(Ordering::Relaxed)) >= STILL
    }

    /// Stores the first of two readings.
    pub(crate) fn notes(&self, clock: u64, now: u64) {
        self.0.clock.store(clock, Ordering::Relaxed);
        self.0.read_at.store(now, Ordering::Relaxed);
    }

    /// True if the thread was pulled before, and has not run since.
    pub(crate) fn was_pulled(&self, clock: u64) -> bool {
        self.0.pulled_at.load(Ordering::Relaxed) == clock
    }

    pub(crate) fn is_pulled(&self, clock: u64) {
        self.0.pulled_at.store(clock, Ordering::Relaxed);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.initiator.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_stood_still_after_two_readings_that_agree() {
        let candidate = Candidate::default();
        let taken = candidate.take(WorkerId(3)).unwrap();
        assert!(candidate.take(WorkerId(4)).is_none());
        assert!(candidate.is_accelerated(), "one that comes in vain takes nothing from it");
        assert!(!taken.has_stood_still(7, 1_000_000));
        assert!(!taken.has_stood_still(7, 1_000_000 + STILL - 1));
        assert!(taken.has_stood_still(7, 1_000_000 + STILL));
        // The thread has run meanwhile.
        assert!(!taken.has_stood_still(8, 2_000_000));
        drop(taken);
        // Another thief continues from the reading of the first.
        let taken = candidate.take(WorkerId(4)).unwrap();
        assert!(taken.has_stood_still(8, 2_000_000 + STILL));
        assert!(!taken.was_pulled(8));
        taken.is_pulled(8);
        assert!(taken.was_pulled(8) && !taken.was_pulled(9));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;
    use crate::raw::sync::explore;

    /// Lets three thieves take one candidate. A thief that has it finds two words of the same reading, and no other
    /// thief changes them.
    #[test]
    fn loom_a_candidate_is_one_thiefs_at_a_time() {
        explore(3, || {
            let candidate = Arc::new(Candidate::default());
            let thief = |me: u32| {
                let candidate = Arc::clone(&candidate);
                move || {
                    let Some(taken) = candidate.take(WorkerId(me)) else { return };
                    assert_eq!(candidate.initiator.load(Ordering::Relaxed), me + 1);
                    let reading = || [&candidate.clock, &candidate.read_at].map(|word| word.load(Ordering::Relaxed));
                    let [clock, read_at] = reading();
                    assert_eq!(clock, read_at);
                    taken.notes(u64::from(me), u64::from(me));
                    assert_eq!(reading(), [u64::from(me); 2]);
                }
            };
            let others = [1, 2].map(|me| loom::thread::spawn(thief(me)));
            thief(3)();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert!(!candidate.is_accelerated());
        });
    }
}
