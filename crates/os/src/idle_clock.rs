//! How long the machine's cores have had nothing to run.

use std::fs;
use std::time::Duration;

/// Looks at the machine's idle time now and then.
#[derive(Debug, Default)]
pub struct IdleClock {
    /// At the last look, if it was asked for.
    last: Option<Duration>,
}

impl IdleClock {
    /// The idle time since the last look, summed over the machine's cores, if it is asked for now and was then; else zero.
    ///
    /// In steps of 10 ms. It counts all cores, also those that this process may not use. 5 µs where it is asked for, and some
    /// nanoseconds for each core.
    pub fn look(&mut self, asks: bool) -> Duration {
        let now = if asks { machine() } else { None };
        let last = std::mem::replace(&mut self.last, now);
        now.zip(last).map(|(now, last)| now.saturating_sub(last)).unwrap_or_default()
    }
}

/// The idle time since the machine began.
fn machine() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_does_not_shrink_and_counts_from_the_look_that_asked() {
        let first = machine().unwrap();
        assert!(machine().unwrap() >= first);
        let mut clock = IdleClock { last: Some(Duration::ZERO) };
        assert!(clock.look(true) >= first);
        assert_eq!([clock.look(false), clock.look(true)], [Duration::ZERO; 2]);
    }
}
