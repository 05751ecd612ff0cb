//! `join`: runs two closures. A thief may take the second closure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::abort::drop_lost;
use crate::raw::deque::Popped;
use crate::raw::job::Payload;
use crate::workers::current;
use crate::workers::registry::{JoinJob, Worker};

/// Runs both closures, potentially in parallel, and returns both results.
///
/// Another worker may take `b` while the calling worker runs `a`. If no other worker took `b`, the calling worker
/// runs `b` too, by a direct call. Outside of any pool, uses the global pool.
///
/// # Panics
/// A panic of `a` or `b` is resumed after both have ended. If both panic, the panic of `a` is resumed.
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
///
/// ```
/// let (a, b) = comity::join(|| 6 * 7, || "hello".len());
/// assert_eq!((a, b), (42, 5));
/// ```
#[inline(always)]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    either(|_, _| a(), |_, _| b())
}

/// Joins on this thread's worker, else on a worker of the global pool. The second argument of a closure is true if
/// the closure runs on another thread than the caller's.
#[inline(always)]
fn either<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(&Worker, bool) -> RA + Send,
    B: FnOnce(&Worker, bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    current::with(|worker| {
        let job = JoinJob::new(worker, b);
        match worker {
            Some(worker) => worker.fork(a, &job),
            None => outside(a, &job),
        }
    })
}

/// Moves both halves of a join to the global pool, for a caller that is not a worker.
#[cold]
#[inline(never)]
fn outside<A, B, RA, RB>(a: A, job: &JoinJob<B, RB>) -> (RA, RB)
where
    A: FnOnce(&Worker, bool) -> RA + Send,
    B: FnOnce(&Worker, bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: no other thread has the job, and the job is not used any more.
    let b = unsafe { job.take() };
    on_worker(|worker| worker.join(|worker| a(worker, true), |worker| b(worker, true)))
}

/// Calls both closures like [`join`], and passes each closure a context that says if it runs on the calling thread.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
///
/// ```
/// let pool = comity::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
/// let (left, _) = pool.install(|| comity::join_context(|a| a.migrated(), |b| b.migrated()));
/// assert!(!left, "the left half stays");
/// ```
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    either(|_, migrated| a(FnContext { migrated }), |_, migrated| b(FnContext { migrated }))
}

/// The context of a closure of [`join_context`]: it tells if the closure runs on the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FnContext {
    migrated: bool,
}

impl FnContext {
    /// True if this thread is not the thread that called [`join_context`].
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Calls `f` with the worker of this thread. Outside of any pool, calls `f` on a worker of the global pool.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
///
/// ```
/// use comity::Worker;
///
/// fn fib(worker: &Worker, n: u32) -> u64 {
///     if n < 2 {
///         return n.into();
///     }
///     let (a, b) = worker.join(move |worker| fib(worker, n - 1), move |worker| fib(worker, n - 2));
///     a + b
/// }
///
/// assert_eq!(comity::on_worker(|worker| fib(worker, 20)), 6765);
/// ```
pub fn on_worker<F, R>(f: F) -> R
where
    F: FnOnce(&Worker) -> R + Send,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => f(worker),
        None => global().install(|| on_worker(f)),
    })
}

impl ThreadPool {
    /// Calls [`join`](crate::join) in this pool.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join(a, b))
    }
}

impl Worker {
    /// Joins like [`join`](crate::join()), and passes each closure the worker that runs it.
    ///
    /// # Panics
    /// See [`join`](crate::join()).
    #[inline(always)]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Worker) -> RA + Send,
        B: FnOnce(&Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.fork(|worker, _| a(worker), &JoinJob::new(Some(self), |worker, _| b(worker)))
    }

    /// The implementation of every join. `job` is new, holds the right half, and is used for nothing else.
    ///
    /// This function is never inlined. The compiler therefore inlines the closures into this function, with the
    /// base-case test of a recursive caller, so a leaf of the recursion needs no frame. The job is passed by
    /// reference, so that its closure is written at its final address. A copy would read 16 bytes at a time the data
    /// that was just written 8 bytes at a time, and would stall on the store buffer.
    #[inline(never)]
    fn fork<A, F, RA, RB>(&self, a: A, job: &JoinJob<F, RB>) -> (RA, RB)
    where
        A: FnOnce(&Worker, bool) -> RA + Send,
        F: FnOnce(&Worker, bool) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let deque = &self.peer.deque;
        // SAFETY: this thread is the owner. On every path this frame pops the job before the frame ends. If a thief
        // has the job, the frame waits for the thief.
        let index = unsafe { deque.push(job.header()) };
        if deque.calls(index) {
            self.answer_bell();
        }
        let result_a = match catch_unwind(AssertUnwindSafe(|| a(self, false))) {
            Ok(result) => result,
            Err(payload) => self.after_panic(job, index, payload),
        };
        // SAFETY: this thread is the owner, and `index` is from the newest push that is not popped: `a` has popped
        // all jobs that it pushed.
        match unsafe { deque.pop(index) } {
            // SAFETY: the job belongs to this frame again.
            Popped::Back => (result_a, unsafe { job.run_inline(self) }),
            Popped::Stolen => {
                self.wait_for_thief(&job.latch);
                // SAFETY: the latch is set.
                (result_a, unsafe { job.result() })
            }
        }
    }

    /// Called after the left half has panicked. Ends the right half and then resumes the panic, because the right
    /// half borrows from the frames that the panic unwinds. A panic of the right half is lost.
    #[cold]
    #[inline(never)]
    fn after_panic<F, R>(&self, job: &JoinJob<F, R>, index: usize, payload: Payload) -> !
    where
        F: FnOnce(&Worker, bool) -> R + Send,
        R: Send,
    {
        // SAFETY: this thread is the owner, and `index` is from the newest push that is not popped: the panic has
        // unwound all frames that pushed later, and each popped its job.
        let lost = match unsafe { self.peer.deque.pop(index) } {
            // SAFETY: the job belongs to this frame again.
            Popped::Back => catch_unwind(AssertUnwindSafe(|| unsafe { job.run_inline(self) })),
            Popped::Stolen => {
                self.wait_for_thief(&job.latch);
                // SAFETY: the latch is set.
                unsafe { job.outcome() }
            }
        };
        drop_lost(lost);
        resume_unwind(payload)
    }
}
