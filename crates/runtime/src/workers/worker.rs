//! One worker: how it takes jobs from its queues and from other workers, and how it waits.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use comity_policy::WorkerId;
use comity_policy::definition::Definition;

use crate::raw::abort::AbortOnDrop;
use crate::raw::job::take;
use crate::raw::latch::{AsWorker, Probe, ThreadLatch, WorkerLatch};
use crate::watching::activity::Doing;
use crate::watching::trace::Taking;
use crate::workers::registry::{CrossLatch, JobRef, JoinLatch, Registry, Waiter, Worker};
use crate::workers::sleep::Sleep;

/// The *bound*: the maximum number of unfinished jobs on a worker's stack that another worker could have run. At the
/// bound, the worker stops stealing. It still runs its own jobs and jobs from outside of the pool: see
/// [`Worker::job_beyond_the_bound`].
const DEEPEST: u32 = if cfg!(test) { 2 } else { 64 };

/// The time that a worker at the bound ([`DEEPEST`]) sleeps before it looks for a job again.
const NAP: Duration = Duration::from_micros(50);

/// The number of naps in a row after which the worker takes tasks that it spawned itself. Other workers may wait for
/// these tasks, and be at the bound too.
const MOST_NAPS: u32 = 20;

/// The number of jobs after which a worker takes a job that could otherwise wait for ever: a task from outside, its
/// own oldest task, or a task queued at a peer that runs a long task. The number is prime, so that it does not
/// coincide with a period of the program.
const TURN: u32 = 61;

impl AsWorker for Worker {
    #[inline]
    fn id(&self) -> WorkerId {
        self.id()
    }

    #[inline]
    fn sleep(&self) -> &Sleep {
        &self.registry().sleep
    }

    fn wait_until(&self, latch: &dyn Probe) {
        self.wait_until(latch);
    }
}

/// The event for which a frame of a worker waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// The end of the pool. The main loop runs tasks until then.
    Work,
    /// An event that most likely depends on tasks that this worker spawned. The worker runs these tasks first.
    OwnTasks,
    /// An event that need not depend on this worker's own tasks.
    Anything,
    /// The end of the right half of a join, which a thief runs.
    Thief,
}

/// A probe that is true once the pool has ended and the worker has no queued tasks. Tasks that were stolen in a batch
/// may still be queued when the pool ends, because a thread that waits for a task need not keep the pool running.
struct Ended<'a>(&'a Worker);

impl Probe for Ended<'_> {
    fn probe(&self) -> bool {
        self.0.registry().has_ended() && !self.0.has_own_tasks()
    }
}

impl Worker {
    /// Returns the latch with which this worker waits for a job in another pool.
    pub(crate) fn cross_latch(&self) -> CrossLatch {
        CrossLatch::new(Arc::clone(self.registry()), self.id())
    }

    /// Returns the object on which this thread waits for jobs of `pool`. `worker` is the worker of this thread, if it
    /// has one.
    pub(crate) fn waiter(worker: Option<&Worker>, pool: &Arc<Registry>) -> Waiter {
        match worker {
            Some(worker) if Arc::ptr_eq(worker.registry(), pool) => {
                Waiter::Worker(WorkerLatch::new(&pool.sleep, worker.id()))
            }
            Some(worker) => Waiter::OtherPool(worker.cross_latch()),
            None => Waiter::Thread(ThreadLatch::default()),
        }
    }

    /// Queues a task for which no frame of this worker waits directly. Thieves may take it.
    pub(crate) fn push_spawn(&self, job: JobRef) {
        let own = self.own();
        own.spawns.push(job);
        own.registry.sleep.after_spawn(self.id(), &own.registry.view());
    }

    /// Called after a push that found the bell ringing, or that filled the deque. Stops the bell, shares tasks, and
    /// looks for sleepers to wake.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer_bell(&self) {
        // A panic from here would unwind through frames that other threads still borrow from.
        let abort = AbortOnDrop("a worker's deque failed (see above), and other threads still use its tasks");
        let sleep = &self.registry().sleep;
        // SAFETY: this thread is the owner.
        unsafe {
            if sleep.bell_may_stop() {
                self.peer.deque.silence();
            }
            self.peer.deque.answer();
        }
        sleep.push_met_bell(self.id(), &self.registry().view());
        std::mem::forget(abort);
        if self.registry().is_closed() {
            self.rest_while_closed(&|| false);
        }
    }

    /// Serves the pool until the latch is set: runs its own tasks first, and then stolen tasks.
    #[cold]
    pub(crate) fn wait_until(&self, latch: &dyn Probe) {
        self.serve(latch, For::OwnTasks);
    }

    /// Serves the pool until the latch is set. The latch need not depend on this worker's own tasks, so the bound on
    /// the stack ([`DEEPEST`]) includes these tasks too.
    #[cold]
    pub(crate) fn wait_for_anything(&self, latch: &dyn Probe) {
        self.serve(latch, For::Anything);
    }

    /// Waits for the right half of a join, which a thief has. Takes the thief's own tasks first, because they are
    /// parts of that half.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_thief(&self, latch: &JoinLatch) {
        self.serve(latch, For::Thief);
    }

    /// Runs jobs until the latch is set. This frame stays on the stack below each job. To be small, it holds only
    /// values that are needed after a job.
    #[inline(never)]
    fn serve(&self, latch: &dyn Probe, awaits: For) {
        let (activity, depth) = (&self.peer.activity, self.own().stolen_depth.get());
        let before = activity.get();
        activity.count_wait(1);
        let mut naps = 0;
        while let Some(job) = self.next_job(latch, awaits, &mut naps) {
            // SAFETY: as in `run_one`.
            unsafe { job.execute(self) }
            self.own().stolen_depth.set(depth);
        }
        activity.count_wait(-1);
        activity.set(before);
    }

    /// Returns the next job for a frame that waits, and counts it as begun. Returns `None` once the latch is set.
    #[inline(never)]
    fn next_job(&self, latch: &dyn Probe, awaits: For, naps: &mut u32) -> Option<JobRef> {
        let (activity, done) = (&self.peer.activity, || latch.probe());
        let doing = if awaits == For::Work { Doing::Looking } else { Doing::Waiting };
        while !latch.probe() {
            if self.registry().is_closed() {
                activity.set(doing);
                self.rest_while_closed(&done);
                continue;
            }
            activity.set(latch.thief().map_or(doing, Doing::WaitingFor));
            // A panic from here would unwind through frames that other threads still borrow from.
            let abort =
                AbortOnDrop("a worker panicked while it looked for work. This is a bug in Comity or in the policy");
            let in_turn = if activity.waits() == 0 { self.job_in_turn() } else { None };
            let own_first = matches!(awaits, For::OwnTasks | For::Work);
            let mine = || self.job_to_run_here(own_first, *naps >= MOST_NAPS);
            let mine = if in_turn.is_none() { mine() } else { None };
            let deepens = mine.is_none();
            let job = match in_turn.or(mine) {
                None if self.own().stolen_depth.get() < DEEPEST => self.job_to_lay_on_top(latch),
                None => {
                    *naps = MOST_NAPS.min(*naps + 1);
                    let needed = self.job_beyond_the_bound(awaits);
                    if needed.is_none() {
                        std::thread::sleep(NAP);
                    }
                    needed
                }
                job => job,
            };
            std::mem::forget(abort);
            if job.is_some() {
                activity.set(Doing::Task);
                self.begins(deepens);
                return job;
            }
        }
        None
    }

    /// Takes a job that this worker should run itself, from the first of these sources that has one:
    ///
    /// - if `any`: its spawned tasks, and then the tasks that were placed here
    /// - if `spawned`: its newest spawned task, most likely a part of the scope for which it waits
    /// - its parts of broadcasts, which no other worker may run
    fn job_to_run_here(&self, spawned: bool, any: bool) -> Option<JobRef> {
        let own = if any { self.own_task() } else { None };
        let own = own.or_else(|| if spawned { self.own().spawns.pop() } else { None });
        own.or_else(|| take(|| self.peer.broadcasts.steal()))
    }

    /// Takes the newest of this worker's own tasks for which no join waits.
    fn own_task(&self) -> Option<JobRef> {
        self.own().spawns.pop().or_else(|| self.placed_task())
    }

    /// True if this worker has tasks for which no join waits.
    pub(crate) fn has_own_tasks(&self) -> bool {
        !self.own().spawns.is_empty() || !self.peer.placed.is_empty()
    }

    /// Takes all tasks that were placed here. Returns the newest, and queues the others as spawned tasks. If a frame
    /// of this worker waits, takes only the oldest task: the frame would mistake the others for tasks that it waits
    /// for.
    fn placed_task(&self) -> Option<JobRef> {
        if self.peer.activity.waits() > 0 {
            return self.rob_placed(self.id());
        }
        let own = self.own();
        let mut placed = self.peer.placed.take();
        let mut newest = placed.next()?;
        let mut carried = false;
        for newer in placed {
            own.spawns.push(std::mem::replace(&mut newest, newer).job());
            carried = true;
        }
        if carried {
            // A sleeper that looked while the tasks were being moved has not seen them.
            own.registry.sleep.after_spawn(self.id(), &own.registry.view());
        }
        Some(newest.job())
    }

    /// Takes the oldest task that was placed at a worker. The other placed tasks stay there.
    fn rob_placed(&self, victim: WorkerId) -> Option<JobRef> {
        let registry = self.registry();
        let peer = registry.peer(victim);
        let mut placed = peer.placed.take();
        let oldest = placed.next()?;
        let mut put_back = false;
        for job in placed {
            peer.placed.push(job);
            put_back = true;
        }
        if put_back {
            // A thread that looked while the inbox was empty, for example the victim, has not seen these tasks. The
            // fence is a full one, because this worker may be a thief: where `membarrier` is refused, a sleeper does
            // not look again for the sake of a thief.
            fence(Ordering::SeqCst);
            registry.sleep.after_placing(victim, Some(self.id()), &registry.view());
        }
        Some(oldest.job())
    }

    /// Returns a job once every [`TURN`] calls, from one of four sources in rotation. A job of these sources could
    /// wait for ever if this worker never ran out of tasks.
    fn job_in_turn(&self) -> Option<JobRef> {
        let turn = &self.own().turn;
        if !turn.needed.get() {
            return None;
        }
        let jobs = turn.jobs.get() + 1;
        if jobs < TURN {
            turn.jobs.set(jobs);
            return None;
        }
        turn.jobs.set(0);
        turn.turns.set(turn.turns.get().wrapping_add(1));
        let from_outside =
            || take(|| self.peer.broadcasts.steal()).or_else(|| take(|| self.registry().injector.steal()));
        match turn.turns.get() % 4 {
            0 => from_outside(),
            1 => take(|| self.registry().peer(self.id()).spawned()),
            2 => self.rob_placed(self.id()),
            _ => self.job_of_a_busy_peer(),
        }
    }

    /// Takes a task that was placed or spawned at a peer, if the peer has begun no job since this worker last looked
    /// at it. So tasks do not wait until a long task of the peer ends. The check uses no clock: between two looks,
    /// this worker runs some hundred tasks.
    fn job_of_a_busy_peer(&self) -> Option<JobRef> {
        let registry = self.registry();
        let looked_at = &self.own().turn.looked_at;
        let (peer, jobs) = looked_at.get();
        let stuck = registry.peer(WorkerId(peer));
        let waits = || stuck.id != self.id() && stuck.jobs.get() == jobs;
        let job = if waits() { self.rob_placed(stuck.id).or_else(|| take(|| stuck.spawned())) } else { None };
        self.peer.counters.steals.add(u64::from(job.is_some()));
        self.peer.counters.steal_attempts.add(u64::from(waits()));
        let next = (peer + 1) % registry.workers();
        looked_at.set((next, registry.peer(WorkerId(next)).jobs.get()));
        job
    }

    /// Takes a job that another worker could run, to run it on top of a frame that waits.
    fn job_to_lay_on_top(&self, latch: &dyn Probe) -> Option<JobRef> {
        let back = self.steal_back(latch);
        if back.is_some() || latch.probe() {
            return back;
        }
        let own = self.own_task();
        // SAFETY: this thread is the owner. If the frame waits for the thief of a right half, the deque is empty:
        // thieves take older halves first. A scope or an `install` may wait inside of a join's left half, while the
        // right half is in the deque.
        let own = own.or_else(|| unsafe { self.peer.deque.take_oldest() }.map(JobRef::of));
        own.or_else(|| self.search(&|| latch.probe()))
    }

    /// Takes a job although the stack is at the bound ([`DEEPEST`]). It takes only jobs on which the progress of a
    /// worker may depend, and which perhaps no other worker would take:
    ///
    /// - Right halves in this worker's deque. The job that this frame awaits may wait for such a half, and all other
    ///   workers may be at the bound too. If this frame waits for the thief of a right half, the deque is empty.
    /// - Jobs from outside of the pool.
    ///
    /// Every other job for which this frame may wait has begun on another worker, or is in the deque of a worker that
    /// will run it.
    ///
    /// A right half that runs here may push other right halves, which then run on top of it. So the stack may exceed
    /// the bound: it grows with the number of tasks that wait at the same time. `serve` keeps the frames small for
    /// this reason.
    fn job_beyond_the_bound(&self, awaits: For) -> Option<JobRef> {
        // SAFETY: this thread is the owner.
        let own = if awaits == For::Thief { None } else { unsafe { self.peer.deque.take_oldest() }.map(JobRef::of) };
        own.or_else(|| take(|| self.registry().injector.steal()))
    }

    /// Takes a task from the thief that runs the job for which this worker waits: the thief's tasks are parts of that
    /// job. The policy sets the number of tries. A thief that pushes tasks often shares one within these tries.
    fn steal_back(&self, latch: &dyn Probe) -> Option<JobRef> {
        for _ in 0..Definition::of(&self.registry().policy).steal_backs {
            let thief = latch.thief().filter(|thief| *thief != self.id())?;
            let stolen = self.rob(thief);
            if stolen.is_some() || latch.probe() {
                return stolen;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// True if this worker has a task that no worker has begun.
    pub(crate) fn has_pending_tasks(&self) -> bool {
        self.peer.has_task()
    }

    /// See [`yield_local`](crate::yield_local()).
    #[inline(always)]
    pub(crate) fn yield_local(&self) -> Yield {
        self.run_one(self.local_job())
    }

    /// See [`yield_now`](crate::yield_now()).
    #[inline(always)]
    pub(crate) fn yield_now(&self) -> Yield {
        self.run_one(self.any_job())
    }

    /// Takes a task that is queued here: a task that was spawned or placed here, else this worker's part of a
    /// broadcast, else the oldest right half in its deque. Returns `None` while the pool is closed.
    #[inline(never)]
    fn local_job(&self) -> Option<JobRef> {
        if self.registry().is_closed() {
            return None;
        }
        // SAFETY: this thread is the owner.
        self.job_to_run_here(true, true).or_else(|| unsafe { self.peer.deque.take_oldest() }.map(JobRef::of))
    }

    /// Takes a task that is queued anywhere in the pool. Returns `None` while the pool is closed.
    #[inline(never)]
    fn any_job(&self) -> Option<JobRef> {
        if self.registry().is_closed() {
            return None;
        }
        let peers = &self.registry().peers;
        // The search begins with the worker after this one, so that not all workers begin with worker 0.
        let (before, after) = peers.split_at(self.index());
        let rob = || after[1..].iter().chain(before).find_map(|peer| self.rob(peer.id));
        self.local_job().or_else(rob).or_else(|| take(|| self.registry().injector.steal()))
    }

    /// Runs a job that was taken from a queue, on top of the frame that yields. Inlined, so that it needs no frame of
    /// its own.
    #[inline(always)]
    fn run_one(&self, job: Option<JobRef>) -> Yield {
        let Some(job) = job else { return Yield::Idle };
        self.begins(true);
        // SAFETY: the job was taken from a queue, which gives out each job once. The job is alive: a frame that has
        // queued a job on its stack waits for the job's latch.
        unsafe { job.execute(self) }
        self.own().stolen_depth.update(|depth| depth - 1);
        Yield::Executed
    }

    /// Counts a job that was taken from a queue. `deepens` is true if another worker could have run the job. The job
    /// then counts towards [`DEEPEST`], and the caller decreases `stolen_depth` after the job.
    fn begins(&self, deepens: bool) {
        self.peer.jobs.add(1);
        let depth = &self.own().stolen_depth;
        depth.set(depth.get() + u32::from(deepens));
    }

    /// Attempts to steal from a peer.
    pub(crate) fn rob(&self, victim: WorkerId) -> Option<JobRef> {
        let (registry, counters) = (self.registry(), &self.peer.counters);
        counters.steal_attempts.add(1);
        let own = self.own();
        // If a frame of this worker waits, only one task is taken: the frame would mistake the rest of a batch for
        // tasks that it waits for.
        let batch = if self.peer.activity.waits() == 0 { Definition::of(&registry.policy).batch } else { 1 };
        let peer = registry.peer(victim);
        let stolen = peer.rob_shared(&own.spawns, batch.into()).or_else(|| self.rob_placed(victim));
        let stolen = stolen.or_else(|| peer.rob_private(self.id(), || registry.now()));
        counters.steals.add(u64::from(stolen.is_some()));
        if let Some(recorder) = registry.recorder.as_ref().filter(|_| stolen.is_some()) {
            recorder.took(self.id(), Taking::Steal, victim);
        }
        if batch > 1 && stolen.is_some() && !own.spawns.is_empty() {
            // A sleeper that looked while the batch was being moved has not seen it. The fence is a full one, because
            // this thief does not count as busy: where `membarrier` is refused, that sleeper would not look again.
            fence(Ordering::SeqCst);
            registry.sleep.after_spawn(self.id(), &registry.view());
        }
        stolen
    }

    /// Takes all tasks of a worker that has no core, and returns the oldest. If a frame of this worker waits, steals
    /// only one task: the frame would mistake the others for tasks that it waits for.
    pub(crate) fn mug(&self, victim: WorkerId) -> Option<JobRef> {
        if self.peer.activity.waits() > 0 {
            return self.rob(victim);
        }
        let (registry, own) = (self.registry(), self.own());
        self.peer.counters.steal_attempts.add(1);
        let mugged = registry.peer(victim).mug(self.id(), &own.spawns);
        self.peer.counters.steals.add(u64::from(mugged.is_some()));
        if let Some(recorder) = registry.recorder.as_ref().filter(|_| mugged.is_some()) {
            recorder.took(self.id(), Taking::Mug, victim);
        }
        if !own.spawns.is_empty() {
            // A fence for the same reason as after a batch in `rob`.
            fence(Ordering::SeqCst);
            registry.sleep.after_spawn(self.id(), &registry.view());
        }
        mugged
    }

    /// Serves the pool until it ends.
    pub(crate) fn run(&self) {
        let now = Instant::now();
        self.own().busy_since.set(now);
        self.peer.busy_since.store(self.registry().nanos_at(now), Ordering::Relaxed);
        // `serve` counts itself as a wait. This undoes the count, because the main loop is not a task that waits.
        self.peer.activity.count_wait(-1);
        self.serve(&Ended(self), For::Work);
        let nothing_is_queued = !self.has_own_tasks() && self.peer.deque.is_empty();
        assert!(nothing_is_queued, "a pool ends only when nothing is queued");
        if let Some(program) = self.registry().program() {
            program.worker_ends();
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("index", &self.index()).finish_non_exhaustive()
    }
}

/// The outcome of a [yield](crate::yield_now()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// The worker found a task and has run it.
    Executed,
    /// The worker found no task.
    Idle,
}

#[cfg(all(test, not(loom)))]
mod tests {
    /// Runs workers at the bound all the time, because `DEEPEST` is small in this build.
    #[test]
    fn workers_that_may_steal_no_deeper_still_finish() {
        fn fib(n: u32) -> u64 {
            if n < 2 {
                return n.into();
            }
            let (a, b) = crate::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        for policy in comity_policy::Policy::all() {
            let pool = crate::ThreadPoolBuilder::new().num_threads(8).policy(policy).build().unwrap();
            assert_eq!(pool.install(|| fib(22)), 17_711, "under {policy}");
            pool.shutdown();
        }
    }
}
