//! The handle of a pool.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use comity_policy::Policy;

use crate::watching::counters::WorkerCounters;
use crate::workers::current;
use crate::workers::registry::{Registry, Worker};
use crate::workers::worker::Yield;

/// A pool of workers that follow one policy. This is the pool's handle.
///
/// Dropping the handle ends the pool: its workers run all spawned tasks, and then end. The thread that drops the
/// handle does not wait for them. [`ThreadPool::shutdown`] waits.
pub struct ThreadPool {
    registry: Arc<Registry>,
    threads: Vec<JoinHandle<()>>,
    /// The stack size that the pool was built with. A forked child builds its global pool with it.
    pub(crate) stack_size: Option<usize>,
    /// True if the pool was built with [`breadth_first`](crate::ThreadPoolBuilder::breadth_first). A forked child
    /// builds its global pool with it.
    pub(crate) breadth_first: bool,
}

impl ThreadPool {
    pub(crate) fn new(registry: Arc<Registry>, stack_size: Option<usize>, breadth_first: bool) -> ThreadPool {
        ThreadPool { registry, threads: Vec::new(), stack_size, breadth_first }
    }

    /// Stores the threads for which [`ThreadPool::shutdown`] waits in the handle.
    pub(crate) fn with_threads(mut self, threads: Vec<JoinHandle<()>>) -> ThreadPool {
        self.threads = threads;
        self
    }

    /// Waits until every worker has a thread that runs.
    pub(crate) fn wait_until_started(&self) {
        self.registry.wait_until_started();
    }

    /// Runs `task` on a worker of this pool and returns its result. In `task`, [`join`](crate::join),
    /// [`scope`](crate::scope) and the other free functions use this pool. If the caller is a worker of another pool,
    /// it runs tasks of its own pool while it waits.
    ///
    /// # Panics
    /// A panic of `task` is resumed in the caller.
    pub fn install<F, R>(&self, task: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.registry.run(task)
    }

    /// Calls [`yield_now`](crate::yield_now()) if this thread is a worker of this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.if_current(Worker::yield_now)
    }

    /// Calls [`yield_local`](crate::yield_local()) if this thread is a worker of this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.if_current(Worker::yield_local)
    }

    /// Limits the number of workers that are awake to `most`. Workers beyond the limit rest as soon as they have no
    /// task. Any thread may call this, and each call replaces the limit of the call before.
    /// [`current_num_threads`](ThreadPool::current_num_threads) does not change. Two kinds of worker may exceed the
    /// limit until they are done: a worker that returns to a join or a scope for which it waits, and a worker that
    /// has a part of a [broadcast](ThreadPool::broadcast). The limit counts these workers too.
    ///
    /// # Errors
    /// If `most` is 0 or greater than the number of workers, or if the pool's policy does not control which workers
    /// are awake: see [`ActiveThreadsError`].
    pub fn set_active_threads(&self, most: usize) -> Result<(), ActiveThreadsError> {
        let workers = self.current_num_threads();
        if !(1..=workers).contains(&most) {
            return Err(ActiveThreadsError::OutOfRange { most, workers });
        }
        let activation = self.registry.activation.as_ref().ok_or(ActiveThreadsError::SharesNoCores(self.policy()))?;
        self.registry.assert_of_this_process();
        let view = self.registry.view();
        activation.set_active(&view, most as u32, self.registry.queued());
        Ok(())
    }

    /// The number of workers. It never changes.
    pub fn current_num_threads(&self) -> usize {
        self.registry.workers() as usize
    }

    /// This thread's index in this pool, if it is one of the pool's workers.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.if_current(Worker::index)
    }

    /// Calls [`current_thread_has_pending_tasks`](crate::current_thread_has_pending_tasks) if this thread is a worker
    /// of this pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.if_current(Worker::has_pending_tasks)
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Calls `ask` with this thread's worker, if it is a worker of this pool.
    fn if_current<R>(&self, ask: impl FnOnce(&Worker) -> R) -> Option<R> {
        current::with(|worker| worker.filter(|worker| Arc::ptr_eq(worker.registry(), &self.registry)).map(ask))
    }

    /// The policy that the pool was built with.
    pub fn policy(&self) -> Policy {
        self.registry.policy
    }

    /// The counters of each worker since the pool was built, by index. [`WorkerCounters`] can be summed up and
    /// printed.
    pub fn counters(&self) -> Vec<WorkerCounters> {
        self.registry.peers.iter().map(|peer| peer.counters.read()).collect()
    }

    /// Ends the pool and waits until the threads that [`build`](crate::ThreadPoolBuilder::build) started have ended.
    ///
    /// # Panics
    /// If one of these threads calls it, because the thread would wait for itself. Also if this process was forked
    /// from the process that built the pool.
    pub fn shutdown(mut self) {
        self.registry.assert_of_this_process();
        let is_one_of_them = self.if_current(|worker| !worker.own().adopted) == Some(true);
        assert!(!is_one_of_them, "a worker cannot shut down its own pool. Call `shutdown` on another thread");
        let threads = std::mem::take(&mut self.threads);
        let registry = Arc::clone(&self.registry);
        drop(self);
        for thread in threads {
            thread.join().expect("a worker does not unwind");
        }
        if let Some(program) = registry.program() {
            program.join_coordinator_if_unused();
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if self.registry.is_of_this_process() {
            // The threads are detached before they can end: glibc's `pthread_detach` may read memory that an ending
            // thread has freed (its bug 19951).
            self.threads.clear();
            self.registry.drop_reason_to_run();
        } else {
            // In a process that was forked from the pool's process, these threads do not exist. Detaching them could
            // detach other threads that have the same identifiers.
            std::mem::forget(std::mem::take(&mut self.threads));
        }
    }
}

/// The reason why [`ThreadPool::set_active_threads`] changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActiveThreadsError {
    /// The limit is 0, or greater than the number of workers.
    OutOfRange {
        /// The requested limit.
        most: usize,
        /// The number of the pool's workers.
        workers: usize,
    },
    /// The pool's policy does not track which workers are awake.
    SharesNoCores(Policy),
}

impl fmt::Display for ActiveThreadsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActiveThreadsError::OutOfRange { most, workers } => {
                write!(f, "a pool of {workers} workers cannot have {most} active threads. Choose 1 to {workers}")
            }
            ActiveThreadsError::SharesNoCores(policy) => {
                write!(
                    f,
                    "the policy {policy} cannot limit active threads. Use one that shares cores, for example comity"
                )
            }
        }
    }
}

impl std::error::Error for ActiveThreadsError {}
