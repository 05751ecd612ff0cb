//! How much processor time a thread or a process has had, and so whether a thread is on a core.

use std::time::Duration;

use crate::system::calls::{self, Clock};

/// A thread of this process, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(i32);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> ThreadId {
        ThreadId(calls::thread())
    }

    /// The number, to be kept in an atomic word.
    pub fn as_raw(self) -> i32 {
        self.0
    }

    /// A number that [`ThreadId::as_raw`] returned.
    pub fn from_raw(raw: i32) -> ThreadId {
        ThreadId(raw)
    }

    /// The processor time that the thread has had. `None` once it has ended.
    ///
    /// 0.25 to 0.45 µs. The clock of a running thread is brought up to date by the reading.
    pub fn cpu_time(self) -> Option<Duration> {
        Clock::of_thread(self.0).read()
    }

    /// Whether the thread is on a core now: its clock advances between two readings. `None` once it has ended.
    ///
    /// Exact, unprivileged, 0.5 to 0.9 µs. Off the core means preempted or blocked; the clock cannot tell which.
    pub fn is_running(self) -> Option<bool> {
        let before = self.cpu_time()?;
        Some(self.cpu_time()? != before)
    }

    /// Whether a thread of this process waits in a system call, and not for a core. `None` if that cannot be known.
    ///
    /// 5 µs: the kernel writes a line about the thread.
    pub fn is_blocked(self) -> Option<bool> {
        Some(matches!(self.state()?, 'S' | 'D'))
    }

    /// True if a thread of this process runs or waits for a core. `None` if that cannot be known. 5 µs.
    pub fn is_runnable(self) -> Option<bool> {
        Some(self.state()? == 'R')
    }

    /// The state of the thread as a letter of `/proc/PID/stat`.
    fn state(self) -> Option<char> {
        let line = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        // The name, which may have any letters, ends with the last parenthesis.
        line.rsplit_once(')')?.1.trim_start().chars().next()
    }

    /// Where the time went of a thread of this process. `None` once it has ended, or if the kernel does not count it
    /// (CONFIG_SCHED_INFO).
    ///
    /// 6 µs: the kernel writes a line about the thread.
    pub fn times(self) -> Option<Times> {
        // Brought up to date by the reading, which the line is not.
        let on_core = self.cpu_time()?;
        let line = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0)).ok()?;
        let waited = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Times { on_core, for_core: Duration::from_nanos(waited) })
    }
}

/// Where a thread's time went since it began. The rest it spent in system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// On a core.
    pub on_core: Duration,
    /// Waiting for one. A wait that is not over is not in it.
    pub for_core: Duration,
}

impl Times {
    /// Time in which the thread did not wait for anything but a core.
    pub fn sum(self) -> Duration {
        self.on_core + self.for_core
    }
}

/// The processor time that all threads of a process have had, of any process that this one can see. `None` once it has
/// ended and its parent knows.
///
/// 0.3 µs, and some more for each thread.
pub fn of_process(process: u32) -> Option<Duration> {
    Clock::of_process(i32::try_from(process).ok().filter(|process| *process > 0)?).read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

    /// Tells a thread to end, also where an assertion fails: the scope would wait for it.
    struct End<'a>([&'a AtomicBool; 2]);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
        }
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_sleeping_thread_is_not_running_and_a_spinning_one_gains_time() {
        let thread = AtomicI32::new(0);
        let (spin, end) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                thread.store(ThreadId::current().as_raw(), Ordering::SeqCst);
                while !spin.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                while !end.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let _end = End([&spin, &end]);
            while thread.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let peer = ThreadId::from_raw(thread.load(Ordering::SeqCst));
            // It sleeps nearly all of the time; one look may meet it between two sleeps.
            assert!((0..1000).any(|_| {
                std::thread::sleep(Duration::from_micros(500));
                peer.is_running() == Some(false) && peer.is_blocked() == Some(true)
            }));
            spin.store(true, Ordering::SeqCst);
            assert!((0..1000).any(|_| {
                std::thread::sleep(Duration::from_micros(500));
                peer.is_blocked() == Some(false)
            }));
            assert_eq!(ThreadId::current().is_blocked(), Some(false));
            assert_eq!((ThreadId::current().is_runnable(), peer.is_runnable()), (Some(true), Some(true)));
            // A wait for a core that began before the first look may be in the second as a whole.
            let (began, before) = (std::time::Instant::now(), peer.times().unwrap());
            std::thread::sleep(Duration::from_millis(20));
            let after = peer.times().unwrap();
            assert!(after.on_core - before.on_core <= began.elapsed());
            assert!(after.sum() >= before.sum());
            let before = peer.cpu_time().unwrap();
            assert!((0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                peer.cpu_time().unwrap() > before
            }));
        });
    }

    #[test]
    fn a_thread_that_never_was_has_no_clock() {
        // Above the largest number that Linux gives out, 2²².
        assert_eq!(ThreadId::from_raw(1 << 23).cpu_time(), None);
        assert_eq!(ThreadId::from_raw(1 << 23).is_blocked(), None);
        assert_eq!(ThreadId::from_raw(1 << 23).times(), None);
    }
}
