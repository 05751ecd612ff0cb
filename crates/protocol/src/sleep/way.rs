//! The interface of a way of waking: the parts of the steps of [`Sleep`] that each way defines for itself.
//!
//! This file has no states: each way has its own.

use core::sync::atomic::Ordering;

use comity_policy::WorkerId;

use super::{Admission, Sleep, Work};
use crate::platform::{Platform, Waker};

/// The parts of steps that the ways of waking define differently. Each method is a part of one step of [`Sleep`]. The
/// doc of that step describes the parts before it.
pub(super) trait Way<P: Platform> {
    /// True if a bell may stop, see [`Sleep::bell_may_stop`].
    fn bell_may_stop(&self, _: &Sleep<P>) -> bool {
        true
    }

    /// Wakes sleepers, see [`Sleep::push_met_bell`].
    fn push_met_bell(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// Continues [`Sleep::after_spawn`], after its light barrier.
    fn after_spawn(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// Continues [`Sleep::after_injection`], after its fence.
    fn after_injection(&self, sleep: &Sleep<P>, submitter: Waker, work: &impl Work);

    /// Executes the barrier of [`Sleep::after_placing`], after the task was queued and before a rest word is read.
    fn order_placing(&self, sleep: &Sleep<P>, _placer: Option<WorkerId>) {
        sleep.platform.fence(Ordering::SeqCst);
    }

    /// Continues [`Sleep::pass_on`], after its fence.
    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// Continues [`Sleep::hand_over`], after its fence.
    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work);

    /// Wakes a sleeper, see [`Sleep::wake_peer`].
    fn wake_peer(&self, sleep: &Sleep<P>, me: WorkerId, sleeper: Option<WorkerId>, _appoint: bool) -> Option<WorkerId> {
        sleep.wake_one(me, sleeper)
    }

    /// Takes the look of [`Sleep::admit`], with its barrier.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission;

    /// Called before a rest word becomes ASLEEP.
    fn sleeper_added(&self, _: &Sleep<P>) {}

    /// Called after a rest word changed from ASLEEP to another value.
    fn sleeper_removed(&self, _: &Sleep<P>) {}

    /// Returns the `waker` value with which the worker's thread is woken, which tells the kernel where to place it.
    /// The default leaves the placement to the kernel, as the measurements of the papers did.
    fn placed_beside(&self, _: &Sleep<P>, _waker: Waker) -> Waker {
        Waker::MakesRoom
    }

    /// Restores hunger, see [`Sleep::restore_hunger`].
    fn restore_hunger(&self, _: &Sleep<P>, _: impl Iterator<Item = WorkerId>, _: &impl Work) {
        unreachable!("only a hungry pool has hunger to restore");
    }

    /// Returns the hunger, see [`Sleep::hunger`].
    fn hunger(&self, _: &Sleep<P>) -> i32 {
        0
    }
}
