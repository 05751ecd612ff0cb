//! A stopwatch for the computing time of a thread. A reading costs little more than reading the monotonic clock.

use std::time::Duration;

use crate::clock::now_ns;
use crate::cpu_clock::ThreadId;

/// A stopwatch that stops while its thread is off its core for more than 5 µs. Only the thread that started the
/// stopwatch may read it.
///
/// A reading takes 20 to 25 ns. Once in 100 µs, a reading also reads the thread's processor time. This takes 0.3 µs,
/// which the stopwatch does not count.
#[derive(Debug)]
pub struct Stopwatch {
    thread: ThreadId,
    /// The monotonic clock, in ns, when the thread's processor time was last read. `used` is that processor time.
    checked: u64,
    used: Duration,
    /// The last reading of the monotonic clock, in ns.
    last: u64,
    /// The time that is not counted, in ns.
    away: u64,
}

/// The minimum time between two readings of the processor time.
const CHECK_NS: u64 = 100_000;

/// The maximum difference between monotonic time and processor time for a thread that stayed on its core.
const SLACK_NS: u64 = 5_000;

impl Stopwatch {
    /// Starts a stopwatch of the calling thread.
    pub fn start() -> Stopwatch {
        let thread = ThreadId::current();
        let (now, used) = (now_ns(), thread.cpu_time().unwrap_or_default());
        Stopwatch { thread, checked: now, used, last: now, away: 0 }
    }

    /// Returns the computing time in ns, from an arbitrary origin.
    #[inline]
    pub fn now(&mut self) -> u64 {
        let now = now_ns();
        if now - self.checked > CHECK_NS {
            return self.check(now);
        }
        self.last = now;
        now - self.away
    }

    #[cold]
    fn check(&mut self, now: u64) -> u64 {
        let used = self.thread.cpu_time().unwrap_or(self.used);
        let computed = used.saturating_sub(self.used).as_nanos() as u64;
        let away = (now - self.checked).saturating_sub(computed);
        if away > SLACK_NS {
            // The time up to the last reading was already returned, so only the time since then can be left out.
            self.away += away.min(now - self.last);
        }
        (self.checked, self.used) = (now_ns(), used);
        self.last = self.checked;
        self.away += self.checked - now;
        self.checked - self.away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn sleep_is_not_in_it_and_work_is() {
        let mut watch = Stopwatch::start();
        let thread = ThreadId::current();
        let (began, used) = (watch.now(), thread.cpu_time().unwrap());
        std::thread::sleep(Duration::from_millis(200));
        let slept = watch.now() - began;
        assert!(slept < 150_000_000, "{slept} ns, of which 200 ms were asleep");
        while thread.cpu_time().unwrap() - used < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let worked = watch.now() - began;
        assert!(worked >= 15_000_000, "{worked} ns, and 20 ms were computed");
    }

    #[test]
    fn it_never_goes_back() {
        let mut watch = Stopwatch::start();
        let mut last = watch.now();
        for _ in 0..1_000_000 {
            let now = watch.now();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}
