//! The generation of this process (the number of forks that led to it), and statics with one value per process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::atomic::AtomicCell;

/// The number of forks between the process in which the first pool was built and this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Returns the generation of this process. A pool that was built in another generation belongs to another process.
pub(crate) fn generation() -> u64 {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Relaxed) {
        // The hook is registered before the flag is set, so that no fork is missed. If two threads register it at
        // once, the generation grows by two at each fork, which does no harm.
        comity_os::fork::call_in_children(count);
        WATCHED.store(true, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Runs in each forked child. It takes no lock, because a thread that exists only in the parent may hold the lock.
extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A `static` with a separate value in each forked process. The value is never freed. The type uses no lock, because
/// a thread that exists only in the parent may hold the lock after a fork.
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
    /// The [`generation`] of the process that made the value.
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
    /// Returns a cell without a value.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicCell::new(None))
    }

    /// Returns this process's value. The first call makes it. `make` gets the value of the process from which this
    /// process was forked, if there is one. If several threads call this at once, each may make a value, and all
    /// threads get the same one.
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
                    Err(faster) => &faster.expect("a value that was made is never removed").0.value,
                }
            }
        }
    }

    /// Returns this process's value, if it has been made.
    pub(crate) fn existing(&self) -> Option<&'static T> {
        let process = generation();
        self.0.load().filter(|kept| kept.0.process == process).map(|kept| &kept.0.value)
    }
}
