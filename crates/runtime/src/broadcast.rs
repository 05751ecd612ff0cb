//! `broadcast`: the same closure once on every worker.

use std::panic::resume_unwind;
use std::sync::Arc;

use comity_policy::WorkerId;

use crate::pool::global;
use crate::raw::current;
use crate::raw::job::StackJob;
use crate::raw::latch::{CountLatch, CountLatchRef, CrossLatch, LockLatch, Waiter, WorkerLatch};
use crate::shared::Shared;

/// Which of how many a broadcast's call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastContext {
    index: usize,
    num_threads: usize,
}

impl BroadcastContext {
    /// The worker's index, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of workers, and so of calls.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// Calls `op` once on every worker of the current pool, or of the global one outside of any, and returns the results
/// by worker. Each worker does so between two tasks: one that is busy answers late.
///
/// # Panics
/// With a panic of `op`, after all calls have ended; of several, with that of the lowest index.
pub fn broadcast<F, R>(op: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => worker.shared().broadcast(&op),
        None => global().broadcast(op),
    })
}

impl Shared {
    pub(crate) fn broadcast<F, R>(self: &Arc<Self>, op: &F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        let num_threads = usize::from(self.workers());
        current::with(|worker| {
            let waiter = match worker {
                Some(worker) if Arc::ptr_eq(worker.shared(), self) => {
                    Waiter::Worker(WorkerLatch::new(&self.sleep, worker.id()))
                }
                Some(worker) => Waiter::OtherPool(CrossLatch::new(Arc::clone(worker.shared()), worker.id())),
                None => Waiter::Thread(LockLatch::default()),
            };
            let latch = CountLatch::new(num_threads, waiter);
            let jobs: Vec<_> = (0..num_threads)
                .map(|index| {
                    let context = BroadcastContext { index, num_threads };
                    StackJob::new(move || op(context), CountLatchRef(&latch))
                })
                .collect();
            for (index, job) in jobs.iter().enumerate() {
                // SAFETY: the jobs stay where they are until the latch has counted all of them down.
                self.deliver(WorkerId(index as u16), unsafe { job.as_job_ref() });
            }
            match (&latch.waiter, worker) {
                (Waiter::Worker(latch), Some(worker)) => worker.wait_until(latch),
                (Waiter::OtherPool(latch), Some(worker)) => worker.wait_until(latch),
                (Waiter::Thread(latch), _) => latch.wait(),
                (Waiter::Worker(_) | Waiter::OtherPool(_), None) => unreachable!("made for a worker above"),
            }
            // All outcomes are taken before the first panic goes on: no result is lost on the way.
            let outcomes: Vec<_> = jobs.into_iter().map(StackJob::into_outcome).collect();
            outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload))).collect()
        })
    }
}
