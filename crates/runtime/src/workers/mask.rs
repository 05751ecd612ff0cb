//! The mask of the calling thread, which may be a worker's, and what a fork leaves of that.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use comity_os::affinity::{self, Mask};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, fork};

use crate::cores::masks::{self, Narrow};
use crate::workers::current;

/// The mask of the calling thread, if it is a worker's, with the cores that the system grants it; `None` also where
/// the program has just set another.
fn narrow_mask() -> Option<(Mask, CoreSet)> {
    current::with(|worker| {
        let worker = worker?;
        let (mask, granted) = worker.registry().masks.of(worker.id());
        let is_ours = mask.is_narrow() && mask.explains(affinity::of(ThreadId::current()), granted);
        is_ours.then_some((mask, granted))
    })
}

/// Whether the calling thread is a worker's that was confined: what it starts is not to stay there for ever.
pub(crate) fn narrow() -> Option<Narrow> {
    narrow_mask().map(|(mask, _)| (affinity::of(ThreadId::current()), mask.own()))
}

/// Where the calling thread runs of its own accord.
pub(crate) fn roams() -> CoreSet {
    let as_worker = narrow_mask().map(|(mask, granted)| mask.roams(granted));
    as_worker.unwrap_or_else(|| affinity::of(ThreadId::current()))
}

/// Starts a thread that is no worker and runs `body`. It may use all cores of the program from its beginning on, also
/// if a worker starts it that is confined to some. A fork waits while the thread starts or ends: the child could start
/// no thread if the standard library was about to note this one.
///
/// Its processor time counts as the program's, and it holds no core of the core table.
///
/// # Errors
/// If the system gives no thread.
pub fn spawn_thread(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let starter = narrow();
    fork::spawn(thread, move || {
        masks::widen(starter);
        body();
    })
}

/// From now on a worker that forks is none in the child, and runs there where its program wants it to. Called before
/// there is a worker.
pub(crate) fn heed_forks() {
    static HEEDED: AtomicBool = AtomicBool::new(false);
    if !HEEDED.load(Ordering::Relaxed) {
        // Before the flag, lest a fork come between; two that come here at once are told of each fork twice, which is
        // no harm.
        comity_os::fork::call_before_and_in_children(before_fork, in_child);
        HEEDED.store(true, Ordering::Relaxed);
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

/// Runs in each forked child, on the thread that forked, where locks may be held by threads that are not there.
extern "C" fn in_child() {
    let me = ThreadId::current();
    let own = current::with(|worker| {
        let worker = worker?;
        worker.registry().masks.in_child(worker.id(), affinity::of(me))
    });
    if let Some(own) = own {
        affinity::confine(me, own);
    }
    // Its peers are gone.
    current::forget();
}
