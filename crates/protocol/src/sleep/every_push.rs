//! [`Waking::EveryPush`](comity_policy::Waking::EveryPush): every push wakes sleepers. The ablation of BWS §5.5, which
//! taxes the busy path on purpose.
//!
//! # States
//!
//! None beside the workers' own.
//!
//! # Invariants
//!
//! - The bells never stop, so every push comes here.
//! - No worker parks that has seen a task in a deque or from outside after its own ASLEEP (Lemma 2).
//! - A push, a spawn and an injection look for sleepers after the task is visible and a full fence (Lemma 2).
//!
//! The lemmas stand in the crate's `README.md`.

use core::sync::atomic::Ordering;

use comity_policy::{SleepRefusal, WorkerId};

use super::way::Way;
use super::{Admission, Sleep, Work, word};
use crate::platform::{Platform, Waker};

/// It has no words of its own.
pub(super) struct EveryPush {
    /// How many each push wakes.
    pub(super) sleepers: u8,
}

impl<P: Platform> Way<P> for EveryPush {
    fn bell_may_stop(&self, _: &Sleep<P>) -> bool {
        false
    }

    fn push_met_bell(&self, sleep: &Sleep<P>, me: WorkerId, _: &impl Work) {
        // Lemma 2: the push before the look for sleepers; a sleeper announces itself before it looks for tasks.
        sleep.platform.fence(Ordering::SeqCst);
        sleep.wake_up_to(usize::from(self.sleepers), me, word::WOKEN_BY_PEER);
    }

    #[inline]
    fn after_spawn(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        sleep.push_met_bell(me, work);
    }

    fn after_injection(&self, sleep: &Sleep<P>, _: Waker, _: &impl Work) {
        sleep.wake_for_injection();
    }

    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        sleep.pass_injection_on(me, work);
    }

    /// The pushes of a worker wake sleepers whether this one looks for tasks or not.
    fn hand_over(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        if sleep.work_arrived(me, work) || work.deques_have_task() {
            Admission::Refused(SleepRefusal::WorkArrived)
        } else {
            Admission::Park(None)
        }
    }
}
