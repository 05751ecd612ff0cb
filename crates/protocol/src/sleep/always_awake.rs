//! [`Waking::AlwaysAwake`](comity_policy::Waking::AlwaysAwake): a worker sleeps only in a pool without any work, and
//! the first worker that has a task wakes all.
//!
//! # States
//!
//! Only the states of the workers: the pool has a busy worker, or all of its workers may sleep.
//!
//! # Invariants
//!
//! - No worker parks that has seen a busy worker after its own ASLEEP (Lemma 4).
//! - A worker that turns busy wakes all that it sees ASLEEP, after its own busy (Lemma 4).
//! - So a push has no sleeper to wake; an injection wakes one, which turns busy and wakes the rest (Lemmas 2, 4).
//!
//! The crate's `README.md` has the lemmas.

use comity_policy::{SleepRefusal, WorkerId};

use super::way::Way;
use super::{Admission, Sleep, Work, word};
use crate::platform::{Platform, Waker};

/// The way of waking without words of its own.
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
