//! The affinity mask of the calling thread, which may be the thread of a confined worker, and the mask of a forked
//! child.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use comity_os::affinity::{self, Mask};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, fork};

use crate::cores::masks::{self, Narrow};
use crate::workers::current;

/// Returns the mask of the calling thread and the cores that the system grants it, if it is the thread of a confined
/// worker. Returns `None` for other threads, and if the program has just set another mask.
fn narrow_mask() -> Option<(Mask, CoreSet)> {
    current::with(|worker| {
        let worker = worker?;
        let (mask, granted) = worker.registry().masks.of(worker.id());
        let is_ours = mask.is_narrow() && mask.explains(affinity::of(ThreadId::current()), granted);
        is_ours.then_some((mask, granted))
    })
}

/// Returns the calling thread's mask and the mask that the program wants, if it is the thread of a confined worker. A
/// new thread that the caller starts passes them to [`masks::widen`], so that it does not stay confined.
pub(crate) fn narrow() -> Option<Narrow> {
    narrow_mask().map(|(mask, _)| (affinity::of(ThreadId::current()), mask.own()))
}

/// Returns the cores on which the calling thread may run when Comity does not confine it.
pub(crate) fn roams() -> CoreSet {
    let as_worker = narrow_mask().map(|(mask, granted)| mask.roams(granted));
    as_worker.unwrap_or_else(|| affinity::of(ThreadId::current()))
}

/// Starts a thread that is not a worker, and runs `body` on it. The thread may use all cores of the program from its
/// start, even if a confined worker starts it. A fork waits while the thread starts or ends. A fork while the
/// standard library registers this thread would leave a child that cannot start threads.
///
/// The thread's processor time is part of the program's, but the thread holds no core of the core table.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn_thread(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let starter = narrow();
    fork::spawn(thread, move || {
        masks::widen(starter);
        body();
    })
}

/// Registers fork hooks. In the child, the forking thread is no longer a worker and gets back the affinity that the
/// program chose. Called before the first worker starts.
pub(crate) fn register_fork_hooks() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Relaxed) {
        // The hooks are registered before the flag is set, so that no fork is missed. If two threads register them at
        // once, they run twice at each fork, which does no harm.
        comity_os::fork::call_before_and_in_children(before_fork, in_child);
        REGISTERED.store(true, Ordering::Relaxed);
    }
}

/// Runs before each fork, on the thread that forks.
extern "C" fn before_fork() {
    current::with(|worker| {
        if let Some(worker) = worker {
            worker.registry().masks.forks(worker.id());
        }
    });
}

/// Runs in each forked child, on the thread that forked. Takes no lock, because a thread that exists only in the
/// parent may hold it.
extern "C" fn in_child() {
    let me = ThreadId::current();
    let own = current::with(|worker| {
        let worker = worker?;
        worker.registry().masks.in_child(worker.id(), affinity::of(me))
    });
    if let Some(own) = own {
        affinity::confine(me, own);
    }
    // The pool's other workers exist only in the parent, so this thread cannot be a worker any more.
    current::forget();
}
