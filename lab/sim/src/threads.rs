//! A host: cores with run queues, on which the worker threads of several programs take turns. Time is in nanoseconds.
//!
//! Every policy of the catalog runs here: thieves sleep and are woken, and programs share cores through the core table,
//! in which they claim and release cores. All decisions are made by the code of real programs, `comity_policy` and
//! `comity_protocol`:
//!
//! - a worker's *spell* as a thief, from its last task until it begins another task
//! - the sleep protocol
//! - which worker is awake on which core
//! - the coordinator's quantum
//!
//! This module drives that code: it has tasks, time and cores. A step of a protocol takes one instant, and other events
//! can happen between two steps, as in real programs. [`Costs`] has the costs of the steps. A coordinator's look at the
//! table and a push to a deque cost nothing.
//!
//! ```text
//! threads.rs   the clock, the events, submissions and faults
//! kernel.rs    the cores: run queues, slices, yields, moves of threads
//! linux.rs     the rules of Linux kernels for the cores
//! accelerator.rs   Robinhood's kernel: a thief gives its turn to another thread
//! guest.rs     a host that is a virtual machine
//! pool.rs      a program: its tasks, its workers, and workers with a task
//! spell.rs     workers without a task: the effects of a dialogue, and the steps of the protocol
//! deferred.rs  attempts of thieves that find nothing, made in bulk
//! queue.rs     run queues of workers: their locks, and the place of unblocked tasks
//! quota.rs     limits of a program's processor time in a period
//! worker.rs    the state of a worker
//! platform.rs  the platform of the protocol's steps, and its counts
//! table.rs     the core table, and a program's part in it
//! coordinator.rs   the coordinator of a program: the inputs and effects of its quanta
//! orders.rs    requests to programs from outside
//! check.rs     the invariants, checked after events
//! ledger.rs    a second account of all strands
//! timeline.rs  the activities of each thread, and the cores on which it ran
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

/// The costs of operations, in nanoseconds. The defaults are round numbers that are not fitted to a machine
/// (`docs/decisions/0018-the-host.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// The cost of an attempt to steal, successful or not.
    pub steal: u64,
    /// The cost of mugging: taking over a queue.
    pub mug: u64,
    /// The cost of looking at a worker and whether it has a core, of counting roles, or of claiming a wake-up.
    pub look: u64,
    /// The cost of a spin-loop hint.
    pub hint: u64,
    /// The cost of a yield of the core to other threads.
    pub yield_core: u64,
    /// The cost of all steps of falling asleep, or of all steps from waking up to asking the policy again.
    pub sleep: u64,
    /// The cost of a wake-up for the waker.
    pub wake: u64,
    /// The time from a wake-up until the sleeper is in a run queue, or from the ring of a coordinator's bell until the
    /// coordinator reacts.
    pub wake_latency: u64,
    /// The cost of a switch of a core from one thread to another.
    pub switch: u64,
    /// The additional cost of a switch to a thread of another program: the new thread's data is fetched into the
    /// core's caches again.
    pub refill: u64,
    /// The time that a thread runs while others wait for its core. Only for a host without a Linux kernel.
    pub slice: u64,
    /// The time that a worker holds the lock of a run queue to put a task there or to look for one. Workers that
    /// arrive meanwhile wait in the order of arrival. With 0, queues have no lock.
    pub queue: u64,
    /// The additional time that a thief needs, and holds the lock of the run queue, if it takes a task.
    pub removal: u64,
    /// The time from the release of the lock of a run queue until the next waiting worker has it. It is greater than 0
    /// if waiting workers sleep.
    pub handover: u64,
    /// The cost of a worker's switch from one task that can block to another.
    pub switch_task: u64,
    /// The cost, for the pusher, of a push that looks for sleepers. Under `bws-busy-wakes`, each push looks for
    /// sleepers (BWS §5.5).
    pub bell: u64,
    /// The additional time of a worker's access to its own queue after an attempt to steal. The access pushes or takes a
    /// task. Several attempts since the last access count once.
    pub disturb: u64,
    /// The time that a thief holds its pool's lock to count the roles of the workers, as thieves under `wsgi` do.
    /// Thieves that arrive meanwhile wait in the order of arrival.
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
            disturb: 0,
            bell: 0,
            count: 0,
        }
    }
}

impl Costs {
    /// Returns the largest cost.
    pub fn most(&self) -> u64 {
        let Costs { steal, mug, look, hint, yield_core, sleep, wake, wake_latency, switch, slice, .. } = *self;
        let Costs { refill, queue, removal, handover, switch_task, bell, disturb, count, .. } = *self;
        let thread = [steal, mug, look, hint, yield_core, sleep, wake, wake_latency, switch, slice];
        thread
            .into_iter()
            .chain([refill, queue, removal, handover, switch_task, bell, disturb, count])
            .max()
            .unwrap_or(0)
    }

    /// Returns the costs with at least 1 ns for each operation of a thief. With costs of 0, a thief could act for ever
    /// without any time passing.
    fn at_least_one(self) -> Costs {
        let Costs { steal, mug, look, hint, yield_core, sleep, wake, slice, .. } = self;
        let [steal, mug, look, hint, yield_core, sleep, wake, slice] =
            [steal, mug, look, hint, yield_core, sleep, wake, slice].map(|cost| cost.max(1));
        Costs { steal, mug, look, hint, yield_core, sleep, wake, slice, ..self }
    }
}

/// A worker's thread, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thread {
    program: u32,
    worker: u32,
}

/// A planned event. Events at the same time are handled in the order in which they were planned.
#[derive(Clone, Copy)]
struct Planned {
    at: u64,
    nth: u64,
    due: Due,
}

impl Planned {
    /// Returns time and order as one number, because comparing one number is faster than comparing two.
    fn key(&self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.nth)
    }
}

/// The earliest event is the greatest, because the heap's top is the greatest.
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

/// An event.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The core's thread has finished its action, or its slice is over. Ignored if `plan` is not the core's newest
    /// plan.
    Core { core: u32, plan: u32 },
    /// A wake-up of the thread arrives, or the thread's system call is over.
    Up(Thread),
    /// The next period of a program's quota begins.
    Period(u32),
    /// A coordinator's look is due. Ignored if `plan` is not the newest plan of a look.
    Quantum { program: u32, plan: u32 },
    /// A coordinator reacts to its bell, by which other threads ask it to look at the table early.
    Rung(u32),
    /// A program begins.
    Comes(u32),
    /// A program becomes a member of the core table.
    TakesPart(u32),
    /// A setter looks for its program, or sends its request.
    Asks(u32),
    /// A program dies, whatever it does at this time.
    Dies(u32),
    /// The number of online cores changes to this number.
    Online(u32),
    /// A tick of load balancing: threads may be moved to other cores.
    Balance,
    /// A thread of the kernel interrupts the core's thread ([`Linux::noise_every`]).
    Noise(u32),
}

/// Counts of how a program's threads used their cores and the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sleeps of the program's workers, including the rests of workers for which there is no core.
    pub sleeps: u64,
    /// Times that a thread was taken off its core although it could have continued.
    pub preemptions: u64,
    /// Cores that the program lost to their owners.
    pub lost: u64,
    /// 1 if the table was full, so that the program ran without it.
    pub unshared: u64,
    /// Attempts to steal from another worker.
    pub attempts: u64,
    /// Unblocked tasks that were placed at another worker than the one that unblocked them.
    pub placed: u64,
    /// Barriers on all threads of the program. In a real program, a barrier is a `membarrier` system call, which
    /// interrupts each core that runs a thread of the program.
    #[serde(default)]
    pub barriers: u64,
    /// Full fences of one thread.
    #[serde(default)]
    pub fences: u64,
    /// System calls that wake a thread.
    #[serde(default)]
    pub wakeups: u64,
    /// Writes of the sleep protocol to another worker's word, or to a word that all workers write. Failed exchanges are
    /// included.
    #[serde(default)]
    pub shared_writes: u64,
    /// Turns, and slices of virtual CPUs, that the program's thieves gave to its workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accelerations: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The outcome of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The time at which the program ended.
    pub ended: Option<u64>,
    /// The time at which the program died.
    pub died: Option<u64>,
    /// The time at which one of the program's workers first had a core and a task.
    pub began: Option<u64>,
    /// Nanoseconds on a core in which the program's workers had a task, looked for a task, or mugged.
    pub spent: Cycles,
    /// Counts of how the program's threads used their cores and the kernel.
    pub counts: Counts,
}

/// A fault: wake-ups between two times are late.
#[derive(Clone, Copy, Debug)]
pub struct Lateness {
    /// The time from which on wake-ups are late.
    pub from: u64,
    /// The time from which on wake-ups are no longer late.
    pub until: u64,
    /// The maximum delay. The delay of each wake-up is random.
    pub most: u64,
}

/// A host, with the programs on it.
pub struct Host {
    costs: Costs,
    now: u64,
    /// The number of events planned so far. It orders events at the same time.
    planned: u64,
    due: BinaryHeap<Planned>,
    /// True if the first event of `due` is the event that is being handled. The first event that is planned meanwhile
    /// replaces it, which saves a removal from the heap.
    is_handled: bool,
    kernel: Kernel,
    table: Rc<Table>,
    pools: Pools,
    /// Programs that have not ended or died.
    left: usize,
    /// Programs that have not ended or died, and never end.
    endless: usize,
    /// True if a program ended or died with the last event.
    lost_one: bool,
    /// The thread that caused the event. `None` if no worker did.
    acting: Option<Thread>,
    /// Programs that the event concerns.
    touched: Vec<u32>,
    late: Vec<Lateness>,
    /// The requests to programs from outside.
    setters: Vec<Setter>,
    /// The hypervisor, if the host is a virtual machine.
    calls: Option<Calls>,
    /// True if the kernel tells programs the steal time.
    tells_steal: bool,
    directed_yield: bool,
    /// True if attempts of thieves that find nothing are simulated in bulk.
    defers: bool,
    /// True if programs whose policies share cores do so through the core table.
    has_table: bool,
    /// The number of tasks, over all programs, that wait while workers of their program rest because they have no core.
    starved: u64,
    idle_beside_work: u64,
    /// Processor time that cores have idled, summed over the cores.
    idled: u64,
    /// Processor time that cores had a thread, summed over the cores.
    used: u64,
    random: ChaCha8Rng,
    record: Option<Box<dyn FnMut(Line)>>,
    timeline: Option<Timeline>,
    /// The first error that was found.
    wrong: Option<String>,
    handled: u64,
}

impl Host {
    /// The largest number of cores that the table can have.
    pub const MOST_CORES: usize = CORES;
    /// The largest number of programs that the table can have.
    pub const MOST_SHARING: usize = SLOTS;

    /// Creates a host without programs.
    ///
    /// # Panics
    /// Panics with no cores, or with more than [`Host::MOST_CORES`].
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

    /// Makes `record` receive every conversation of a thief from now on.
    pub fn record(&mut self, record: impl FnMut(Line) + 'static) {
        self.record = Some(Box::new(record));
    }

    /// Sets whether a yield to a preempted peer gives the peer this core's next turn, as in the kernel of the BWS
    /// paper. By default, this yield is a plain yield, as on a stock kernel.
    pub fn yield_to_peers(&mut self, directed: bool) {
        self.directed_yield = directed;
    }

    /// Gives the host a Linux kernel. Called before any program begins.
    ///
    /// # Panics
    /// Panics if the host cannot have this kernel ([`Linux::check`]).
    pub fn use_linux(&mut self, linux: Linux) {
        let cores = self.kernel.len();
        if let Err(what) = linux.check(cores as u32) {
            panic!("{what}");
        }
        self.kernel.linux = Some(Box::new(Queues::new(linux, cores)));
        self.plan(0, Due::Balance);
        if linux.noise_every > 0 {
            (0..cores as u32).for_each(|core| self.plan_noise(core));
        }
    }

    /// Returns the number of cores, including offline ones.
    pub fn cores(&self) -> usize {
        self.kernel.len()
    }

    /// True if a thread on one processor may slow a thread on another, because the processors are hardware threads of
    /// a core or their memory bandwidth is limited.
    pub fn shares_speed(&self) -> bool {
        self.kernel.linux.as_ref().is_some_and(|linux| linux.sibling(0).is_some() || linux.demand(0).is_some())
    }

    /// Returns the numbers of switches of cores from one thread to another.
    pub fn switches(&self) -> Switches {
        self.kernel.switches
    }

    /// Returns the switches of one program. `all` and `to_thieves` count switches to its threads; `between_programs`
    /// counts switches from its threads to another program's.
    pub fn switches_of(&self, program: u32) -> Switches {
        self.pool(program).switches
    }

    /// Nanoseconds in which the program's workers had a task, on a core or not, summed over the workers.
    pub fn busy_time(&self, program: u32) -> u64 {
        self.pool(program).busy_time(self.now)
    }

    /// Makes all programs that begin from now on run without the table, like programs with `COMITY_TABLE=off`.
    pub fn without_table(&mut self) {
        self.has_table = false;
    }

    /// Limits a program that has not begun to `cores` · 100 ms of processor time in each period of 100 ms.
    ///
    /// # Panics
    /// Panics if `cores` is not a positive number.
    pub fn limit(&mut self, program: u32, cores: f64) {
        assert!(cores > 0.0, "a quota of {cores} cores");
        self.pools.0[program as usize].quota = Some(Quota::new(cores));
    }

    /// Sets the nice value, −20 to 19, of the threads of a program that has not begun. It has an effect only on a
    /// host with a Linux kernel.
    pub fn set_nice(&mut self, program: u32, nice: i8) {
        self.pools.0[program as usize].nice = nice;
    }

    /// Sets the part of its time in which a strand of the program waits for memory when the program runs alone, in
    /// thousandths. It has an effect only on a host with limited memory bandwidth.
    ///
    /// # Panics
    /// Panics if `thousandths` is more than 1000.
    pub fn set_memory(&mut self, program: u32, thousandths: u32) {
        assert!(thousandths <= 1_000, "{thousandths} thousandths of the time");
        self.pools.0[program as usize].memory = thousandths;
    }

    /// Places all memory of a program that has not begun at `socket`, if the host places a program's memory at one
    /// socket ([`Linux::first_touch`]).
    ///
    /// # Panics
    /// Panics if there is no such socket, or if the program has a socket already.
    pub fn set_first_touch(&mut self, program: u32, socket: usize) {
        let sockets = self.kernel.linux.as_ref().map_or(1, |linux| linux.sockets());
        assert!(socket < sockets, "socket {socket} of {sockets}");
        let began = &self.pools.0[program as usize].began;
        began.set(socket).expect("a program begins on one socket");
    }

    /// Makes a program that has not begun start again whenever it has ended. Ignored for a program with tasks that
    /// block.
    pub fn repeat(&mut self, program: u32) {
        let pool = &mut self.pools.0[program as usize];
        if let Work::Graph(_) = pool.work {
            self.endless += usize::from(!pool.is_endless());
            pool.repeats = true;
        }
    }

    /// Returns the times at which the executions of a repeating program ended, in order. An execution that has not
    /// ended is not included.
    pub fn executions(&self, program: u32) -> &[u64] {
        &self.pools.0[program as usize].executions
    }

    fn tell_record(&mut self, line: Line) {
        if let Some(record) = &mut self.record {
            record(line);
        }
    }

    /// Submits a program that begins at `at`, which must not be in the past, with `workers` workers. Returns the
    /// program's number; programs are numbered from 0 in the order of the calls.
    ///
    /// # Panics
    /// Panics if `workers` is zero.
    pub fn submit(&mut self, at: u64, program: Box<dyn Program>, policy: Policy, workers: u32, seed: u64) -> u32 {
        self.add(at, Work::Graph(program), policy, workers, seed)
    }

    /// Submits a program with tasks that block, like [`Host::submit`]. The policy decides at which worker an
    /// unblocked task is placed ([`Policy::place`]).
    ///
    /// # Panics
    /// Panics if `workers` is zero.
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

    /// Kills the program at the time `at`, if it has begun and is not over.
    pub fn kill(&mut self, at: u64, program: u32) {
        self.plan(at, Due::Dies(program));
    }

    /// Makes the program, which is in the table, publish a false correction of its weight from now on, in
    /// thousandths.
    pub fn lie(&mut self, program: u32, correction: u32) {
        if let Some(share) = &self.pool(program).share {
            self.table.lie(share.slot, correction);
        }
    }

    /// Sets the number of online cores from the time `at` on. At least one core stays online. The cores with the lowest
    /// numbers are online.
    pub fn resize(&mut self, at: u64, cores: usize) {
        self.plan(at, Due::Online(cores.clamp(1, self.kernel.len()) as u32));
    }

    /// Adds a fault of late wake-ups.
    pub fn delay(&mut self, lateness: Lateness) {
        self.late.push(lateness);
    }

    /// Handles events until `end`, or until every program has ended or died. Endless programs do not count, unless all
    /// programs are endless. Runs fast checks after every event, and all checks after every `check_every`-th event.
    ///
    /// # Errors
    /// Names the invariant that did not hold, and when. This is a bug of the simulator or of the policy.
    pub fn run(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(0, end, check_every)
    }

    /// Handles events as [`Host::run`] does, but stops as soon as one of the programs ends or dies.
    ///
    /// # Errors
    /// See [`Host::run`].
    pub fn run_to_next_end(&mut self, end: u64, check_every: u64) -> Result<(), String> {
        self.run_down_to(self.left.saturating_sub(1), end, check_every)
    }

    /// Handles events until `end`, or until only `left` programs are left.
    fn run_down_to(&mut self, left: usize, end: u64, check_every: u64) -> Result<(), String> {
        let left = left.max(if self.is_endless() { 0 } else { self.endless });
        while self.left > left && self.next_at().is_some_and(|at| at <= end) {
            self.handle_next(check_every)?;
        }
        let now = if self.left > left { self.now.max(end) } else { self.now };
        self.stop(now)
    }

    /// True if all programs are endless.
    pub(crate) fn is_endless(&self) -> bool {
        self.pools.0.iter().all(Pool::is_endless)
    }

    /// Returns the number of programs that have not ended or died, and how many of them never end.
    pub(crate) fn left(&self) -> (usize, usize) {
        (self.left, self.endless)
    }

    /// True if a program ended or died with the last event.
    pub(crate) fn lost_one(&self) -> bool {
        self.lost_one
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|planned| planned.at)
    }

    /// Handles the next event, and checks the invariants.
    pub(crate) fn handle_next(&mut self, check_every: u64) -> Result<(), String> {
        let Some(Planned { at, due, .. }) = self.due.peek().copied() else { return Ok(()) };
        self.is_handled = true;
        if at < self.now {
            return Err(format!("{due:?} is due at {at}, but the time is {} already", self.now));
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

    /// Accounts for all time until `at`.
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

    /// Advances the clock to `at`.
    fn pass(&mut self, at: u64) {
        let (lasted, idle) = (at - self.now, u64::from(self.kernel.idling()));
        let waiting = self.kernel.queued as u64 + self.starved;
        self.idle_beside_work += lasted * waiting.min(idle);
        self.idled += lasted * idle;
        self.used += lasted * self.kernel.running();
        self.now = at;
        self.table.set_now(at);
    }

    /// Updates the number of the program's tasks that could run if it had more cores.
    fn note_starved(&mut self, program: u32) {
        let pool = self.pool(program);
        let is_served = !pool.is_there() || pool.is_paused() || pool.is_throttled();
        let starved = if is_served { 0 } else { pool.waiting().min(pool.retired.into()) };
        self.starved = self.starved - pool.starved + starved;
        self.pool_mut(program).starved = starved;
    }

    /// Nanoseconds that cores have idled although there was work, summed over the cores. There is work while a thread
    /// waits for a core, or while a task waits and workers of its program rest because they have no core.
    pub fn idle_beside_work(&self) -> u64 {
        self.idle_beside_work
    }

    /// The current time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.handled
    }

    /// Returns the outcome of a program until now.
    pub fn fate(&self, program: u32) -> Fate {
        self.pools.0[program as usize].fate()
    }

    /// Nanoseconds that the program's threads waited for a core, or for the next period of its quota, summed over the
    /// threads. A wait that is not over is not included.
    pub fn waited(&self, program: u32) -> u64 {
        self.pool(program).waited()
    }

    /// Returns the current state of a program with tasks that block.
    pub fn network(&self, program: u32) -> Option<&Network> {
        match &self.pools.0[program as usize].work {
            Work::Graph(_) => None,
            Work::Network(network) => Some(network),
        }
    }

    fn handle(&mut self, due: Due) {
        let program = match due {
            Due::Core { core, .. } | Due::Noise(core) => {
                self.kernel.cores[core as usize].running.map(|thread| thread.program)
            }
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
            Due::Noise(core) => self.noise(core),
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

    /// Plans the coordinator's reaction to its bell.
    fn ring(&mut self, program: u32) {
        let latency = self.wake_latency();
        self.plan(self.now + latency, Due::Rung(program));
    }

    /// Plans the reaction of the coordinator to its bell, for each program whose bell was rung in the table.
    fn deliver_bells(&mut self) {
        while let Some(program) = self.table.next_rung() {
            self.ring(program);
        }
    }

    /// Returns the latency of a wake-up that is sent now.
    fn wake_latency(&mut self) -> u64 {
        let most = self.most_lateness();
        let late = if most == 0 { 0 } else { self.random.random_range(0..=most) };
        self.costs.wake_latency + late
    }

    /// Returns the largest delay of a wake-up that is sent now.
    fn most_lateness(&self) -> u64 {
        let is_late = |late: &&Lateness| (late.from..late.until).contains(&self.now);
        self.late.iter().filter(is_late).map(|late| late.most).sum()
    }

    /// Returns the largest latency of a wake-up that is sent now.
    fn most_latency(&self) -> u64 {
        self.costs.wake_latency + self.most_lateness()
    }
}
