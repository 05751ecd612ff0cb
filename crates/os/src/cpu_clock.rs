//! The processor time of threads and processes, and from it whether a thread is on a core.

use std::time::Duration;

use crate::system::calls::{self, Clock};

/// The kernel's number of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(i32);

impl ThreadId {
    /// Returns the number of the calling thread.
    pub fn current() -> ThreadId {
        ThreadId(calls::thread())
    }

    /// Returns the number as an integer, for an atomic word.
    pub fn as_raw(self) -> i32 {
        self.0
    }

    /// Creates a thread number from an integer that [`ThreadId::as_raw`] returned.
    pub fn from_raw(raw: i32) -> ThreadId {
        ThreadId(raw)
    }

    /// Returns the processor time that the thread has used. `None` once it has ended.
    ///
    /// Takes 0.25 to 0.45 µs. Reading the clock of a running thread updates it.
    pub fn cpu_time(self) -> Option<Duration> {
        Clock::of_thread(self.0).read()
    }

    /// True if the thread is on a core now: its clock advances between two readings. `None` once it has ended.
    ///
    /// Exact, needs no privileges, and takes 0.5 to 0.9 µs. A thread that is not on a core is preempted or blocked; the
    /// clock does not distinguish these cases.
    pub fn is_running(self) -> Option<bool> {
        let before = self.cpu_time()?;
        Some(self.cpu_time()? != before)
    }

    /// True if a thread of this process waits in a system call, and not for a core. `None` if the state is unknown.
    ///
    /// Takes 5 µs, because the kernel writes a line about the thread.
    pub fn is_blocked(self) -> Option<bool> {
        Some(matches!(self.state()?, 'S' | 'D'))
    }

    /// True if a thread of this process runs or waits for a core. `None` if the state is unknown. Takes 5 µs.
    pub fn is_runnable(self) -> Option<bool> {
        Some(self.state()? == 'R')
    }

    /// Returns the state of the thread as a letter of `/proc/PID/stat`.
    fn state(self) -> Option<char> {
        let line = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        // The name may contain any characters. It ends with the last parenthesis.
        line.rsplit_once(')')?.1.trim_start().chars().next()
    }

    /// Returns the times that a thread of this process has spent on a core and waiting for a core. `None` once it has
    /// ended, or if the kernel does not count the waiting time (CONFIG_SCHED_INFO).
    ///
    /// Takes 6 µs, because the kernel writes a line about the thread.
    pub fn times(self) -> Option<Times> {
        // Read the clock, which updates it. The time on the core in the `schedstat` line may be out of date.
        let on_core = self.cpu_time()?;
        let line = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0)).ok()?;
        let waited = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Times { on_core, for_core: Duration::from_nanos(waited) })
    }
}

/// The time that a thread has spent on a core or waiting for a core since it began. The thread spent the remaining
/// time blocked in system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time on a core.
    pub on_core: Duration,
    /// The time spent waiting for a core, excluding a wait that still lasts.
    pub for_core: Duration,
}

impl Times {
    /// Returns the time in which the thread was runnable: on a core, or waiting for a core.
    pub fn sum(self) -> Duration {
        self.on_core + self.for_core
    }
}

/// Returns the processor time of all threads of a process, for any process that the caller can see. `None` once the
/// process has ended and its parent has waited for it.
///
/// Takes 0.3 µs, and additional time for each thread.
pub fn of_process(process: u32) -> Option<Duration> {
    Clock::of_process(i32::try_from(process).ok().filter(|process| *process > 0)?).read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

    /// A guard that makes the scoped thread end, so that the scope does not wait forever if an assertion fails.
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
            // The thread sleeps nearly all of the time, but a single check may find it awake between two sleeps.
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
            // `after` may include a whole wait for a core that began before `before` was read.
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
        // The number is above the largest thread number of Linux, 2²².
        assert_eq!(ThreadId::from_raw(1 << 23).cpu_time(), None);
        assert_eq!(ThreadId::from_raw(1 << 23).is_blocked(), None);
        assert_eq!(ThreadId::from_raw(1 << 23).times(), None);
    }
}
