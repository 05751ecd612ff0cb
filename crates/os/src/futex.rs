//! Waiting on a 32-bit word, of this process or in memory that several share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::ClockId as FutexClock;
use rustix::thread::futex::{self, Flags, Timespec, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, clock_gettime};

/// Sleeps while `word` holds `expected`, until [`wake_one`] or `timeout`. May return early for no reason: the caller
/// reads the word again.
///
/// # Panics
/// If the kernel has no futexes, which no Linux kernel lacks.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    wait_as(Flags::PRIVATE, word, expected, timeout);
}

/// [`wait`] on a word that other processes map too. Whoever may write there may fail to wake: always with a timeout.
///
/// # Panics
/// As [`wait`].
pub fn wait_shared(word: &AtomicU32, expected: u32, timeout: Duration) {
    wait_as(Flags::empty(), word, expected, Some(timeout));
}

fn wait_as(flags: Flags, word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    match futex::wait(word, flags, expected, timeout.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(error) => panic!("futex wait: {error}"),
    }
}

/// Sleeps while `private`, a word of this process's own, and `shared`, which other processes map too, both hold what is expected, until
/// either is woken, or `timeout`. May return early for no reason.
///
/// Before Linux 5.16, or where a container refuses it, on `private` alone and for no longer than [`WITHOUT_BOTH`].
///
/// # Panics
/// As [`wait`].
pub fn wait_either(private: (&AtomicU32, u32), shared: (&AtomicU32, u32), timeout: Option<Duration>) {
    let on = |(word, expected): (&AtomicU32, u32), flags| {
        let mut on = Wait::new();
        on.val = expected.into();
        on.uaddr = WaitPtr::new(word.as_ptr().cast());
        on.flags = WaitFlags::SIZE_U32 | flags;
        on
    };
    let both = [on(private, WaitFlags::PRIVATE), on(shared, WaitFlags::empty())];
    let until = timeout.and_then(|timeout| {
        let now = clock_gettime(ClockId::Monotonic);
        now.checked_add(Timespec::try_from(timeout).ok()?)
    });
    match futex::waitv(&both, WaitvFlags::empty(), until.as_ref(), FutexClock::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(_) => wait(private.0, private.1, Some(timeout.unwrap_or(WITHOUT_BOTH).min(WITHOUT_BOTH))),
    }
}

/// See [`wait_either`].
pub const WITHOUT_BOTH: Duration = Duration::from_secs(1);

/// Wakes one thread that waits on `word`. 0.16 µs when nobody waits, 7 to 17 µs when somebody does.
///
/// # Panics
/// If the kernel has no futexes, which no Linux kernel lacks.
pub fn wake_one(word: &AtomicU32) {
    wake_as(Flags::PRIVATE, word, 1);
}

/// Wakes all threads that wait on `word`.
///
/// # Panics
/// As [`wake_one`].
pub fn wake_all(word: &AtomicU32) {
    wake_as(Flags::PRIVATE, word, i32::MAX as u32);
}

/// Wakes one thread, of any process, that waits on `word` by [`wait_shared`].
///
/// # Panics
/// As [`wake_one`].
pub fn wake_one_shared(word: &AtomicU32) {
    wake_as(Flags::empty(), word, 1);
}

fn wake_as(flags: Flags, word: &AtomicU32, most: u32) {
    if let Err(error) = futex::wake(word, flags, most) {
        panic!("futex wake: {error}");
    }
}

/// [`wake_one`] for a word that may be gone, because its waiter has seen the change without being woken. The kernel takes a
/// private word's address as a name and does not look there; somebody else's word at the same address is woken for no reason,
/// which every waiter expects.
pub fn wake_one_at(word: *const AtomicU32) {
    // SAFETY: the kernel does not dereference the address, as said above.
    unsafe { libc::syscall(libc::SYS_futex, word.addr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_is_not_waited_for() {
        wait(&AtomicU32::new(1), 0, None);
        wait_either((&AtomicU32::new(1), 0), (&AtomicU32::new(0), 0), None);
        wait_either((&AtomicU32::new(0), 0), (&AtomicU32::new(1), 0), None);
    }

    #[test]
    fn a_timeout_ends_the_wait() {
        wait(&AtomicU32::new(0), 0, Some(Duration::from_millis(1)));
        wait_either((&AtomicU32::new(0), 0), (&AtomicU32::new(0), 0), Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_wake_reaches_the_waiter() {
        type Waits = fn(&AtomicU32);
        let ways: [(Waits, Waits); 5] = [
            (|word| wait(word, 0, None), |word| wake_one(word)),
            (|word| wait_either((word, 0), (&AtomicU32::new(0), 0), None), |word| wake_one(word)),
            (|word| wait_either((&AtomicU32::new(0), 0), (word, 0), None), |word| wake_one_shared(word)),
            (|word| wait(word, 0, None), |word| wake_one_at(word)),
            (|word| wait_shared(word, 0, Duration::from_secs(600)), |word| wake_one_shared(word)),
        ];
        for (wait, wake) in ways {
            let word = AtomicU32::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while word.load(Ordering::Acquire) == 0 {
                        wait(&word);
                    }
                });
                std::thread::sleep(Duration::from_millis(5));
                word.store(1, Ordering::Release);
                wake(&word);
            });
        }
    }

    #[test]
    fn a_wake_at_an_address_where_nothing_is_does_nothing() {
        wake_one_at(std::ptr::without_provenance(64));
    }
}
