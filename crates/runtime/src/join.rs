//! `join`: two halves, one of which others may take.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::pool::global;
use crate::raw::current;
use crate::raw::job::{Payload, StackJob};
use crate::raw::latch::WorkerLatch;
use crate::worker::Worker;

/// Runs both closures, potentially in parallel, and returns both results.
///
/// `b` is offered to other workers while this one runs `a`; if nobody took it, this one runs it too, by a direct call.
/// Outside of any pool, the global one is used.
///
/// # Panics
/// With the panic of `a` or `b`, after both have ended. If both panic, with that of `a`.
///
/// ```
/// let (a, b) = comity::join(|| 6 * 7, || "hello".len());
/// assert_eq!((a, b), (42, 5));
/// ```
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    current::with(|worker| match worker {
        Some(worker) => worker.join(a, b),
        None => global().install(|| join(a, b)),
    })
}

impl Worker {
    #[inline]
    fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let job_b = StackJob::new(b, WorkerLatch::new(&self.shared().sleep, self.id()));
        // SAFETY: the job stays in this frame until it was popped again or its latch is set, on every path.
        let offered = unsafe { job_b.as_job_ref() };
        self.push(offered);
        let result_a = match catch_unwind(AssertUnwindSafe(a)) {
            Ok(result) => result,
            Err(payload) => self.wait_and_resume(&job_b.latch, payload),
        };
        loop {
            match self.pop() {
                Some(job) if job == offered => return (result_a, job_b.run_inline()),
                // Something that `a` spawned and nobody took lies above.
                // SAFETY: it was just popped, so it runs once, and its owner waits for it.
                Some(job) => unsafe { job.execute() },
                None => {
                    self.wait_until(&job_b.latch);
                    return (result_a, job_b.into_result());
                }
            }
        }
    }

    /// The left half panicked: the right one borrows from the same frames, so it must end first.
    #[cold]
    fn wait_and_resume(&self, latch: &WorkerLatch, payload: Payload) -> ! {
        self.wait_until(latch);
        resume_unwind(payload)
    }
}
