//! What a thread waits for again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};

use comity_policy::WorkerId;

use crate::raw::latch::Probe;
use crate::workers::current;
use crate::workers::registry::Registry;

/// Raised by any thread, waited for by the one that made it: what `block_on` sleeps on. It can be made a
/// [`Waker`](std::task::Waker).
pub struct Signal {
    raised: AtomicBool,
    waiter: Waiter,
}

enum Waiter {
    Worker(Arc<Registry>, WorkerId),
    Thread(Thread),
}

impl Signal {
    /// A signal for this thread to wait for.
    pub fn new() -> Arc<Signal> {
        let waiter = current::with(|worker| match worker {
            Some(worker) => Waiter::Worker(Arc::clone(worker.registry()), worker.id()),
            None => Waiter::Thread(thread::current()),
        });
        Arc::new(Signal { raised: AtomicBool::new(false), waiter })
    }

    /// Waits until the signal is raised, and takes it down. A worker of a pool serves its pool meanwhile.
    ///
    /// # Panics
    /// On any thread but that which made the signal.
    pub fn wait(&self) {
        match &self.waiter {
            Waiter::Worker(pool, id) => current::with(|worker| {
                let is_maker = |worker: &&crate::Worker| Arc::ptr_eq(worker.registry(), pool) && worker.id() == *id;
                let worker = worker.filter(is_maker).expect("a signal is waited for by the thread that made it");
                worker.wait_for_anything(self);
            }),
            Waiter::Thread(thread) => {
                assert_eq!(thread.id(), thread::current().id(), "a signal is waited for by the thread that made it");
                while !self.probe() {
                    thread::park();
                }
            }
        }
        // Not a store: if it was raised again meanwhile, what follows must see what was written before that.
        self.raised.swap(false, Ordering::Acquire);
    }

    /// Raises the signal, and wakes whoever waits for it.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        match &self.waiter {
            Waiter::Worker(pool, worker) => pool.sleep.wake_for_business(*worker),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }
}

impl Probe for Signal {
    fn probe(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_raised_before_is_not_waited_for() {
        let signal = Signal::new();
        signal.raise();
        signal.wait();
        let raiser = Arc::clone(&signal);
        let thread = thread::spawn(move || raiser.raise());
        signal.wait();
        thread.join().unwrap();
        assert!(!signal.probe());
    }

    #[test]
    fn a_worker_serves_its_pool_while_it_waits() {
        let pool = crate::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| {
            let signal = Signal::new();
            let raiser = Arc::clone(&signal);
            crate::spawn(move || raiser.raise());
            signal.wait();
        });
    }

    #[test]
    #[should_panic(expected = "waited for by the thread that made it")]
    fn nobody_else_waits_for_it() {
        let signal = thread::spawn(Signal::new).join().unwrap();
        signal.wait();
    }
}
