//! The registry: the data that the workers of one pool share.

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
use comity_policy::definition::Definition;
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

/// The time, in ns, for which an owner may leave a thief's question unanswered before the thief raids. An owner that
/// pushes answers in less than 1 µs. A raid costs each running worker 1 to 2 µs.
const PATIENCE: u64 = 20_000;

// The generic types of `raw`, for this crate's worker and registry.
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

/// A handler that gets the payload of a detached task's panic.
pub(crate) type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
/// A handler that gets a worker's index.
pub(crate) type WorkerHandler = dyn Fn(usize) + Send + Sync;

/// The handlers that a pool calls at certain moments.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) panic: Option<Box<PanicHandler>>,
    pub(crate) start: Option<Box<WorkerHandler>>,
    pub(crate) exit: Option<Box<WorkerHandler>>,
    /// True if the pool drops a task that its exit handler spawns. Otherwise the spawn panics.
    pub(crate) lenient: bool,
}

/// A worker, as other workers see it.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `deque` | its own protocol | all threads |
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
    /// Tasks of `spawn_fifo`. Their turns are in `spawns`.
    pub(crate) fifo: JobFifo,
    /// Tasks that last ran here, and that other workers have unblocked.
    pub(crate) placed: Inbox,
    /// Jobs that only this worker may run: its parts of broadcasts.
    pub(crate) broadcasts: Injector<JobRef>,
    /// The wake-up counter `v.c` of BWS Algorithm 2 while the worker is busy.
    pub(crate) wakeups_owed: AtomicU32,
    thread: AtomicI32,
    /// The duration of the last raid on this worker, in ns, including the barrier.
    raid_takes: AtomicU64,
    pub(crate) candidate: Candidate,
    /// The data of the worker's thread while it runs: see [`Worker::own`](crate::Worker).
    pub(crate) own: AtomicPtr<Own>,
    pub(crate) counters: Live,
    /// The number of jobs that the worker has taken from a queue.
    pub(crate) jobs: Counter,
    /// The time at which the worker got its current task, in ns since the pool was built. 0 for a thief.
    pub(crate) busy_since: AtomicU64,
    /// The worker's activity, for a watch.
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

    /// The number of tasks that no worker has begun.
    pub(crate) fn queued(&self) -> usize {
        self.deque.len() + self.spawns.len() + self.placed.len() + self.broadcasts.len()
    }

    /// True if there is a task that a thief could take.
    pub(crate) fn has_task(&self) -> bool {
        !self.deque.is_empty() || !self.spawns.is_empty() || !self.placed.is_empty()
    }

    /// Takes a task that this worker shares: the right half of a join, else spawned tasks. Of these it takes up to
    /// `batch`, and puts all but the first into the thief's own queue `to`.
    pub(crate) fn rob_shared(&self, to: &Spawns<JobRef>, batch: usize) -> Option<JobRef> {
        let spawned = || self.spawns.steal_batch_with_limit_and_pop(to, batch);
        self.deque.steal().map(JobRef::of).or_else(|| take(spawned))
    }

    /// Asks this worker for a task when it shares none. Rings the bell for its next push. If there are private tasks,
    /// asks for them in the name of `thief` at the time `now`, and raids them after a limited wait.
    pub(crate) fn rob_private(&self, thief: WorkerId, now: impl Fn() -> u64) -> Option<JobRef> {
        if self.deque.is_empty() {
            self.deque.ring();
            return None;
        }
        let began = now();
        let asked = self.deque.ask(began);
        // A raider gets several times the duration of the last raid: a thief that takes a raider's place makes its
        // raid void.
        let raid = self.raid_takes.load(Ordering::Relaxed).max(PATIENCE);
        let patience = if self.deque.is_raided() { 8 * raid } else { PATIENCE };
        if began.saturating_sub(asked) < patience || !self.deque.may_raid(asked, began) {
            return None;
        }
        self.deque.raid(thief.0);
        self.raid_takes.store(now() - began, Ordering::Relaxed);
        self.deque.steal().map(JobRef::of)
    }

    /// Takes the oldest task that was spawned or unblocked on this worker.
    pub(crate) fn spawned(&self) -> Steal<JobRef> {
        self.spawns.steal()
    }

    /// Takes the whole queue of this worker for `thief`, and returns the oldest task. The thief's own queue gets the
    /// others.
    pub(crate) fn mug(&self, thief: WorkerId, to: &Spawns<JobRef>) -> Option<JobRef> {
        let mut oldest = None;
        let mut keep = |job| match oldest {
            None => oldest = Some(job),
            Some(_) => to.push(job),
        };
        self.deque.steal_all(|task| keep(JobRef::of(task)));
        if !self.deque.is_empty() {
            // The owner has not shared these tasks: it has no core on which it could answer.
            self.deque.raid(thief.0);
            self.deque.steal_all(|task| keep(JobRef::of(task)));
        }
        while let Some(job) = take(|| self.spawns.steal()) {
            keep(job);
        }
        self.placed.take().for_each(|job| keep(job.job()));
        oldest
    }

    /// The wall-clock time with a task since the pool was built, in ns. `now` is the present, in ns since the pool
    /// was built.
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

/// The worker of this thread, as [`on_worker`](crate::on_worker) and the closures of [`Worker::join`] get it.
///
/// Passing the worker along saves each [`join`](crate::join()) an access to the thread's local storage. A worker
/// stays on its thread: it is neither `Send` nor `Sync`.
#[repr(transparent)]
pub struct Worker {
    pub(crate) peer: Peer,
    on_its_thread: PhantomData<*mut ()>,
}

/// The data that belongs to a worker's thread alone.
pub(crate) struct Own {
    pub(crate) registry: Arc<Registry>,
    /// Tasks for which no frame of this worker waits directly: tasks of `spawn` and of scopes.
    pub(crate) spawns: Spawns<JobRef>,
    /// The policy's thief: what this worker does when it has no task. It is borrowed for one spell, and no task runs
    /// in a spell.
    pub(crate) thief: RefCell<Box<dyn Thief>>,
    /// The time at which the last spell as a thief ended.
    pub(crate) busy_since: Cell<Instant>,
    /// True if the thread belonged to the program before the pool adopted it. Such a thread runs no main loop.
    pub(crate) adopted: bool,
    /// The number of jobs that this worker has put on its stack while it waited for something else.
    pub(crate) stolen_depth: Cell<u32>,
    /// Counts for the jobs that this worker must take from time to time.
    pub(crate) turn: Turn,
}

/// Counts of a worker that always has tasks, so that it takes other jobs from time to time.
#[derive(Default)]
pub(crate) struct Turn {
    /// True if this worker has run work that blocks. Without such work, no task returns again and again, and spawned
    /// tasks run in the order that rayon's users expect.
    pub(crate) needed: Cell<bool>,
    /// The number of jobs since the last turn.
    pub(crate) jobs: Cell<u32>,
    /// The number of turns.
    pub(crate) turns: Cell<u32>,
    /// A peer, and the number of jobs that it had taken at the last look.
    pub(crate) looked_at: Cell<(u32, u64)>,
}

impl Peer {
    /// Lends `own` to this worker until [`Peer::leave`].
    pub(crate) fn enter(&self, own: &Own) -> &Worker {
        self.own.store(std::ptr::from_ref(own).cast_mut(), Ordering::Relaxed);
        // SAFETY: `Worker` is a transparent `Peer`. The caller is `current::enter` or `current::adopt`, on the
        // worker's thread.
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
        // SAFETY: a `Worker` is visible only on its thread, inside of `current::enter` or after `current::adopt`.
        // Both lend this.
        unsafe { &*self.peer.own.load(Ordering::Relaxed) }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.own().registry
    }
}

/// The settings and the function with which a pool joins its program, at its first task.
pub(crate) struct Enrolment {
    /// The user's settings for the program. Those of the program's first pool are in force.
    pub(crate) settings: ProgramSettings,
    pub(crate) enroll: fn(&Arc<Registry>, ProgramSettings),
}

/// The weight of a program at nice 0, and the maximum weight. Control groups use the same numbers.
pub(crate) const USUAL_WEIGHT: u32 = 100;
pub(crate) const MOST_WEIGHT: u32 = 10_000;

/// The settings that the user has chosen for a program.
#[derive(Clone, Copy)]
pub(crate) struct ProgramSettings {
    /// The weight. `None`: it follows the nice value.
    pub(crate) weight: Option<u32>,
    /// The maximum number of cores. `None`: there is no maximum.
    pub(crate) cores: Option<u32>,
}

/// A pool. Each worker thread holds a reference to it, and so does the handle.
pub(crate) struct Registry {
    pub(crate) policy: Policy,
    pub(crate) sleep: Sleep,
    /// The pool's part in the core table. `None`: the operating system shares out time.
    pub(crate) activation: Option<Activation>,
    pub(crate) masks: Masks,
    pub(crate) mending: Mending,
    /// The program to which the pool belongs, once the pool has had a task.
    program: SetOnce<Box<dyn Membership>>,
    pub(crate) peers: Box<[CachePadded<Peer>]>,
    /// Tasks from threads that are not workers of this pool.
    pub(crate) injector: Injector<JobRef>,
    pub(crate) handlers: Handlers,
    /// The number of reasons to keep the pool running: the handle, and each spawned task that has not ended.
    pub(super) reasons_to_run: AtomicUsize,
    ended: AtomicBool,
    /// Counts the workers that have no thread yet.
    started: CountLatch,
    /// Held while a broadcast is handed out, so that all workers see broadcasts in the same order.
    pub(super) broadcast_order: Mutex<()>,
    born: Instant,
    me: Weak<Registry>,
    enrolment: Enrolment,
    /// The thread outside of the pool that injected its last task, or 0. Only used if the pool takes part in the core
    /// table.
    pub(super) caller: AtomicI32,
    /// True if the pool has had a task.
    begun: AtomicBool,
    /// The generation of the process that has the pool's threads: see [`fork::generation`].
    process: u64,
    /// The recorder of the workers' activities, if there is a trace.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

impl AsPool for Registry {
    fn sleep(&self) -> &Sleep {
        &self.sleep
    }
}

impl Registry {
    /// Returns a new pool. `adopts`: worker 0 is a thread of the program. `may_use`: the cores on which the thread
    /// that builds the pool runs while Comity does not confine it.
    pub(crate) fn new(
        policy: Policy,
        spawns: Vec<Stealer<JobRef>>,
        handlers: Handlers,
        adopts: bool,
        may_use: CoreSet,
        enrolment: Enrolment,
        recorder: Option<Arc<Recorder>>,
    ) -> Arc<Registry> {
        let definition = Definition::of(&policy);
        let workers = u32::try_from(spawns.len()).expect("the builder bounds the number of workers");
        let raids = comity_os::barrier::is_available();
        let peer = |(id, spawns)| CachePadded::new(Peer::new(WorkerId(id), spawns, raids));
        let registry = Arc::new_cyclic(|me| Registry {
            me: Weak::clone(me),
            enrolment,
            caller: AtomicI32::new(0),
            begun: AtomicBool::new(false),
            policy,
            sleep: Sleep::new(Threads, workers, definition.waking, definition.counts_roles),
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

    /// True if the thread outside of the pool that injected its last task runs or waits for a core. The call takes 5
    /// µs.
    pub(crate) fn caller_runs(&self) -> bool {
        let caller = self.caller.load(Ordering::Relaxed);
        caller != 0 && ThreadId::from_raw(caller).is_runnable() == Some(true)
    }

    /// True if the same thread injected the last task of both pools, and that thread runs or waits for a core.
    pub(crate) fn is_called_like(&self, other: &Registry) -> bool {
        self.caller.load(Ordering::Relaxed) == other.caller.load(Ordering::Relaxed) && self.caller_runs()
    }

    /// Makes the next push of every worker look for sleepers. Workers that do see what the caller wrote before.
    pub(super) fn ring_bells(&self) {
        // Pairs with the fence in `Deque::silence`: either this thread sees that the bell is silent, or the owner
        // sees what this thread wrote.
        fence(Ordering::SeqCst);
        self.peers.iter().for_each(|peer| peer.deque.ring());
    }

    /// The time since the pool was built, in ns. It is never 0.
    pub(crate) fn now(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64 | 1
    }

    /// Converts an `Instant` to ns since the pool was built. Never returns 0.
    pub(crate) fn nanos_at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.born).as_nanos() as u64 | 1
    }

    pub(crate) fn peer(&self, worker: WorkerId) -> &Peer {
        &self.peers[worker.index()]
    }

    pub(crate) fn workers(&self) -> u32 {
        self.peers.len() as u32
    }

    // The pool's life: its start, its program and its end.

    /// Records that the worker's thread has started.
    pub(crate) fn has_started(&self, worker: WorkerId, thread: ThreadId) {
        self.peer(worker).thread.store(thread.as_raw(), Ordering::Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.started(worker, thread);
        }
        // SAFETY: each worker is counted, and starts once.
        unsafe { CountLatch::set(&raw const self.started) };
    }

    /// Waits until the thread of every worker has started.
    pub(crate) fn wait_until_started(&self) {
        self.started.wait(None::<&Worker>);
    }

    /// True if the pool's threads are in this process, and not in a process from which this one was forked.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == fork::generation()
    }

    /// Removes a reason to keep the pool running. Without any reason, the workers end.
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

    /// Records the program to which the pool belongs.
    pub(crate) fn enroll(&self, program: Box<dyn Membership>) {
        self.program.set(program);
    }

    pub(crate) fn program(&self) -> Option<&dyn Membership> {
        self.program.get().map(|program| &**program)
    }

    /// The cores that the system grants, as far as the pool's program knows them.
    pub(crate) fn granted(&self) -> CoreSet {
        self.program().map_or(CoreSet::EMPTY, |program| program.granted())
    }

    /// Called when the pool has a task. The pool takes part in the core table from its first task on.
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
            (self.enrolment.enroll)(&pool, self.enrolment.settings);
            // The pool may have ended meanwhile: `end` looks for the program after it has set `ended`.
            fence(Ordering::SeqCst);
            if self.has_ended() {
                self.leave_program();
            }
        }
    }

    /// Returns a reference to the pool, or `None` once nothing holds the pool.
    pub(crate) fn me(&self) -> Option<Arc<Registry>> {
        self.me.upgrade()
    }

    /// The number of tasks that no worker has begun, including injected ones.
    pub(crate) fn queued(&self) -> usize {
        self.peers.iter().map(|peer| peer.queued()).sum::<usize>() + self.injector.len()
    }

    /// The time that all workers together have had a task since the pool was built, in ns. Adopted threads do not
    /// count.
    pub(crate) fn busy_ns(&self) -> u64 {
        let now = self.now();
        let counts = |id| self.activation.as_ref().is_none_or(|activation| activation.counts(id));
        self.peers.iter().filter(|peer| counts(peer.id)).map(|peer| peer.busy_ns(now)).sum()
    }

    /// True if the pool is closed, so that no worker may begin a task.
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

    /// Gives the panic of a detached task to the pool's panic handler. Without a handler, the process aborts with the
    /// message `no_handler`: a lost panic would be a wrong result that no caller sees. If the handler panics too, the
    /// process also aborts.
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

    // Functions for thieves.

    /// Returns what a thief sees of a worker. The run status is read for busy workers only, because that takes up to
    /// 0.9 µs.
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
