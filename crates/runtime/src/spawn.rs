//! Tasks that nobody waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pool::global;
use crate::raw::current;
use crate::raw::job::{HeapJob, JobRef};
use crate::raw::sync::Waker;
use crate::shared::Shared;

/// Runs `task` some time on the current pool, or on the global one outside of any.
///
/// A pool ends only after all its spawned tasks have run. A task that panics reports to the pool's panic handler;
/// without one, the process aborts.
pub fn spawn<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|worker| match worker {
        Some(worker) => worker.shared().spawn(task),
        None => global().spawn(task),
    });
}

impl Shared {
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.add_reason_to_run();
        let job = move || {
            let result = catch_unwind(AssertUnwindSafe(task));
            current::with(|worker| {
                let pool = worker.expect("a task runs on a worker of its pool").shared();
                if let Err(payload) = result {
                    pool.handle_panic(payload);
                }
                pool.drop_reason_to_run();
            });
        };
        // SAFETY: the task is 'static, so it borrows nothing that could end.
        self.queue(unsafe { HeapJob::new_ref(job) });
    }

    /// Queues a job: on the caller's deque if it is a worker of this pool, else from outside.
    pub(crate) fn queue(&self, job: JobRef) {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(&**worker.shared(), self) => worker.push_spawn(job),
            _ => self.inject(job, Waker::GoesOn),
        });
    }
}
