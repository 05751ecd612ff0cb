//! Detached tasks: nothing waits for them.

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::sync::Waker;
use crate::workers::current;
use crate::workers::inject::PoolEnded;
use crate::workers::registry::{HeapJob, JobFifo, JobRef, Registry};

/// Runs `task` some time on the current pool, or on the global one outside of any.
///
/// A pool ends only after all its spawned tasks have run. A task that panics reports to the pool's panic handler;
/// without one, the process aborts.
///
/// # Panics
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn spawn<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|worker| match worker {
        Some(worker) => worker.registry().spawn(task),
        None => global().spawn(task),
    });
}

/// As [`spawn`], but a worker that has several such tasks begins with the oldest.
///
/// # Panics
/// If the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn spawn_fifo<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|worker| match worker {
        Some(worker) => worker.registry().spawn_fifo(task),
        None => global().spawn_fifo(task),
    });
}

impl ThreadPool {
    /// [`spawn`](crate::spawn) into this pool.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.registry().spawn(task);
    }

    /// [`spawn_fifo`](crate::spawn_fifo) into this pool.
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.registry().spawn_fifo(task);
    }
}

impl Registry {
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        if let Some(job) = self.reason_to_run(task) {
            self.queue(job, None);
        }
    }

    pub(crate) fn spawn_fifo(&self, task: impl FnOnce() + Send + 'static) {
        if let Some(job) = self.reason_to_run(task) {
            current::with(|worker| self.queue(job, worker.map(|worker| &worker.peer.fifo)));
        }
    }

    /// Returns a job that runs `task` and keeps the pool running until then. If the pool has ended and is lenient,
    /// drops `task` and returns `None`: release builds of stock rayon also lose a task that an exit handler spawns.
    ///
    /// # Panics
    /// If the pool has ended and is not lenient.
    pub(crate) fn reason_to_run(&self, task: impl FnOnce() + Send + 'static) -> Option<JobRef> {
        self.assert_of_this_process();
        match self.add_reason_to_run() {
            Err(PoolEnded) if self.handlers.lenient => return None,
            added => added.expect("a task cannot be spawned into a pool that has ended"),
        }
        let done = |outcome| {
            current::with(|worker| {
                let pool = worker.expect("a task runs on a worker of its pool").registry();
                if let Err(payload) = outcome {
                    pool.handle_panic(payload, "a detached task panicked, and the pool has no panic handler");
                }
                pool.drop_reason_to_run();
            });
        };
        // SAFETY: the task is 'static, so it borrows nothing that could end.
        Some(unsafe { HeapJob::new_ref(task, done) })
    }

    /// Queues a job: on the caller's deque if it is a worker of this pool, else from outside. With a `fifo` of that
    /// worker, what is queued is the turn of the oldest job in it.
    pub(crate) fn queue(&self, job: JobRef, fifo: Option<&JobFifo>) {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(&**worker.registry(), self) => {
                worker.push_spawn(match fifo {
                    // SAFETY: a fifo outlives the jobs that it holds: a scope's, because the scope waits for them; a
                    // worker's, because they keep the pool running.
                    Some(fifo) => unsafe { fifo.push(job) },
                    None => job,
                });
            }
            _ => self.inject(job, Waker::GoesOn),
        });
    }
}
