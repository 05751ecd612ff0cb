//! Work that can block, and that a pool runs each time it is ready to continue.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};

use comity_policy::WorkerId;

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::abort::AbortOnDrop;
use crate::workers::current;
use crate::workers::registry::{Header, Linked, LinkedRef, Registry, Worker};

/// The value of `Runnable::last` before the work has run.
const NOWHERE: u32 = u32::MAX;

/// The work of an executor: it runs until it blocks, and runs again after another thread or task has unblocked it.
///
/// The pool calls [`resume`](Resume::resume) after the work was [queued](Runnable::schedule), on any worker. Work
/// that is queued twice before it runs, runs once. Work that is queued while it runs may run on two workers at once.
/// To prevent that, an executor queues the work only while the work is blocked.
pub trait Resume: Send + Sync + Sized + 'static {
    /// Runs the work until it blocks or ends. Must not unwind: the process would abort.
    fn resume(this: &Arc<Runnable<Self>>);

    /// Called by a waker, on any thread, when the event for which the work waited has happened. Returns true if the
    /// work must be queued.
    fn wake(&self) -> bool;
}

/// A `T` that a pool runs each time it is [queued](Runnable::schedule). It keeps its pool running until it is
/// [done](Runnable::done) or dropped. An `Arc<Runnable<T>>` can be converted into a [`Waker`](std::task::Waker).
#[repr(C, align(64))]
pub struct Runnable<T> {
    linked: Linked,
    /// The worker on which the work last ran, for the policy's [`Place`](comity_policy::Place).
    last: AtomicU32,
    /// True if the work is in a queue: an inbox can hold it only once.
    queued: AtomicBool,
    /// True if the work keeps the pool running.
    unfinished: AtomicBool,
    pool: Arc<Registry>,
    body: ManuallyDrop<T>,
}

impl<T: Resume> Runnable<T> {
    /// Creates work for the pool of this thread's worker, or for the global pool.
    ///
    /// # Panics
    /// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
    pub fn new(body: T) -> Arc<Runnable<T>> {
        current::with(|worker| match worker {
            Some(worker) => Runnable::of(worker.registry(), body),
            None => Runnable::new_in(global(), body),
        })
    }

    /// Creates work for `pool`.
    ///
    /// # Panics
    /// If this process was forked from the pool's process.
    pub fn new_in(pool: &ThreadPool, body: T) -> Arc<Runnable<T>> {
        Runnable::of(pool.registry(), body)
    }

    fn of(pool: &Arc<Registry>, body: T) -> Arc<Runnable<T>> {
        pool.assert_of_this_process();
        pool.add_reason_to_run().expect("a task cannot be spawned into a pool that has ended");
        Arc::new(Runnable {
            linked: Linked::new(Header::new(Self::execute)),
            last: AtomicU32::new(NOWHERE),
            queued: AtomicBool::new(false),
            unfinished: AtomicBool::new(true),
            pool: Arc::clone(pool),
            body: ManuallyDrop::new(body),
        })
    }

    /// Queues the work in the queue that the policy chooses for a task that the caller has unblocked. Does nothing if
    /// the work is queued already. Does nothing in a process that was forked from the pool's process, where no worker
    /// would run the work.
    pub fn schedule(self: Arc<Self>) {
        if !self.is_to_be_queued() {
            return;
        }
        let last = Some(self.last.load(Ordering::Relaxed)).filter(|last| *last != NOWHERE).map(WorkerId);
        let pool = Arc::clone(&self.pool);
        pool.place(self.into_job(), last);
    }

    /// Queues the work so that other tasks run first. Does nothing if the work is queued already.
    pub fn give_way(self: Arc<Self>) {
        if !self.is_to_be_queued() {
            return;
        }
        let pool = Arc::clone(&self.pool);
        pool.queue_last(self.into_job());
    }

    fn is_to_be_queued(&self) -> bool {
        // If two threads queue the work at once, it runs once, and that run sees the earlier writes of both threads.
        self.pool.is_of_this_process() && !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Returns a waker of this work, which borrows the work.
    pub fn waker(self: &Arc<Self>) -> BorrowedWaker<'_, Self> {
        // SAFETY: this reference is not counted and never dropped. `self` is counted, and outlives it.
        let uncounted = unsafe { Arc::from_raw(Arc::as_ptr(self)) };
        BorrowedWaker { waker: ManuallyDrop::new(Waker::from(uncounted)), of: PhantomData }
    }

    /// Called when the work has ended: it no longer keeps the pool running.
    pub fn done(&self) {
        if self.unfinished.swap(false, Ordering::Relaxed) && self.pool.is_of_this_process() {
            self.pool.drop_reason_to_run();
        }
    }

    /// Gives a panic of this work that no caller receives to the pool's panic handler. Without a panic handler, the
    /// process aborts.
    pub fn report_panic(&self, payload: Box<dyn std::any::Any + Send>) {
        self.pool.catch_panic(
            || std::panic::resume_unwind(payload),
            "a detached task panicked, and the pool has no panic handler",
        );
    }

    fn into_job(self: Arc<Self>) -> LinkedRef {
        let this = NonNull::new(Arc::into_raw(self).cast_mut()).expect("an Arc is never null");
        // SAFETY: `this` owns a counted reference to the `Runnable`, and the first field of a `Runnable` is the
        // `Linked` to which a `LinkedRef` points.
        unsafe { LinkedRef::new(this.cast()) }
    }

    /// # Safety
    /// `header` is the header of a `Runnable` of this type, from `into_job`. Each result of `into_job` is executed
    /// once.
    unsafe fn execute(header: NonNull<Header>, worker: &Worker) {
        // SAFETY: the pointer came from `Arc::into_raw` of this type, whose first field is the header. It is turned
        // back once.
        let this = unsafe { Arc::from_raw(header.as_ptr().cast_const().cast::<Self>()) };
        this.last.store(worker.id().0, Ordering::Relaxed);
        worker.own().turn.needed.set(true);
        // From here on the work may be queued again. This run sees the writes of a thread that called `schedule`
        // before, and found the work already queued.
        this.queued.swap(false, Ordering::AcqRel);
        let abort = AbortOnDrop("a task's executor panicked");
        T::resume(&this);
        drop(this);
        std::mem::forget(abort);
    }
}

impl<T: Resume> Wake for Runnable<T> {
    fn wake(self: Arc<Self>) {
        if self.body.wake() {
            self.schedule();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.body.wake() {
            Arc::clone(self).schedule();
        }
    }
}

/// A waker that borrows the work from its caller, and is not counted as a reference.
pub struct BorrowedWaker<'a, T> {
    waker: ManuallyDrop<Waker>,
    of: PhantomData<&'a Arc<T>>,
}

impl<T> Deref for BorrowedWaker<'_, T> {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.waker
    }
}

impl<T> Deref for Runnable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}

impl<T> Drop for Runnable<T> {
    fn drop(&mut self) {
        let body = &mut self.body;
        // SAFETY: the body is not used afterwards. A future may panic when it is dropped, on any thread, and no
        // caller would learn of that.
        let dropped = || unsafe { ManuallyDrop::drop(body) };
        self.pool.catch_panic(
            dropped,
            "a task without a waker panicked when it was dropped, and the pool has no panic handler",
        );
        if *self.unfinished.get_mut() && self.pool.is_of_this_process() {
            self.pool.drop_reason_to_run();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Barrier, mpsc};

    use super::*;
    use crate::ThreadPoolBuilder;

    struct Counts(AtomicUsize, mpsc::Sender<()>);

    impl Resume for Counts {
        fn resume(this: &Arc<Runnable<Counts>>) {
            this.0.fetch_add(1, Ordering::Relaxed);
            let _ = this.1.send(());
        }

        fn wake(&self) -> bool {
            true
        }
    }

    /// Work must not be in an inbox twice, because it has only one link.
    #[test]
    fn work_that_is_woken_twice_before_its_turn_runs_once() {
        for policy in ["ws-last", "comity", "bws:place=last"] {
            let pool = ThreadPoolBuilder::new().num_threads(2).policy(policy.parse().unwrap()).build().unwrap();
            let (ran, runs) = mpsc::channel();
            let work = Runnable::new_in(&pool, Counts(AtomicUsize::new(0), ran));
            Arc::clone(&work).schedule();
            runs.recv().unwrap();
            let barrier = Arc::new(Barrier::new(3));
            let held = Arc::clone(&barrier);
            // Both workers are kept busy, so neither runs the work yet.
            pool.spawn_broadcast(move |_| {
                held.wait();
                held.wait();
            });
            barrier.wait();
            let waker = Waker::from(Arc::clone(&work));
            waker.wake_by_ref();
            waker.wake();
            Arc::clone(&work).give_way();
            barrier.wait();
            runs.recv().unwrap();
            work.done();
            let rest = Arc::downgrade(&work);
            drop(work);
            pool.shutdown();
            assert_eq!(runs.try_iter().count(), 0, "{policy}");
            assert!(rest.upgrade().is_none(), "{policy}: no queue holds it any more");
        }
    }
}
