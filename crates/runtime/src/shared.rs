//! What the workers of one pool share.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, lock};
use comity_policy::{Policy, Role, RunStatus, Victim, WorkerId};
use comity_protocol::dialogue::Crew;
use comity_protocol::platform::Once as _;
use comity_table::Own as Terms;
use crossbeam_deque::{Injector, Steal, Stealer, Worker as Spawns};
use crossbeam_utils::CachePadded;

use crate::counters::{Counter, Live};
use crate::fork;
use crate::masks::Masks;
use crate::program::{self, Part, PoolId, Program};
use crate::raw::current;
use crate::raw::deque::Deque;
use crate::raw::inbox::Inbox;
use crate::raw::job::{Header, JobFifo, JobRef, StackJob};
use crate::raw::latch::{CountLatch, CrossLatch, Latch, ThreadLatch, Waiter};
use crate::raw::sync::{SetOnce, Threads, Waker};
use crate::seam::Seen;
use crate::share::{self, Pool, Share};
use crate::sleep::{Sleep, Work};
use crate::trace::Recorder;
use crate::watch::Activity;
use crate::worker::{Own, Worker};

/// How long a thief's question may go unanswered before it raids, in nanoseconds. An owner that pushes answers in less
/// than 1 µs; a raid costs each running worker 1 to 2 µs.
const PATIENCE: u64 = 20_000;

/// Told the payload of a panic that nobody waits for.
pub(crate) type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
/// Told a worker's index.
pub(crate) type WorkerHandler = dyn Fn(usize) + Send + Sync;

/// What a pool calls at certain moments.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) panic: Option<Box<PanicHandler>>,
    pub(crate) start: Option<Box<WorkerHandler>>,
    pub(crate) exit: Option<Box<WorkerHandler>>,
}

/// One worker as the others see it.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `deque` | its own protocol | all |
/// | `spawns` | the queue's own protocol | thieves |
/// | `fifo` | the owner | whoever runs one of its turns |
/// | `placed` | anybody | the owner, thieves |
/// | `inbox` | anybody | the owner |
/// | `wakeups_owed` | the owner stores, thieves count down | thieves |
/// | `thread` | the owner, once, before it runs anything | thieves |
/// | `raid_takes` | raiders | thieves |
/// | `own` | the owner | the owner |
/// | `counters`, `jobs`, `busy_since`, `activity` | the owner | anybody |
pub(crate) struct Peer {
    /// The right halves of joins.
    pub(crate) deque: Deque<Header>,
    pub(crate) id: WorkerId,
    /// Tasks of `spawn` and of scopes: always shared, and any number of them.
    spawns: Stealer<JobRef>,
    /// Those of `spawn_fifo`, whose turns are among the former.
    pub(crate) fifo: JobFifo,
    /// Tasks that others have unblocked, and that last ran here.
    pub(crate) placed: Inbox,
    /// Jobs that only this worker may run: its part of a broadcast.
    pub(crate) inbox: Injector<JobRef>,
    /// The wake-up counter `v.c` of BWS Algorithm 2 while the worker is busy.
    pub(crate) wakeups_owed: AtomicU32,
    thread: AtomicI32,
    /// Nanoseconds that the last raid on this worker took, barrier included.
    raid_takes: AtomicU64,
    /// What the worker's thread has for itself, while it runs: see [`Worker::own`](crate::Worker).
    pub(crate) own: AtomicPtr<Own>,
    pub(crate) counters: Live,
    /// Jobs that it has taken from a queue.
    pub(crate) jobs: Counter,
    /// When it got the task that it has, in nanoseconds of the pool's life; 0 for a thief.
    pub(crate) busy_since: AtomicU64,
    /// What the worker is doing, for a watch.
    pub(crate) activity: Activity,
}

impl Peer {
    fn new(id: WorkerId, spawns: Stealer<JobRef>, raids: bool) -> Peer {
        Peer {
            deque: Deque::new(raids),
            id,
            spawns,
            fifo: JobFifo::new(),
            placed: Inbox::new(),
            inbox: Injector::new(),
            wakeups_owed: AtomicU32::new(0),
            thread: AtomicI32::new(0),
            raid_takes: AtomicU64::new(0),
            own: AtomicPtr::new(ptr::null_mut()),
            counters: Live::default(),
            jobs: Counter::default(),
            busy_since: AtomicU64::new(0),
            activity: Activity::default(),
        }
    }

    /// The worker's thread, once it has started.
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0).map(ThreadId::from_raw)
    }

    /// How many tasks nobody has begun.
    pub(crate) fn queued(&self) -> usize {
        self.deque.len() + self.spawns.len() + self.placed.len() + self.inbox.len()
    }

    /// Whether there is a task that a thief could take.
    pub(crate) fn has_task(&self) -> bool {
        !self.deque.is_empty() || !self.spawns.is_empty() || !self.placed.is_empty()
    }

    /// Takes what this worker shares: the right half of a join, else what was spawned. Of that up to `batch` tasks, and all but the
    /// first go `to` the thief's own.
    pub(crate) fn rob_shared(&self, to: &Spawns<JobRef>, batch: usize) -> Option<JobRef> {
        let spawned = || self.spawns.steal_batch_with_limit_and_pop(to, batch);
        self.deque.steal().map(JobRef::of).or_else(|| take(spawned))
    }

    /// Where this worker shares nothing: rings for the next push; if there are tasks all the same, asks for them, for `thief` at the time
    /// `now`, and does not wait for ever.
    pub(crate) fn rob_private(&self, thief: WorkerId, now: impl Fn() -> u64) -> Option<JobRef> {
        if self.deque.is_empty() {
            self.deque.ring();
            return None;
        }
        let began = now();
        let asked = self.deque.ask(began);
        // A raider is given several times what the last raid took: each that takes another's place makes its raid void.
        let raid = self.raid_takes.load(Ordering::Relaxed).max(PATIENCE);
        let patience = if self.deque.is_raided() { 8 * raid } else { PATIENCE };
        if began.saturating_sub(asked) < patience || !self.deque.may_raid(asked, began) {
            return None;
        }
        self.deque.raid(thief.0);
        self.raid_takes.store(now() - began, Ordering::Relaxed);
        self.deque.steal().map(JobRef::of)
    }

    /// Takes the oldest task that was spawned here, or unblocked here.
    pub(crate) fn spawned(&self) -> Steal<JobRef> {
        self.spawns.steal()
    }

    /// Takes the whole queue of this worker, for `thief`, whose own queue gets all but the oldest task.
    pub(crate) fn mug(&self, thief: WorkerId, to: &Spawns<JobRef>) -> Option<JobRef> {
        let mut oldest = None;
        let mut keep = |job| match oldest {
            None => oldest = Some(job),
            Some(_) => to.push(job),
        };
        self.deque.steal_all(|task| keep(JobRef::of(task)));
        if !self.deque.is_empty() {
            // What its owner has not shared: it gets no core to answer on.
            self.deque.raid(thief.0);
            self.deque.steal_all(|task| keep(JobRef::of(task)));
        }
        while let Some(job) = take(|| self.spawns.steal()) {
            keep(job);
        }
        self.placed.take().for_each(|job| keep(job.job()));
        oldest
    }

    /// Wall-clock time with a task since the pool was built, up to `now`, which is in nanoseconds of the pool's life.
    pub(crate) fn busy_ns(&self, now: u64) -> u64 {
        let since = self.busy_since.load(Ordering::Relaxed);
        let current = if since == 0 { 0 } else { now.saturating_sub(since) };
        self.counters.busy_ns.get() + current
    }

    /// Takes over one wake-up that this worker owes (Algorithm 2, line 22).
    pub(crate) fn claim_wakeup(&self) -> bool {
        self.wakeups_owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(1)).is_ok()
    }
}

/// The pool itself. Each worker thread holds a reference, and so does the handle.
pub(crate) struct Shared {
    pub(crate) policy: Policy,
    pub(crate) sleep: Sleep,
    /// The pool's part in the core table. `None`: the operating system shares out time.
    pub(crate) share: Option<Share>,
    pub(crate) masks: Masks,
    /// The program that the pool belongs to, once it has had a task.
    program: SetOnce<(Arc<Program>, PoolId)>,
    pub(crate) peers: Box<[CachePadded<Peer>]>,
    /// Tasks from threads that are not workers of this pool.
    pub(crate) injector: Injector<JobRef>,
    pub(crate) handlers: Handlers,
    /// What keeps the pool running: one for the handle, one for each spawned task that has not finished.
    reasons_to_run: AtomicUsize,
    ended: AtomicBool,
    /// Counts the workers that have no thread yet.
    started: CountLatch,
    /// Held while a broadcast is handed out, so that all workers see broadcasts in the same order.
    broadcasts: Mutex<()>,
    born: Instant,
    me: Weak<Shared>,
    /// What the pool says of its program, should it be the first of it.
    terms: Terms,
    /// Whether it ever had a task.
    begun: AtomicBool,
    /// The process that the threads are in, as [`fork::generation`] counts.
    process: u64,
    /// What its workers do, where that is traced.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

impl Shared {
    /// `adopts`: worker 0 is a thread of the program's own.
    pub(crate) fn new(
        policy: Policy,
        spawns: Vec<Stealer<JobRef>>,
        handlers: Handlers,
        adopts: bool,
        terms: Terms,
        recorder: Option<Arc<Recorder>>,
    ) -> Arc<Shared> {
        let row = policy.row();
        let workers = u32::try_from(spawns.len()).expect("the builder bounds the number of workers");
        let raids = comity_os::barrier::is_available();
        let peer = |(id, spawns)| CachePadded::new(Peer::new(WorkerId(id), spawns, raids));
        let shared = Arc::new_cyclic(|me| Shared {
            me: Weak::clone(me),
            terms,
            begun: AtomicBool::new(false),
            policy,
            sleep: Sleep::new(Threads, workers, row.waking, row.counts_roles),
            share: share::of(policy, workers, adopts),
            masks: Masks::new(workers),
            program: SetOnce::default(),
            peers: (0..workers).zip(spawns).map(peer).collect(),
            injector: Injector::new(),
            handlers,
            reasons_to_run: AtomicUsize::new(1),
            ended: AtomicBool::new(false),
            started: CountLatch::new(workers as usize, Waiter::Thread(ThreadLatch::default())),
            broadcasts: Mutex::new(()),
            born: Instant::now(),
            process: fork::generation(),
            recorder,
        });
        if !shared.sleep.bell_may_stop() {
            shared.ring_bells();
        }
        shared
    }

    /// Makes the next push of every worker look for sleepers. What was written before is visible to them.
    fn ring_bells(&self) {
        // Against the fence in `Deque::silence`: either the bell is seen to be silent, or its owner sees what was written.
        fence(Ordering::SeqCst);
        self.peers.iter().for_each(|peer| peer.deque.ring());
    }

    /// Nanoseconds since the pool was built, and never 0.
    pub(crate) fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64 | 1
    }

    /// The same of a moment.
    pub(crate) fn nanos_at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.born).as_nanos() as u64 | 1
    }

    pub(crate) fn peer(&self, worker: WorkerId) -> &Peer {
        &self.peers[worker.index()]
    }

    pub(crate) fn workers(&self) -> u32 {
        self.peers.len() as u32
    }

    // ---- Life. ----

    /// The worker has its thread.
    pub(crate) fn has_started(&self, worker: WorkerId, thread: ThreadId) {
        self.peer(worker).thread.store(thread.as_raw(), Ordering::Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.started(worker, thread);
        }
        // SAFETY: each worker is counted, and starts once.
        unsafe { CountLatch::set(&raw const self.started) };
    }

    /// Waits until every worker has its thread.
    pub(crate) fn wait_until_started(&self) {
        self.started.wait(None);
    }

    /// Whether the pool's threads are in this process, and not in one that this process was forked from.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == fork::generation()
    }

    /// One more reason to run.
    ///
    /// # Panics
    /// If the pool has ended, unless this is a thread that it has adopted: that goes on, and runs its tasks when it yields.
    pub(crate) fn add_reason_to_run(&self) {
        let one_more = |reasons: usize| (reasons > 0).then_some(reasons + 1);
        if self.reasons_to_run.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            let is_ours = |worker: &Worker| std::ptr::eq(&**worker.shared(), self) && worker.own().adopted;
            let goes_on = current::with(|worker| worker.is_some_and(is_ours));
            assert!(goes_on, "a task cannot be spawned into a pool that has ended");
            self.reasons_to_run.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One reason less; without any, the workers end.
    pub(crate) fn drop_reason_to_run(&self) {
        if self.reasons_to_run.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    pub(crate) fn end(&self) {
        if let Some(share) = &self.share {
            share.end();
        }
        self.ended.store(true, Ordering::Release);
        for worker in 0..self.workers() {
            self.sleep.wake_for_business(WorkerId(worker));
        }
        fence(Ordering::SeqCst);
        self.leave_program();
    }

    fn leave_program(&self) {
        if let Some((program, pool)) = self.program() {
            program.remove(*pool);
        }
    }

    /// The pool belongs to this program.
    pub(crate) fn enroll(&self, program: Arc<Program>, pool: PoolId) {
        self.program.set((program, pool));
    }

    pub(crate) fn program(&self) -> Option<&(Arc<Program>, PoolId)> {
        self.program.get()
    }

    /// The pool has a task: from the first one on it takes part in the core table.
    #[inline]
    pub(crate) fn begin(&self) {
        if !self.begun.load(Ordering::Relaxed) {
            self.take_part();
        }
    }

    #[cold]
    fn take_part(&self) {
        if !self.begun.swap(true, Ordering::Relaxed)
            && self.share.is_some()
            && let Some(pool) = self.me.upgrade()
        {
            program::enroll(&pool, self.terms);
            // It may have ended meanwhile: `end` looks for the program after it has said so.
            fence(Ordering::SeqCst);
            if self.has_ended() {
                self.leave_program();
            }
        }
    }

    /// How many tasks nobody has begun, those from outside included.
    pub(crate) fn queued(&self) -> usize {
        self.peers.iter().map(|peer| peer.queued()).sum::<usize>() + self.injector.len()
    }

    /// Whether the pool's program rests, so that no worker may begin a task.
    pub(crate) fn is_closed(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_closed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Calls what nobody waits for. A panic goes to the pool's handler; without one, or if the handler panics too, the
    /// process aborts with `no_handler`: a lost panic would be a wrong result that nobody sees.
    pub(crate) fn catch_panic(&self, call: impl FnOnce(), no_handler: &'static str) {
        let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else { return };
        let abort = AbortOnDrop(no_handler);
        if let Some(handler) = &self.handlers.panic {
            let abort_in_handler = AbortOnDrop("the pool's panic handler panicked");
            handler(payload);
            std::mem::forget(abort_in_handler);
            std::mem::forget(abort);
        }
    }

    // ---- Tasks from outside. ----

    /// Hands in a task from a thread that is not a worker of this pool.
    ///
    /// # Panics
    /// In a process that was forked from the pool's, where nobody would ever run it.
    pub(crate) fn inject(&self, job: JobRef, submitter: Waker) {
        self.assert_of_this_process();
        self.injector.push(job);
        self.sleep.after_injection(submitter, &View { shared: self, awaited: &|| false });
        self.begin();
    }

    /// Hands each worker its job of a broadcast.
    ///
    /// # Panics
    /// As [`Shared::inject`].
    pub(crate) fn deliver(&self, jobs: impl Iterator<Item = JobRef>) {
        self.assert_of_this_process();
        let in_order = lock(&self.broadcasts);
        for (peer, job) in self.peers.iter().zip(jobs) {
            peer.inbox.push(job);
        }
        drop(in_order);
        for peer in &self.peers {
            self.sleep.wake_for_business(peer.id);
        }
        self.begin();
    }

    /// # Panics
    /// As [`Shared::inject`]. Called before anything is counted that would never be counted down.
    pub(crate) fn assert_of_this_process(&self) {
        assert!(
            self.is_of_this_process(),
            "this pool was built before the process forked, and its threads are in the parent; build another"
        );
    }

    /// Runs `task` on a worker of this pool and waits for it. A worker of another pool serves its own meanwhile.
    pub(crate) fn run<R: Send>(self: &Arc<Self>, task: impl FnOnce() -> R + Send) -> R {
        current::with(|worker| match worker {
            Some(worker) if std::ptr::eq(Arc::as_ptr(worker.shared()), Arc::as_ptr(self)) => task(),
            Some(worker) => {
                let job = StackJob::new(task, CrossLatch::new(Arc::clone(worker.shared()), worker.id()));
                // SAFETY: this frame waits for the latch before it ends.
                self.inject(unsafe { job.as_job_ref() }, Waker::MakesRoom);
                worker.wait_until(&job.latch);
                job.into_result()
            }
            None => {
                let job = StackJob::new(task, ThreadLatch::default());
                // SAFETY: this frame waits for the latch before it ends.
                self.inject(unsafe { job.as_job_ref() }, Waker::MakesRoom);
                job.latch.wait();
                job.into_result()
            }
        })
    }

    // ---- What thieves ask. ----

    /// The outcome of inspecting a worker. The run status is read for busy workers only: it costs up to 0.9 µs.
    pub(crate) fn inspect(&self, worker: WorkerId) -> Victim {
        let peer = self.peer(worker);
        let role = if self.sleep.is_asleep(worker) {
            Role::Sleeper
        } else if !self.sleep.is_busy(worker) {
            Role::Thief
        } else if peer.has_task() {
            Role::Rich
        } else {
            Role::Poor
        };
        let run_status = match role {
            Role::Sleeper => RunStatus::Parked,
            Role::Thief => RunStatus::Unknown,
            Role::Rich | Role::Poor => match peer.thread().and_then(ThreadId::is_running) {
                Some(true) => RunStatus::Running,
                Some(false) => RunStatus::Preempted,
                None => RunStatus::Unknown,
            },
        };
        Victim { id: worker, role, run_status, wakeups_owed: peer.wakeups_owed.load(Ordering::Relaxed) }
    }
}

/// Takes one job, trying again while another thread is in the way.
pub(crate) fn take<T>(mut attempt: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match attempt() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// The pool's queues as the sleep protocol sees them, for a worker that waits for `awaited`.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) awaited: &'a dyn Fn() -> bool,
}

impl Work for View<'_> {
    fn deques_have_task(&self) -> bool {
        self.shared.peers.iter().any(|peer| peer.has_task())
    }

    fn injector_has_task(&self) -> bool {
        !self.shared.injector.is_empty()
    }

    fn ring_bells(&self) {
        self.shared.ring_bells();
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        let peer = self.shared.peer(worker);
        // In a closed pool what others have brought waits as any task does.
        let has_tasks = || !peer.inbox.is_empty() || !peer.placed.is_empty();
        (self.awaited)() || (has_tasks() && !self.shared.is_closed())
    }
}

impl Pool for View<'_> {
    type Platform = Threads;

    fn sleep(&self) -> &Sleep {
        &self.shared.sleep
    }

    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool {
        self.shared.confine(worker, cores)
    }

    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool {
        self.shared.lead(worker, core, sleeps)
    }

    fn up(&self, me: WorkerId) {
        self.shared.is_up(me);
    }

    fn worker_is_up(&self) {
        if let Some((program, _)) = self.shared.program().filter(|(program, _)| program.is_dormant()) {
            program.poke();
        }
    }
}

impl Crew for View<'_> {
    type Cores = Seen<Part>;

    fn workers(&self) -> u32 {
        self.shared.workers()
    }

    fn activation(&self) -> Option<&Share> {
        self.shared.share.as_ref()
    }
}

/// Aborts the process with a sentence unless it is forgotten: for code that must not unwind.
pub(crate) struct AbortOnDrop(pub(crate) &'static str);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        // In one piece: other threads may be writing too, and the end is near.
        let _ = std::io::stderr().write_all(format!("comity: {}; aborting\n", self.0).as_bytes());
        std::process::abort();
    }
}

/// Drops what a panic left that nobody will hear of. That may run anything; if it panics, the process ends, for there
/// is nobody to tell, and those who wait for the caller would wait for ever.
pub(crate) fn drop_lost<T>(lost: T) {
    let abort = AbortOnDrop("what a panic left behind panicked when it was dropped, after another panic");
    drop(lost);
    std::mem::forget(abort);
}
