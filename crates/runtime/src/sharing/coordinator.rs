//! The coordinator of one program: the thread that manages the program's cores in the core table (DWS §3.3).
//!
//! While a pool has work, the coordinator looks at the table once each *quantum*, a time that the policy sets. Under
//! a policy that lends cores, it also looks when another program wakes it, because a core was taken back or became
//! free. `comity_protocol::quantum` decides what happens at a look. This file provides the thread, the locks of the
//! books and the table for these decisions.
//!
//! A program that has had no work for a quantum holds no core and requests none. Its coordinator sleeps until a pool
//! gets a task, or until a user pauses the program. In the second case it closes the pools at once, so that they
//! begin no task that comes later.

#[cfg(all(test, not(any(loom, comity_portable))))]
mod fold_tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use comity_os::clock::now_ns;
use comity_os::steal_time::Stat;
use comity_os::throttle::Throttle;
use comity_os::usage::Usage;
use comity_os::{CoreSet, affinity, cores, quota, slice, task_group};
use comity_policy::{Mode, Room, Sharing};
use comity_protocol::look::{AtLook, Looked as _};
use comity_protocol::program::{self as protocol, Spent, Times};
use comity_protocol::quantum::{Coordination, Visit};
use comity_protocol::steal_time::Reading;
use comity_table::{
    InForce, Location, Member, Own, Profile, STOPPED_AFTER, Seat as _, Snapshot, TURN, other_layouts, this_program,
};

use crate::cores::activation::Terms;
use crate::cores::mender::{MEND, Mender};
use crate::fork::PerProcess;
use crate::sharing::observer::{self, Clock, Pool, Published};
use crate::sharing::program::{self, PoolId, Program};
use crate::watching::say::say_once;
use crate::workers::mask;
use crate::workers::registry::{ProgramSettings, Registry};

/// The time after which a program tries again to join the table, if the table was full, or if the program belonged to
/// an adopted command.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The time between two checks of the program's limits: which cores it may use, and how many. A quota, a cpuset or an
/// affinity may change.
const LIMITS: Duration = Duration::from_secs(1);

/// The time slice of the coordinator's thread, which computes for microseconds at a time.
const SLICE: Duration = Duration::from_micros(100);

const _: () = assert!(2 * MEND.as_millis() <= STOPPED_AFTER.as_millis());

/// Adds the pool, which has its first task, to its program.
pub(crate) fn enroll(pool: &Arc<Registry>, settings: ProgramSettings) {
    let started = program::enroll(pool, settings, |program| {
        let thread = thread::Builder::new().name("comity-share".to_owned());
        let program = Arc::clone(program);
        mask::spawn_thread(thread, move || keep(&program))
    });
    if let Err(error) = started {
        goes_without(&format!("could not start the coordinator thread: {error}"));
    }
}

/// Runs the coordinator's thread. Returns when the program's pools have ended.
fn keep(program: &Arc<Program>) {
    // The slice is short, so that this thread runs soon after it wakes: the program's turns on its cores begin and
    // end when it runs.
    slice::set(SLICE);
    let (_, quantum) = Sharing::of(&program.policy).expect("only pools that share cores have a program");
    if program.lends() {
        // The program joins the table only after a quantum: a program that ends earlier need not share cores.
        let heard = program.heard();
        program.wait_while_pools_remain(heard, quantum);
    }
    let mut coordinator: Option<Coordinator> = None;
    while let heard = program.heard()
        && !program.ends()
    {
        program.set_dormant(true);
        // The number of requests is read before the requests are, so that no request is missed.
        let asks = coordinator.as_ref().map_or(0, |coordinator| coordinator.member.asks());
        if !has_work(program) && !program.has_cores() && !coordinator.as_ref().is_some_and(Coordinator::is_to_rest) {
            match &coordinator {
                Some(coordinator) => program.wait_in(&coordinator.member, asks, heard, program.patience()),
                None => program.wait(heard, program.patience()),
            }
            continue;
        }
        program.set_dormant(false);
        match &mut coordinator {
            Some(coordinator) => Coordinator::serve(coordinator),
            // The coordinator of the command represents this program, too.
            None if is_adopted(&program.location) => program.wait_while_pools_remain(heard, TRY_AGAIN),
            None => match Member::join(&program.location, &profile(program)) {
                Ok(member) => {
                    static SAID: AtomicBool = AtomicBool::new(false);
                    for other in other_layouts(&program.location) {
                        say_once(&SAID, &other.to_string());
                    }
                    let member = Arc::new(member);
                    program.joined(&member);
                    coordinator = Some(Coordinator::new(program, member, quantum));
                }
                Err(error) => {
                    goes_without(&error.to_string());
                    // This thread waits for the end of the pools, because it must not end while it is being detached:
                    // see `ThreadPool::drop`.
                    let again = error.is_full().then_some(TRY_AGAIN);
                    program.wait_while_pools_remain(heard, again.unwrap_or(Duration::MAX));
                }
            },
        }
    }
    if let Some(coordinator) = coordinator {
        program.leave(&coordinator.member);
    }
    program.has_left();
}

/// True if this process belongs to a command that `comity adopt` has made a member of the table.
fn is_adopted(location: &Location) -> bool {
    let snapshot = Snapshot::take(location).ok().flatten();
    snapshot.is_some_and(|snapshot| snapshot.adopted_around(std::process::id()).is_some())
}

/// True if a task is queued, or if a worker is awake, should be awake, or sleeps in the middle of a task.
fn has_work(program: &Program) -> bool {
    let has_work = |pool: &Registry| {
        let is_at_work = pool.activation.as_ref().is_some_and(|activation| activation.books().is_at_work());
        is_at_work || pool.queued() > 0
    };
    program.list().iter().any(|(_, pool)| has_work(pool))
}

/// True if a pool of which no worker is awake keeps a core: see `Activation::keeps_core`.
fn keeps_core(program: &Program) -> bool {
    let keeps_core = |pool: &Registry| {
        let view = pool.view();
        pool.activation.as_ref().is_some_and(|activation| activation.keeps_core(&activation.books(), &view))
    };
    program.list().iter().any(|(_, pool)| keeps_core(pool))
}

/// Prints once why the program does not share cores. The program continues: its threads run wherever the operating
/// system schedules them.
fn goes_without(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    say_once(&SAID, &format!("{why}. The program continues without sharing cores."));
}

fn profile(program: &Program) -> Profile {
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let pools = program.list();
    Profile {
        program: number_of_this_process(),
        name: name.unwrap_or_default(),
        policy: program.policy.to_string(),
        weight: program.own().weight,
        workers: pools.iter().fold(0, |sum, (_, pool)| sum + pool.workers()),
        may_use: pools
            .iter()
            .filter_map(|(_, pool)| pool.activation.as_ref())
            .fold(CoreSet::EMPTY, |all, activation| all.union(activation.books().may_use)),
        lend_after: program.policy.lend_after(),
    }
}

/// Returns the number that identifies this process in the table. All programs of the process have the same number,
/// for every policy and every copy of this crate. A forked child has another number.
fn number_of_this_process() -> u64 {
    static PROGRAM: PerProcess<u64> = PerProcess::new();
    *PROGRAM.get(|_| this_program())
}

struct Coordinator<'a> {
    program: &'a Program,
    member: Arc<Member>,
    coordination: Coordination,
    limits: Limits,
    /// The times of workers whose pools had ended when the other pools were listed.
    ended: Times,
    clock: Clock,
    mender: Mender,
    mended: Instant,
    /// The time of the last check of the nice value, the task group, and whether the table's file is still the same.
    weighed: Instant,
    /// The processor time that the program had used before it joined.
    before: Duration,
    published: Published,
}

impl<'a> Coordinator<'a> {
    fn new(program: &'a Program, member: Arc<Member>, quantum: Duration) -> Coordinator<'a> {
        let policy = program.policy.coordinator().expect("a policy that shares cores has one");
        let clock = Clock::new();
        let (quantum, used, population) = (quantum.as_nanos() as u64, clock.used(), member.population());
        let siblings = member.siblings();
        let before = Duration::from_nanos(if siblings.is_some() { program.workers_ns() } else { used });
        member.publish_group(task_group::of_process(std::process::id()));
        Coordinator {
            program,
            coordination: Coordination::new(policy, quantum, used, population),
            limits: Limits::new(program.policy.folds()),
            ended: Times::default(),
            clock,
            mender: Mender::new(),
            mended: Instant::now(),
            weighed: Instant::now(),
            before,
            published: Published::new(before, siblings),
            member,
        }
    }

    fn pools(&mut self) -> Vec<Pool> {
        let (pools, ended) = self.program.list_and_ended();
        self.ended = ended;
        pools.into_iter().map(|(id, registry)| Pool { id, queued: registry.queued(), registry }).collect()
    }

    /// Calls `decide` with the coordination and the driver through which it acts.
    fn decide<R>(&mut self, pools: &[Pool], decide: impl FnOnce(&mut Coordination, &mut Driver<'_>) -> R) -> R {
        let Coordinator { program, member, ended, limits, clock, .. } = self;
        let mut driver = Driver { program, member, ended: *ended, limits, clock, pools };
        decide(&mut self.coordination, &mut driver)
    }

    /// Returns the settings that are in force, and publishes the weight in the table. While the program is to be
    /// paused, the weight is published later, after the pools are closed: readers of the table take a new weight as a
    /// sign of that.
    fn obey(&self) -> InForce {
        let told = told(self.program, &self.member);
        if told.paused_until.is_none() {
            self.member.set_weight(told.weight);
        }
        told
    }

    /// True if the program is to be paused. Called while it has no work, because its pools must be closed before they
    /// have work.
    fn is_to_rest(&self) -> bool {
        !self.program.list().is_empty() && self.obey().paused_until.is_some()
    }

    /// Looks at the table once each quantum, until no pool is left or no pool had work for a quantum.
    fn serve(&mut self) {
        let pools = self.pools();
        self.decide(&pools, |coordination, driver| coordination.begin(driver, now_ns()));
        self.has_looked(&pools);
        loop {
            let heard = self.member.bell();
            let pools = self.pools();
            if pools.is_empty() {
                break;
            }
            let InForce { weight, .. } = self.obey();
            match self.decide(&pools, |coordination, driver| coordination.come_by(driver, now_ns())) {
                Visit::Rung => {}
                Visit::Looked => self.has_looked(&pools),
                Visit::Paused => {
                    self.member.set_weight(weight);
                    self.has_looked(&pools);
                }
                Visit::Rests => break,
            }
            self.member.wait(heard, Duration::from_nanos(self.coordination.next().saturating_sub(now_ns())));
        }
        self.leave_off();
    }

    /// Called when there is no work. Releases all cores of the program, and withdraws its request for cores.
    fn leave_off(&mut self) {
        let pools = self.pools();
        self.decide(&pools, |coordination, driver| coordination.leave_off(driver));
        self.mend(&pools);
        if self.mender.is_busy() {
            self.mend(&pools);
        }
        // A claim that was under way may have taken a core that the program's affinity excludes by now. This call
        // releases it.
        self.member.set_may_use(self.member.may_use());
    }

    /// Does the rest of the work after a look, besides decisions about cores: publishes times and counts, mends
    /// masks, and checks the settings.
    fn has_looked(&mut self, pools: &[Pool]) {
        let Usage { voluntary_switches, involuntary_switches, .. } = Usage::of_this_process();
        let siblings = self.member.siblings();
        let used = self.published.look(self.program, siblings);
        let publishes_switches = siblings.is_none_or(|siblings| siblings.joined_first);
        self.member.publish(used, publishes_switches.then_some([voluntary_switches, involuntary_switches]));
        self.member.publish_thieves(&self.program.thieves());
        self.member.publish_shortfall(self.coordination.shortfall());
        self.member.publish_due(self.before + Duration::from_nanos(self.coordination.due_ns()));
        if self.mended.elapsed() >= MEND {
            self.mend(pools);
        }
        if self.weighed.elapsed() >= LIMITS {
            self.weighed = Instant::now();
            self.program.follow_nice();
            if let Err(error) = self.member.follow() {
                goes_without(&error.to_string());
            }
            self.member.publish_group(task_group::of_process(std::process::id()));
        }
        let is_narrow = pools.iter().any(|pool| pool.registry.masks.is_narrow());
        if is_narrow || self.mender.is_busy() {
            let to_mend = MEND.saturating_sub(self.mended.elapsed());
            self.coordination.look_by(self.coordination.looked() + to_mend.as_nanos() as u64);
        }
    }

    /// Corrects the masks of threads and processes that confined workers have started.
    fn mend(&mut self, pools: &[Pool]) {
        self.mended = Instant::now();
        let mut workers = Vec::new();
        for pool in pools {
            let thread = |worker| pool.registry.peer(worker).thread();
            workers.extend(pool.registry.masks.spells(thread, &pool.activation().books()));
        }
        self.mender.look(&workers, self.program.take_ended());
    }
}

/// Returns the weight, core limit and pause that are in force for the program, after requests by `comity set`. The
/// programs of a process divide the core limit of the process (`COMITY_CORES`).
fn told(program: &Program, member: &Member) -> InForce {
    let own = program.own();
    let part = |cores: u32| member.siblings().map_or(cores, |siblings| siblings.part(cores));
    member.requests().in_force(Own { cores: own.cores.map(part), ..own }, now_ns())
}

/// The limits of a program, and the time at which they were read.
struct Limits {
    /// The maximum number of cores that the program can use at a time.
    usable: u32,
    /// The processor time that a quota grants, in cores.
    quota: Option<f64>,
    found: Option<Instant>,
    throttle: Throttle,
    /// The CPUs that the program may use. `stat` reads their steal time, if the policy uses steal time.
    may_use: CoreSet,
    stat: Option<Stat>,
}

impl Limits {
    fn new(folds: bool) -> Limits {
        Limits {
            usable: u32::MAX,
            quota: None,
            found: None,
            throttle: Throttle::of(std::process::id()),
            may_use: CoreSet::EMPTY,
            stat: if folds { Stat::open() } else { None },
        }
    }
}

/// The program, its pools and the table, for one decision.
struct Driver<'a> {
    program: &'a Program,
    member: &'a Member,
    limits: &'a mut Limits,
    clock: &'a mut Clock,
    ended: Times,
    pools: &'a [Pool],
}

impl Driver<'_> {
    /// Reads which cores the program may use, and how many of them at a time.
    fn find_limits(&mut self) {
        let granted = affinity::granted();
        granted.store(&self.program.granted);
        let mut may_use = CoreSet::EMPTY;
        for pool in self.pools {
            let mut books = pool.activation().books();
            pool.registry.masks.look(|worker| pool.registry.peer(worker).thread(), &mut books, granted);
            may_use = may_use.union(books.may_use);
        }
        if self.member.set_may_use(may_use) {
            for pool in self.pools {
                if let Some(part) = pool.activation().member() {
                    pool.activation().note_moves(&mut pool.activation().books(), part);
                }
            }
        }
        self.limits.may_use = may_use;
        self.limits.usable = cores::usable_of(may_use.len()).get() as u32;
        (self.limits.quota, self.limits.found) = (quota::cores(), Some(Instant::now()));
    }
}

impl protocol::Program for Driver<'_> {
    type Seat = Member;
    type Staff<'b>
        = AtLook<'b, Pool>
    where
        Self: 'b;

    fn seat(&self) -> &Member {
        self.member
    }

    fn staffs(&self) -> usize {
        self.pools.len()
    }

    fn staff(&mut self, nth: usize) -> AtLook<'_, Pool> {
        AtLook::new(&self.pools[nth])
    }

    fn in_force(&self) -> InForce {
        told(self.program, self.member)
    }

    fn stand(&mut self, alone: bool, mode: Mode, room: Room, usable: u32) {
        let told = self.in_force();
        let has_work = |pool: &&Pool| pool.queued > 0 || pool.activation().books().is_at_work();
        let at_work = self.pools.iter().filter(has_work).count();
        self.program.bound(told.cores.map_or(usize::MAX, |_| usable as usize));
        let terms = Terms { alone, by_time: mode == Mode::Time, room, usable };
        self.program.stand(terms, told.room_of_each(usable, at_work));
    }

    fn close(&mut self, closed: bool) {
        self.program.close(closed);
    }

    /// Divides the program's cores, if several pools have work.
    fn divide(&mut self) {
        let desire = |pool: &Pool| {
            if pool.queued > 0 || pool.activation().books().is_at_work() { pool.registry.workers() } else { 0 }
        };
        let desires: Vec<(PoolId, u32)> = self.pools.iter().map(|pool| (pool.id, desire(pool))).collect();
        let desires: Vec<_> = desires.into_iter().filter(|(_, desire)| *desire > 0).collect();
        self.program.divide(self.member, &desires, now_ns() / TURN.as_nanos() as u64);
    }
}

impl protocol::Pools for Driver<'_> {
    fn usable(&mut self) -> u32 {
        if self.limits.found.is_none_or(|found| found.elapsed() >= LIMITS) {
            self.find_limits();
        }
        self.limits.usable
    }

    fn has_work(&self) -> bool {
        has_work(self.program)
    }

    fn keeps_core(&self) -> bool {
        keeps_core(self.program)
    }

    fn reopen(&mut self, nth: usize) {
        let pool = &self.pools[nth];
        pool.activation().reopen(&pool.pool());
    }

    fn id(&self, nth: usize) -> u64 {
        self.pools[nth].id.0
    }

    fn spent(&mut self, lasted_ns: u64) -> Spent {
        let held_ns = self.program.held_ns();
        let clock_ns = self.clock.look(self.member.siblings().map(|_| self.program.workers_ns()));
        let granted_ns = observer::granted(&mut self.limits.throttle, self.limits.quota, lasted_ns);
        Spent { held_ns, clock_ns, granted_ns, ended: self.ended }
    }

    fn idle_ns(&mut self) -> Option<u64> {
        observer::machine_idle()
    }

    fn stolen(&mut self) -> Option<Reading> {
        self.limits.stat.as_mut()?.read(self.limits.may_use)
    }

    fn first_thread(&mut self) -> Option<Times> {
        observer::first_thread()
    }

    fn first_thread_is_blocked(&mut self) -> Option<bool> {
        observer::first_thread_is_blocked()
    }

    fn busy_ns(&mut self) -> u64 {
        self.program.busy_ns()
    }
}
