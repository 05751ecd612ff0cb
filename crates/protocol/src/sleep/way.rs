//! What tells the ways of waking apart: the parts of steps that each answers for itself, and the dispatch to them.
//!
//! There are no states here: each way has its own. A step that differs between ways is a method of [`Way`], and the
//! one match that tells the ways apart is [`AnyWay`]'s.

use core::sync::atomic::Ordering;

use comity_policy::{Waking, WorkerId};

use super::always_awake::AlwaysAwake;
use super::every_push::EveryPush;
use super::hungry::Hungry;
use super::watchdog::Watchdog;
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

/// One pool's way of waking, with the words that it has of its own.
pub(super) enum AnyWay<P: Platform> {
    AlwaysAwake(AlwaysAwake),
    Watchdog(Watchdog<P>),
    Hungry(Hungry<P>),
    EveryPush(EveryPush),
}

impl<P: Platform> AnyWay<P> {
    pub(super) fn new(platform: &P, waking: Waking) -> AnyWay<P> {
        match waking {
            Waking::AlwaysAwake => AnyWay::AlwaysAwake(AlwaysAwake),
            Waking::Watchdog => AnyWay::Watchdog(Watchdog::new(platform)),
            Waking::Hungry => AnyWay::Hungry(Hungry::new(platform)),
            Waking::EveryPush { sleepers } => AnyWay::EveryPush(EveryPush { sleepers }),
        }
    }
}

/// Calls a method of the pool's way of waking: the one place that tells the ways apart, and no vtable.
macro_rules! way {
    ($sleep:ident.$step:ident($($argument:expr),*)) => {
        match &$sleep.way {
            AnyWay::AlwaysAwake(way) => Way::<P>::$step(way, $sleep, $($argument),*),
            AnyWay::Watchdog(way) => Way::<P>::$step(way, $sleep, $($argument),*),
            AnyWay::Hungry(way) => Way::<P>::$step(way, $sleep, $($argument),*),
            AnyWay::EveryPush(way) => Way::<P>::$step(way, $sleep, $($argument),*),
        }
    };
}
pub(super) use way;
