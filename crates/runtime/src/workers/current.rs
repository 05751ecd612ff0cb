//! The worker that runs on the current thread.

use std::cell::Cell;
use std::ptr;

use crate::workers::registry::{Own, Peer, Worker};

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with the worker of this thread, if it is one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = CURRENT.get();
    // SAFETY: the pointer is null or was set by `enter` on this thread. Its caller keeps the worker alive until
    // everything that runs inside has returned, this call among it.
    f(unsafe { worker.as_ref() })
}

/// Makes this thread the worker behind `peer` while `f` runs, with what belongs to its thread alone.
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

/// Makes this thread the worker behind `peer` for the rest of its life.
///
/// # Panics
/// If this thread is a worker already.
pub(crate) fn adopt(peer: &'static Peer, own: &'static Own) {
    assert!(CURRENT.get().is_null(), "a thread is the worker of one pool");
    CURRENT.set(peer.enter(own));
}

/// Makes this thread no worker, for a forked child. What runs in the worker's frames goes on with what it has of it.
pub(crate) fn forget() {
    CURRENT.set(ptr::null());
}
