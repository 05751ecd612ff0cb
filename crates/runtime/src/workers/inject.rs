//! Injection: how threads that are not workers of a pool give tasks to the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use comity_os::affinity::Mask;
use comity_os::cpu_clock::ThreadId;
use comity_os::{affinity, cores, lock};

use crate::raw::latch::ThreadLatch;
use crate::raw::sync::Waker;
use crate::workers::current;
use crate::workers::registry::{JobRef, Registry, StackJob, Worker};

/// The error of a spawn into a pool that has ended.
#[derive(Debug)]
pub(crate) struct PoolEnded;

/// Runs `task` in a separate frame. If `task` were inlined, it would enlarge the caller's frame also on the paths on
/// which another worker runs `task`.
#[inline(never)]
fn run_here<R>(task: impl FnOnce() -> R) -> R {
    task()
}

impl Registry {
    /// Adds a reason to keep the pool running.
    ///
    /// # Errors
    /// If the pool has ended, and this thread is not a thread that the pool has adopted. An adopted thread outlives
    /// its pool, and runs its tasks when it yields.
    pub(crate) fn add_reason_to_run(&self) -> Result<(), PoolEnded> {
        let one_more = |reasons: usize| (reasons > 0).then_some(reasons + 1);
        if self.reasons_to_run.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            let is_ours = |worker: &Worker| std::ptr::eq(&**worker.registry(), self) && worker.own().adopted;
            if !current::with(|worker| worker.is_some_and(is_ours)) {
                return Err(PoolEnded);
            }
            self.reasons_to_run.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Queues a task from a thread that is not a worker of this pool.
    ///
    /// # Panics
    /// If this process was forked from the pool's process, because no worker would ever run the task.
    pub(crate) fn inject(&self, job: JobRef, submitter: Waker) {
        self.assert_of_this_process();
        if self.activation.is_some() {
            self.caller.store(ThreadId::current().as_raw(), Ordering::Relaxed);
        }
        self.injector.push(job);
        self.sleep.after_injection(submitter, &self.view());
        self.begin();
    }

    /// Gives each worker of the pool its job of a broadcast.
    ///
    /// # Panics
    /// See [`Registry::inject`].
    pub(crate) fn deliver(&self, jobs: impl Iterator<Item = JobRef>) {
        self.assert_of_this_process();
        let in_order = lock(&self.broadcast_order);
        for (peer, job) in self.peers.iter().zip(jobs) {
            peer.broadcasts.push(job);
        }
        drop(in_order);
        for peer in &self.peers {
            self.sleep.wake_for_business(peer.id);
        }
        self.begin();
    }

    /// Checks that the pool's threads are in this process. Called before a counter is increased that only the pool's
    /// workers decrease.
    ///
    /// # Panics
    /// If this process was forked from the pool's process.
    pub(crate) fn assert_of_this_process(&self) {
        assert!(
            self.is_of_this_process(),
            "this pool was built before a fork, and its threads exist only in the parent process. Build another pool"
        );
    }

    /// Runs `task` on a worker of this pool and waits for it. A caller that is a worker of another pool runs tasks of
    /// its own pool meanwhile.
    #[inline]
    pub(crate) fn run<R: Send>(self: &Arc<Self>, task: impl FnOnce() -> R + Send) -> R {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(Arc::as_ptr(worker.registry()), Arc::as_ptr(self)) => run_here(task),
            Some(worker) => self.run_for_worker(worker, task),
            None => self.run_for_thread(task),
        })
    }

    /// Runs `task` for a worker of another pool. The jobs that this worker runs meanwhile are above this frame on the
    /// stack.
    #[inline(never)]
    fn run_for_worker<R: Send>(&self, worker: &Worker, task: impl FnOnce() -> R + Send) -> R {
        let mut job = StackJob::new(task, worker.cross_latch());
        // SAFETY: this frame waits for the latch before it ends.
        self.inject(unsafe { job.as_job_ref() }, Waker::MakesRoom);
        worker.wait_until(&job.latch);
        job.result()
    }

    /// Runs `task` for a thread that is not a worker, and waits for it.
    #[inline(never)]
    fn run_for_thread<R: Send>(&self, task: impl FnOnce() -> R + Send) -> R {
        let mut job = StackJob::new(task, ThreadLatch::default());
        // SAFETY: this frame waits for the latch before it ends.
        self.inject(unsafe { job.as_job_ref() }, Waker::MakesRoom);
        self.wait_beside_workers(&job.latch);
        job.result()
    }

    /// Makes a thread that is not a worker wait for a task of this pool. If the thread is on a core of another
    /// program, it wakes on one of the pool's cores.
    ///
    /// The kernel wakes a thread on the core where it ran last. If another program holds that core, the two programs
    /// would delay each other at each end of a parallel phase, while the pool's own core is idle. So the thread is
    /// confined while it waits. During the wait it cannot start a thread or process that would inherit the mask.
    fn wait_beside_workers(&self, latch: &ThreadLatch) {
        let cores = self.activation.as_ref().and_then(|activation| activation.refuge(cores::current()));
        let Some(cores) = cores else { return latch.wait() };
        let me = ThreadId::current();
        if affinity::of(me) != self.granted() {
            // The program or an administrator has bound the thread.
            return latch.wait();
        }
        let mut mask = Mask::default();
        let is_confined = mask.note(Some(cores)).is_some_and(|narrow| affinity::confine(me, narrow));
        latch.wait();
        if is_confined {
            let found = affinity::of(me);
            // If the program has set another mask meanwhile, that mask stays. The second comparison is for a cpuset
            // that has changed during the wait.
            let is_ours = mask.explains(found, self.granted()) || mask.explains(found, affinity::granted());
            if let Some(own) = mask.note(None).filter(|_| is_ours) {
                affinity::confine(me, own);
            }
        }
    }
}
