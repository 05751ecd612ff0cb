//! The time in which the machine's cores had nothing to run.

use std::fs;
use std::time::Duration;

/// Returns the idle time since the machine started, summed over all cores, including cores that this process may not
/// use.
///
/// The resolution is 10 ms. Takes 5 µs, and some nanoseconds for each core.
pub fn machine() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_shrink() {
        let first = machine().unwrap();
        assert!(machine().unwrap() >= first);
    }
}
