//! All ways of waking, and the dispatch to them in one match.

use comity_policy::Waking;

use super::always_awake::AlwaysAwake;
use super::every_push::EveryPush;
use super::hungry::Hungry;
use super::watchdog::Watchdog;
use crate::platform::Platform;

/// The way of waking of a pool, with the words of that way.
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

/// Calls a method of the pool's way of waking. Only this macro distinguishes the ways, without a vtable.
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
