//! `broadcast`: calls the same closure once on every worker.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::latch::CountLatchRef;
use crate::workers::current;
use crate::workers::registry::{CountLatch, Registry, StackJob, Worker};

/// The index of one call in a broadcast, and the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastContext {
    index: usize,
    num_threads: usize,
}

impl BroadcastContext {
    /// The worker's index in its pool, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of workers of the pool, which is also the number of calls.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// Calls `op` once on every worker of the current pool, and returns the results in the order of the workers. Outside
/// of any pool, uses the global pool. A worker calls `op` between two tasks, so a worker in a long task delays the
/// broadcast.
///
/// # Panics
/// A panic of `op` is resumed after all calls have ended. If several calls panic, the panic of the worker with the
/// lowest index is resumed.
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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

/// Makes every worker of the current pool call `op` once, and returns without waiting for the calls. Outside of any
/// pool, uses the global pool.
///
/// The pool ends only after all calls have ended. A panic of a call goes to the pool's panic handler. Without a panic
/// handler, the process aborts.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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
    /// Calls `op` once on every worker of this pool, like [`broadcast`](crate::broadcast).
    pub fn broadcast<F, R>(&self, op: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.registry().broadcast(&op)
    }

    /// Makes every worker of this pool call `op` once, without waiting, like
    /// [`spawn_broadcast`](crate::spawn_broadcast).
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(BroadcastContext) + Send + Sync + 'static,
    {
        self.registry().spawn_broadcast(op);
    }
}

impl Registry {
    /// Returns one context for each worker.
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
            // SAFETY: the jobs stay in place until the latch has counted all of them down.
            self.deliver(jobs.iter().map(|job| unsafe { job.as_job_ref() }));
            latch.wait(worker);
            // All outcomes are taken before the first panic is resumed, so that no result is lost.
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
        // All jobs are created before the first one runs. Otherwise the pool could end after the first job: each job
        // that has not ended keeps the pool running.
        let jobs: Vec<_> = self.contexts().filter_map(job).collect();
        self.deliver(jobs.into_iter());
    }
}
