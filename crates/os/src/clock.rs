//! The clock that all processes of the machine share.

use crate::system::calls::Clock;

/// Returns the monotonic clock in ns. All processes read the same clock, unless they are in a time namespace. Takes
/// 20 ns.
pub fn now_ns() -> u64 {
    let now = Clock::MONOTONIC.read().unwrap_or_default();
    now.as_secs().wrapping_mul(1_000_000_000).wrapping_add(now.subsec_nanos().into())
}
