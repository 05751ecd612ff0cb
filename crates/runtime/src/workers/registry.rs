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

/// The time, in ns, that a thief waits for a deque's owner to share tasks, before the thief [raids](Deque::raid) the
/// deque. An owner that pushes tasks answers in less than 1 µs. A raid costs each running worker 1 to 2 µs.
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

/// The handlers of a pool: for panics, and for the start and the end of each worker.
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
/// | `deque` | the owner and thieves: see [`Deque`] | all threads |
/// | `spawns` | the owner pushes and pops, thieves steal | thieves |
/// | `fifo` | the owner | the worker that runs a placeholder of the fifo |
/// | `placed` | any thread | the owner, thieves |
/// | `broadcasts` | any thread | the owner |
/// | `wakeups_owed` | the owner stores, thieves count down | thieves |
/// | `thread` | the owner, once, before it runs anything | thieves |
/// | `raid_takes` | raiders | thieves |
/// | `candidate` | thieves: see [`Candidate`] | thieves |
/// | `own` | the owner | the owner |
/// | `counters`, `jobs`, `busy_since`, `activity` | the owner | any thread |
pub(crate) struct Peer {
    /// The right halves of joins.
    pub(crate) deque: Deque<Header>,
    pub(crate) id: WorkerId,
    /// Tasks of `spawn` and of scopes. Thieves may take each of them at any time: no part of this queue is private.
    spawns: Stealer<JobRef>,
    /// Tasks of `spawn_fifo`. For each of them, `spawns` has a placeholder, which runs the oldest of them.
    pub(crate) fifo: JobFifo,
    /// Unblocked tasks that the policy has placed here because they last ran here, and tasks that must run after all
    /// others.
    pub(crate) placed: Inbox,
    /// Jobs that only this worker may run: its parts of broadcasts.
    pub(crate) broadcasts: Injector<JobRef>,
    /// The number of wake-ups that the worker, while it is busy, still has to cause (`v.c` in BWS Algorithm 2).
    pub(crate) wakeups_owed: AtomicU32,
    thread: AtomicI32,
    /// The duration of the last raid on this worker, in ns, including the barrier.
    raid_takes: AtomicU64,
    pub(crate) candidate: Candidate,
    /// The [`Own`] of the worker's thread while the thread is the worker. Null before and after.
    pub(crate) own: AtomicPtr<Own>,
    pub(crate) counters: Live,
    /// The number of jobs that the worker has taken from a queue.
    pub(crate) jobs: Counter,
    /// The time at which the worker got its current task, in ns since the pool was built. 0 for a thief.
    pub(crate) busy_since: AtomicU64,
    /// The worker's activity, for `COMITY_WATCH`.
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

    /// Takes a task that this worker shares: the oldest shared right half of a join, else up to `batch` spawned
    /// tasks. Of a batch, it returns the first task, and puts the others into the thief's own queue `to`.
    pub(crate) fn rob_shared(&self, to: &Spawns<JobRef>, batch: usize) -> Option<JobRef> {
        let spawned = || self.spawns.steal_batch_with_limit_and_pop(to, batch);
        self.deque.steal().map(JobRef::of).or_else(|| take(spawned))
    }

    /// Asks this worker to share a task, because it shares none now: rings the bell, which the worker notices at its
    /// next push. If the worker has private tasks and does not answer within [`PATIENCE`], raids them for `thief`.
    /// `now` returns the present, in ns since the pool was built.
    pub(crate) fn rob_private(&self, thief: WorkerId, now: impl Fn() -> u64) -> Option<JobRef> {
        if self.deque.is_empty() {
            self.deque.ring();
            return None;
        }
        let began = now();
        let asked = self.deque.ask(began);
        // While a raid is under way, other thieves wait for eight times the duration of the last raid, because a
        // second raider would cancel the first raid.
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

    /// Takes all tasks of this worker, which has no core, for `thief`. Returns the oldest task, and puts the others
    /// into the thief's own queue `to`.
    pub(crate) fn mug(&self, thief: WorkerId, to: &Spawns<JobRef>) -> Option<JobRef> {
        let mut oldest = None;
        let mut keep = |job| match oldest {
            None => oldest = Some(job),
            Some(_) => to.push(job),
        };
        self.deque.steal_all(|task| keep(JobRef::of(task)));
        if !self.deque.is_empty() {
            // These tasks are private, and the owner has no core on which it could share them. So the thief raids
            // them.
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

/// The worker of this thread. [`on_worker`](crate::on_worker) and [`Worker::join`] pass it to their closures.
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
    /// The policy's state for this worker. It decides what the worker does when it has no task. It is borrowed while
    /// the worker has no task, so no task can borrow it again.
    pub(crate) thief: RefCell<Box<dyn Thief>>,
    /// The time since which the worker is busy: the end of its last spell (a time without a task).
    pub(crate) busy_since: Cell<Instant>,
    /// True if the thread belonged to the program before the pool adopted it. Such a thread runs no main loop.
    pub(crate) adopted: bool,
    /// The number of unfinished jobs on this worker's stack that it took while a frame below waited for something
    /// else.
    pub(crate) stolen_depth: Cell<u32>,
    /// Counters by which this worker takes a job from another source from time to time.
    pub(crate) turn: Turn,
}

/// Counters with which a worker that never runs out of tasks still takes jobs from other sources. Every 61 jobs it
/// has a *turn*, in which it takes such a job: see `Worker::job_in_turn`.
#[derive(Default)]
pub(crate) struct Turn {
    /// True if this worker has run work that blocks, which can return to its queue without end. Without such work the
    /// worker has no turns, so that spawned tasks run in the order that rayon's users expect.
    pub(crate) needed: Cell<bool>,
    /// The number of jobs since the last turn.
    pub(crate) jobs: Cell<u32>,
    /// The number of turns that the worker has had.
    pub(crate) turns: Cell<u32>,
    /// A peer that the worker has looked at, and the number of jobs that the peer had taken by then.
    pub(crate) looked_at: Cell<(u32, u64)>,
}

impl Peer {
    /// Makes `own` the data of this worker until [`Peer::leave`].
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
        // Both have stored a pointer to a live `Own`.
        unsafe { &*self.peer.own.load(Ordering::Relaxed) }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.own().registry
    }
}

/// The settings and the function with which a pool joins its program, at its first task.
pub(crate) struct Enrolment {
    /// The user's settings for the program. The settings of the program's first pool apply to all its pools.
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
    /// The state of which workers are awake, and on which cores. `None`: the policy shares no cores, and the
    /// operating system schedules all workers.
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
    /// The latch that counts the workers whose thread has not started.
    started: CountLatch,
    /// Held while a broadcast is handed out, so that all workers see broadcasts in the same order.
    pub(super) broadcast_order: Mutex<()>,
    born: Instant,
    me: Weak<Registry>,
    enrolment: Enrolment,
    /// The thread outside of the pool that injected the pool's last task, or 0. Only set if the policy shares cores.
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
    /// that builds the pool may run when Comity does not confine it.
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

    /// True if the thread outside of the pool that injected the pool's last task runs or waits for a core. The call
    /// takes 5 µs.
    pub(crate) fn caller_runs(&self) -> bool {
        let caller = self.caller.load(Ordering::Relaxed);
        caller != 0 && ThreadId::from_raw(caller).is_runnable() == Some(true)
    }

    /// True if the same thread injected the last task of both pools, and that thread runs or waits for a core.
    pub(crate) fn is_called_like(&self, other: &Registry) -> bool {
        self.caller.load(Ordering::Relaxed) == other.caller.load(Ordering::Relaxed) && self.caller_runs()
    }

    /// Rings the bell of every worker, so that its next push looks for sleepers. The worker then also sees what the
    /// caller wrote before this call.
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

    /// The cores that the system grants to the pool's program. Empty while the pool has no program, or the program
    /// does not know them.
    pub(crate) fn granted(&self) -> CoreSet {
        self.program().map_or(CoreSet::EMPTY, |program| program.granted())
    }

    /// Called when the pool gets a task. At its first task the pool joins its program, which shares cores through the
    /// core table.
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
            // The pool may have ended before the program was set. `end` sets `ended` and then reads the program; this
            // thread does the reverse. So at least one of the two threads makes the pool leave its program.
            fence(Ordering::SeqCst);
            if self.has_ended() {
                self.leave_program();
            }
        }
    }

    /// Returns a reference to the pool, or `None` if no other reference is left.
    pub(crate) fn me(&self) -> Option<Arc<Registry>> {
        self.me.upgrade()
    }

    /// The number of tasks that no worker has begun, including injected ones.
    pub(crate) fn queued(&self) -> usize {
        self.peers.iter().map(|peer| peer.queued()).sum::<usize>() + self.injector.len()
    }

    /// The time that all workers together have had a task since the pool was built, in ns. The time of adopted
    /// threads is left out.
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

    /// Calls a closure for which no caller waits. A panic goes to [`Registry::handle_panic`].
    pub(crate) fn catch_panic(&self, call: impl FnOnce(), no_handler: &'static str) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
            self.handle_panic(payload, no_handler);
        }
    }

    /// Gives a panic that no caller receives to the pool's panic handler. Without a handler, the process aborts with
    /// the message `no_handler`: a program that ignores the panic could compute a wrong result. If the handler panics
    /// too, the process also aborts.
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

    /// Returns the state of a worker, for a thief. The run status (whether the worker's thread is on a core) is read
    /// only for busy workers, because reading it takes up to 0.9 µs.
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
