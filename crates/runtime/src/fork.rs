//! Which of a line of forked processes this is, and what each of them has one of.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::atomic::AtomicCell;

/// Forks between this process and the one in which the first pool was built.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Which of a line of forked processes this is. What was made under another number is of another process.
pub(crate) fn generation() -> u64 {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Relaxed) {
        // Before the flag, lest a fork come between; two that come here at once are told of each fork twice, which is
        // no harm.
        comity_os::fork::call_in_children(count);
        WATCHED.store(true, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Runs in each forked child, where locks may be held by threads that are not there.
extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// One value in each of a line of forked processes, never freed: for a `static`. A lock would not do: after a fork it
/// may be held by a thread that is not there.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use comity::internal::PerProcess;
///
/// static TASKS: PerProcess<AtomicU64> = PerProcess::new();
/// let tasks = TASKS.get(|_parents| AtomicU64::new(0));
/// tasks.fetch_add(1, Ordering::Relaxed);
/// assert_eq!(TASKS.get(|_| unreachable!("it is made")).load(Ordering::Relaxed), 1);
/// ```
pub struct PerProcess<T: 'static>(AtomicCell<Option<Kept<T>>>);

struct Kept<T: 'static>(&'static Made<T>);

struct Made<T> {
    /// As [`generation`] counts.
    process: u64,
    value: T,
}

const _: () = assert!(AtomicCell::<Option<Kept<()>>>::is_lock_free());

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Kept<T> {
        *self
    }
}

impl<T> Copy for Kept<T> {}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Kept<T>) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<T> Eq for Kept<T> {}

impl<T: Sync> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

impl<T: Sync> PerProcess<T> {
    /// No value yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicCell::new(None))
    }

    /// This process's value, made at the first call from the one of the process that it was forked from. Of threads
    /// that come here at once, each may make one, and all get the same.
    pub fn get(&self, make: impl FnOnce(Option<&'static T>) -> T) -> &'static T {
        let process = generation();
        let before = self.0.load();
        match before {
            Some(Kept(made)) if made.process == process => &made.value,
            _ => {
                let value = make(before.map(|kept| &kept.0.value));
                let fresh = Kept(Box::leak(Box::new(Made { process, value })));
                match self.0.compare_exchange(before, Some(fresh)) {
                    Ok(_) => &fresh.0.value,
                    Err(faster) => &faster.expect("what is made is never taken away").0.value,
                }
            }
        }
    }

    /// This process's value, if there is one.
    pub(crate) fn existing(&self) -> Option<&'static T> {
        let process = generation();
        self.0.load().filter(|kept| kept.0.process == process).map(|kept| &kept.0.value)
    }
}
