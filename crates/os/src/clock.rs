//! The time that all processes of the machine share.

use crate::system::calls::Clock;

/// Nanoseconds of the monotonic clock: the same in all processes, but for those in a time namespace of their own. 20 ns.
pub fn now_ns() -> u64 {
    let now = Clock::MONOTONIC.read().unwrap_or_default();
    now.as_secs().wrapping_mul(1_000_000_000).wrapping_add(now.subsec_nanos().into())
}

/// Timer ticks a second, the kernel's `CONFIG_HZ`: its coarse clock goes from tick to tick, and says how far that is.
pub fn ticks_per_second() -> u32 {
    let step = u32::try_from(Clock::COARSE.step().as_nanos()).unwrap_or(u32::MAX);
    1_000_000_000 / step.max(1)
}
