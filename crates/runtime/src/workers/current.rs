//! The worker that runs on the current thread.

use std::cell::Cell;
use std::ptr;

use crate::workers::registry::{Own, Peer, Worker};

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with the worker of this thread, if this thread is a worker.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = CURRENT.get();
    // SAFETY: the pointer is null, or was set by `enter` or `adopt` on this thread. The caller of `enter` keeps the
    // worker alive until `f` has returned, and this call runs inside of `f`. An adopted worker lives for ever.
    f(unsafe { worker.as_ref() })
}

/// Makes this thread the worker of `peer` while `f` runs. `own` is the data that only the worker's thread uses.
///
/// # Panics
/// If this thread is a worker already.
pub(crate) fn enter<R>(peer: &Peer, own: &Own, f: impl FnOnce(&Worker) -> R) -> R {
    struct Leave<'a>(&'a Peer);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            CURRENT.set(ptr::null());
            self.0.leave();
        }
    }
    assert!(CURRENT.get().is_null(), "a thread is the worker of one pool");
    let worker = peer.enter(own);
    CURRENT.set(worker);
    let _leave = Leave(peer);
    f(worker)
}

/// Makes this thread the worker of `peer` until the thread ends.
///
/// # Panics
/// If this thread is a worker already.
pub(crate) fn adopt(peer: &'static Peer, own: &'static Own) {
    assert!(CURRENT.get().is_null(), "a thread is the worker of one pool");
    CURRENT.set(peer.enter(own));
}

/// Clears this thread's worker. Called in a forked child. Code that already runs on the worker's stack keeps its
/// reference.
pub(crate) fn forget() {
    CURRENT.set(ptr::null());
}
