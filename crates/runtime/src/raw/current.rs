//! The worker that runs on the current thread.

use std::cell::Cell;
use std::ptr;

use crate::worker::Worker;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with the worker of this thread, if it is one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = CURRENT.get();
    // SAFETY: the pointer is null or was set by `enter` on this thread, whose caller keeps the worker alive until
    // everything that runs inside has returned, this call among it.
    f(unsafe { worker.as_ref() })
}

/// Makes `worker` the current one while `f` runs.
///
/// # Panics
/// If this thread is a worker already.
pub(crate) fn enter<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.set(ptr::null());
        }
    }
    assert!(CURRENT.get().is_null(), "a thread is the worker of one pool");
    CURRENT.set(worker);
    let _leave = Leave;
    f()
}
