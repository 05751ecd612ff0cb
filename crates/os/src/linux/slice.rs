//! Time slices: the time for which a thread runs before another thread on the same core may run.
//!
//! With EEVDF in Linux 6.12 and later, a thread may request a shorter slice. The thread then runs more often, for a
//! shorter time. When the thread is woken, it runs before a thread with a longer slice, and does not wait for that
//! thread's next tick (4 ms at 250 Hz). A yield loses at most the short slice. The thread's share of the processor time
//! stays the same. Earlier kernels have no slices per thread.
//!
//! The system call also sets the nice value. Each change of the slice therefore reads the current attributes first, and
//! writes all others back unchanged.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// The shortest slice that the kernel gives.
pub const SHORTEST: Duration = Duration::from_micros(100);
/// The longest slice that the kernel gives.
pub const LONGEST: Duration = Duration::from_millis(100);

/// Reads the scheduling attributes of a thread. `None` if the thread has ended, if its policy is not in `policies`, or
/// if the kernel does not report the attributes.
fn attributes(thread: libc::pid_t, policies: &[i32]) -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut found = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes, which is the size of `found`.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &mut found, size, 0_u32) } == 0;
    found.size = size;
    (known && policies.contains(&(found.sched_policy as i32))).then_some(found)
}

/// The number that stands for the calling thread in `sched_getattr` and `sched_setattr`.
const THIS: libc::pid_t = 0;

/// The policies of an ordinary thread.
const ORDINARY: &[i32] = &[libc::SCHED_OTHER];
/// The policies of threads that have slices.
const FAIR: &[i32] = &[libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];

/// Sets the attributes of the calling thread. Returns false if the kernel refuses.
fn set_attributes(attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads `size` bytes, which is the size of `attributes`.
    unsafe { libc::syscall(libc::SYS_sched_setattr, THIS, attributes, 0_u32) == 0 }
}

/// Returns the slice of a thread. `None` if it has ended, is not ordinary (`SCHED_OTHER`), or if the kernel has no
/// slices per thread.
pub fn of(thread: ThreadId) -> Option<Duration> {
    let found = attributes(thread.as_raw(), ORDINARY)?;
    (found.sched_runtime > 0).then(|| Duration::from_nanos(found.sched_runtime))
}

/// Sets the slice of the calling thread, from [`SHORTEST`] to [`LONGEST`]. Returns false if the kernel refuses, if it
/// has no slices per thread, or if the thread is not ordinary (`SCHED_OTHER`).
pub fn set(length: Duration) -> bool {
    shorten(length).map(std::mem::forget).is_some()
}

/// Sets the slice of the calling thread until the returned guard is dropped. `None` if no slice was set.
pub fn shorten(length: Duration) -> Option<Shortened> {
    let found = attributes(THIS, ORDINARY).filter(|found| found.sched_runtime > 0)?;
    let own = length.clamp(SHORTEST, LONGEST).as_nanos() as u64;
    set_attributes(&libc::sched_attr { sched_runtime: own, ..found }).then_some(Shortened {
        own,
        before: found.sched_runtime,
        of_thread: std::marker::PhantomData,
    })
}

/// A guard that restores the previous slice when dropped. It changes nothing if other code has set another slice
/// meanwhile, or if the thread is now a realtime thread.
#[derive(Debug)]
#[must_use = "the slice is the one of before at once"]
pub struct Shortened {
    own: u64,
    before: u64,
    of_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Shortened {
    fn drop(&mut self) {
        let Some(found) = attributes(THIS, FAIR).filter(|found| found.sched_runtime == self.own) else { return };
        // The kernel does not report whether the previous slice was the default. So set the default slice first, and
        // set the previous slice only if it differs. A default slice follows later changes of the kernel's settings.
        set_attributes(&libc::sched_attr { sched_runtime: 0, ..found });
        if let Some(found) = attributes(THIS, FAIR).filter(|found| found.sched_runtime != self.before) {
            set_attributes(&libc::sched_attr { sched_runtime: self.before, ..found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `test` on a new thread, if threads have individual slices. Otherwise prints that the test is skipped.
    fn on_a_thread(test: impl FnOnce(Duration) + Send + 'static) {
        let run = move || match of(ThreadId::current()) {
            Some(usual) => test(usual),
            None => println!("SKIPPED: threads have no slices of their own here"),
        };
        std::thread::spawn(run).join().unwrap();
    }

    fn mine() -> Duration {
        of(ThreadId::current()).unwrap()
    }

    fn nice() -> i32 {
        attributes(THIS, FAIR).unwrap().sched_nice
    }

    #[test]
    fn a_slice_is_that_of_before_afterwards_and_so_are_those_of_children() {
        on_a_thread(|usual| {
            let shortened = shorten(Duration::from_micros(200)).unwrap();
            assert_eq!(mine(), Duration::from_micros(200));
            drop(shortened);
            assert_eq!(mine(), usual);
            assert_eq!(std::thread::spawn(mine).join().unwrap(), usual);
            // A slice that other code has set meanwhile stays.
            assert!(set(Duration::from_millis(3)));
            drop(shorten(Duration::from_nanos(1)));
            assert_eq!(mine(), Duration::from_millis(3));
            let shortened = shorten(Duration::ZERO);
            assert_eq!(mine(), SHORTEST);
            assert!(set(Duration::from_secs(1)));
            drop(shortened);
            assert_eq!(mine(), LONGEST);
        });
    }

    #[test]
    fn a_nice_value_stays_also_one_that_is_set_meanwhile() {
        on_a_thread(|usual| {
            let renice = |value| {
                // SAFETY: the call takes three numbers. 0 is the calling thread.
                assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }, 0);
            };
            // Without privileges, the nice value can only grow.
            let before = nice();
            if before > 17 {
                println!("SKIPPED: the nice value is {before}");
                return;
            }
            renice(before + 1);
            let shortened = shorten(SHORTEST).unwrap();
            assert_eq!((nice(), mine()), (before + 1, SHORTEST));
            renice(before + 2);
            drop(shortened);
            assert_eq!((nice(), mine()), (before + 2, usual));
        });
    }

    #[test]
    fn a_thread_of_another_policy_stays_as_it_is() {
        on_a_thread(|usual| {
            let batch = libc::sched_param { sched_priority: 0 };
            let shortened = shorten(SHORTEST).unwrap();
            // SAFETY: the call reads the structure, which lives until it returns.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &batch) }, 0);
            drop(shortened);
            assert_eq!(attributes(THIS, FAIR).unwrap().sched_runtime, usual.as_nanos() as u64);
            assert!(shorten(SHORTEST).is_none());
            // SAFETY: the call takes a number. 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        });
    }
}
