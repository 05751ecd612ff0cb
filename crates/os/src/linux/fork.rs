//! Notification of forks, and delaying them.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Calls `hook` in every child that this process, or a child of it, forks from now on. The forking thread calls it,
/// before `fork` returns in the child.
///
/// The child has no other threads of the parent, but it has the locks that they held. So `hook` must take no lock and
/// call only functions that a signal handler may call. A fork that bypasses the C library (a bare `clone`) is not seen.
pub fn call_in_children(hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps a pointer to a function that lives as long as the program, and calls it without
    // arguments, as its type says.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    assert_eq!(refused, 0, "pthread_atfork failed: out of memory");
}

/// Calls `hook` like [`call_in_children`], and `before` on the same thread before the fork, in this process.
pub fn call_before_and_in_children(before: extern "C" fn(), hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps two pointers to functions that live as long as the program and take no arguments.
    let refused = unsafe { libc::pthread_atfork(Some(before), None, Some(hook)) };
    assert_eq!(refused, 0, "pthread_atfork failed: out of memory");
}

/// The maximum delay of a fork. A fork in a signal handler may have interrupted the very thread that it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of forks that have begun, times [`FORK`], plus the number of guards that delay forks.
static GATE: AtomicU64 = AtomicU64::new(0);

const FORK: u64 = 1 << 32;

/// A guard that lets no fork of this process return while it exists, so that a child finds no data half changed. Hold
/// it briefly, and do not take a second one while holding it.
#[derive(Debug)]
pub struct HoldOff(());

/// Waits until the forks that have begun are over, and delays later forks until the guard is dropped.
pub fn hold_off() -> HoldOff {
    // Not a `Once`, which a fork might leave half done forever. Two threads that register at once count each fork
    // twice, both before and after it, which is harmless.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Relaxed) {
        // SAFETY: `pthread_atfork` keeps three pointers to functions that live as long as the program and take no
        // arguments.
        let refused = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        assert_eq!(refused, 0, "pthread_atfork failed: out of memory");
        WATCHED.store(true, Ordering::Relaxed);
    }
    let enter = |gate: u64| (gate < FORK).then_some(gate + 1);
    while GATE.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
        crate::yield_core();
    }
    HoldOff(())
}

impl Drop for HoldOff {
    fn drop(&mut self) {
        // In the child of a fork that did not wait long enough, the counter may already be 0.
        let leave = |gate: u64| (gate as u32 > 0).then(|| gate - 1);
        let _ = GATE.fetch_update(Ordering::Release, Ordering::Relaxed, leave);
    }
}

extern "C" fn before() {
    GATE.fetch_add(FORK, Ordering::Relaxed);
    let began = Instant::now();
    while GATE.load(Ordering::Acquire) as u32 > 0 && began.elapsed() < PATIENCE {
        crate::yield_core();
    }
}

extern "C" fn in_parent() {
    GATE.fetch_sub(FORK, Ordering::Release);
}

extern "C" fn in_child() {
    GATE.store(0, Ordering::Relaxed);
}

/// Starts a thread that runs `body`, and delays forks while the thread starts and ends. The standard library notes
/// the stacks of its threads under a lock. A child that is forked while the lock is held could never start a thread.
///
/// # Errors
/// If the system provides no thread.
pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread_local! {
        /// The guard of the ending thread. Dropped after the standard library's end of the thread, before other
        /// thread locals.
        static ENDING: Cell<Option<HoldOff>> = const { Cell::new(None) };
    }
    let starting = hold_off();
    thread.spawn(move || {
        drop(starting);
        body();
        ENDING.set(Some(hold_off()));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Forks a child that ends at once, and waits for it.
    fn fork() {
        // SAFETY: the child calls nothing but `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        assert!(child > 0);
        // SAFETY: the child was forked above and not waited for yet.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }

    #[test]
    fn a_fork_waits_for_those_who_hold_it_off_and_they_for_it() {
        let (send, forked) = mpsc::channel();
        let (one, other) = (hold_off(), hold_off());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                fork();
                send.send(()).unwrap();
            });
            drop(one);
            assert_eq!(forked.recv_timeout(PATIENCE / 20), Err(mpsc::RecvTimeoutError::Timeout));
            drop(other);
            forked.recv().unwrap();
        });
        drop(hold_off());
    }

    #[test]
    fn a_fork_by_who_holds_it_off_loses_its_patience() {
        let held = hold_off();
        fork();
        drop(held);
        drop(hold_off());
    }
}
