//! The interface between a policy and its shell (the runtime or a simulator): the policy gets events and returns
//! actions.

/// A worker's index within its pool, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// The index as a `usize`, for tables with one entry per worker.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Decides what a worker without a task does next. There is one value per worker, for the worker's life. Its state
/// lasts from one spell (a time without a task) to the next, unless the policy resets it.
pub trait Thief: Send {
    /// Answers one event with one action. The shell carries the action out before it calls `next` again.
    fn next(&mut self, event: Event) -> Action;
}

/// An event: the outcome of the thief's last action, or the reason why the worker is a thief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker's deque ran empty: it just became a thief.
    DequeEmpty {
        /// The wake-ups that the worker owed at its last [`Action::Run`], minus the wake-ups that thieves have claimed
        /// since.
        wakeups_owed: u32,
    },
    /// This worker has no task to take.
    StealFailed(WorkerId),
    /// This worker has tasks, but the thief got none. Either another thief was faster, or the worker has not yet
    /// answered the request to share tasks. The papers' deques show all tasks, so the papers have no such failure. A
    /// policy that counts failures does not count a missed steal.
    StealMissed(WorkerId),
    /// The shell holds a task taken from this worker. The policy starts the task with [`Action::Run`].
    StealSucceeded(WorkerId),
    /// The shell holds a task that came from outside the pool. It found the task when the thief asked for a steal.
    Injected,
    /// An event for which this worker waited has occurred: for example, the stolen half of a join, or a scope, is
    /// done. The worker has work again. May follow any action.
    Resumed,
    /// The answer to [`Action::Inspect`].
    Seen(Victim),
    /// The answer to [`Action::Count`].
    Counted {
        /// Workers with a task.
        busy: u32,
        /// Workers that are awake without a task, the asking worker included.
        thieves: u32,
        /// Workers asleep.
        sleepers: u32,
    },
    /// The shell holds the oldest task of this worker's queue. The rest of the queue is in the thief's own queue.
    Mugged(WorkerId),
    /// No worker without a core has a queue.
    NothingToMug,
    /// The thief offered its core to other threads, and now runs again.
    Yielded,
    /// This worker has been accelerated: it got the rest of the thief's time slice.
    Accelerated(WorkerId),
    /// This worker was not accelerated. It is on a core, another thief accelerates it, it is on another NUMA node, or
    /// the system cannot accelerate workers.
    AccelerationRefused(WorkerId),
    /// The pause is over.
    Paused {
        /// True if any worker of the pool has a task. If no worker has a task, the next task comes from a thread
        /// outside the pool. That thread may be waiting for the thief's core.
        any_busy: bool,
        /// True if another program waits for a core.
        core_is_wanted: bool,
    },
    /// The answer to [`Action::ClaimWakeup`]. `None`: another thief was faster.
    WakeupClaimed(Option<WorkerId>),
    /// The answer to [`Action::Wake`]: the worker that was woken. `None`: the named worker, or every worker, was
    /// awake.
    PeerWoken(Option<WorkerId>),
    /// The shell refused to let the worker sleep.
    SleepRefused(SleepRefusal),
    /// The worker slept and is awake. May follow any action: if a pool has no work at all, the shell puts every
    /// worker to sleep under every policy.
    Woken(WakeReason),
}

/// The next action of a thief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try to take a task from this worker: [`Event::StealFailed`], [`Event::StealMissed`], [`Event::StealSucceeded`]
    /// or [`Event::Injected`]. In a pool of one worker, the thief names itself, and the shell only looks for tasks
    /// from outside.
    StealFrom(WorkerId),
    /// Take over the whole queue of any worker that has no core: [`Event::Mugged`], [`Event::Injected`] or
    /// [`Event::NothingToMug`].
    Mug,
    /// Look at a worker: [`Event::Seen`]. A look costs up to a microsecond, so only policies that need it use it.
    Inspect(WorkerId),
    /// Count the pool's roles: [`Event::Counted`]. It takes the pool's only lock; `wsgi` exists to measure this cost.
    Count,
    /// Give the core to this worker: [`Event::Yielded`]. If the kernel has no directed yield, the shell does a plain
    /// yield. Before that, it moves the worker to the thief's core if
    /// [`Definition::yield_to`](crate::definition::Definition::yield_to) is set.
    YieldTo(WorkerId),
    /// Give a worker the rest of the thief's time slice, on the thief's core (Robinhood §3.1): [`Event::Accelerated`]
    /// or [`Event::AccelerationRefused`]. The shell decides whether the worker gets its old place again afterwards.
    Accelerate {
        /// The worker to accelerate.
        candidate: WorkerId,
        /// The level: the time slice of a thread or that of a virtual CPU.
        level: Level,
    },
    /// Give the core to a thread that the kernel chooses: [`Event::Yielded`].
    YieldCore,
    /// Stay on the core for this many spin-loop hints: [`Event::Paused`].
    Pause {
        /// Number of spin-loop hints. One hint takes 25 to 60 ns on current x86 processors.
        hints: u32,
    },
    /// Take over one of the wake-ups that a busy worker owes: [`Event::WakeupClaimed`].
    ClaimWakeup {
        /// The worker that owes the wake-up.
        from: WorkerId,
    },
    /// Wake a sleeping worker: [`Event::PeerWoken`].
    Wake {
        /// The sleeper to wake. `None`: any sleeper.
        sleeper: Option<WorkerId>,
        /// True if the sleeper becomes the watchdog in place of this worker. It has an effect only if this worker is
        /// the watchdog.
        appoint: bool,
    },
    /// Sleep until woken: [`Event::Woken`] or [`Event::SleepRefused`].
    Sleep,
    /// Sleep for a limited time: [`Event::Woken`] or [`Event::SleepRefused`]. If the worker has lost its core, it
    /// sleeps until it is woken.
    Doze {
        /// The longest sleep, in microseconds, at least 1.
        us: u32,
    },
    /// Start the task that was found, or continue the task that waited. This action ends the spell: the next event is
    /// [`Event::DequeEmpty`].
    Run {
        /// The number of wake-ups that this worker leaves for other thieves to claim.
        wakeups_owed: u32,
    },
}

/// The level of an acceleration (Robinhood §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The worker's thread, which the operating system has preempted, runs in the time slice of the thief's thread.
    Thread,
    /// The virtual CPU of the worker's thread, which the hypervisor has preempted, runs in the time slice of the
    /// thief's virtual CPU.
    Vcpu,
}

/// The result of [`Action::Inspect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The inspected worker.
    pub id: WorkerId,
    /// The role of the worker.
    pub role: Role,
    /// The run status of the worker. The shell looks it up only for busy workers.
    pub run_status: RunStatus,
    /// Wake-ups that the worker owes and that no thief has claimed.
    pub wakeups_owed: u32,
}

/// The role of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has a task, and more tasks in its deque.
    Rich,
    /// Has a task and an empty deque.
    Poor,
    /// Has no task and looks for one.
    Thief,
    /// Has no task and sleeps.
    Sleeper,
}

impl Role {
    /// True if a worker of this role has an unfinished task (BWS Algorithm 2, line 17).
    pub fn has_task(self) -> bool {
        matches!(self, Role::Rich | Role::Poor)
    }
}

/// The run status of a worker: on a core, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The worker is on a core now.
    Running,
    /// The worker is off its core: it was preempted, or it blocks inside a task, for example on a file. The shell
    /// cannot distinguish these.
    Preempted,
    /// The runtime itself has parked the worker.
    Parked,
    /// The kernel does not report the run status.
    Unknown,
}

/// The reason why the shell refused to let the worker sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepRefusal {
    /// There may be tasks to take.
    WorkArrived,
    /// All other thieves sleep or may sleep. This worker stays awake, as the watchdog (BWS §4).
    YouAreWatchdog,
    /// The program is alone in the core table: no other program would use the core.
    Alone,
}

/// The cause of a wake-up, and its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// Another worker of the pool woke it: there may be tasks to steal.
    Peer,
    /// The watchdog, or the shell in the watchdog's place, woke it. The woken worker is the watchdog now.
    Appointed,
    /// A thread outside the pool handed in a task.
    Injected,
    /// The program's coordinator woke it: there is a core for this worker.
    Coordinator,
    /// The time of its doze is over.
    Timeout,
}
