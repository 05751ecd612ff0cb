//! A host: cores with run queues, on which the worker threads of several programs take turns. Time is in nanoseconds.
//!
//! Here every policy of the catalog runs: thieves sleep and are woken, and programs share cores by the core table.
//! All that decides is the code that runs on threads too, `comity_policy` and `comity_protocol`. They have a
//! worker's spell as a thief, the sleep protocol, which worker is awake on which core, and the quantum. This is
//! their driver: it has tasks, time and cores. A step of a protocol takes one instant, and between two of them
//! others come, as on threads. What it costs is in [`Costs`]; a coordinator's look and a push cost nothing.
//!
//! ```text
//! threads.rs   the clock, what comes, what goes wrong
//! kernel.rs    the cores: run queues, slices, yields, which thread is moved where
//! linux.rs     the same as kernels of Linux do it
//! accelerator.rs   the same as Robinhood's kernel does it: a thief's turn goes to another
//! guest.rs     a host that is a virtual machine
//! pool.rs      a program: its tasks, its workers, what they do with a task
//! spell.rs     what they do without one: the effects of a dialogue, and the steps of the protocol
//! deferred.rs  what thieves do that find nothing, in bulk
//! queue.rs     run queues of workers: their locks, and where unblocked tasks go
//! quota.rs     programs that may use only so much time in a period
//! worker.rs    a worker's state
//! platform.rs  what the steps of the protocol run on, and what it counts
//! table.rs     the core table, and a program's part in it
//! coordinator.rs   what a program's quanta read and do
//! orders.rs    what programs are asked from outside
//! check.rs     what must hold after every event
//! ledger.rs    the books of strands, kept a second time
//! timeline.rs  what each thread was about, and where it ran
//! ```

mod accelerator;
mod check;
mod coordinator;
mod deferred;
mod guest;
mod kernel;
mod ledger;
pub mod linux;
mod orders;
mod platform;
mod pool;
mod queue;
mod quota;
mod spell;
mod table;
mod timeline;
mod worker;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use comity_policy::Policy;
use comity_protocol::{CORES, SLOTS};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::conversation::Line;
use crate::network::Network;
use crate::program::Program;
use crate::quanta::job::Cycles;
use crate::random::stream;
use check::Check;
use guest::Calls;
use kernel::Kernel;
pub use kernel::Switches;
use linux::{Linux, Queues};
use orders::Setter;
use pool::{Pool, Pools, Work};
use quota::Quota;
use table::Table;
use timeline::Timeline;
pub use timeline::{Activity, Stretch};

/// What things cost, in nanoseconds. The defaults are round numbers, fitted to no machine
/// (`docs/decisions/0018-the-host.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// A steal, with success or without.
    pub steal: u64,
    /// Taking over a queue.
    pub mug: u64,
    /// Looking at a worker and whether it has a core; counting roles; claiming a wake-up.
    pub look: u64,
    /// One spin-loop hint.
    pub hint: u64,
    /// Offering the core to others.
    pub yield_core: u64,
    /// Falling asleep, or coming back to the policy after it, step by step.
    pub sleep: u64,
    /// Waking a worker, for the waker.
    pub wake: u64,
    /// From there until the sleeper is in a run queue, or a coordinator has heard its bell.
    pub wake_latency: u64,
    /// From one thread to another on a core.
    pub switch: u64,
    /// From one thread to another of another program, on top of that: what the first had in the core's caches is
    /// fetched again.
    pub refill: u64,
    /// How long a thread runs while others wait for its core. Only where the host has none of Linux's kernels.
    pub slice: u64,
    /// How long the lock of a worker's run queue is held, by each worker that puts a task there or looks for one.
    /// Those that come meanwhile wait, in the order in which they came. 0: queues have no lock.
    pub queue: u64,
    /// How much longer a thief that takes a task needs, and holds that lock, than one that finds none.
    pub removal: u64,
    /// From when such a lock is given back until the next that waits for it has it. More than nothing where those
    /// that wait sleep.
    pub handover: u64,
    /// From one task that can block to another, on a worker.
    pub switch_task: u64,
    /// A push that looks for sleepers, for the pusher: under `bws-busy-wakes` each does (BWS §5.5).
    pub bell: u64,
    /// How long the lock of a pool is held by one that counts the roles of its workers, as thieves under `wsgi` do.
    /// Those that come meanwhile wait, in the order in which they came.
    pub count: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            steal: 100,
            mug: 200,
            look: 500,
            hint: 40,
            yield_core: 400,
            sleep: 1_000,
            wake: 2_000,
            wake_latency: 5_000,
            switch: 1_500,
            refill: 0,
            slice: 3_000_000,
            queue: 0,
            removal: 0,
            handover: 0,
            switch_task: 0,
            bell: 0,
            count: 0,
        }
    }
}

impl Costs {
    /// The largest.
    pub fn most(&self) -> u64 {
        let Costs { steal, mug, look, hint, yield_core, sleep, wake, wake_latency, switch, slice, .. } = *self;
        let Costs { refill, queue, removal, handover, switch_task, bell, count, .. } = *self;
        let thread = [steal, mug, look, hint, yield_core, sleep, wake, wake_latency, switch, slice];
        thread.into_iter().chain([refill, queue, removal, handover, switch_task, bell, count]).max().unwrap_or(0)
    }

    /// With nothing that a thief does free: time must pass, or it could hold a core at one instant for ever.
    fn at_least_one(self) -> Costs {
        let Costs { steal, mug, look, hint, yield_core, sleep, wake, slice, .. } = self;
        let [steal, mug, look, hint, yield_core, sleep, wake, slice] =
            [steal, mug, look, hint, yield_core, sleep, wake, slice].map(|cost| cost.max(1));
        Costs { steal, mug, look, hint, yield_core, sleep, wake, slice, ..self }
    }
}

/// A worker of a program, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thread {
    program: u32,
    worker: u32,
}

/// An event. Of two at the same time that comes first which was planned first.
#[derive(Clone, Copy)]
struct Planned {
    at: u64,
    nth: u64,
    due: Due,
}

impl Planned {
    /// One number, which is compared for less than two.
    fn key(&self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.nth)
    }
}

/// The earliest is the greatest, for the heap.
impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Planned {}

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// What the core's thread does is over, or its slice is; unless it was planned anew since.
    Core { core: u32, plan: u32 },
    /// A wake-up arrives, or what a thread waited for in a system call.
    Up(Thread),
    /// A program with a quota may use so much time again.
    Period(u32),
    /// A coordinator's look, unless it was planned anew since.
    Quantum { program: u32, plan: u32 },
    /// A coordinator has heard its bell.
    Rung(u32),
    /// A program comes.
    Comes(u32),
    /// It takes part in the core table from now on.
    TakesPart(u32),
    /// A setter looks for its program, or asks it.
    Asks(u32),
    /// A program dies, in the middle of whatever it does.
    Dies(u32),
    /// So many cores are there from now on.
    Online(u32),
    /// Threads may be moved to other cores.
    Balance,
}

/// How much a program's threads used their cores and the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sleeps of its workers, those without a core among them.
    pub sleeps: u64,
    /// Threads taken off their core while they could have gone on.
    pub preemptions: u64,
    /// Cores that it lost to their owners.
    pub lost: u64,
    /// 1: the table was full, and it went on as without one.
    pub unshared: u64,
    /// Attempts to steal from another worker.
    pub attempts: u64,
    /// Unblocked tasks that went to another worker than the one that unblocked them.
    pub placed: u64,
    /// Barriers on all its threads: on threads `membarrier`, an interrupt to each core that runs one.
    #[serde(default)]
    pub barriers: u64,
    /// Full fences of one thread.
    #[serde(default)]
    pub fences: u64,
    /// Calls of the kernel that wake a thread.
    #[serde(default)]
    pub wakeups: u64,
    /// Writes of the sleep protocol, failed exchanges among them, to another worker's word or to one that all write.
    #[serde(default)]
    pub shared_writes: u64,
    /// Turns, and slices of virtual CPUs, that its thieves gave to its workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accelerations: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How a program fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// When it ended.
    pub ended: Option<u64>,
    /// When it died.
    pub died: Option<u64>,
    /// When one of its workers first had a core and a task.
    pub began: Option<u64>,
    /// Nanoseconds on a core in which its workers had a task, looked for one, or mugged.
    pub spent: Cycles,
    /// How its threads used their cores and the kernel.
    pub counts: Counts,
}

/// Between two times, wake-ups are late by up to so much.
#[derive(Clone, Copy, Debug)]
pub struct Lateness {
    /// From then on,
    pub from: u64,
    /// to before then.
    pub until: u64,
    /// At most; each by an amount that is drawn.
    pub most: u64,
}

/// A host, with the programs on it.
pub struct Host {
    costs: Costs,
    now: u64,
    /// Breaks ties of time: what was planned first comes first.
    planned: u64,
    due: BinaryHeap<Planned>,
    /// The first of them is the event that is handled: the first that is planned meanwhile takes its place.
    is_handled: bool,
    kernel: Kernel,
    table: Rc<Table>,
    pools: Pools,
    /// Programs that have not ended or died.
    left: usize,
    /// Those of them that do not end by themselves.
    endless: usize,
    /// One of them ended or died with the last event.
    lost_one: bool,
    /// The thread that caused the event; `None`: no worker did.
    acting: Option<Thread>,
    /// Programs that the event has to do with.
    touched: Vec<u32>,
    late: Vec<Lateness>,
    /// What programs are asked from outside.
    setters: Vec<Setter>,
    /// If it is a virtual machine.
    calls: Option<Calls>,
    /// Its kernel tells steal time.
    tells_steal: bool,
    directed_yield: bool,
    /// Attempts of thieves that find nothing are made in bulk.
    defers: bool,
    /// Programs share cores by the table, if their policies do.
    has_table: bool,
    /// Tasks not begun while workers rest for want of a core, over all programs.
    starved: u64,
    idle_beside_work: u64,
    /// Processor time that cores have idled, summed over the cores.
    idled: u64,
    /// The same in which they had a thread.
    used: u64,
    random: ChaCha8Rng,
    record: Option<Box<dyn FnMut(Line)>>,
    timeline: Option<Timeline>,
    /// What was wrong first.
    wrong: Option<String>,
    handled: u64,
}

impl Host {
    /// The most cores that the table has.
    pub const MOST_CORES: usize = CORES;
    /// The most programs that the table has room for.
    pub const MOST_SHARING: usize = SLOTS;

    /// A host without programs.
    ///
    /// # Panics
    /// Without cores, or with more than [`Host::MOST_CORES`].
    pub fn new(cores: usize, costs: Costs, seed: u64) -> Host {
        assert!((1..=CORES).contains(&cores), "{cores} cores");
        Host {
            costs: costs.at_least_one(),
            now: 0,
            planned: 0,
            due: BinaryHeap::new(),
            is_handled: false,
            kernel: Kernel::new(cores),
            table: Rc::new(Table::new(cores)),
            pools: Pools::default(),
            left: 0,
            endless: 0,
            lost_one: false,
            acting: None,
            touched: Vec::new(),
            late: Vec::new(),
            setters: Vec::new(),
            calls: None,
            tells_steal: false,
            directed_yield: false,
            defers: true,
            has_table: true,
            starved: 0,
            idle_beside_work: 0,
            idled: 0,
            used: 0,
            random: stream(seed, u64::MAX),
            record: None,
            timeline: None,
            wrong: None,
            handled: 0,
        }
    }

    /// From now on `record` is told every conversation of a thief.
    pub fn record(&mut self, record: impl FnMut(Line) + 'static) {
        self.record = Some(Box::new(record));
    }

    /// Whether a yield to a preempted peer gives it this core's next turn, as in the kernel of the BWS paper.
    /// Otherwise, and unless told, it is a plain one, as on threads.
    pub fn yield_to_peers(&mut self, directed: bool) {
        self.directed_yield = directed;
    }

    /// The host has this kernel. Before any program comes.
    ///
    /// # Panics
    /// If the host cannot be so ([`Linux::check`]).
    pub fn use_linux(&mut self, linux: Linux) {
        let cores = self.kernel.len();
        if let Err(what) = linux.check(cores as u32) {
            panic!("{what}");
        }
        self.kernel.linux = Some(Box::new(Queues::new(linux, cores)));
        self.plan(0, Due::Balance);
    }

    /// How many cores it has, those that are offline included.
    pub fn cores(&self) -> usize {
        self.kernel.len()
    }

    /// Whether what runs on one processor may slow what runs on another: they are hardware threads of a core, or
    /// their memory has bounds.
    pub fn shares_speed(&self) -> bool {
        self.kernel.linux.as_ref().is_some_and(|linux| linux.sibling(0).is_some() || linux.demand(0).is_some())
    }

    /// How often cores went from one thread to another.
    pub fn switches(&self) -> Switches {
        self.kernel.switches
    }

    /// The same of the switches to a program's threads, of which some are to thieves; and of those from its threads
    /// to another program's.
    pub fn switches_of(&self, program: u32) -> Switches {
        self.pool(program).switches
    }

    /// Nanoseconds in which the program's workers have had a task, on a core or not, summed over them.
    pub fn busy_time(&self, program: u32) -> u64 {
        self.pool(program).busy_time(self.now)
    }

    /// From now on no program that comes shares cores, whatever its policy: as on threads with `COMITY_TABLE=off`.
    pub fn without_table(&mut self) {
        self.has_table = false;
    }

    /// The program, which has not come yet, may use so many cores' worth of time in each period of 100 ms.
    ///
    /// # Panics
    /// If that is not a positive number.
    pub fn limit(&mut self, program: u32, cores: f64) {
        assert!(cores > 0.0, "a quota of {cores} cores");
        self.pools.0[program as usize].quota = Some(Quota::new(cores));
    }

    /// The threads of the program, which has not come yet, have this nice value, −20 to 19, on a host with a kernel
    /// of Linux.
    pub fn set_nice(&mut self, program: u32, nice: i8) {
        self.pools.0[program as usize].nice = nice;
    }

    /// The strands of the program wait for memory for so many thousandths of their time alone, on a host with
    /// bounded memory.
    ///
    /// # Panics
    /// If that is more than 1000.
    pub fn set_memory(&mut self, program: u32, thousandths: u32) {
        assert!(thousandths <= 1_000, "{thousandths} thousandths of the time");
        self.pools.0[program as usize].memory = thousandths;
    }

    /// All memory of the program, which has not come yet, lies at that socket, where a program's lies at one
    /// ([`Linux::first_touch`]).
    ///
    /// # Panics
    /// If there is no such socket, or that was said before.
    pub fn set_first_touch(&mut self, program: u32, socket: usize) {
        let sockets = self.kernel.linux.as_ref().map_or(1, |linux| linux.sockets());
        assert!(socket < sockets, "socket {socket} of {sockets}");
        let began = &self.pools.0[program as usize].began;
        began.set(socket).expect("a program begins on one socket");
    }

    /// The program, which has not come yet, starts again whenever it has ended. A program with tasks that block
    /// does not.
    pub fn repeat(&mut self, program: u32) {
        let pool = &mut self.pools.0[program as usize];
        if let Work::Graph(_) = pool.work {
            self.endless += usize::from(!pool.is_endless());
            pool.repeats = true;
        }
    }

    /// Two programs that come at one time take turns, again and again: an execution of the first, one of the
    /// second, and so on. While one runs, the other's pool has no work. They are of one task group: the second is
    /// what the process of the first does on other threads between two executions.
    ///
    /// # Panics
    /// If one's tasks block.
    pub fn alternate(&mut self, first: u32, second: u32) {
        for (program, next) in [(first, second), (second, first)] {
            self.repeat(program);
            let pool = &mut self.pools.0[program as usize];
            assert!(pool.repeats, "program {program} has tasks that block");
            (pool.next, pool.waits) = (Some(next), program == second);
        }
        if let Some(linux) = &mut self.kernel.linux {
            linux.join_group(second, first);
        }
    }

    /// When the executions of a program that starts again have ended, in order. One that has begun and not ended is
    /// not there.
    pub fn executions(&self, program: u32) -> &[u64] {
        &self.pools.0[program as usize].executions
    }

    fn tell_record(&mut self, line: Line) {
        if let Some(record) = &mut self.record {
            record(line);
        }
    }

    /// A program that comes at a time that is not over yet, with so many workers; its number, from 0 in the order
    /// of the calls.
    ///
    /// # Panics
    /// Without workers.
    pub fn submit(&mut self, at: u64, program: Box<dyn Program>, policy: Policy, workers: u32, seed: u64) -> u32 {
        self.add(at, Work::Graph(program), policy, workers, seed)
    }

    /// The same of a program with tasks that block. Where one goes that is unblocked the policy says
    /// ([`Policy::place`]).
    ///
    /// # Panics
    /// Without workers.
    pub fn submit_network(&mut self, at: u64, network: Network, policy: Policy, workers: u32, seed: u64) -> u32 {
        self.add(at, Work::Network(network), policy, workers, seed)
    }

    fn add(&mut self, at: u64, work: Work, policy: Policy, workers: u32, seed: u64) -> u32 {
        assert!(workers > 0, "a program has workers");
        let number = self.pools.0.len() as u32;
        let pool = Pool::new(work, policy, workers, seed);
        self.left += 1;
        self.endless += usize::from(pool.is_endless());
        self.pools.0.push(pool);
        self.plan(at, Due::Comes(number));
        number
    }

    /// The program dies then, if it is there.
    pub fn kill(&mut self, at: u64, program: u32) {
        self.plan(at, Due::Dies(program));
    }

    /// From now on the program, which is in the table, publishes this correction of its weight, whatever is true:
    /// in thousandths.
    pub fn lie(&mut self, program: u32, correction: u32) {
        if let Some(share) = &self.pool(program).share {
            self.table.lie(share.slot, correction);
        }
    }

    /// From then on so many cores are there, at least one: those with the lowest numbers.
    pub fn resize(&mut self, at: u64, cores: usize) {
        self.plan(at, Due::Online(cores.clamp(1, self.kernel.len()) as u32));
    }

    /// Wake-ups will be late.
    pub fn delay(&mut self, lateness: Lateness) {
        self.late.push(lateness);
    }

    /// Handles what happens until `end`, or until every program that was submitted has ended or died. For programs
    /// that do not end by themselves it waits only where there were no others. Looks at what must hold after every
    /// event as far as that costs little, and at everything after one in `check_every`.
    ///
    /// # Errors
    /// Names what did not hold, and when: a mistake of the shell, or of the policy.
    pub fn run(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(0, end, check_every)
    }

    /// The same, but until one of the programs ends or dies at the latest.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub fn run_to_next_end(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(self.left.saturating_sub(1), end, check_every)
    }

    /// The same, until so many programs are left.
    fn run_down_to(&mut self, left: usize, end: u64, check_every: u64) -> Result<(), String> {
        let left = left.max(if self.is_endless() { 0 } else { self.endless });
        while self.left > left && self.next_at().is_some_and(|at| at <= end) {
            self.handle_next(check_every)?;
        }
        let now = if self.left > left { self.now.max(end) } else { self.now };
        self.stop(now)
    }

    /// Whether none of its programs ends by itself.
    pub(crate) fn is_endless(&self) -> bool {
        self.pools.0.iter().all(Pool::is_endless)
    }

    /// How many programs have not ended or died, and how many of them do not end by themselves.
    pub(crate) fn left(&self) -> (usize, usize) {
        (self.left, self.endless)
    }

    /// Whether a program has ended or died with the last event.
    pub(crate) fn lost_one(&self) -> bool {
        self.lost_one
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|planned| planned.at)
    }

    /// Handles the next event, and looks at what must hold.
    pub(crate) fn handle_next(&mut self, check_every: u64) -> Result<(), String> {
        let Some(Planned { at, due, .. }) = self.due.peek().copied() else { return Ok(()) };
        self.is_handled = true;
        if at < self.now {
            return Err(format!("{due:?} comes at {at}, and it is {} already", self.now));
        }
        self.pass(at);
        let left = self.left;
        self.handle(due);
        let mut nth = 0;
        while let Some(program) = self.touched.get(nth).copied() {
            self.settle(program);
            nth += 1;
        }
        if std::mem::take(&mut self.is_handled) {
            self.due.pop();
        }
        self.handled += 1;
        let whole = self.handled.is_multiple_of(check_every);
        let checked = if self.wrong.is_some() { self.wrong.take().map_or(Ok(()), Err) } else { self.check(whole) };
        checked.map_err(|what| format!("after {due:?} at {}: {what}", self.now))?;
        if let Some(timeline) = &mut self.timeline {
            timeline.look(self.now, &self.kernel, &self.pools, &self.touched);
        }
        self.touched.clear();
        self.lost_one = self.left < left;
        Ok(())
    }

    /// All is accounted for until then.
    pub(crate) fn stop(&mut self, at: u64) -> Result<(), String> {
        self.pass(at);
        self.catch_up_all();
        self.charge_all();
        if let Some(timeline) = &mut self.timeline {
            timeline.end(self.now);
        }
        self.check(true)
    }

    fn check(&self, whole: bool) -> Result<(), String> {
        let Host { now, kernel, table, pools, touched, starved, used, .. } = self;
        Check { now: *now, kernel, table, pools, touched, starved: *starved, used: *used }.look(whole)
    }

    /// It is `at` from now on.
    fn pass(&mut self, at: u64) {
        let (lasted, idle) = (at - self.now, u64::from(self.kernel.idling()));
        let waiting = self.kernel.queued as u64 + self.starved;
        self.idle_beside_work += lasted * waiting.min(idle);
        self.idled += lasted * idle;
        self.used += lasted * self.kernel.running();
        self.now = at;
        self.table.set_now(at);
    }

    /// How many of the program's tasks could be run if it had more cores.
    fn note_starved(&mut self, program: u32) {
        let pool = self.pool(program);
        let is_served = !pool.is_there() || pool.is_paused() || pool.is_throttled();
        let starved = if is_served { 0 } else { pool.waiting().min(pool.retired.into()) };
        self.starved = self.starved - pool.starved + starved;
        self.pool_mut(program).starved = starved;
    }

    /// Processor time that cores have idled beside work, summed over the cores. There is work while a thread waits
    /// for a core, or a task is not begun while workers of its program rest for want of one.
    pub fn idle_beside_work(&self) -> u64 {
        self.idle_beside_work
    }

    /// What time it is.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.handled
    }

    /// How a program fared until now.
    pub fn fate(&self, program: u32) -> Fate {
        self.pools.0[program as usize].fate()
    }

    /// Nanoseconds that the program's threads waited for a core, or for the next period of its quota, summed over
    /// them. A wait that is not over is not in it.
    pub fn waited(&self, program: u32) -> u64 {
        self.pool(program).waited()
    }

    /// A program with tasks that block, as it is now.
    pub fn network(&self, program: u32) -> Option<&Network> {
        match &self.pools.0[program as usize].work {
            Work::Graph(_) => None,
            Work::Network(network) => Some(network),
        }
    }

    fn handle(&mut self, due: Due) {
        let program = match due {
            Due::Core { core, .. } => self.kernel.cores[core as usize].running.map(|thread| thread.program),
            Due::Up(Thread { program, .. })
            | Due::Quantum { program, .. }
            | Due::Period(program)
            | Due::Rung(program)
            | Due::Comes(program)
            | Due::TakesPart(program)
            | Due::Dies(program) => Some(program),
            Due::Asks(setter) => Some(self.setters[setter as usize].program),
            Due::Online(_) | Due::Balance => None,
        };
        self.touched.extend(program);
        self.acting = None;
        match due {
            Due::Core { core, plan } => self.core_is_due(core as usize, plan),
            Due::Up(thread) => self.arrives(thread),
            Due::Quantum { program, plan } => self.quantum(program, plan),
            Due::Period(program) => self.begin_period(program),
            Due::Rung(program) => self.rung(program),
            Due::Comes(program) => self.comes(program),
            Due::TakesPart(program) => self.takes_part(program),
            Due::Asks(setter) => self.asks(setter),
            Due::Dies(program) => self.dies(program),
            Due::Online(cores) => self.go_online(cores as usize),
            Due::Balance => self.balance(),
        }
    }

    fn plan(&mut self, at: u64, due: Due) {
        self.planned += 1;
        let planned = Planned { at, nth: self.planned, due };
        if std::mem::take(&mut self.is_handled)
            && let Some(mut first) = self.due.peek_mut()
        {
            *first = planned;
        } else {
            self.due.push(planned);
        }
    }

    /// A coordinator hears its bell after a while.
    fn ring(&mut self, program: u32) {
        let latency = self.wake_latency();
        self.plan(self.now + latency, Due::Rung(program));
    }

    /// Those with bells that were rung in the table.
    fn deliver_bells(&mut self) {
        while let Some(program) = self.table.next_rung() {
            self.ring(program);
        }
    }

    /// How long a wake-up takes that is sent now.
    fn wake_latency(&mut self) -> u64 {
        let most = self.most_lateness();
        let late = if most == 0 { 0 } else { self.random.random_range(0..=most) };
        self.costs.wake_latency + late
    }

    /// How late a wake-up can be that is sent now.
    fn most_lateness(&self) -> u64 {
        let is_late = |late: &&Lateness| (late.from..late.until).contains(&self.now);
        self.late.iter().filter(is_late).map(|late| late.most).sum()
    }

    /// How long it can take.
    fn most_latency(&self) -> u64 {
        self.costs.wake_latency + self.most_lateness()
    }
}
