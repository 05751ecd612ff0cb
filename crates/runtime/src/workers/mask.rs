//! The mask of the calling thread, which may be a worker's, and the mask of a forked child.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use comity_os::affinity::{self, Mask};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, fork};

use crate::cores::masks::{self, Narrow};
use crate::workers::current;

/// Returns the mask of the calling thread and the cores that the system grants it, if it is the thread of a confined
/// worker. Returns `None` also if the program has just set another mask.
fn narrow_mask() -> Option<(Mask, CoreSet)> {
    current::with(|worker| {
        let worker = worker?;
        let (mask, granted) = worker.registry().masks.of(worker.id());
        let is_ours = mask.is_narrow() && mask.explains(affinity::of(ThreadId::current()), granted);
        is_ours.then_some((mask, granted))
    })
}

/// Returns the calling thread's mask, if it is the thread of a confined worker. A thread that it starts must not stay
/// confined.
pub(crate) fn narrow() -> Option<Narrow> {
    narrow_mask().map(|(mask, _)| (affinity::of(ThreadId::current()), mask.own()))
}

/// Returns the cores on which the calling thread runs while Comity does not confine it.
pub(crate) fn roams() -> CoreSet {
    let as_worker = narrow_mask().map(|(mask, granted)| mask.roams(granted));
    as_worker.unwrap_or_else(|| affinity::of(ThreadId::current()))
}

/// Starts a thread that is not a worker, and runs `body` on it. The thread may use all cores of the program from its
/// start, even if a worker starts it that is confined to some cores. A fork waits while the thread starts or ends.
/// Otherwise the child could start no thread, if the standard library was registering this one.
///
/// The thread's processor time counts as the program's, and the thread holds no core of the core table.
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

/// Runs in each forked child, on the thread that forked. Locks may be held there by threads that exist only in the
/// parent.
extern "C" fn in_child() {
    let me = ThreadId::current();
    let own = current::with(|worker| {
        let worker = worker?;
        worker.registry().masks.in_child(worker.id(), affinity::of(me))
    });
    if let Some(own) = own {
        affinity::confine(me, own);
    }
    // The other workers exist only in the parent.
    current::forget();
}
