//! Detached tasks: tasks for which no caller waits.

use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::sync::Waker;
use crate::workers::current;
use crate::workers::inject::PoolEnded;
use crate::workers::registry::{HeapJob, JobFifo, JobRef, Registry};

/// Queues `task` to run on the current pool, and returns at once. Outside of any pool, uses the global pool.
///
/// A pool ends only after all its spawned tasks have run. A panic of a task goes to the pool's panic handler. Without
/// a panic handler, the process aborts.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn spawn<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|worker| match worker {
        Some(worker) => worker.registry().spawn(task),
        None => global().spawn(task),
    });
}

/// Queues `task` like [`spawn`], except that a worker that has spawned several such tasks begins with the oldest.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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
    /// Spawns `task` into this pool, like [`spawn`](crate::spawn).
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.registry().spawn(task);
    }

    /// Spawns `task` into this pool, like [`spawn_fifo`](crate::spawn_fifo).
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

    /// Returns a job that runs `task`, and keeps the pool running until `task` has ended. If the pool has ended and
    /// is lenient, drops `task` and returns `None`: release builds of stock rayon also lose a task that an exit
    /// handler spawns.
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

    /// Queues a job: in the caller's own queue if it is a worker of this pool, else in the injector. With a `fifo` of
    /// that worker, the job goes into the fifo, and the queue gets a placeholder that runs the fifo's oldest job.
    pub(crate) fn queue(&self, job: JobRef, fifo: Option<&JobFifo>) {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(&**worker.registry(), self) => {
                worker.push_spawn(match fifo {
                    // SAFETY: a fifo outlives the jobs that it holds. A scope waits for the jobs of its fifos, and
                    // the jobs of a worker's fifo keep the pool running.
                    Some(fifo) => unsafe { fifo.push(job) },
                    None => job,
                });
            }
            _ => self.inject(job, Waker::GoesOn),
        });
    }
}
