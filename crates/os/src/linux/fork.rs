//! Being told of forks, and holding them off.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Calls `hook` in every child that this process, or a child of it, forks from now on, on the thread that forked, before
/// `fork` returns there.
///
/// Other threads of the parent are not there in the child, but what they had locked is: `hook` must not lock, and calls
/// only what a signal handler may. A fork that goes past the C library (a bare `clone`) is not seen.
pub fn call_in_children(hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps a pointer to a function that lives as long as the program, and calls it without
    // arguments, as its type says.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    assert_eq!(refused, 0, "the C library has no memory for a pointer to a function");
}

/// The same with another, which is called before the fork, on the same thread, and in this process.
pub fn call_before_and_in_children(before: extern "C" fn(), hook: extern "C" fn()) {
    // SAFETY: as above, twice.
    let refused = unsafe { libc::pthread_atfork(Some(before), None, Some(hook)) };
    assert_eq!(refused, 0, "the C library has no memory for two pointers to functions");
}

/// How long a fork is held off. Who forks in a signal handler may have interrupted the very thread that it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Forks that have begun, times [`FORK`], and those who hold forks off.
static GATE: AtomicU64 = AtomicU64::new(0);

const FORK: u64 = 1 << 32;

/// While it is there, no fork of this process returns: for what a child must not find half done. Hold it briefly, and take no
/// second one meanwhile.
#[derive(Debug)]
pub struct HoldOff(());

/// Waits until the forks are over that have begun, and holds off those to come.
pub fn hold_off() -> HoldOff {
    // No `Once`, which a fork might leave half-way for ever. Two that come here at once count each fork twice, both before it and
    // after, which is no harm.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Relaxed) {
        // SAFETY: as above, three times.
        let refused = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        assert_eq!(refused, 0, "the C library has no memory for three pointers to functions");
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
        // There may be nothing to take back in the child of a fork that lost its patience.
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

/// Starts a thread that runs `body`, such that no fork comes while the thread starts or ends: the standard library notes the
/// stacks of its threads under a lock, and in a child that has it locked no thread would ever start.
///
/// # Errors
/// If the system gives no thread.
pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread_local! {
        /// Dropped after the standard library has done with the thread, and before what else is local to it.
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
