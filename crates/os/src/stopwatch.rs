//! How long a thread has computed, read at the price of the monotonic clock.

use std::time::Duration;

use crate::clock::now_ns;
use crate::cpu_clock::ThreadId;

/// The monotonic clock without the time in which the thread that made it was off its core for more than some
/// microseconds. Only that thread may read it.
///
/// 20 to 25 ns. Once in 100 µs the processor time of the thread is read, which takes 0.3 µs that are not in what it says.
#[derive(Debug)]
pub struct Stopwatch {
    thread: ThreadId,
    /// When the processor time was read, and what it was.
    checked: u64,
    used: Duration,
    /// What the monotonic clock said last.
    last: u64,
    /// Time that is not counted.
    away: u64,
}

/// So often the processor time is read at most.
const CHECK_NS: u64 = 100_000;

/// What the two clocks may differ by, of a thread that was on its core.
const SLACK_NS: u64 = 5_000;

impl Stopwatch {
    /// One of the calling thread.
    pub fn start() -> Stopwatch {
        let thread = ThreadId::current();
        let (now, used) = (now_ns(), thread.cpu_time().unwrap_or_default());
        Stopwatch { thread, checked: now, used, last: now, away: 0 }
    }

    /// Nanoseconds from some time on.
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
            // What was read before is said.
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
