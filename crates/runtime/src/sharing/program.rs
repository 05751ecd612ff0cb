//! Programs in the core table. All pools of a process under one policy are one program, with one slot (entry of the
//! table), one coordinator and one share of the cores.
//!
//! A pool joins its program at its first task. The first pool starts the coordinator's thread, which joins the table
//! a quantum later if there is still work: a program that ends earlier need not share cores. After the last pool has
//! ended, the coordinator waits 100 ms for the next pool, and then ends.
//!
//! [`Division`] records which of the program's cores each pool uses. Its lock is held while a pool or the coordinator
//! claims, releases or passes on a core.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comity_os::census::Stat;
use comity_os::cpu_clock::{self, ThreadId};
use comity_os::{SharedCoreSet, futex, lock, priority, task_group};
use comity_policy::allotment::{Claim, deq, scattered};
use comity_policy::{Policy, Room, Sharing, Sleeper};
use comity_protocol::program::Times;
use comity_protocol::table::{self, Gain, Seat as _};
use comity_table::{CoreSet, Location, Member, Own, Thieves};

use crate::cores::activation::{Cores, Mover, Terms};
use crate::cores::masks::Spell;
use crate::cores::membership::Membership;
use crate::fork::PerProcess;
use crate::watching::trace::{self, Holding, Mode, Trace};
use crate::workers::registry::{MOST_WEIGHT, Peer, ProgramSettings, Registry, USUAL_WEIGHT};

/// The time that a program without pools waits for the next pool.
const WAIT_FOR_NEXT_POOL: Duration = Duration::from_millis(100);

/// A pool's number within its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId(pub(crate) u64);

/// A program of this process: all its pools that have the same policy and core table.
pub(crate) struct Program {
    pub(crate) policy: Policy,
    pub(crate) location: Location,
    settings: ProgramSettings,
    /// The program's own weight. A request from outside (`comity set`) can override it.
    weight: AtomicU32,
    pools: Mutex<Pools>,
    /// The number of times that a pool was added or the coordinator left the table. Threads wait on it as a futex.
    changes: AtomicU32,
    division: Mutex<Division>,
    /// The number of pools that want a core.
    wanting: AtomicU32,
    /// The futex on which the coordinator waits while the program is not in the table, or has no work.
    bell: AtomicU32,
    /// True if no pool had work at the coordinator's last look. If so, a thread that wakes a worker for a task wakes
    /// the coordinator too, and so does the worker when it is awake.
    dormant: AtomicBool,
    /// The cores that the system lets the program use, as the coordinator found them. Empty until then.
    pub(crate) granted: SharedCoreSet,
    ended: Mutex<Ended>,
}

/// The data of pools that have ended.
#[derive(Default)]
struct Ended {
    /// The narrow masks that their workers had. Threads and processes that inherited one must still be mended.
    spells: Vec<Spell>,
    /// The times of their workers.
    times: Times,
    /// The time that their workers had a task, in ns.
    busy_ns: u64,
}

struct Pools {
    list: Vec<(PoolId, Arc<Registry>)>,
    next: u64,
    /// The [`Terms`] that the coordinator's last look has set for all pools: the rules for which workers may be
    /// awake.
    terms: Terms,
    /// The maximum number of awake workers of each pool, without workers that need no core.
    cap: u32,
    /// True if the pools are closed: they begin no task, because the program is paused or another program has the
    /// turn.
    are_closed: bool,
    /// The program's membership, once it is in the table.
    member: Option<Arc<Member>>,
    /// The counts of the thieves of pools that have ended.
    thieves: Thieves,
    /// The times of workers that have ended before their pool.
    leaving: Vec<(PoolId, Times)>,
    /// The time at which the last pool ended. `None` while there are pools.
    deserted: Option<Instant>,
    /// The number of threads that wait for the end of the coordinator.
    waiting: u32,
    life: Life,
    thread: Option<JoinHandle<()>>,
}

/// The coordinator's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Unborn,
    Running,
    /// The coordinator takes no more pools, and is about to leave the table.
    Ending,
    /// The coordinator has left the table.
    Ended,
}

/// The division of the program's cores among its pools.
struct Division {
    policy: Policy,
    cores: Vec<(usize, PoolId)>,
    /// The pools that may have cores: the pools in the program's list.
    living: Vec<PoolId>,
    /// Pools with more awake workers than cores. A pool that gets a core moves to the end.
    lacking: Vec<PoolId>,
    /// The maximum number of cores that the program may use.
    most: usize,
    /// True if the program is about to leave the table. Then its pools change nothing in the table any more.
    closed: bool,
    /// The time that cores were held up to `since`, in ns, summed over all cores.
    held_ns: u64,
    since: Instant,
    trace: Option<&'static Trace>,
}

impl Division {
    fn account(&mut self) {
        let now = Instant::now();
        self.held_ns += (now - self.since).as_nanos() as u64 * self.cores.len() as u64;
        self.since = now;
    }

    fn tell(&self, core: usize, holding: Holding) {
        if let Some(trace) = self.trace {
            trace.core(self.policy, core, holding);
        }
    }

    fn give(&mut self, core: usize, pool: PoolId) {
        self.take(core);
        self.cores.push((core, pool));
    }

    fn take(&mut self, core: usize) {
        self.account();
        self.cores.retain(|(other, _)| *other != core);
    }

    /// Records if the pool has more awake workers than cores. An ended pool must not get a core, although its workers
    /// may still report that they lack one.
    fn lack(&mut self, pool: PoolId, lacks: bool) {
        let lacks = lacks && self.living.contains(&pool);
        self.lacking.retain(|other| lacks || *other != pool);
        if lacks && !self.lacking.contains(&pool) {
            self.lacking.push(pool);
        }
    }

    /// Returns the pool that gets a core that the pool `of` gives up: of the other pools, the one that has lacked a
    /// core longest.
    fn heir(&mut self, of: PoolId) -> Option<PoolId> {
        let nth = self.lacking.iter().position(|pool| *pool != of)?;
        let heir = self.lacking.remove(nth);
        self.lacking.push(heir);
        Some(heir)
    }

    fn of(&self, pool: PoolId) -> CoreSet {
        self.cores.iter().filter(|(_, user)| *user == pool).map(|(core, _)| *core).collect()
    }

    /// Forgets the cores that the program no longer holds.
    fn keep(&mut self, held: CoreSet) {
        if self.cores.iter().any(|(core, _)| !held.contains(*core)) {
            self.account();
            let (kept, lost) = self.cores.iter().partition(|(core, _)| held.contains(*core));
            self.cores = kept;
            let lost: Vec<(usize, PoolId)> = lost;
            lost.iter().for_each(|(core, _)| self.tell(*core, Holding::Lost));
        }
    }
}

/// The programs of this process.
fn programs() -> &'static Mutex<Vec<Arc<Program>>> {
    static PROGRAMS: PerProcess<Mutex<Vec<Arc<Program>>>> = PerProcess::new();
    PROGRAMS.get(|_| Mutex::default())
}

/// Adds the pool, which has its first task, to its program. `start` starts the coordinator of a program that has
/// none.
///
/// # Errors
/// If the coordinator's thread cannot be started. The next pool tries again.
pub(crate) fn enroll(
    pool: &Arc<Registry>,
    settings: ProgramSettings,
    start: impl FnOnce(&Arc<Program>) -> io::Result<JoinHandle<()>>,
) -> io::Result<()> {
    let Some(location) = Location::from_environment() else { return Ok(()) };
    let mut programs = lock(programs());
    let running = programs.iter().find(|program| program.policy == pool.policy && program.location == location);
    let program = running.cloned().unwrap_or_else(|| {
        let program = Arc::new(Program::new(pool.policy, location, settings));
        programs.push(Arc::clone(&program));
        program
    });
    program.add(pool);
    let mut pools = program.pools();
    if pools.life == Life::Unborn {
        match start(&program) {
            Ok(thread) => (pools.thread, pools.life) = (Some(thread), Life::Running),
            Err(error) => {
                pools.life = Life::Ended;
                programs.retain(|other| !Arc::ptr_eq(other, &program));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Returns the weight of a program for which the user has set none, from its nice value and the weight of its task
/// group.
fn default_weight() -> u32 {
    let process = std::process::id();
    let group_milli = task_group::of_process(process).map_or(1000, |group| group.milli.into());
    let weight = |stat: Stat| priority::weight_of(USUAL_WEIGHT, &stat, group_milli).min(MOST_WEIGHT);
    Stat::of_process(process).map_or(USUAL_WEIGHT, weight)
}

impl Program {
    /// Returns the program's own settings. A request from outside (`comity set`) can override them.
    pub(super) fn own(&self) -> Own {
        Own { weight: self.weight.load(Ordering::Relaxed), cores: self.settings.cores }
    }

    /// Reads the nice value of this process again, if the user has set no weight.
    pub(super) fn follow_nice(&self) {
        if self.settings.weight.is_none() {
            self.weight.store(default_weight(), Ordering::Relaxed);
        }
    }

    pub(super) fn new(policy: Policy, location: Location, settings: ProgramSettings) -> Program {
        let terms = Terms { alone: true, by_time: false, room: Room::Workers, usable: u32::MAX };
        Program {
            policy,
            location,
            settings,
            weight: AtomicU32::new(settings.weight.unwrap_or_else(default_weight)),
            pools: Mutex::new(Pools {
                list: Vec::new(),
                next: 0,
                terms,
                cap: u32::MAX,
                are_closed: false,
                member: None,
                thieves: Thieves::default(),
                leaving: Vec::new(),
                deserted: None,
                waiting: 0,
                life: Life::Unborn,
                thread: None,
            }),
            changes: AtomicU32::new(0),
            division: Mutex::new(Division {
                policy,
                cores: Vec::new(),
                living: Vec::new(),
                lacking: Vec::new(),
                most: usize::MAX,
                closed: false,
                held_ns: 0,
                since: Instant::now(),
                trace: trace::current(),
            }),
            wanting: AtomicU32::new(0),
            bell: AtomicU32::new(0),
            dormant: AtomicBool::new(false),
            granted: SharedCoreSet::default(),
            ended: Mutex::default(),
        }
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        lock(&self.pools)
    }

    fn division(&self) -> MutexGuard<'_, Division> {
        lock(&self.division)
    }

    /// True if sleepers lend their cores. Under such a policy, a program that has not joined yet withholds no core
    /// from other programs.
    pub(crate) fn lends(&self) -> bool {
        Sharing::of(&self.policy).is_some_and(|(sharing, _)| sharing.sleeper == Sleeper::LendsCore)
    }

    // Pools that begin and end.

    pub(super) fn add(self: &Arc<Self>, pool: &Arc<Registry>) {
        let mut pools = self.pools();
        let id = PoolId(pools.next);
        pools.next += 1;
        pools.deserted = None;
        pools.list.push((id, Arc::clone(pool)));
        self.division().living.push(id);
        self.tell_of_change();
        pool.enroll(Box::new(Enrolled { program: Arc::clone(self), pool: id }));
        self.admit(&pools, id, pool);
        drop(pools);
        if let Some(activation) = pool.activation.as_ref().filter(|activation| activation.member().is_some()) {
            // The program is in the table already. The kernel has started the pool's threads on any core, perhaps
            // behind threads of another program, so they move to the program's cores now. They are not moved if a
            // start handler may be about to set the mask of its thread.
            let view = pool.view();
            let mover = if pool.handlers.start.is_some() { Mover::Other } else { Mover::Start };
            activation.employ(&mut activation.books(), &view, pool.queued(), mover);
        }
        self.wake_coordinator();
    }

    /// Lets a pool use the program's cores from now on, if the program is in the table.
    fn admit(self: &Arc<Self>, pools: &Pools, id: PoolId, pool: &Registry) {
        if let (Some(activation), Some(member)) = (&pool.activation, &pools.member) {
            activation.stand(pools.terms);
            activation.bound(pools.cap);
            activation.close(pools.are_closed);
            activation.enter(Box::new(Part {
                program: Arc::clone(self),
                member: Arc::clone(member),
                pool: id,
                wants: AtomicBool::new(false),
                lacks: AtomicBool::new(false),
            }));
        }
    }

    /// Removes a pool that has ended.
    fn remove(&self, id: PoolId) {
        let mut pools = self.pools();
        let gone = pools.list.iter().position(|(other, _)| *other == id).map(|nth| pools.list.remove(nth));
        if let Some((_, pool)) = &gone {
            // `thieves` takes the same lock, so it counts the pool once: in the list, or in these sums. The pool has
            // no tasks left to steal, so its counts are final.
            count_in(pool, &mut pools.thieves);
            let spells = pool.masks.all_spells();
            let mut ended = lock(&self.ended);
            ended.busy_ns += pool.busy_ns();
            ended.spells.extend(spells);
            pools.leaving.retain(|(of, times)| {
                if *of == id {
                    ended.times.add(*times);
                }
                *of != id
            });
            // A thread that the pool had adopted continues to run, but is no longer a worker. Its times until now are
            // kept.
            let counts = |peer: &Peer| pool.activation.as_ref().is_none_or(|activation| activation.counts(peer.id));
            for adopted in pool.peers.iter().filter(|peer| !counts(peer)) {
                if let Some(times) = adopted.thread().and_then(ThreadId::times) {
                    ended.times.add(nanos(times));
                }
            }
        }
        if pools.list.is_empty() {
            pools.deserted = Some(Instant::now());
        }
        let member = pools.member.clone();
        let mut division = self.division();
        division.living.retain(|living| *living != id);
        division.lack(id, false);
        if let Some(member) = &member {
            // The thread that injected the pool's last task continues to run. If it also injected the last task of
            // another pool, that pool gets one of the cores, for the thread's next task.
            let called_alike = |(_, pool): &(PoolId, Arc<Registry>)| {
                pools.list.iter().find(|(_, other)| pool.is_called_like(other)).map(|(id, _)| *id)
            };
            let mut of_same_caller = gone.as_ref().filter(|_| !division.of(id).is_empty()).and_then(called_alike);
            // The pool has no core here if the program has left the table meanwhile.
            for core in division.of(id).iter() {
                match division.heir(id).or_else(|| of_same_caller.take()) {
                    Some(heir) => division.give(core, heir),
                    None => {
                        division.take(core);
                        division.tell(core, Holding::Released);
                        if let Some(table) = member.view() {
                            table::release(&table, Some(core));
                        }
                    }
                }
            }
        }
        drop(division);
        drop(pools);
        // The pool is dropped outside of the lock, because this may be the last reference to it.
        drop(gone);
        self.wake_coordinator();
    }

    /// Waits until the coordinator has ended, if no pool needs it any more.
    fn join_coordinator_if_unused(&self) {
        self.pools().waiting += 1;
        self.wake_coordinator();
        let thread = loop {
            let heard = self.changes.load(Ordering::Acquire);
            let mut pools = self.pools();
            if !pools.list.is_empty() || pools.life == Life::Ended {
                pools.waiting -= 1;
                break if pools.life == Life::Ended { pools.thread.take() } else { None };
            }
            drop(pools);
            futex::wait(&self.changes, heard, None);
        };
        if let Some(thread) = thread {
            thread.join().expect("a coordinator does not unwind");
        }
    }

    fn tell_of_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.changes);
    }

    /// Returns the pools that have not ended.
    pub(crate) fn list(&self) -> Vec<(PoolId, Arc<Registry>)> {
        self.pools().list.clone()
    }

    /// True if no pool is left, and one of two conditions holds: no pool was added for [`WAIT_FOR_NEXT_POOL`], or a
    /// thread waits for the end of the coordinator. The coordinator then ends, and the next pool gets a new program.
    pub(crate) fn ends(&self) -> bool {
        let mut programs = lock(programs());
        let mut pools = self.pools();
        let is_over = |deserted: Instant| pools.waiting > 0 || deserted.elapsed() >= WAIT_FOR_NEXT_POOL;
        if !(pools.list.is_empty() && pools.deserted.is_some_and(is_over)) {
            return false;
        }
        (pools.life, pools.member) = (Life::Ending, None);
        programs.retain(|program| !std::ptr::eq(&**program, self));
        true
    }

    /// Leaves the table. Workers of ended pools may still have a reference to the table, and change nothing there any
    /// more.
    pub(crate) fn leave(&self, member: &Member) {
        let mut division = self.division();
        division.closed = true;
        let cores = std::mem::take(&mut division.cores);
        cores.iter().for_each(|(core, _)| division.tell(*core, Holding::Released));
        if let Some(trace) = division.trace {
            trace.mode(self.policy, None);
        }
        member.leave();
    }

    /// Records that the coordinator has left the table, and that its thread is about to end.
    pub(crate) fn has_left(&self) {
        let mut pools = self.pools();
        pools.life = Life::Ended;
        if pools.waiting == 0 {
            // The thread is detached before it has ended: see `ThreadPool::drop`.
            pools.thread = None;
        }
        self.tell_of_change();
    }

    /// Records that the program is in the table. Its pools use its cores from now on.
    pub(crate) fn joined(self: &Arc<Self>, member: &Arc<Member>) {
        let mut pools = self.pools();
        pools.member = Some(Arc::clone(member));
        for (id, pool) in &pools.list {
            self.admit(&pools, *id, pool);
        }
    }

    /// Sets the [`Terms`] of all pools (the rules for which workers may be awake), and the maximum number of awake
    /// workers of each pool.
    pub(crate) fn stand(&self, terms: Terms, cap: u32) {
        if let Some(trace) = self.division().trace {
            trace.mode(self.policy, Some(Mode::of(terms)));
        }
        let mut pools = self.pools();
        (pools.terms, pools.cap) = (terms, cap);
        for activation in pools.list.iter().filter_map(|(_, pool)| pool.activation.as_ref()) {
            activation.stand(terms);
            activation.bound(cap);
        }
    }

    /// Closes all pools, or opens them.
    pub(crate) fn close(&self, closed: bool) {
        let mut pools = self.pools();
        pools.are_closed = closed;
        for activation in pools.list.iter().filter_map(|(_, pool)| pool.activation.as_ref()) {
            activation.close(closed);
        }
    }

    /// The counts of the thieves of all pools, including pools that have ended.
    pub(crate) fn thieves(&self) -> Thieves {
        let pools = self.pools();
        let mut thieves = pools.thieves;
        pools.list.iter().for_each(|(_, pool)| count_in(pool, &mut thieves));
        thieves
    }

    /// Takes the spells (narrow masks) of the workers of pools that have ended since the last call.
    pub(crate) fn take_ended(&self) -> Vec<Spell> {
        std::mem::take(&mut lock(&self.ended).spells)
    }

    /// Returns the pools that have not ended, and the sum of the times of workers whose pools have ended while the
    /// program was in the table.
    pub(crate) fn list_and_ended(&self) -> (Vec<(PoolId, Arc<Registry>)>, Times) {
        let pools = self.pools();
        (pools.list.clone(), lock(&self.ended).times)
    }

    /// The processor time of all workers, in ns, including workers that have ended while the program was in the
    /// table.
    pub(crate) fn workers_ns(&self) -> u64 {
        let pools = self.pools();
        let peers = pools.list.iter().flat_map(|(_, pool)| &pool.peers);
        let living = peers.filter_map(|peer| peer.thread()?.cpu_time()).map(|time| time.as_nanos() as u64);
        let leaving = pools.leaving.iter().map(|(_, times)| times.on_core);
        living.chain(leaving).sum::<u64>() + lock(&self.ended).times.on_core
    }

    /// The time that all workers together have had a task, in ns, including workers that have ended.
    pub(crate) fn busy_ns(&self) -> u64 {
        // Under the lock of the list, each pool is either in the list or among the ended pools.
        let pools = self.pools();
        let busy: u64 = pools.list.iter().map(|(_, pool)| pool.busy_ns()).sum();
        busy + lock(&self.ended).busy_ns
    }

    // The program's cores.

    /// The time that cores were held since the program began, in ns, summed over all cores.
    pub(crate) fn held_ns(&self) -> u64 {
        let mut division = self.division();
        division.account();
        division.held_ns
    }

    /// Limits the number of cores that the pools together claim.
    pub(crate) fn bound(&self, most: usize) {
        self.division().most = most;
    }

    /// Divides the program's cores among its pools that have work. `pools` lists these pools and the number of cores
    /// that each can use. `turn` decides which pool gets the remainder.
    pub(crate) fn divide(&self, member: &Member, pools: &[(PoolId, u32)], turn: u64) {
        let mut division = self.division();
        division.keep(member.held());
        // A pool that has ended since `pools` was listed gets no core.
        let pools: Vec<_> = pools.iter().filter(|(id, _)| division.living.contains(id)).copied().collect();
        let in_use: Vec<PoolId> = division.cores.iter().map(|(_, pool)| *pool).collect();
        if let [(only, _)] = &pools[..]
            && in_use.iter().all(|pool| pool == only)
        {
            return;
        }
        let claim = |(id, desire): &(PoolId, u32)| Claim { program: id.0, weight: 1, desire: *desire };
        let claims: Vec<Claim> = pools.iter().map(claim).collect();
        let mut left = deq(in_use.len() as u32, &claims, scattered(turn));
        let mut spare = Vec::new();
        for (core, user) in &division.cores {
            match pools.iter().position(|(id, _)| id == user).filter(|nth| left[*nth] > 0) {
                Some(nth) => left[nth] -= 1,
                None => spare.push(*core),
            }
        }
        let short = pools.iter().zip(left).flat_map(|((id, _), left)| std::iter::repeat_n(*id, left as usize));
        for (core, pool) in spare.into_iter().zip(short) {
            division.give(core, pool);
        }
    }

    /// True if a pool holds a core. The coordinator releases it at the latest in `Coordinator::leave_off`.
    pub(crate) fn has_cores(&self) -> bool {
        !self.division().cores.is_empty()
    }

    // The coordinator's waits.

    /// The number of times that the coordinator was woken. It must be read before the look that may lead to a wait.
    pub(crate) fn heard(&self) -> u32 {
        self.bell.load(Ordering::Acquire)
    }

    /// Waits until [`Program::heard`] is no longer `heard`, at most for `timeout`.
    pub(crate) fn wait(&self, heard: u32, timeout: Option<Duration>) {
        futex::wait(&self.bell, heard, timeout);
    }

    /// Waits like [`Program::wait`] for a program in the table. Also returns once the number of requests is no longer
    /// `asks`.
    pub(crate) fn wait_in(&self, member: &Member, asks: u32, heard: u32, timeout: Option<Duration>) {
        member.wait_for_requests(asks, (&self.bell, heard), timeout);
    }

    /// Waits for `timeout`, or until no pool is left.
    pub(crate) fn wait_while_pools_remain(&self, heard: u32, timeout: Duration) {
        let until = Instant::now().checked_add(timeout);
        let mut heard = heard;
        while self.pools().deserted.is_none() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            self.wait(heard, left);
            heard = self.heard();
        }
    }

    /// Records if no pool had work at the coordinator's last look. If so, a thread that wakes a worker for a task
    /// wakes the coordinator too, and so does the worker when it is awake.
    pub(crate) fn set_dormant(&self, dormant: bool) {
        self.dormant.store(dormant, Ordering::SeqCst);
    }

    fn is_dormant(&self) -> bool {
        self.dormant.load(Ordering::SeqCst)
    }

    /// The time for which a program without pools still waits for one. `None` while it has pools.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.pools().deserted.map(|deserted| WAIT_FOR_NEXT_POOL.saturating_sub(deserted.elapsed()))
    }

    /// Wakes the coordinator, wherever it waits.
    #[cold]
    pub(crate) fn wake_coordinator(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        futex::wake_one(&self.bell);
        let member = self.pools().member.clone();
        if let Some(member) = member {
            member.ring_own();
        }
    }
}

/// Converts times into the protocol's type.
fn nanos(times: cpu_clock::Times) -> Times {
    Times { on_core: times.on_core.as_nanos() as u64, for_core: times.for_core.as_nanos() as u64 }
}

/// Adds the counts of the pool's thieves.
fn count_in(pool: &Registry, thieves: &mut Thieves) {
    pool.peers.iter().for_each(|peer| peer.counters.count_in(thieves));
}

/// A pool's link to its program.
struct Enrolled {
    program: Arc<Program>,
    pool: PoolId,
}

impl Membership for Enrolled {
    fn granted(&self) -> CoreSet {
        CoreSet::load(&self.program.granted)
    }

    fn worker_is_up(&self) {
        if self.program.is_dormant() {
            self.program.wake_coordinator();
        }
    }

    fn worker_ends(&self) {
        let mut pools = self.program.pools();
        if pools.member.is_none() {
            return;
        }
        let Some(times) = ThreadId::current().times().map(nanos) else { return };
        // While the pool is in the list, looks read the times of its workers from their threads. So the times are not
        // added to `ended` yet.
        match pools.list.iter().any(|(id, _)| *id == self.pool) {
            true => pools.leaving.push((self.pool, times)),
            false => lock(&self.program.ended).times.add(times),
        }
    }

    fn leave(&self) {
        self.program.remove(self.pool);
    }

    fn join_coordinator_if_unused(&self) {
        self.program.join_coordinator_if_unused();
    }
}

/// A pool's part of its program's cores in the table.
struct Part {
    program: Arc<Program>,
    member: Arc<Member>,
    pool: PoolId,
    wants: AtomicBool,
    lacks: AtomicBool,
}

impl Part {
    /// Returns the core that the pool gives up: `core` if the pool uses it. If `core` is `None`, preferably a core
    /// that the program does not own.
    fn which(&self, division: &Division, core: Option<usize>) -> Option<usize> {
        let used = division.of(self.pool);
        match core {
            Some(core) => Some(core).filter(|core| used.contains(*core)),
            None => {
                let owned = self.member.owned();
                used.iter().find(|core| !owned.contains(*core)).or_else(|| used.iter().next())
            }
        }
    }

    /// True if another pool of the program wants a core.
    fn does_another_want(&self) -> bool {
        self.program.wanting.load(Ordering::Relaxed) > u32::from(self.wants.load(Ordering::Relaxed))
    }
}

impl Cores for Part {
    fn held(&self) -> CoreSet {
        let mut division = self.program.division();
        division.keep(self.member.held());
        division.of(self.pool)
    }

    fn held_by_program(&self) -> CoreSet {
        self.member.held()
    }

    fn gain(&self, how: Gain) -> Option<usize> {
        // The lock is taken before the claim, so that a later look at the pool's cores sees the claimed core.
        let mut division = self.program.division();
        let may_have = division.living.contains(&self.pool) && division.cores.len() < division.most;
        if division.closed || !may_have {
            return None;
        }
        let table = self.member.view()?;
        let ((core, _), holding) = match how {
            Gain::Claim { own_only } => (table::claim(&table, own_only)?, Holding::Claimed),
            Gain::TakeBack => (table::take_back(&table)?, Holding::TakenBack),
        };
        division.give(core, self.pool);
        division.tell(core, holding);
        Some(core)
    }

    fn reclaim(&self) {
        // If another thread holds the lock, this call does not wait. The worker that is being woken then gets no
        // core.
        let division = match self.program.division.try_lock() {
            Ok(division) => division,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // While the lock is held, no other pool can begin to wait for a core. Such a pool would have to be told of
        // this core.
        if !division.closed && division.cores.len() < division.most && !self.does_another_want() {
            self.member.view().iter().for_each(table::reclaim);
        }
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let mut division = self.program.division();
        let core = self.which(&division, core)?;
        division.take(core);
        division.tell(core, Holding::Released);
        let released = self.member.view().and_then(|table| table::release(&table, Some(core)));
        drop(division);
        if self.does_another_want() {
            self.program.wake_coordinator();
        }
        released.map(|(core, _)| core)
    }

    fn pass_on(&self, core: Option<usize>) -> Option<usize> {
        let mut division = self.program.division();
        division.keep(self.member.held());
        let Some(heir) = division.heir(self.pool) else {
            drop(division);
            return self.release(core);
        };
        let core = self.which(&division, core)?;
        division.give(core, heir);
        drop(division);
        // The pool that gets the core uses it after the coordinator's next look.
        self.program.wake_coordinator();
        Some(core)
    }

    fn any_free(&self) -> bool {
        self.member.view().is_some_and(|table| table::any_free(&table))
    }

    fn want(&self, wants: bool) {
        let division = self.program.division();
        if division.closed {
            return;
        }
        if self.wants.swap(wants, Ordering::Relaxed) != wants {
            let change = if wants { 1 } else { u32::MAX };
            self.program.wanting.fetch_add(change, Ordering::Relaxed);
        }
        self.member.want(self.program.wanting.load(Ordering::Relaxed) > 0);
    }

    fn lack(&self, lacks: bool) {
        if self.lacks.swap(lacks, Ordering::Relaxed) != lacks {
            self.program.division().lack(self.pool, lacks);
        }
    }

    fn decline(&self) {
        self.member.view().iter().for_each(table::decline);
    }

    fn is_core_wanted(&self) -> bool {
        self.does_another_want() || self.member.is_core_wanted()
    }

    fn note_lost(&self, cores: u32) {
        self.member.note_lost(cores);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_core_passes_to_the_pool_that_has_lacked_one_longest() {
        let mut division = Division {
            policy: Policy::default(),
            cores: Vec::new(),
            living: [1, 2, 3].map(PoolId).into(),
            lacking: Vec::new(),
            most: usize::MAX,
            closed: false,
            held_ns: 0,
            since: Instant::now(),
            trace: None,
        };
        let [first, second, third] = [1, 2, 3].map(PoolId);
        division.lack(PoolId(4), true);
        assert_eq!(division.heir(first), None);
        for (pool, lacks) in [(second, true), (third, true), (second, true)] {
            division.lack(pool, lacks);
        }
        assert_eq!([(); 3].map(|()| division.heir(first)), [second, third, second].map(Some), "in turns");
        for (pool, lacks) in [(second, false), (second, true), (first, false)] {
            division.lack(pool, lacks);
        }
        assert_eq!(division.heir(first), Some(third));
        assert_eq!(division.heir(third), Some(second), "a pool does not inherit from itself");
        division.give(0, first);
        division.give(0, third);
        assert_eq!([first, third].map(|pool| division.of(pool).len()), [0, 1]);
    }
}
