//! One worker: its deque, and how it waits.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use comity_policy::{Thief, WorkerId};
use crossbeam_deque::Worker as Deque;

use crate::raw::job::JobRef;
use crate::raw::latch::Probe;
use crate::shared::{Shared, View, take};

/// A worker, owned by its thread and never seen by another.
pub(crate) struct Worker {
    id: WorkerId,
    shared: Arc<Shared>,
    deque: Deque<JobRef>,
    /// What this worker does when it has no task. Borrowed during one spell as a thief, and no task runs in a spell.
    pub(crate) thief: RefCell<Box<dyn Thief>>,
    /// When the last spell as a thief ended.
    pub(crate) busy_since: Cell<Instant>,
}

impl Worker {
    pub(crate) fn new(id: WorkerId, shared: Arc<Shared>, deque: Deque<JobRef>, thief: Box<dyn Thief>) -> Worker {
        Worker { id, shared, deque, thief: RefCell::new(thief), busy_since: Cell::new(Instant::now()) }
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Makes a task available to thieves.
    #[inline]
    pub(crate) fn push(&self, job: JobRef) {
        self.deque.push(job);
        self.shared.sleep.after_push(self.id, &View { shared: &self.shared, awaited: &|| false });
    }

    /// The task that was pushed last and is still there.
    #[inline]
    pub(crate) fn pop(&self) -> Option<JobRef> {
        self.deque.pop()
    }

    /// Serves the pool until the latch is set: own tasks first, then what can be stolen.
    #[cold]
    pub(crate) fn wait_until(&self, latch: &impl Probe) {
        while !latch.probe() {
            let job = self.own_job().or_else(|| self.search(&|| latch.probe()));
            if let Some(job) = job {
                // SAFETY: the job was taken from a queue, which hands each out once, and is alive: whoever queued a
                // stack job waits for its latch.
                unsafe { job.execute() }
            }
        }
    }

    /// A job that only this worker can come by.
    fn own_job(&self) -> Option<JobRef> {
        self.deque.pop().or_else(|| take(|| self.shared.peer(self.id).inbox.steal()))
    }

    /// Serves the pool until it ends.
    pub(crate) fn run(&self) {
        self.shared.peer(self.id).set_thread(comity_os::cpu_clock::ThreadId::current());
        self.busy_since.set(Instant::now());
        self.wait_until(&PoolEnded(&self.shared));
        assert!(self.deque.is_empty(), "a pool ends only when nothing is queued");
    }
}

struct PoolEnded<'a>(&'a Shared);

impl Probe for PoolEnded<'_> {
    fn probe(&self) -> bool {
        self.0.has_ended()
    }
}
