//! Work that a pool runs whenever it is ready to go on.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};

use comity_policy::WorkerId;

use super::current;
use super::inbox::{Linked, LinkedRef};
use super::job::Header;
use crate::global::global;
use crate::pool::ThreadPool;
use crate::shared::{AbortOnDrop, Shared};
use crate::worker::Worker;

/// `Resumable::last` before it has run.
const NOWHERE: u32 = u32::MAX;

/// What an executor puts into a pool: work that runs for a while, blocks, and runs again when something has unblocked it.
///
/// The pool runs [`resume`](Resume::resume) once for each time that the work was [queued](Resumable::unblock), on any worker,
/// and possibly on several at once: an executor queues it again only when it blocks.
pub trait Resume: Send + Sync + Sized + 'static {
    /// Goes on until the work blocks or ends. Must not unwind: the process would abort.
    fn resume(this: &Arc<Resumable<Self>>);

    /// What the work waited for has come, says a waker, on any thread. True: the work is to be queued.
    fn wake(&self) -> bool;
}

/// A `T` that a pool can run whenever it is ready. It keeps its pool running until it is [done](Resumable::done) or dropped, and
/// can be made a [`Waker`](std::task::Waker).
#[repr(C, align(64))]
pub struct Resumable<T> {
    linked: Linked,
    /// The worker that it last ran on, for the policy's place.
    last: AtomicU32,
    /// Whether it keeps the pool running.
    unfinished: AtomicBool,
    pool: Arc<Shared>,
    body: T,
}

impl<T: Resume> Resumable<T> {
    /// Work for the pool that this thread is a worker of, or for the global one.
    pub fn new(body: T) -> Arc<Resumable<T>> {
        current::with(|worker| match worker {
            Some(worker) => Resumable::of(worker.shared(), body),
            None => Resumable::new_in(global(), body),
        })
    }

    /// Work for this pool.
    ///
    /// # Panics
    /// In a process that was forked from the pool's.
    pub fn new_in(pool: &ThreadPool, body: T) -> Arc<Resumable<T>> {
        Resumable::of(pool.shared(), body)
    }

    fn of(pool: &Arc<Shared>, body: T) -> Arc<Resumable<T>> {
        pool.assert_of_this_process();
        pool.add_reason_to_run();
        Arc::new(Resumable {
            linked: Linked::new(Header::new(Self::execute)),
            last: AtomicU32::new(NOWHERE),
            unfinished: AtomicBool::new(true),
            pool: Arc::clone(pool),
            body,
        })
    }

    /// Queues the work, where the policy places what the caller has unblocked. In a process that was forked from the pool's this is without
    /// effect, for nobody would ever run it.
    pub fn unblock(self: Arc<Self>) {
        if !self.pool.is_of_this_process() {
            return;
        }
        let last = Some(self.last.load(Ordering::Relaxed)).filter(|last| *last != NOWHERE).map(WorkerId);
        let pool = Arc::clone(&self.pool);
        pool.place(self.into_job(), last);
    }

    /// Queues the work behind all others, which may run first.
    pub fn give_way(self: Arc<Self>) {
        if !self.pool.is_of_this_process() {
            return;
        }
        let pool = Arc::clone(&self.pool);
        pool.queue_last(self.into_job());
    }

    /// A waker of this work, for as long as the work is held here.
    pub fn waker(self: &Arc<Self>) -> BorrowedWaker<'_, Self> {
        // SAFETY: this is not counted, and never dropped; `self` is, and outlives it.
        let uncounted = unsafe { Arc::from_raw(Arc::as_ptr(self)) };
        BorrowedWaker { waker: ManuallyDrop::new(Waker::from(uncounted)), of: PhantomData }
    }

    /// The work has ended, and keeps the pool running no longer.
    pub fn done(&self) {
        if self.unfinished.swap(false, Ordering::Relaxed) {
            self.pool.drop_reason_to_run();
        }
    }

    /// Reports a panic of this work that nobody will hear of to the pool's panic handler; without one, the process aborts.
    pub fn report_panic(&self, payload: Box<dyn std::any::Any + Send>) {
        self.pool.catch_panic(
            || std::panic::resume_unwind(payload),
            "a task that nobody waits for panicked, and the pool has no panic handler",
        );
    }

    fn into_job(self: Arc<Self>) -> LinkedRef {
        let this = NonNull::new(Arc::into_raw(self).cast_mut()).expect("an Arc is never null");
        // SAFETY: the reference counts as one to the `Resumable`, which begins with what a `LinkedRef` points to.
        unsafe { LinkedRef::new(this.cast()) }
    }

    /// # Safety
    /// `header` is that of a `Resumable` of this type from `into_job`, each executed once.
    unsafe fn execute(header: NonNull<Header>, worker: &Worker) {
        // SAFETY: the pointer came from `Arc::into_raw` of this type, which the header is at the beginning of, and is turned back once.
        let this = unsafe { Arc::from_raw(header.as_ptr().cast_const().cast::<Self>()) };
        this.last.store(worker.id().0, Ordering::Relaxed);
        let abort = AbortOnDrop("a task's executor panicked");
        T::resume(&this);
        drop(this);
        std::mem::forget(abort);
    }
}

impl<T: Resume> Wake for Resumable<T> {
    fn wake(self: Arc<Self>) {
        if self.body.wake() {
            self.unblock();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.body.wake() {
            Arc::clone(self).unblock();
        }
    }
}

/// The waker of work that somebody holds: it is none of those that are counted.
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

impl<T> Deref for Resumable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}

impl<T> Drop for Resumable<T> {
    fn drop(&mut self) {
        if *self.unfinished.get_mut() {
            self.pool.drop_reason_to_run();
        }
    }
}
