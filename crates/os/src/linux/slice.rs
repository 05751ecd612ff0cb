//! How long a thread runs before another of the same core may.
//!
//! Under EEVDF, Linux 6.12 and later, a thread may ask for shorter slices than usual. It has them more often: woken, it
//! comes before a thread with a longer slice, where it would else wait for that one's next tick (4 ms at 250 Hz). And what
//! a yield forfeits is a slice. Its share of the time stays the same. Under earlier kernels no thread has its own.
//!
//! The call sets the nice value too. Each change therefore reads first what is there, and leaves all but the slice as it is.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// The shortest slice that the kernel gives.
pub const SHORTEST: Duration = Duration::from_micros(100);
/// The longest one.
pub const LONGEST: Duration = Duration::from_millis(100);

/// How a thread is scheduled. `None`: it has ended, or its policy is none of these, or the kernel does not tell.
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
    // SAFETY: the kernel writes at most `size` bytes, as many as there are.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &mut found, size, 0_u32) } == 0;
    found.size = size;
    (known && policies.contains(&(found.sched_policy as i32))).then_some(found)
}

/// The calling thread, as the two calls have it.
const THIS: libc::pid_t = 0;

/// An ordinary thread.
const ORDINARY: &[i32] = &[libc::SCHED_OTHER];
/// A thread that has slices.
const FAIR: &[i32] = &[libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];

/// False: the kernel refuses.
fn set_attributes(attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads `size` bytes, as many as there are.
    unsafe { libc::syscall(libc::SYS_sched_setattr, THIS, attributes, 0_u32) == 0 }
}

/// The slice of a thread. `None`: it has ended, or is no ordinary one, or the kernel has no slices of a thread's own.
pub fn of(thread: ThreadId) -> Option<Duration> {
    let found = attributes(thread.as_raw(), ORDINARY)?;
    (found.sched_runtime > 0).then(|| Duration::from_nanos(found.sched_runtime))
}

/// The calling thread has slices of this length from now on, [`SHORTEST`] to [`LONGEST`]. False: the kernel refuses or has
/// none, or the thread is no ordinary one (`SCHED_OTHER`).
pub fn set(length: Duration) -> bool {
    shorten(length).map(std::mem::forget).is_some()
}

/// The same until the value is dropped, on the same thread. `None`: no slice has been set.
pub fn shorten(length: Duration) -> Option<Shortened> {
    let found = attributes(THIS, ORDINARY).filter(|found| found.sched_runtime > 0)?;
    let own = length.clamp(SHORTEST, LONGEST).as_nanos() as u64;
    set_attributes(&libc::sched_attr { sched_runtime: own, ..found }).then_some(Shortened {
        own,
        before: found.sched_runtime,
        of_thread: std::marker::PhantomData,
    })
}

/// A thread has slices of a length of its own. Dropped, those of before; a slice that has been set meanwhile stays, and so
/// does this one if the thread has become a realtime one.
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
        // The kernel's own slice first, which goes on to change with its settings: the kernel does not tell whether it was that.
        set_attributes(&libc::sched_attr { sched_runtime: 0, ..found });
        if let Some(found) = attributes(THIS, FAIR).filter(|found| found.sched_runtime != self.before) {
            set_attributes(&libc::sched_attr { sched_runtime: self.before, ..found });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, which has such slices. Else this is said, and the test is skipped.
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
            // What another party has set is what is there afterwards.
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
                // SAFETY: it takes three numbers; 0 is the calling thread.
                assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }, 0);
            };
            // Without privileges it only grows.
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
            // SAFETY: it reads the structure, which lives.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &batch) }, 0);
            drop(shortened);
            assert_eq!(attributes(THIS, FAIR).unwrap().sched_runtime, usual.as_nanos() as u64);
            assert!(shorten(SHORTEST).is_none());
            // SAFETY: it takes a number; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        });
    }
}
