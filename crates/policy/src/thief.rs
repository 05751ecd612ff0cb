//! The seam: events in, actions out.

/// A worker's index within its pool, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// The index as a `usize`, for tables with one entry per worker.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a worker without a task does next. One value per worker, kept for the worker's life: it forgets nothing
/// between two spells as a thief unless its policy says so.
pub trait Thief: Send {
    /// Answers one event with one action. The shell calls this strictly alternately with doing what was answered.
    fn next(&mut self, event: Event) -> Action;
}

/// What happened to the thief: the outcome of its last action, or what made it a thief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker's deque ran empty: it just became a thief.
    DequeEmpty {
        /// The wake-ups that it owed when it last left ([`Action::Run`]), less those that other thieves claimed since.
        wakeups_owed: u32,
    },
    /// Nothing to take from this worker.
    StealFailed(WorkerId),
    /// This worker has tasks, and the thief got none: another was faster, or the worker shares its tasks only on
    /// request and has been asked. In the papers, where deques show all tasks, this is no failure: a policy that
    /// counts failures does not count it.
    StealMissed(WorkerId),
    /// The shell holds a task taken from this worker. The answer that starts it is [`Action::Run`].
    StealSucceeded(WorkerId),
    /// The shell holds a task that came from outside the pool, found where a steal was asked for.
    Injected,
    /// What this worker was waiting for (a stolen half, a scope) is done: it has work again. May come after any action.
    Resumed,
    /// The answer to [`Action::Inspect`].
    Seen(Victim),
    /// The answer to [`Action::Count`].
    Counted {
        /// Workers with a task.
        busy: u32,
        /// Workers without a task and awake, the asking one among them.
        thieves: u32,
        /// Workers asleep.
        sleepers: u32,
    },
    /// The shell holds the oldest task of this worker's queue, and the rest of it lies in the thief's own.
    Mugged(WorkerId),
    /// No worker without a core has a queue.
    NothingToMug,
    /// The core was offered to others and is back.
    Yielded,
    /// The worker has been accelerated: it had what was left of the thief's time slice.
    Accelerated(WorkerId),
    /// It has not: it is on a core, another thief accelerates it, it is on another node, or it cannot be done here.
    AccelerationRefused(WorkerId),
    /// The pause is over.
    Paused {
        /// Whether any worker of the pool has a task. If none has, the next task comes from a thread outside the pool,
        /// and that thread may be waiting for this very core.
        any_busy: bool,
        /// Whether another program waits for a core.
        core_is_wanted: bool,
    },
    /// The answer to [`Action::ClaimWakeup`]; `None`: another thief was faster.
    WakeupClaimed(Option<WorkerId>),
    /// The answer to [`Action::Wake`]; `None`: no such worker was asleep any more.
    PeerWoken(Option<WorkerId>),
    /// The shell did not let the worker sleep.
    SleepRefused(SleepRefusal),
    /// The worker slept and is awake. May come after any action: with no work at all in the pool the shell puts every
    /// worker to sleep, whatever its policy.
    Woken(WakeReason),
}

/// What the thief wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try to take a task from this worker: [`Event::StealFailed`], [`Event::StealMissed`], [`Event::StealSucceeded`]
    /// or [`Event::Injected`]. A worker alone in its pool names itself, and looks outside only.
    StealFrom(WorkerId),
    /// Take over the whole queue of a worker that has no core: [`Event::Mugged`], [`Event::Injected`] or
    /// [`Event::NothingToMug`].
    Mug,
    /// Look at a worker: [`Event::Seen`]. Costs up to a microsecond, so only policies that need it ask.
    Inspect(WorkerId),
    /// Count the pool's roles: [`Event::Counted`]. Takes the pool's one lock, which is what `wsgi` exists to measure.
    Count,
    /// Give the core to this worker: [`Event::Yielded`]. Where the kernel has no directed yield, the worker is moved
    /// to the thief's core first if its row says so ([`Row::yield_to`](crate::row::Row::yield_to)), and the yield
    /// is a plain one.
    YieldTo(WorkerId),
    /// Give a worker what is left of the thief's time slice, on the thief's core (Robinhood §3.1). Whether it has its
    /// old place again afterwards is up to the shell. [`Event::Accelerated`] or [`Event::AccelerationRefused`].
    Accelerate {
        /// The worker.
        candidate: WorkerId,
        /// At which level: which time slice, and what runs in it.
        level: Level,
    },
    /// Give the core to the thread that the kernel picks: [`Event::Yielded`].
    YieldCore,
    /// Stay on the core for this many spin-loop hints: [`Event::Paused`].
    Pause {
        /// Spin-loop hints; one is 25 to 60 ns on current x86.
        hints: u32,
    },
    /// Take over one of the wake-ups that a busy worker owes: [`Event::WakeupClaimed`].
    ClaimWakeup {
        /// The worker that owes it.
        from: WorkerId,
    },
    /// Wake a sleeping worker: [`Event::PeerWoken`].
    Wake {
        /// The sleeper; `None`: any.
        sleeper: Option<WorkerId>,
        /// Make it the watchdog in this worker's place. Without effect unless this worker is the watchdog.
        appoint: bool,
    },
    /// Sleep until woken: [`Event::Woken`] or [`Event::SleepRefused`].
    Sleep,
    /// The same, but for so long at most. Where the worker has no core any more, until it is woken.
    Doze {
        /// Microseconds, at least one.
        us: u32,
    },
    /// Start the task that was found, or go on with what was awaited; ends the conversation until the next
    /// [`Event::DequeEmpty`].
    Run {
        /// Wake-ups that this worker leaves for other thieves to claim.
        wakeups_owed: u32,
    },
}

/// What is accelerated (Robinhood §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The worker's thread, which the operating system has preempted, in the time slice of the thief's.
    Thread,
    /// The virtual CPU on which the worker's thread runs, which the hypervisor has preempted, in the time slice of the
    /// thief's.
    Vcpu,
}

/// What [`Action::Inspect`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The worker looked at.
    pub id: WorkerId,
    /// What it is doing.
    pub role: Role,
    /// Whether it has a core. Looked up for busy workers only.
    pub run_status: RunStatus,
    /// Wake-ups that it owes and no thief has claimed.
    pub wakeups_owed: u32,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has a task and more in its deque.
    Rich,
    /// Has a task and an empty deque.
    Poor,
    /// Has no task and looks for one.
    Thief,
    /// Has no task and sleeps.
    Sleeper,
}

impl Role {
    /// Whether a worker of this role has an unfinished task (BWS Algorithm 2, line 17).
    pub fn has_task(self) -> bool {
        matches!(self, Role::Rich | Role::Poor)
    }
}

/// Whether a worker has a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// On a core now.
    Running,
    /// Off its core. A worker that blocks inside a task (on a file, say) cannot be told from one that was preempted.
    Preempted,
    /// Parked by the runtime itself.
    Parked,
    /// The kernel does not say.
    Unknown,
}

/// Why the shell let the worker not sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepRefusal {
    /// There is work to look for.
    WorkArrived,
    /// All other thieves sleep or may sleep: this one stays awake, as the watchdog (BWS §4).
    YouAreWatchdog,
    /// The program is alone in the core table: no other program would use the core.
    Alone,
}

/// What woke a sleeper, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// Another worker of the pool: there may be tasks to steal.
    Peer,
    /// The watchdog, or the shell in its place: you are the watchdog now.
    Appointed,
    /// A thread outside the pool handed in a task.
    Injected,
    /// The program's coordinator: there is a core for this worker.
    Coordinator,
    /// Its timeout: it dozed, and its time is over.
    Timeout,
}
