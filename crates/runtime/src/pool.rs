//! The handle of a pool, and the global one.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use comity_policy::Policy;

use crate::broadcast::BroadcastContext;
use crate::builder::{BuildError, ThreadPoolBuilder};
use crate::counters::WorkerCounters;
use crate::raw::current;
use crate::scope::Scope;
use crate::shared::Shared;

/// A pool of workers under one policy.
///
/// Dropping the handle ends the pool: its workers run what was spawned and end, without the dropping thread waiting for
/// them. [`ThreadPool::shutdown`] waits.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    pub(crate) fn new(shared: Arc<Shared>, threads: Vec<JoinHandle<()>>) -> ThreadPool {
        ThreadPool { shared, threads }
    }

    /// Runs `task` on a worker of this pool and returns its result. [`join`](crate::join), [`scope`](crate::scope) and
    /// the others use this pool when called from within. A worker of another pool serves its own pool while it waits.
    ///
    /// # Panics
    /// With the panic of `task`.
    pub fn install<F, R>(&self, task: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.shared.run(task)
    }

    /// [`join`](crate::join) in this pool.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| crate::join(a, b))
    }

    /// [`scope`](crate::scope) in this pool.
    pub fn scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| crate::scope(body))
    }

    /// [`spawn`](crate::spawn) into this pool.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.spawn(task);
    }

    /// [`broadcast`](crate::broadcast) to this pool.
    pub fn broadcast<F, R>(&self, op: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.shared.broadcast(&op)
    }

    /// The number of workers. Constant.
    pub fn current_num_threads(&self) -> usize {
        usize::from(self.shared.workers())
    }

    /// This thread's index in this pool, if it is one of its workers.
    pub fn current_thread_index(&self) -> Option<usize> {
        current::with(|worker| {
            let worker = worker.filter(|worker| Arc::ptr_eq(worker.shared(), &self.shared))?;
            Some(worker.id().index())
        })
    }

    /// The policy that the pool was built with.
    pub fn policy(&self) -> Policy {
        self.shared.policy
    }

    /// What each worker has done so far, by index.
    pub fn counters(&self) -> Vec<WorkerCounters> {
        self.shared.peers.iter().map(|peer| peer.counters.read()).collect()
    }

    /// Ends the pool and waits until its threads have ended.
    ///
    /// # Panics
    /// If called by a worker of this pool, which would wait for itself; or if a worker's start or exit handler
    /// panicked.
    pub fn shutdown(mut self) {
        assert!(self.current_thread_index().is_none(), "a pool cannot be shut down by one of its own workers");
        let threads = std::mem::take(&mut self.threads);
        drop(self);
        for thread in threads {
            thread.join().expect("a worker's start or exit handler panicked");
        }
    }
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.drop_reason_to_run();
    }
}

/// The pool of the free functions outside of any other, built at first use.
///
/// # Panics
/// If it cannot be built: the sentence says why.
pub(crate) fn global() -> &'static ThreadPool {
    GLOBAL.get_or_init(|| match ThreadPoolBuilder::new().build() {
        Ok(pool) => pool,
        Err(error) => panic!("the global pool cannot be built: {error}"),
    })
}

static GLOBAL: OnceLock<ThreadPool> = OnceLock::new();

/// Builds the global pool as `builder` says.
pub(crate) fn build_global(builder: ThreadPoolBuilder) -> Result<(), BuildError> {
    if GLOBAL.get().is_some() {
        return Err(BuildError::GlobalPoolExists);
    }
    GLOBAL.set(builder.build()?).map_err(|_| BuildError::GlobalPoolExists)
}

/// The number of workers of the current pool, or of the global one outside of any.
pub fn current_num_threads() -> usize {
    current::with(|worker| match worker {
        Some(worker) => usize::from(worker.shared().workers()),
        None => global().current_num_threads(),
    })
}

/// This thread's index in its pool, from 0; `None` outside of any.
pub fn current_thread_index() -> Option<usize> {
    current::with(|worker| Some(worker?.id().index()))
}
