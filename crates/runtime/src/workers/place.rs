//! Placing: the choice of the queue for an unblocked task.

use comity_policy::{Unblocked, WorkerId};

use crate::raw::sync::Waker;
use crate::workers::current;
use crate::workers::registry::{LinkedRef, Registry};

impl Registry {
    /// Queues a task that was blocked and can continue, in the queue that the policy chooses. `last` is the worker
    /// that last ran the task.
    pub(crate) fn place(&self, job: LinkedRef, last: Option<WorkerId>) {
        current::with(|worker| {
            let worker = worker.filter(|worker| std::ptr::eq(&**worker.registry(), self));
            let another = last.filter(|last| worker.is_none_or(|worker| worker.id() != *last));
            match (another.filter(|last| self.goes_to(*last, worker.map(|worker| worker.has_own_tasks()))), worker) {
                (Some(last), _) => {
                    self.peer(last).placed.push(job);
                    let me = worker.map(|worker| worker.id());
                    self.sleep.after_placing(last, me, &self.view());
                }
                (None, Some(worker)) => worker.push_spawn(job.job()),
                (None, None) => self.inject(job.job(), Waker::GoesOn),
            }
        });
    }

    /// True if the policy places the task at the worker `last`. `has_more` is true if the current worker has other
    /// tasks. It is `None` on a thread that is not a worker of this pool, which never runs the task that it unblocks.
    fn goes_to(&self, last: WorkerId, has_more: Option<bool>) -> bool {
        // A retired worker has no core. It is woken only for events that no other worker can handle.
        !self.sleep.is_retired(last)
            && self.policy.place().goes_to_last(Unblocked {
                last_is_up: !self.sleep.is_asleep(last),
                current_has_more: has_more.unwrap_or(true),
            })
    }

    /// Queues a task behind the other tasks of the current worker.
    pub(crate) fn queue_last(&self, job: LinkedRef) {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(&**worker.registry(), self) => {
                // The worker takes placed tasks only when it has no other task.
                worker.peer.placed.push(job);
                self.sleep.after_spawn(worker.id(), &self.view());
            }
            _ => self.inject(job.job(), Waker::GoesOn),
        });
    }
}
