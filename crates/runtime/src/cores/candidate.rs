//! A worker as a candidate for acceleration (Robinhood §4.3): one thief at a time, and a clock that stands still.
//!
//! [`Candidate::initiator`] is the paper's `acct_initiator`. A thief takes it by compare-and-swap from 0, with
//! acquire, and gives it back with release. So what one has written of the candidate's clock the next one reads, and
//! no two pull a thread at a time.

use comity_policy::WorkerId;

use crate::raw::sync::{AtomicU32, AtomicU64, Ordering};

/// How far apart two readings of a clock are at least, in nanoseconds: a wait that is over by then was no preemption.
const STILL: u64 = 50_000;

/// What thieves know of a worker as a candidate for acceleration. All but `initiator` belongs to the initiator.
#[derive(Default)]
pub(crate) struct Candidate {
    /// The thief that accelerates the worker, and 1 more; 0: none.
    initiator: AtomicU32,
    /// What the clock of its thread said at the first of two readings, in nanoseconds.
    clock: AtomicU64,
    /// When that was, in nanoseconds of the pool's life.
    read_at: AtomicU64,
    /// What the clock said when the thread was last pulled.
    pulled_at: AtomicU64,
}

impl Candidate {
    #[cfg(test)]
    fn is_accelerated(&self) -> bool {
        self.initiator.load(Ordering::Relaxed) != 0
    }

    /// `None`: another thief was faster.
    pub(crate) fn take(&self, initiator: WorkerId) -> Option<Taken<'_>> {
        self.initiator.compare_exchange(0, initiator.0 + 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Taken(self))
    }
}

/// A candidate that is this thief's until this is dropped.
pub(crate) struct Taken<'a>(&'a Candidate);

impl Taken<'_> {
    /// Whether the clock, which says `clock` at the time `now`, has stood still for long enough.
    pub(crate) fn has_stood_still(&self, clock: u64, now: u64) -> bool {
        if clock != self.0.clock.load(Ordering::Relaxed) {
            self.notes(clock, now);
        }
        now.saturating_sub(self.0.read_at.load(Ordering::Relaxed)) >= STILL
    }

    /// The first of two readings.
    pub(crate) fn notes(&self, clock: u64, now: u64) {
        self.0.clock.store(clock, Ordering::Relaxed);
        self.0.read_at.store(now, Ordering::Relaxed);
    }

    /// Whether the thread was pulled before, and has not run since.
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
        // It has run meanwhile.
        assert!(!taken.has_stood_still(8, 2_000_000));
        drop(taken);
        // Another thief goes on from what the first has read.
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

    /// Three thieves want one candidate. Each that has it finds the two words of one reading, and is alone with it.
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
