//! What the workers of one pool share.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use comity_os::CoreSet;
use comity_os::cpu_clock::ThreadId;
use comity_policy::row::Row;
use comity_policy::{Policy, Role, RunStatus, Thief, Victim, WorkerId};
use comity_protocol::platform::Once as _;
use crossbeam_deque::{Injector, Steal, Stealer, Worker as Spawns};
use crossbeam_utils::CachePadded;

use crate::cores::activation::{self, Activation};
use crate::cores::candidate::Candidate;
use crate::cores::masks::Masks;
use crate::cores::membership::Membership;
use crate::cores::mender::Mending;
use crate::fork;
use crate::raw;
use crate::raw::abort::AbortOnDrop;
use crate::raw::deque::Deque;
use crate::raw::job::{Payload, take};
use crate::raw::latch::{AsPool, Latch, ThreadLatch};
use crate::raw::sync::{SetOnce, Threads};
use crate::watching::activity::Activity;
use crate::watching::counters::{Counter, Live};
use crate::watching::trace::Recorder;
use crate::workers::sleep::Sleep;

/// How long a thief's question may go unanswered before it raids, in nanoseconds. An owner that pushes answers in less
/// than 1 µs; a raid costs each running worker 1 to 2 µs.
const PATIENCE: u64 = 20_000;

// What `raw` is generic in.
pub(crate) type Header = raw::job::Header<Worker>;
pub(crate) type JobRef = raw::job::JobRef<Worker>;
pub(crate) type JoinJob<F, R> = raw::job::JoinJob<Worker, F, R>;
pub(crate) type StackJob<L, F, R> = raw::job::StackJob<Worker, L, F, R>;
pub(crate) type HeapJob<F, D> = raw::job::HeapJob<Worker, F, D>;
pub(crate) type JobFifo = raw::job::JobFifo<Worker>;
pub(crate) type Inbox = raw::inbox::Inbox<Worker>;
pub(crate) type Linked = raw::inbox::Linked<Worker>;
pub(crate) type LinkedRef = raw::inbox::LinkedRef<Worker>;
pub(crate) type JoinLatch = raw::latch::JoinLatch<Worker>;
pub(crate) type CrossLatch = raw::latch::CrossLatch<Registry>;
pub(crate) type CountLatch = raw::latch::CountLatch<Registry>;
pub(crate) type Waiter = raw::latch::Waiter<Registry>;

/// Told the payload of a panic of a detached task.
pub(crate) type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
/// Told a worker's index.
pub(crate) type WorkerHandler = dyn Fn(usize) + Send + Sync;

/// What a pool calls at certain moments.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) panic: Option<Box<PanicHandler>>,
    pub(crate) start: Option<Box<WorkerHandler>>,
    pub(crate) exit: Option<Box<WorkerHandler>>,
    /// True if the pool drops a task that its exit handler spawns. Otherwise the spawn panics.
    pub(crate) lenient: bool,
}

/// One worker as the others see it.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `deque` | its own protocol | all |
/// | `spawns` | the queue's own protocol | thieves |
/// | `fifo` | the owner | the worker that runs one of its turns |
/// | `placed` | any thread | the owner, thieves |
/// | `broadcasts` | any thread | the owner |
/// | `wakeups_owed` | the owner stores, thieves count down | thieves |
/// | `thread` | the owner, once, before it runs anything | thieves |
/// | `raid_takes` | raiders | thieves |
/// | `candidate` | its own protocol | thieves |
/// | `own` | the owner | the owner |
/// | `counters`, `jobs`, `busy_since`, `activity` | the owner | any thread |
pub(crate) struct Peer {
    /// The right halves of joins.
    pub(crate) deque: Deque<Header>,
    pub(crate) id: WorkerId,
    /// Tasks of `spawn` and of scopes: always shared, and any number of them.
    spawns: Stealer<JobRef>,
    /// Those of `spawn_fifo`; their turns are among the former.
    pub(crate) fifo: JobFifo,
    /// Tasks that others have unblocked, and that last ran here.
    pub(crate) placed: Inbox,
    /// Jobs that only this worker may run: its part of a broadcast.
    pub(crate) broadcasts: Injector<JobRef>,
    /// The wake-up counter `v.c` of BWS Algorithm 2 while the worker is busy.
    pub(crate) wakeups_owed: AtomicU32,
    thread: AtomicI32,
    /// Nanoseconds that the last raid on this worker took, barrier included.
    raid_takes: AtomicU64,
    pub(crate) candidate: Candidate,
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
            broadcasts: Injector::new(),
            wakeups_owed: AtomicU32::new(0),
            thread: AtomicI32::new(0),
            raid_takes: AtomicU64::new(0),
            candidate: Candidate::default(),
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

    /// How many tasks no worker has begun.
    pub(crate) fn queued(&self) -> usize {
        self.deque.len() + self.spawns.len() + self.placed.len() + self.broadcasts.len()
    }

    /// Whether there is a task that a thief could take.
    pub(crate) fn has_task(&self) -> bool {
        !self.deque.is_empty() || !self.spawns.is_empty() || !self.placed.is_empty()
    }

    /// Takes what this worker shares: the right half of a join, else what was spawned. Of that up to `batch` tasks,
    /// and all but the first go `to` the thief's own.
    pub(crate) fn rob_shared(&self, to: &Spawns<JobRef>, batch: usize) -> Option<JobRef> {
        let spawned = || self.spawns.steal_batch_with_limit_and_pop(to, batch);
        self.deque.steal().map(JobRef::of).or_else(|| take(spawned))
    }

    /// Where this worker shares nothing: rings for the next push. If there are tasks all the same, asks for them, for
    /// `thief` at the time `now`, and does not wait for ever.
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

    /// Takes the whole queue of this worker, for `thief`; the thief's own queue gets all but the oldest task.
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

/// The worker that runs on this thread, as [`on_worker`](crate::on_worker) and the closures of [`Worker::join`] get it.
///
/// Passing it along saves each [`join`](crate::join()) the way through the thread's local storage. It stays on its
/// thread: it is neither `Send` nor `Sync`.
#[repr(transparent)]
pub struct Worker {
    pub(crate) peer: Peer,
    on_its_thread: PhantomData<*mut ()>,
}

/// What belongs to a worker's thread alone.
pub(crate) struct Own {
    pub(crate) registry: Arc<Registry>,
    /// Tasks that no frame of this worker waits for by itself: those of `spawn` and of scopes.
    pub(crate) spawns: Spawns<JobRef>,
    /// What this worker does when it has no task. Borrowed during one spell as a thief, and no task runs in a spell.
    pub(crate) thief: RefCell<Box<dyn Thief>>,
    /// When the last spell as a thief ended.
    pub(crate) busy_since: Cell<Instant>,
    /// Whether the thread was a program's own before: it is in no main loop.
    pub(crate) adopted: bool,
    /// Jobs on this worker's stack that it laid there while it waited for something else.
    pub(crate) stolen_depth: Cell<u32>,
    /// What is to come first some time.
    pub(crate) turn: Turn,
}

/// What a worker that always has tasks must not forget.
#[derive(Default)]
pub(crate) struct Turn {
    /// Whether this worker has run work that blocks. Without any, nothing comes again and again, and what was spawned
    /// runs in the order that rayon's users count on.
    pub(crate) needed: Cell<bool>,
    /// Jobs since the last turn.
    pub(crate) jobs: Cell<u32>,
    /// Counts the turns.
    pub(crate) turns: Cell<u32>,
    /// A peer, and how many jobs it had taken at the last look.
    pub(crate) looked_at: Cell<(u32, u64)>,
}

impl Peer {
    /// Lends `own` to this worker, until [`Peer::leave`].
    pub(crate) fn enter(&self, own: &Own) -> &Worker {
        self.own.store(std::ptr::from_ref(own).cast_mut(), Ordering::Relaxed);
        // SAFETY: `Worker` is a transparent `Peer`; the caller is `current::enter`, on the worker's thread.
        unsafe { &*std::ptr::from_ref(self).cast::<Worker>() }
    }

    pub(crate) fn leave(&self) {
        self.own.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Worker {
    pub(crate) fn id(&self) -> WorkerId {
        self.peer.id
    }

    /// This worker's index in its pool, from 0.
    pub fn index(&self) -> usize {
        self.id().index()
    }

    pub(crate) fn own(&self) -> &Own {
        // SAFETY: a `Worker` is seen only inside of `current::enter`, on its thread, which lends what this points to.
        unsafe { &*self.peer.own.load(Ordering::Relaxed) }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.own().registry
    }
}

/// How a pool comes to its program, with its first task.
pub(crate) struct Enrolment {
    /// The user's settings for the program. Those of the program's first pool are in force.
    pub(crate) wish: Wish,
    pub(crate) enroll: fn(&Arc<Registry>, Wish),
}

/// The weight of a program at nice 0, and the largest weight, as with control groups.
pub(crate) const USUAL_WEIGHT: u32 = 100;
pub(crate) const MOST_WEIGHT: u32 = 10_000;

/// The settings that the user has chosen for a program.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// The weight. `None`: it follows the nice value.
    pub(crate) weight: Option<u32>,
    /// The maximum number of cores. `None`: there is no maximum.
    pub(crate) cores: Option<u32>,
}

/// The pool itself. Each worker thread holds a reference, and so does the handle.
pub(crate) struct Registry {
    pub(crate) policy: Policy,
    pub(crate) sleep: Sleep,
    /// The pool's part in the core table. `None`: the operating system shares out time.
    pub(crate) activation: Option<Activation>,
    pub(crate) masks: Masks,
    pub(crate) mending: Mending,
    /// The program that the pool belongs to, once it has had a task.
    program: SetOnce<Box<dyn Membership>>,
    pub(crate) peers: Box<[CachePadded<Peer>]>,
    /// Tasks from threads that are not workers of this pool.
    pub(crate) injector: Injector<JobRef>,
    pub(crate) handlers: Handlers,
    /// What keeps the pool running: one for the handle, one for each spawned task that has not finished.
    pub(super) reasons_to_run: AtomicUsize,
    ended: AtomicBool,
    /// Counts the workers that have no thread yet.
    started: CountLatch,
    /// Held while a broadcast is handed out, so that all workers see broadcasts in the same order.
    pub(super) broadcast_order: Mutex<()>,
    born: Instant,
    me: Weak<Registry>,
    enrolment: Enrolment,
    /// The thread outside of the pool that handed in its last task, if it takes part in the core table; or 0.
    pub(super) caller: AtomicI32,
    /// Whether it ever had a task.
    begun: AtomicBool,
    /// The process that the threads are in, as [`fork::generation`] counts.
    process: u64,
    /// What its workers do, where that is traced.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

impl AsPool for Registry {
    fn sleep(&self) -> &Sleep {
        &self.sleep
    }
}

impl Registry {
    /// `adopts`: worker 0 is a thread of the program's own. `may_use`: where the thread that builds the pool runs of
    /// its own accord.
    pub(crate) fn new(
        policy: Policy,
        spawns: Vec<Stealer<JobRef>>,
        handlers: Handlers,
        adopts: bool,
        may_use: CoreSet,
        enrolment: Enrolment,
        recorder: Option<Arc<Recorder>>,
    ) -> Arc<Registry> {
        let row = Row::of(&policy);
        let workers = u32::try_from(spawns.len()).expect("the builder bounds the number of workers");
        let raids = comity_os::barrier::is_available();
        let peer = |(id, spawns)| CachePadded::new(Peer::new(WorkerId(id), spawns, raids));
        let registry = Arc::new_cyclic(|me| Registry {
            me: Weak::clone(me),
            enrolment,
            caller: AtomicI32::new(0),
            begun: AtomicBool::new(false),
            policy,
            sleep: Sleep::new(Threads, workers, row.waking, row.counts_roles),
            activation: activation::of(policy, workers, adopts, may_use),
            masks: Masks::new(workers),
            mending: Mending::default(),
            program: SetOnce::default(),
            peers: (0..workers).zip(spawns).map(peer).collect(),
            injector: Injector::new(),
            handlers,
            reasons_to_run: AtomicUsize::new(1),
            ended: AtomicBool::new(false),
            started: CountLatch::new(workers as usize, Waiter::Thread(ThreadLatch::default())),
            broadcast_order: Mutex::new(()),
            born: Instant::now(),
            process: fork::generation(),
            recorder,
        });
        if !registry.sleep.bell_may_stop() {
            registry.ring_bells();
        }
        registry
    }

    /// True if the thread outside of the pool that handed in its last task runs, or waits for a core. 5 µs.
    pub(crate) fn caller_runs(&self) -> bool {
        let caller = self.caller.load(Ordering::Relaxed);
        caller != 0 && ThreadId::from_raw(caller).is_runnable() == Some(true)
    }

    /// True if the thread that handed in the last task of both pools is the same, and runs.
    pub(crate) fn is_called_like(&self, other: &Registry) -> bool {
        self.caller.load(Ordering::Relaxed) == other.caller.load(Ordering::Relaxed) && self.caller_runs()
    }

    /// Makes the next push of every worker look for sleepers. What was written before is visible to them.
    pub(super) fn ring_bells(&self) {
        // Against the fence in `Deque::silence`: either the bell is seen to be silent, or its owner sees what was
        // written.
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

    // Life.

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
        self.started.wait(None::<&Worker>);
    }

    /// Whether the pool's threads are in this process, and not in one that this process was forked from.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == fork::generation()
    }

    /// One reason less; without any, the workers end.
    pub(crate) fn drop_reason_to_run(&self) {
        if self.reasons_to_run.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    pub(crate) fn end(&self) {
        if let Some(activation) = &self.activation {
            activation.end();
        }
        self.ended.store(true, Ordering::Release);
        self.mending.end();
        for worker in 0..self.workers() {
            self.sleep.wake_for_business(WorkerId(worker));
        }
        fence(Ordering::SeqCst);
        self.leave_program();
    }

    fn leave_program(&self) {
        if let Some(program) = self.program() {
            program.leave();
        }
    }

    /// The pool belongs to this program.
    pub(crate) fn enroll(&self, program: Box<dyn Membership>) {
        self.program.set(program);
    }

    pub(crate) fn program(&self) -> Option<&dyn Membership> {
        self.program.get().map(|program| &**program)
    }

    /// What the pool's program knows of the cores that the system grants.
    pub(crate) fn granted(&self) -> CoreSet {
        self.program().map_or(CoreSet::EMPTY, |program| program.granted())
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
            && self.activation.is_some()
            && let Some(pool) = self.me()
        {
            (self.enrolment.enroll)(&pool, self.enrolment.wish);
            // It may have ended meanwhile: `end` looks for the program after it has said so.
            fence(Ordering::SeqCst);
            if self.has_ended() {
                self.leave_program();
            }
        }
    }

    /// `None` once nothing holds the pool.
    pub(crate) fn me(&self) -> Option<Arc<Registry>> {
        self.me.upgrade()
    }

    /// How many tasks no worker has begun, those from outside included.
    pub(crate) fn queued(&self) -> usize {
        self.peers.iter().map(|peer| peer.queued()).sum::<usize>() + self.injector.len()
    }

    /// Time that its workers together have had a task since it was built, in nanoseconds; adopted threads do not count.
    pub(crate) fn busy_ns(&self) -> u64 {
        let now = self.now();
        let counts = |id| self.activation.as_ref().is_none_or(|activation| activation.counts(id));
        self.peers.iter().filter(|peer| counts(peer.id)).map(|peer| peer.busy_ns(now)).sum()
    }

    /// Whether the pool's program rests, so that no worker may begin a task.
    pub(crate) fn is_closed(&self) -> bool {
        self.activation.as_ref().is_some_and(Activation::is_closed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Calls a detached task. A panic goes to [`Registry::handle_panic`].
    pub(crate) fn catch_panic(&self, call: impl FnOnce(), no_handler: &'static str) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
            self.handle_panic(payload, no_handler);
        }
    }

    /// The panic of a detached task goes to the pool's handler. Without one, or if the handler panics too, the process
    /// aborts with `no_handler`: a lost panic would be a wrong result that no caller sees.
    #[cold]
    #[inline(never)]
    pub(crate) fn handle_panic(&self, payload: Payload, no_handler: &'static str) {
        let abort = AbortOnDrop(no_handler);
        if let Some(handler) = &self.handlers.panic {
            let abort_in_handler = AbortOnDrop("the pool's panic handler panicked");
            handler(payload);
            std::mem::forget(abort_in_handler);
            std::mem::forget(abort);
        }
    }

    // What thieves ask.

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
