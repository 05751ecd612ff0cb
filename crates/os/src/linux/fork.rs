//! Notification of forks, and guards that delay forks.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Registers `hook`, which is called in every child that this process or one of its children forks from now on. It is
/// called on the thread that forked, before `fork` returns in the child.
///
/// The child does not have the parent's other threads, but locks that these threads held stay locked in the child. So
/// `hook` must take no lock, and call only functions that a signal handler may call. A fork that bypasses the C library
/// (a bare `clone`) is not noticed.
pub fn call_in_children(hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps a pointer to a function that lives as long as the program, and calls it without
    // arguments, as its type says.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    assert_eq!(refused, 0, "pthread_atfork failed: out of memory");
}

/// Registers `hook` like [`call_in_children`], and also `before`. `before` is called in the forking process, on the
/// thread that forks, before the fork.
pub fn call_before_and_in_children(before: extern "C" fn(), hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps two pointers to functions that live as long as the program and take no arguments.
    let refused = unsafe { libc::pthread_atfork(Some(before), None, Some(hook)) };
    assert_eq!(refused, 0, "pthread_atfork failed: out of memory");
}

/// The maximum delay of a fork. It is bounded, because a fork in a signal handler may wait for a guard of the thread
/// that the signal has interrupted.
const PATIENCE: Duration = Duration::from_secs(1);

/// [`FORK`] × forks in progress + guards that delay forks.
static GATE: AtomicU64 = AtomicU64::new(0);

const FORK: u64 = 1 << 32;

/// A guard that delays all forks of this process while it exists, so that a child finds no data half changed. Hold it
/// briefly, and do not take a second guard on the same thread.
#[derive(Debug)]
pub struct HoldOff(());

/// Waits until the forks in progress are over, and delays later forks until the returned guard is dropped.
pub fn hold_off() -> HoldOff {
    // An atomic, because a fork could leave a `Once` half done in the child. If two threads register the hooks, each
    // fork is counted twice before it and twice after it, which is harmless.
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
        // After `PATIENCE`, a fork no longer waits for this guard. In the child of such a fork, `in_child` has already
        // set the count of guards to 0.
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

/// Starts a thread that runs `body`, and delays forks while the thread starts and ends. The standard library then holds
/// a lock to record the thread's stack. A child that is forked meanwhile could never start a thread.
///
/// # Errors
/// If the system cannot start the thread.
pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread_local! {
        /// The guard of a thread that ends. At the end of the thread, the standard library first removes its record of
        /// the thread's stack. Then this guard is dropped, and after it the other thread locals.
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
