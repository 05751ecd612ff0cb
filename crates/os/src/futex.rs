//! Waiting on a 32-bit word, of this process or in shared memory.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::system::calls::{Reach, futex_wait, futex_wait_either, futex_wake, futex_wake_at};

/// Sleeps while `word` holds `expected`, until another thread wakes it or `timeout` has passed. May return early
/// without a reason, so the caller must read the word again.
///
/// # Panics
/// If the kernel has no futexes. Every Linux kernel has them.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    futex_wait(Reach::Private, word, expected, timeout);
}

/// Sleeps like [`wait`], on a word that other processes map too. Requires a timeout, because the process that should
/// wake this thread may fail.
///
/// # Panics
/// See [`wait`].
pub fn wait_shared(word: &AtomicU32, expected: u32, timeout: Duration) {
    futex_wait(Reach::Shared, word, expected, Some(timeout));
}

/// Sleeps while both words hold their expected values, until a thread wakes one of the words or `timeout` has passed.
/// `private` belongs to this process; other processes map `shared` too. May return early without a reason.
///
/// Before Linux 5.16, or in a container that refuses the system call, sleeps on `private` alone for at most
/// [`WITHOUT_BOTH`].
///
/// # Panics
/// See [`wait`].
pub fn wait_either(private: (&AtomicU32, u32), shared: (&AtomicU32, u32), timeout: Option<Duration>) {
    if !futex_wait_either(private, shared, timeout) {
        wait(private.0, private.1, Some(timeout.unwrap_or(WITHOUT_BOTH).min(WITHOUT_BOTH)));
    }
}

/// The longest sleep of [`wait_either`] if the kernel cannot wait on two words.
pub const WITHOUT_BOTH: Duration = Duration::from_secs(1);

/// Wakes one thread that waits on `word`. Takes 0.16 µs if no thread waits, else 7 to 17 µs.
///
/// # Panics
/// If the kernel has no futexes. Every Linux kernel has them.
pub fn wake_one(word: &AtomicU32) {
    futex_wake(Reach::Private, word, 1);
}

/// Wakes all threads that wait on `word`.
///
/// # Panics
/// See [`wake_one`].
pub fn wake_all(word: &AtomicU32) {
    futex_wake(Reach::Private, word, i32::MAX);
}

/// Wakes one thread, of any process, that waits on `word` with [`wait_shared`].
///
/// # Panics
/// See [`wake_one`].
pub fn wake_one_shared(word: &AtomicU32) {
    futex_wake(Reach::Shared, word, 1);
}

/// Wakes one thread like [`wake_one`], but the word may no longer exist. This happens if the waiter saw the new value
/// without being woken, and freed the word. The kernel uses the address of a private word only as a key and does not
/// read the word. A waiter on a new word at the same address may return early, which every waiter must expect.
pub fn wake_one_at(word: *const AtomicU32) {
    futex_wake_at(word);
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
