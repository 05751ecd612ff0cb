//! All ways of waking, and the dispatch to them: the one match that tells them apart.

use comity_policy::Waking;

use super::always_awake::AlwaysAwake;
use super::every_push::EveryPush;
use super::hungry::Hungry;
use super::watchdog::Watchdog;
use crate::platform::Platform;

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
