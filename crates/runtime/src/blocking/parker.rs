//! The parker: an object on which one thread waits, any number of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};

use comity_policy::WorkerId;

use crate::raw::latch::Probe;
use crate::workers::current;
use crate::workers::registry::Registry;

/// A parker. The thread that made it waits on it until any thread unparks it. An `Arc<Parker>` can be converted into
/// a [`Waker`](std::task::Waker), for example for a function that waits for a future.
pub struct Parker {
    /// True if the parker was unparked since the last [`Parker::park`].
    token: AtomicBool,
    waiter: Waiter,
}

enum Waiter {
    Worker(Arc<Registry>, WorkerId),
    Thread(Thread),
}

impl Parker {
    /// Returns a parker for this thread.
    pub fn new() -> Arc<Parker> {
        let waiter = current::with(|worker| match worker {
            Some(worker) => Waiter::Worker(Arc::clone(worker.registry()), worker.id()),
            None => Waiter::Thread(thread::current()),
        });
        Arc::new(Parker { token: AtomicBool::new(false), waiter })
    }

    /// Waits until the parker is unparked, or returns at once if it was unparked since the last call. A worker of a
    /// pool serves its pool while it waits.
    ///
    /// # Panics
    /// If the calling thread is not the thread that made the parker.
    pub fn park(&self) {
        match &self.waiter {
            Waiter::Worker(pool, id) => current::with(|worker| {
                let is_maker = |worker: &&crate::Worker| Arc::ptr_eq(worker.registry(), pool) && worker.id() == *id;
                let worker = worker.filter(is_maker).expect("a parker works only on the thread that made it");
                worker.wait_for_anything(self);
            }),
            Waiter::Thread(thread) => {
                assert_eq!(thread.id(), thread::current().id(), "a parker works only on the thread that made it");
                while !self.probe() {
                    thread::park();
                }
            }
        }
        // A swap and not a store: if the parker was unparked again meanwhile, this thread must see the writes before
        // that call.
        self.token.swap(false, Ordering::Acquire);
    }

    /// Wakes the thread of the parker, or makes its next [`Parker::park`] return at once.
    pub fn unpark(&self) {
        self.token.store(true, Ordering::Release);
        match &self.waiter {
            Waiter::Worker(pool, worker) => pool.sleep.wake_for_business(*worker),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

impl Probe for Parker {
    fn probe(&self) -> bool {
        self.token.load(Ordering::Acquire)
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_parker_that_was_unparked_before_does_not_wait() {
        let parker = Parker::new();
        parker.unpark();
        parker.park();
        let unparker = Arc::clone(&parker);
        let thread = thread::spawn(move || unparker.unpark());
        parker.park();
        thread.join().unwrap();
        assert!(!parker.probe());
    }

    #[test]
    fn a_worker_serves_its_pool_while_it_waits() {
        let pool = crate::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| {
            let parker = Parker::new();
            let unparker = Arc::clone(&parker);
            crate::spawn(move || unparker.unpark());
            parker.park();
        });
    }

    #[test]
    #[should_panic(expected = "only on the thread that made it")]
    fn no_other_thread_waits_for_the_parker_of_a_worker() {
        let parker = thread::spawn(Parker::new).join().unwrap();
        parker.park();
    }
}
