//! `join`: two halves, one of which others may take.

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
/// `b` is offered to other workers while this one runs `a`; if no worker took it, this one runs it too, by a direct
/// call. Outside of any pool, the global one is used.
///
/// # Panics
/// With the panic of `a` or `b`, after both have ended. If both panic, with that of `a`.
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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

/// A join on this thread's worker, or else on one of the global pool.
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

/// A caller from outside sees both halves move to the pool.
#[cold]
#[inline(never)]
fn outside<A, B, RA, RB>(a: A, job: &JoinJob<B, RB>) -> (RA, RB)
where
    A: FnOnce(&Worker, bool) -> RA + Send,
    B: FnOnce(&Worker, bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: no other thread has the job, and it is used no more.
    let b = unsafe { job.take() };
    on_worker(|worker| worker.join(|worker| a(worker, true), |worker| b(worker, true)))
}

/// [`join`], with closures that are told whether they run on another worker than the one that called.
///
/// # Panics
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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

/// Where a closure of [`join_context`] runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FnContext {
    migrated: bool,
}

impl FnContext {
    /// Whether this is another thread than the one that called [`join_context`].
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Calls `f` with the worker that runs on this thread; outside of any pool, on one of the global pool.
///
/// # Panics
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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
    /// [`join`](crate::join) in this pool.
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
    /// [`join`](crate::join()), with the worker passed along: each closure gets the one that runs it.
    ///
    /// # Panics
    /// As [`join`](crate::join()).
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

    /// The one join. `job` is new, has the right half, and is used for nothing else.
    ///
    /// Never inlined. So the compiler inlines the closures into it, and a recursive caller's test for its leaves with
    /// them, and no frame is made for a leaf. The job comes by reference, so that its closure is written where it
    /// stays. A copy of it would read by 16 bytes what was just written by 8, and wait for the store buffer.
    #[inline(never)]
    fn fork<A, F, RA, RB>(&self, a: A, job: &JoinJob<F, RB>) -> (RA, RB)
    where
        A: FnOnce(&Worker, bool) -> RA + Send,
        F: FnOnce(&Worker, bool) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let deque = &self.peer.deque;
        // SAFETY: the owner; on every path the job is popped before this frame ends, and if a thief has it, waited for.
        let index = unsafe { deque.push(job.header()) };
        if deque.calls(index) {
            self.answer_bell();
        }
        let result_a = match catch_unwind(AssertUnwindSafe(|| a(self, false))) {
            Ok(result) => result,
            Err(payload) => self.after_panic(job, index, payload),
        };
        // SAFETY: the owner, with the last push of this frame; `a` has popped all that it pushed.
        match unsafe { deque.pop(index) } {
            // SAFETY: the job is this frame's again.
            Popped::Back => (result_a, unsafe { job.run_inline(self) }),
            Popped::Stolen => {
                self.wait_for_thief(&job.latch);
                // SAFETY: the latch is set.
                (result_a, unsafe { job.result() })
            }
        }
    }

    /// The left half panicked: the right one borrows from the same frames, so it must end first. Its panic is lost.
    #[cold]
    #[inline(never)]
    fn after_panic<F, R>(&self, job: &JoinJob<F, R>, index: usize, payload: Payload) -> !
    where
        F: FnOnce(&Worker, bool) -> R + Send,
        R: Send,
    {
        // SAFETY: the owner, with the last push of this frame; what was pushed after it was popped as the panic went
        // by.
        let lost = match unsafe { self.peer.deque.pop(index) } {
            // SAFETY: the job is this frame's again.
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
