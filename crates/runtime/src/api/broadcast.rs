//! `broadcast`: the same closure once on every worker.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::latch::CountLatchRef;
use crate::workers::current;
use crate::workers::registry::{CountLatch, Registry, StackJob, Worker};

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
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn broadcast<F, R>(op: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => worker.registry().broadcast(&op),
        None => global().broadcast(op),
    })
}

/// Calls `op` some time once on every worker of the current pool, or of the global one outside of any, and does not
/// wait.
///
/// A pool ends only after all these calls. One that panics reports to the pool's panic handler; without one, the
/// process aborts.
///
/// # Panics
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn spawn_broadcast<F>(op: F)
where
    F: Fn(BroadcastContext) + Send + Sync + 'static,
{
    current::with(|worker| match worker {
        Some(worker) => worker.registry().spawn_broadcast(op),
        None => global().spawn_broadcast(op),
    });
}

impl ThreadPool {
    /// [`broadcast`](crate::broadcast) to this pool.
    pub fn broadcast<F, R>(&self, op: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.registry().broadcast(&op)
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast) to this pool.
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(BroadcastContext) + Send + Sync + 'static,
    {
        self.registry().spawn_broadcast(op);
    }
}

impl Registry {
    /// One context for each worker.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = BroadcastContext> + use<> {
        let num_threads = self.workers() as usize;
        (0..num_threads).map(move |index| BroadcastContext { index, num_threads })
    }

    pub(crate) fn broadcast<F, R>(self: &Arc<Self>, op: &F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        current::with(|worker| {
            let latch = CountLatch::new(self.workers() as usize, Worker::waiter(worker, self));
            let job = |context| StackJob::new(move || op(context), CountLatchRef(&latch));
            let mut jobs: Vec<_> = self.contexts().map(job).collect();
            // SAFETY: the jobs stay where they are until the latch has counted all of them down.
            self.deliver(jobs.iter().map(|job| unsafe { job.as_job_ref() }));
            latch.wait(worker);
            // All outcomes are taken before the first panic goes on: no result is lost on the way.
            let outcomes: Vec<_> = jobs.iter_mut().map(StackJob::outcome).collect();
            outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload))).collect()
        })
    }

    pub(crate) fn spawn_broadcast(&self, op: impl Fn(BroadcastContext) + Send + Sync + 'static) {
        let op = Arc::new(op);
        let job = |context| {
            let op = Arc::clone(&op);
            self.reason_to_run(move || op(context))
        };
        // All are made before one runs, so that none of them is the pool's last.
        let jobs: Vec<_> = self.contexts().filter_map(job).collect();
        self.deliver(jobs.into_iter());
    }
}
