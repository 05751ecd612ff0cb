//! What a fork leaves of the pools: in the child there is only the thread that forked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::coordinator;
use crate::raw::current;
use crate::share;

/// Forks between this process and the one in which the first pool was built.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Which of a line of forked processes this is. What was made under another number is of another process.
pub(crate) fn generation() -> u64 {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Relaxed) {
        // Before the flag, lest a fork come between; two that come here at once are told of each fork twice, which is no harm.
        comity_os::fork::call_in_children(in_child);
        WATCHED.store(true, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Runs in each forked child, where locks may be held by threads that are not there.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    coordinator::in_child();
    share::in_child();
    // A worker that forks is none in the child: its peers are gone.
    current::forget();
}
