//! [`Waking::AlwaysAwake`](comity_policy::Waking::AlwaysAwake): a worker sleeps only in a pool without any work, and
//! the first worker that has a task wakes all.
//!
//! # States
//!
//! There are only the states of the workers. Either a worker of the pool is busy, or all of its workers may sleep.
//!
//! # Invariants
//!
//! - After a worker has written ASLEEP, it looks for busy workers, and parks only if it sees none (Lemma 4).
//! - After a worker has published that it is busy, it wakes all workers that it sees ASLEEP (Lemma 4).
//! - So a push finds no sleeper to wake. A task from outside wakes one sleeper, which turns busy and wakes the others
//!   (Lemmas 2, 4).
//!
//! The crate's `README.md` has the lemmas.

use comity_policy::{SleepRefusal, WorkerId};

use super::way::Way;
use super::{Admission, Sleep, Work, word};
use crate::platform::{Platform, Waker};

/// The way of waking that needs no words besides those of the workers.
pub(super) struct AlwaysAwake;

impl<P: Platform> Way<P> for AlwaysAwake {
    /// Does nothing: the pusher is busy, so no worker sleeps, and thieves look for the task.
    fn push_met_bell(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    #[inline]
    fn after_spawn(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    fn after_injection(&self, sleep: &Sleep<P>, _: Waker, _: &impl Work) {
        sleep.wake_for_injection();
    }

    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        sleep.pass_injection_on(me, work);
    }

    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, _: &impl Work) {
        // Lemma 4: work has begun, so no worker may sleep.
        sleep.wake_up_to(sleep.rests.len(), me, word::WOKEN_BY_PEER);
    }

    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        if sleep.work_arrived(me, work) || sleep.any_busy() {
            Admission::Refused(SleepRefusal::WorkArrived)
        } else {
            Admission::Park(None)
        }
    }
}
