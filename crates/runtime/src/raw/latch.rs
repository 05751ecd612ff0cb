//! Latches: a latch is set once, and one thread waits for it.
//!
//! The memory of a latch may be freed as soon as the latch is set, because the waiter may see that and end its frame.
//! So `set` takes a pointer, first copies the values that it needs, and sets the latch in its last access to the
//! latch.

#[cfg(all(test, loom))]
mod loom_tests;

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use comity_os::futex;
use comity_policy::WorkerId;

use super::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, Sleep};

/// A latch, which can be set once.
pub(crate) trait Latch {
    /// Sets the latch and wakes the waiter.
    ///
    /// # Safety
    /// `this` points to a live latch that has not been set. The latch may be gone when this returns.
    unsafe fn set(this: *const Self);
}

/// A latch for which a worker waits by reading it between two steals.
pub(crate) trait Probe {
    /// True if the latch is set. Then the caller also sees all that was written before it was set.
    fn probe(&self) -> bool;

    /// The worker that runs the job of the latch, if that is known.
    fn thief(&self) -> Option<WorkerId> {
        None
    }
}

/// The parts of a worker that jobs and latches use.
pub(crate) trait AsWorker {
    fn id(&self) -> WorkerId;

    /// The sleep protocol of the worker's pool.
    fn sleep(&self) -> &Sleep;

    /// Serves the pool until the latch is set.
    fn wait_until(&self, latch: &dyn Probe);
}

/// The parts of a waiting worker's pool that a latch uses.
pub(crate) trait AsPool: Send + Sync {
    fn sleep(&self) -> &Sleep;
}

/// The latch of a join's right half: one word, written once if no thief steals the half.
///
/// Its states are the owner's address, the thief's number (after a thief took the job), and at the end
/// [`JoinLatch::DONE`].
pub(crate) struct JoinLatch<W> {
    state: AtomicPtr<W>,
}

impl<W: AsWorker> JoinLatch<W> {
    const DONE: usize = 1;
    /// The state `2 * thief + STOLEN` means that `thief` has taken the half. It is odd, and an owner's address is
    /// even.
    const STOLEN: usize = 3;

    /// Returns the latch of `owner`'s join. Without an owner there is no join, and the latch is not used.
    #[inline(always)]
    pub(crate) fn new(owner: Option<&W>) -> JoinLatch<W> {
        JoinLatch { state: AtomicPtr::new(owner.map_or(ptr::null(), ptr::from_ref).cast_mut()) }
    }

    /// Records that `thief` has taken the job and runs it now. Returns the owner, a worker of the same pool.
    pub(crate) fn begin(&self, thief: &W) -> WorkerId {
        let owner = self.state.load(Ordering::Relaxed);
        let stolen = ptr::without_provenance_mut(2 * thief.id().index() + Self::STOLEN);
        self.state.store(stolen, Ordering::Relaxed);
        // SAFETY: no thief has begun before, so this is the address of the owner, which waits for this latch.
        unsafe { (*owner).id() }
    }

    /// Sets the latch, after `thief` has run the job of `owner`.
    ///
    /// # Safety
    /// `this` points to a live latch on which `thief` has begun. The latch may be gone when this returns.
    pub(crate) unsafe fn set(this: *const JoinLatch<W>, thief: &W, owner: WorkerId) {
        // SAFETY: the latch is live until its state is DONE.
        unsafe { (*this).state.store(ptr::without_provenance_mut(Self::DONE), Ordering::Release) }
        thief.sleep().wake_for_business(owner);
    }
}

impl<W: AsWorker> Probe for JoinLatch<W> {
    #[inline]
    fn probe(&self) -> bool {
        self.state.load(Ordering::Acquire).addr() == Self::DONE
    }

    /// The worker that runs the job, if a thief has begun it.
    fn thief(&self) -> Option<WorkerId> {
        let state = self.state.load(Ordering::Relaxed).addr();
        (state % 2 == 1 && state != Self::DONE).then(|| WorkerId(((state - Self::STOLEN) / 2) as u32))
    }
}

/// A latch for which a worker waits, and which a worker of the same pool sets.
pub(crate) struct WorkerLatch {
    done: AtomicBool,
    /// The sleep protocol of the waiter's pool. It lives as long as the setter, which is a worker of that pool.
    sleep: *const Sleep,
    waiter: WorkerId,
}

// SAFETY: `sleep` points into the pool's shared state, which is `Sync` and outlives both threads' use of the latch.
unsafe impl Sync for WorkerLatch {}
// SAFETY: as above.
unsafe impl Send for WorkerLatch {}

impl WorkerLatch {
    #[inline]
    pub(crate) fn new(sleep: &Sleep, waiter: WorkerId) -> WorkerLatch {
        WorkerLatch { done: AtomicBool::new(false), sleep, waiter }
    }
}

impl Latch for WorkerLatch {
    unsafe fn set(this: *const Self) {
        // SAFETY: `this` is live until `done` is set; the pool is kept alive by the setting worker.
        unsafe {
            let (sleep, waiter) = ((*this).sleep, (*this).waiter);
            (*this).done.store(true, Ordering::Release);
            (*sleep).wake_for_business(waiter);
        }
    }
}

impl Probe for WorkerLatch {
    #[inline]
    fn probe(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// A latch for which a worker waits. The setter need not belong to the waiter's pool, so the latch keeps that pool
/// alive.
pub(crate) struct CrossLatch<P> {
    done: AtomicBool,
    waiter: WorkerId,
    /// The waiter's pool.
    pool: Arc<P>,
}

impl<P> CrossLatch<P> {
    pub(crate) fn new(pool: Arc<P>, waiter: WorkerId) -> CrossLatch<P> {
        CrossLatch { done: AtomicBool::new(false), waiter, pool }
    }
}

impl<P: AsPool> Latch for CrossLatch<P> {
    unsafe fn set(this: *const Self) {
        // SAFETY: `this` is live until `done` is set; the clone keeps the waiter's pool alive beyond that.
        unsafe {
            let (pool, waiter) = (Arc::clone(&(*this).pool), (*this).waiter);
            (*this).done.store(true, Ordering::Release);
            pool.sleep().wake_for_business(waiter);
        }
    }
}

impl<P> Probe for CrossLatch<P> {
    fn probe(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// A latch for which a thread waits that is not a worker. The thread blocks.
#[derive(Default)]
pub(crate) struct ThreadLatch {
    /// 1 once set. The word is a real futex even in a loom model, because models have no threads outside of pools.
    done: AtomicU32,
}

impl ThreadLatch {
    pub(crate) fn wait(&self) {
        while self.done.load(Ordering::Acquire) == 0 {
            futex::wait(&self.done, 0, None);
        }
    }
}

impl Latch for ThreadLatch {
    unsafe fn set(this: *const Self) {
        // SAFETY: the latch is live until it is set.
        let done = unsafe { &raw const (*this).done };
        // SAFETY: as above.
        unsafe { (*done).store(1, Ordering::Release) };
        futex::wake_one_at(done);
    }
}

/// The waiter of a [`CountLatch`].
pub(crate) enum Waiter<P> {
    /// A worker of the pool in which the counted jobs run.
    Worker(WorkerLatch),
    /// A worker of another pool.
    OtherPool(CrossLatch<P>),
    /// A thread that is no worker.
    Thread(ThreadLatch),
}

/// A latch that is set when it has been counted down to zero.
pub(crate) struct CountLatch<P> {
    count: AtomicUsize,
    waiter: Waiter<P>,
}

impl<P> CountLatch<P> {
    pub(crate) fn new(count: usize, waiter: Waiter<P>) -> CountLatch<P> {
        CountLatch { count: AtomicUsize::new(count), waiter }
    }

    /// Waits until the count is zero. `worker` is this thread's worker, for which the waiter was made.
    pub(crate) fn wait(&self, worker: Option<&impl AsWorker>) {
        match (&self.waiter, worker) {
            (Waiter::Worker(latch), Some(worker)) => worker.wait_until(latch),
            (Waiter::OtherPool(latch), Some(worker)) => worker.wait_until(latch),
            (Waiter::Thread(latch), _) => latch.wait(),
            (Waiter::Worker(_) | Waiter::OtherPool(_), None) => unreachable!("made for a worker"),
        }
    }

    /// Increases the count by one. Only called while the count is above zero.
    pub(crate) fn increment(&self) {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(before > 0, "a latch that is set cannot be counted up");
    }
}

impl<P: AsPool> Latch for CountLatch<P> {
    /// Decreases the count by one.
    unsafe fn set(this: *const Self) {
        // SAFETY: the count is above zero, so the waiter still waits and the latch is live. When this decreases the
        // count to zero, no other thread touches the latch but the waiter, which waits for the inner latch.
        unsafe {
            if (*this).count.fetch_sub(1, Ordering::AcqRel) == 1 {
                match &(*this).waiter {
                    Waiter::Worker(latch) => WorkerLatch::set(latch),
                    Waiter::OtherPool(latch) => CrossLatch::set(latch),
                    Waiter::Thread(latch) => ThreadLatch::set(latch),
                }
            }
        }
    }
}

/// A reference with which a job of a group counts down the group's latch.
pub(crate) struct CountLatchRef<P>(pub(crate) *const CountLatch<P>);

// SAFETY: a `CountLatch` is `Sync`. It outlives the reference, because its waiter waits for the count of this
// reference.
unsafe impl<P: AsPool> Send for CountLatchRef<P> {}
// SAFETY: as above.
unsafe impl<P: AsPool> Sync for CountLatchRef<P> {}

impl<P: AsPool> Latch for CountLatchRef<P> {
    unsafe fn set(this: *const Self) {
        // SAFETY: see the type. The pointer is copied before the latch is counted down.
        unsafe { CountLatch::set((*this).0) }
    }
}
