//! The time that all processes of the machine share.

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// Nanoseconds of the monotonic clock: the same in all processes, but for those in a time namespace of their own. 20 ns.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Timer ticks a second, the kernel's `CONFIG_HZ`: its coarse clock goes from tick to tick, and says how far that is.
pub fn ticks_per_second() -> u32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let ns = (tick.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(tick.tv_nsec as u64);
    (1_000_000_000 / ns.max(1)) as u32
}
