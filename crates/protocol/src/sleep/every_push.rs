//! [`Waking::EveryPush`](comity_policy::Waking::EveryPush): every push wakes sleepers. This is the ablation of BWS
//! §5.5, which deliberately slows busy workers down.
//!
//! # States
//!
//! There are only the states of the workers.
//!
//! # Invariants
//!
//! - The bells never stop, so every push calls `push_met_bell`.
//! - After a worker has written ASLEEP, it looks for tasks in deques and from outside, and parks only if it sees none
//!   (Lemma 2).
//! - A push, a spawn and an injection make their task visible, execute a full fence, and then look for sleepers (Lemma
//!   2).
//!
//! The crate's `README.md` has the lemmas.

use core::sync::atomic::Ordering;

use comity_policy::{SleepRefusal, WorkerId};

use super::way::Way;
use super::{Admission, Sleep, Work, word};
use crate::platform::{Platform, Waker};

/// The way of waking that needs no words besides those of the workers.
pub(super) struct EveryPush {
    /// The number of sleepers that each push wakes.
    pub(super) sleepers: u8,
}

impl<P: Platform> Way<P> for EveryPush {
    fn bell_may_stop(&self, _: &Sleep<P>) -> bool {
        false
    }

    fn push_met_bell(&self, sleep: &Sleep<P>, me: WorkerId, _: &impl Work) {
        // Lemma 2: the push precedes the look for sleepers. A sleeper announces itself before it looks for tasks.
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

    /// Does nothing: every push of a worker wakes sleepers, whether this worker looks for tasks or not.
    fn hand_over(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        if sleep.work_arrived(me, work) || work.deques_have_task() {
            Admission::Refused(SleepRefusal::WorkArrived)
        } else {
            Admission::Park(None)
        }
    }
}
