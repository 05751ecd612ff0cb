//! What tells the ways of waking apart: the parts of steps that each way answers for itself.
//!
//! There are no states here: each way has its own.

use core::sync::atomic::Ordering;

use comity_policy::WorkerId;

use super::{Admission, Sleep, Work};
use crate::platform::{Platform, Waker};

/// What the ways of waking answer differently. Each method is a part of one step of [`Sleep`], which says what stands
/// before it.
pub(super) trait Way<P: Platform> {
    /// See [`Sleep::bell_may_stop`].
    fn bell_may_stop(&self, _: &Sleep<P>) -> bool {
        true
    }

    /// See [`Sleep::push_met_bell`].
    fn push_met_bell(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// The rest of [`Sleep::after_spawn`], after its light barrier.
    fn after_spawn(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// The rest of [`Sleep::after_injection`], after its fence.
    fn after_injection(&self, sleep: &Sleep<P>, submitter: Waker, work: &impl Work);

    /// The barrier of [`Sleep::after_placing`], between the task and the look at a word.
    fn order_placing(&self, sleep: &Sleep<P>, _placer: Option<WorkerId>) {
        sleep.platform.fence(Ordering::SeqCst);
    }

    /// The rest of [`Sleep::pass_on`], after its fence.
    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// The rest of [`Sleep::hand_over`], after its fence.
    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// See [`Sleep::wake_peer`].
    fn wake_peer(&self, sleep: &Sleep<P>, me: WorkerId, sleeper: Option<WorkerId>, _appoint: bool) -> Option<WorkerId> {
        sleep.wake_one(me, sleeper)
    }

    /// The look of [`Sleep::admit`], with its barrier.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission;

    /// A word is about to become ASLEEP.
    fn sleeper_added(&self, _: &Sleep<P>) {}

    /// A word was ASLEEP until now.
    fn sleeper_removed(&self, _: &Sleep<P>) {}

    /// How the kernel is to place a worker that such a waker wakes. The papers' policies are measured with its own
    /// placement.
    fn placed_beside(&self, _: &Sleep<P>, _waker: Waker) -> Waker {
        Waker::MakesRoom
    }

    /// See [`Sleep::restore_hunger`].
    fn restore_hunger(&self, _: &Sleep<P>, _: impl Iterator<Item = WorkerId>, _: &impl Work) {
        unreachable!("only a hungry pool has hunger to restore");
    }

    /// See [`Sleep::hunger`].
    fn hunger(&self, _: &Sleep<P>) -> i32 {
        0
    }
}
