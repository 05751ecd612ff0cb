//! Placing: the choice of the queue for an unblocked task.

use comity_policy::{Unblocked, WorkerId};

use crate::raw::sync::Waker;
use crate::workers::current;
use crate::workers::registry::{LinkedRef, Registry};

impl Registry {
    /// Queues a task that can continue, where the policy says. The task last ran on the worker `last`.
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

    /// True if the policy places the task at the worker `last`. `has_more`: the current worker has other tasks, or
    /// `None` for a thread of no pool, which never runs what it unblocks.
    fn goes_to(&self, last: WorkerId, has_more: Option<bool>) -> bool {
        // A worker without a core is woken only for its own business.
        !self.sleep.is_retired(last)
            && self.policy.place().goes_to_last(Unblocked {
                last_is_up: !self.sleep.is_asleep(last),
                current_has_more: has_more.unwrap_or(true),
            })
    }

    /// Queues a task so that other tasks run first.
    pub(crate) fn queue_last(&self, job: LinkedRef) {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(&**worker.registry(), self) => {
                // The worker takes placed tasks when it has nothing else.
                worker.peer.placed.push(job);
                self.sleep.after_spawn(worker.id(), &self.view());
            }
            _ => self.inject(job.job(), Waker::GoesOn),
        });
    }
}
