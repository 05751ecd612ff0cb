//! The coordinator of one program: the thread that keeps its account with the core table (DWS §3.3).
//!
//! While a pool has work it comes by once each quantum, asks the policy's [`Coordinator`] what to do, and does it; where the
//! policy lends cores it also comes when its bell is rung, because a core was taken back or became free. A program that has had no
//! work for a quantum holds no core, reports no desire, and its coordinator sleeps until a worker wakes.
//!
//! What is asked of the program from outside holds before what its policy says: `comity_protocol::orders` decides, [`Coordination::obey`]
//! and [`Coordination::rest`] do it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comity_os::clock::now_ns;
use comity_os::usage::Usage;
use comity_os::{CoreSet, affinity, cores, quota};
use comity_policy::{Account, Claims, Coordinator, Mode, Orders, Room};
use comity_table::{InForce, Member, Profile, STOPPED_AFTER, TURN, draw_program, other_layouts};

use crate::mender::Mender;
use crate::observer::{Observer, Seen, process_clock};
use crate::program::{PoolId, Program, Standing};
use crate::share::Share;
use crate::shared::{Shared, View};
use crate::sleep::Work as _;

/// How soon a program tries again that found the table full.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How often it is looked which cores the program may use, and how many: a quota may change, a cpuset, an affinity.
const LIMITS: Duration = Duration::from_secs(1);

/// How often what confined workers have started is looked for. It is let go within two looks, and a tenth of a second.
const MEND: Duration = Duration::from_millis(50);
const _: () = assert!(2 * MEND.as_millis() <= 100 && 2 * MEND.as_millis() <= STOPPED_AFTER.as_millis());

/// The body of the coordinator's thread: it ends when the program's pools have.
pub(crate) fn keep(program: &Arc<Program>) {
    let (_, quantum) = program.policy.sharing().expect("only pools that share cores have a program");
    if program.lends() {
        // What ends within a quantum has nothing to share.
        let heard = program.heard();
        program.wait_out(heard, quantum);
    }
    let mut coordination: Option<Coordination> = None;
    while let heard = program.heard()
        && !program.ends()
    {
        program.set_dormant(true);
        // Before the look at what is asked.
        let asks = coordination.as_ref().map_or(0, |coordination| coordination.member.asks());
        let is_to_rest = coordination.as_mut().is_some_and(Coordination::is_to_rest);
        if !has_work(program) && !is_to_rest {
            match &coordination {
                Some(coordination) => program.wait_in(&coordination.member, asks, heard, program.patience()),
                None => program.wait(heard, program.patience()),
            }
            continue;
        }
        program.set_dormant(false);
        match &mut coordination {
            Some(coordination) => Coordination::serve(coordination),
            None => match Member::join(&program.location, &profile(program)) {
                Ok(member) => {
                    static SAID: AtomicBool = AtomicBool::new(false);
                    for other in other_layouts(&program.location) {
                        say_once(&SAID, &other.to_string());
                    }
                    let member = Arc::new(member);
                    program.joined(&member);
                    coordination = Some(Coordination::new(program, member, quantum));
                }
                Err(error) => {
                    goes_without(&error.to_string());
                    // It is not to end at the moment in which a pool's handle lets it go: see there.
                    let again = error.is_full().then_some(TRY_AGAIN);
                    program.wait_out(heard, again.unwrap_or(Duration::MAX));
                }
            },
        }
    }
    if let Some(coordination) = coordination {
        program.leave(&coordination.member);
    }
    program.has_left();
}

/// Whether a worker is awake, or should be.
fn has_work(program: &Program) -> bool {
    let has_work = |pool: &Shared| {
        let awake = pool.share.as_ref().map_or(0, |share| share.books().awake());
        awake > 0 || pool.queued() > 0
    };
    program.list().iter().any(|(_, pool)| has_work(pool))
}

/// Sharing is a courtesy: without it a program goes on as it would have without Comity.
pub(crate) fn goes_without(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    say_once(&SAID, &format!("{why}; this program goes on without sharing cores"));
}

/// A process says a thing once, however many pools it has.
fn say_once(said: &AtomicBool, what: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        let line = format!("comity: {what}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn profile(program: &Program) -> Profile {
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let pools = program.list();
    Profile {
        program: this_program(),
        name: name.unwrap_or_default(),
        policy: program.policy.to_string(),
        weight: program.own.weight,
        workers: pools.iter().fold(0, |sum, (_, pool)| sum + pool.workers()),
        may_use: pools
            .iter()
            .filter_map(|(_, pool)| pool.share.as_ref())
            .fold(CoreSet::EMPTY, |all, share| all.union(share.books().may_use)),
    }
}

/// The number of this process; 0: not drawn yet. No lock, which a fork might leave locked.
static PROGRAM: AtomicU64 = AtomicU64::new(0);

/// What a process has in the table under several policies is one program.
fn this_program() -> u64 {
    let drawn = draw_program().max(1);
    let before = PROGRAM.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed);
    before.map_or_else(|program| program, |_| drawn)
}

/// Runs in each forked child: it is another program, and draws a number of its own.
pub(crate) fn in_child() {
    PROGRAM.store(0, Ordering::Relaxed);
}

/// One pool at one look.
struct Pool {
    id: PoolId,
    shared: Arc<Shared>,
    queued: usize,
}

impl Pool {
    fn share(&self) -> &Share {
        self.shared.share.as_ref().expect("a pool of a program shares cores")
    }

    fn view(&self) -> View<'_> {
        View { shared: &self.shared, awaited: &|| false }
    }
}

struct Coordination<'a> {
    program: &'a Program,
    member: Arc<Member>,
    policy: Box<dyn Coordinator>,
    quantum: Duration,
    desire: u32,
    observer: Observer,
    seen: BTreeMap<PoolId, Seen>,
    /// At the end of the last quantum, in nanoseconds: busy time of all workers, and time that cores were held.
    busy_ns: u64,
    held_ns: u64,
    /// What the program is entitled to, as the last look had it.
    share_milli: u32,
    mode: Mode,
    room: Room,
    /// Cores that were allotted for the quantum that runs.
    allotment: u32,
    /// Programs in the table when the bell was rung last.
    population: usize,
    limits: Limits,
    /// What the program was told from outside, as of the last look.
    told: InForce,
    /// Its pools are closed.
    has_rested: bool,
    mender: Mender,
    mended: Instant,
}

impl<'a> Coordination<'a> {
    fn new(program: &'a Program, member: Arc<Member>, quantum: Duration) -> Coordination<'a> {
        Coordination {
            program,
            policy: program.policy.coordinator().expect("a policy that shares cores has one"),
            quantum,
            desire: 0,
            observer: Observer::new(process_clock()),
            seen: BTreeMap::new(),
            busy_ns: 0,
            held_ns: 0,
            share_milli: 0,
            mode: Mode::Time,
            room: Room::Workers,
            allotment: 0,
            population: member.population(),
            limits: Limits { usable: u32::MAX, found_usable: u32::MAX, quota: None, found: None },
            told: InForce::of(program.own),
            has_rested: false,
            mender: Mender::new(),
            mended: Instant::now(),
            member,
        }
    }

    fn pools(&self) -> Vec<Pool> {
        let pools = self.program.list().into_iter();
        pools.map(|(id, shared)| Pool { id, queued: shared.queued(), shared }).collect()
    }

    /// Time that all workers together have had a task.
    fn total_busy_ns(pools: &[Pool]) -> u64 {
        let of = |pool: &Pool| {
            let now = pool.shared.now();
            let books = pool.share().books();
            books.workers().map(|worker| pool.shared.peer(worker).busy_ns(now)).sum::<u64>()
        };
        pools.iter().map(of).sum()
    }

    /// Comes by until no pool is left, or none had work for a quantum.
    fn serve(&mut self) {
        let mut began = Instant::now();
        // None: it begins, or begins anew.
        let mut next = None;
        loop {
            let heard = self.member.bell();
            let pools = self.pools();
            if pools.is_empty() {
                break;
            }
            let is_told_anew = self.obey();
            if let Some(rests_for) = self.told.rests_for(now_ns()) {
                next = None;
                let longest = self.rest(&pools);
                self.member.wait(heard, rests_for.min(longest));
                continue;
            }
            let now = Instant::now();
            let Some(due) = next.as_mut() else {
                began = now;
                next = Some(now + self.quantum(Duration::ZERO, true));
                self.reopen();
                continue;
            };
            if is_told_anew {
                *due = now;
            }
            if now >= *due {
                let has_work = has_work(self.program);
                if !has_work && self.busy_ns == Self::total_busy_ns(&pools) {
                    break;
                }
                let until_due = self.quantum(now - began, false);
                // Without work the next look may be the last, and until then others leave this program a share. After a long
                // preemption there is nothing to catch up with.
                *due = now + if has_work { until_due } else { until_due.min(self.quantum) };
                began = now;
            } else if self.rung(&pools) {
                *due = (*due).min(now + self.quantum);
            }
            self.member.wait(heard, due.saturating_duration_since(Instant::now()));
        }
        self.leave_off();
    }

    // ---- What is asked from outside. ----

    /// Learns what the program is told by now. True if that has changed. How much it counts is so at once, but for a program that is to
    /// rest: there it says that its pools are closed.
    fn obey(&mut self) -> bool {
        let told = self.member.requests().in_force(self.program.own, now_ns());
        let before = std::mem::replace(&mut self.told, told);
        if told.paused_until.is_none() {
            self.member.set_weight(told.weight);
        }
        told != before
    }

    /// The same, of a program that has nothing to do. Whether it is to rest, and so is to be closed before it has.
    fn is_to_rest(&mut self) -> bool {
        self.obey();
        self.told.rests_for(now_ns()).is_some()
    }

    /// The program rests: its pools are closed, it holds nothing and desires nothing. Returns after how long to look again, if nobody rings
    /// and the rest is not over: a worker in the middle of a task is there until it ends, or forks.
    fn rest(&mut self, pools: &[Pool]) -> Duration {
        self.has_rested = true;
        self.member.want(false);
        (self.desire, self.mode, self.allotment) = (0, Mode::Time, 0);
        let usable = self.limits.usable;
        let (room, cap) = (self.room, u32::MAX);
        // One that shares time claims no core, and gives back those that it holds.
        self.program.stand(Standing { alone: false, by_time: true, room, usable, cap, closed: true });
        let mut awake = 0;
        for pool in pools {
            let (share, view) = (pool.share(), pool.view());
            let mut books = share.books();
            if let Some(part) = share.member() {
                share.note_moves(&mut books, part);
            }
            share.employ(&mut books, &view, pool.queued);
            awake += books.awake();
        }
        self.member.round(0, awake);
        self.member.set_weight(self.told.weight);
        self.mend(pools);
        match awake {
            0 if !self.mender.is_busy() => Duration::MAX,
            0 => MEND,
            _ => self.quantum,
        }
    }

    /// The program has rested, and its pools were opened by the quantum that has begun: every worker that rests looks again.
    fn reopen(&mut self) {
        if !std::mem::take(&mut self.has_rested) {
            return;
        }
        self.pools().iter().for_each(|pool| pool.share().reopen(&pool.view()));
    }

    /// Of a program that uses more cores than it is to, some go back.
    fn shed(&self, pools: &[Pool]) {
        let most = self.told.cores.map_or(u32::MAX, |_| self.limits.usable);
        for pool in pools {
            let Some(part) = pool.share().member() else { continue };
            let mut books = pool.share().books();
            // Bounded, for each time there is one less.
            while self.program.bound(most) > most as usize && pool.share().release(&mut books, part, None) {}
        }
    }

    /// How many workers of a pool may be awake: the program's cores are divided among its pools that have work.
    fn cap(&self, pools: &[Pool]) -> u32 {
        if self.told.cores.is_none() {
            return u32::MAX;
        }
        let has_work = |pool: &&Pool| pool.queued > 0 || pool.share().books().awake() > 0;
        let at_work = pools.iter().filter(has_work).count().max(1);
        (self.limits.usable / at_work as u32).max(1)
    }

    /// There is no work: the program holds nothing, and desires nothing.
    fn leave_off(&mut self) {
        if self.has_rested {
            // All pools have ended meanwhile: the next is not to find itself closed.
            let (room, usable, cap) = (Room::Workers, self.limits.usable, u32::MAX);
            self.program.stand(Standing { alone: true, by_time: false, room, usable, cap, closed: false });
            self.reopen();
        }
        self.member.want(false);
        (self.desire, self.mode, self.allotment) = (0, Mode::Time, 0);
        let pools = self.pools();
        let awake = pools.iter().map(|pool| pool.share().books().awake()).sum();
        self.member.round(0, awake);
        for pool in &pools {
            let (share, view) = (pool.share(), pool.view());
            let mut books = share.books();
            share.set_alone(true);
            if let Some(part) = share.member() {
                while books.awake() == 0 && share.release(&mut books, part, None) {}
            }
            share.balance(&mut books, &view);
        }
        self.mend(&pools);
        if self.mender.is_busy() {
            self.mend(&pools);
        }
        // A claim may have been on its way when the program lost a core to its own affinity.
        self.member.set_may_use(self.member.may_use());
    }

    /// One quantum is over, which lasted so long. Returns after how long to come again.
    fn quantum(&mut self, lasted: Duration, first: bool) -> Duration {
        let pools = self.pools();
        if self.limits.found.is_none_or(|found| found.elapsed() >= LIMITS) {
            self.find_limits(&pools);
        }
        self.limits.usable = self.told.cap(self.limits.found_usable);
        self.divide(&pools);
        let account = self.account(&pools, lasted, first);
        let Orders { desire, cores, mode, room, due } = self.policy.quantum(&account);
        let desire = desire.min(self.limits.usable);
        let mut alone = account.alone;
        if desire != self.desire {
            alone = self.member.round(desire, account.awake).alone;
        }
        (self.desire, self.mode, self.room) = (desire, mode, room);
        let (by_time, usable, cap) = (mode == Mode::Time, self.limits.usable, self.cap(&pools));
        self.program.stand(Standing { alone, by_time, room, usable, cap, closed: false });
        self.shed(&pools);
        self.claim(&pools, cores);
        self.divide(&pools);
        for pool in &pools {
            let (share, view) = (pool.share(), pool.view());
            let mut books = share.books();
            if let Some(part) = share.member() {
                share.note_moves(&mut books, part);
            }
            if books.retired() > 0 {
                // A loop splits only as far as a thief asks: it shows at the next look how many tasks it has.
                view.ring_bells();
            }
            share.employ(&mut books, &view, pool.queued);
        }
        self.allotment = self.member.held().len() as u32;
        if self.mended.elapsed() >= MEND {
            self.mend(&pools);
        }
        let is_narrow = pools.iter().any(|pool| pool.share().books().is_narrow());
        let to_mend = MEND.saturating_sub(self.mended.elapsed());
        let longest = if is_narrow || self.mender.is_busy() { to_mend } else { STOPPED_AFTER / 2 };
        // A program whose coordinator comes by less often counts as stopped.
        (self.quantum * u32::from(due.max(1))).min(longest)
    }

    /// Looks after what confined workers have started.
    fn mend(&mut self, pools: &[Pool]) {
        self.mended = Instant::now();
        let mut workers = Vec::new();
        for pool in pools {
            workers.extend(pool.share().spells(&mut pool.share().books(), &pool.view()));
        }
        self.mender.look(&workers, self.program.take_ended());
    }

    /// Which cores the program may use by now, and how many of them at a time.
    fn find_limits(&mut self, pools: &[Pool]) {
        let granted = affinity::granted();
        granted.store(&self.program.granted);
        let mut may_use = CoreSet::EMPTY;
        for pool in pools {
            let mut books = pool.share().books();
            pool.share().look_at_masks(&mut books, &pool.view(), granted);
            may_use = may_use.union(books.may_use);
        }
        if self.member.set_may_use(may_use) {
            for pool in pools {
                if let Some(part) = pool.share().member() {
                    pool.share().note_moves(&mut pool.share().books(), part);
                }
            }
        }
        let found_usable = cores::usable_of(may_use.len()).get() as u32;
        self.limits = Limits { found_usable, quota: quota::cores(), found: Some(Instant::now()), ..self.limits };
    }

    /// Where several pools have work, each gets its part of the program's cores.
    fn divide(&self, pools: &[Pool]) {
        let desire = |pool: &Pool| {
            let awake = pool.share().books().awake();
            if awake > 0 || pool.queued > 0 { pool.shared.workers() } else { 0 }
        };
        let desires: Vec<(PoolId, u32)> = pools.iter().map(|pool| (pool.id, desire(pool))).collect();
        let desires: Vec<_> = desires.into_iter().filter(|(_, desire)| *desire > 0).collect();
        let turn = comity_os::clock::now_ns() / TURN.as_nanos() as u64;
        self.program.divide(&self.member, &desires, turn);
    }

    /// What the pools did in a quantum that lasted so long, and how things stand.
    fn account(&mut self, pools: &[Pool], lasted: Duration, first: bool) -> Account {
        let elapsed_ns = lasted.as_nanos() as u64;
        let held_ns = self.program.held_ns();
        let held_in_quantum = held_ns - std::mem::replace(&mut self.held_ns, held_ns);
        self.observer.begin(lasted, (self.mode, self.room), held_in_quantum, self.share_milli, self.limits.quota);
        let mut account = Account { first, ..Account::default() };
        let mut seen = std::mem::take(&mut self.seen);
        for pool in pools {
            let share = pool.share();
            let mut books = share.books();
            if let Some(part) = share.member() {
                share.note_losses(&mut books, part);
            }
            let mut of_pool = seen.remove(&pool.id).unwrap_or_else(|| Seen::new(pool.shared.workers()));
            let off_core = self.observer.look(&pool.shared, share, &books, pool.queued, &mut of_pool);
            books.off_core = off_core;
            self.seen.insert(pool.id, of_pool);
            account.workers += pool.shared.workers();
            account.awake += books.awake();
            account.retired += books.retired();
            account.blocked += off_core;
            account.queued = account.queued.saturating_add(pool.queued.try_into().unwrap_or(u32::MAX));
        }
        account.usable = self.limits.usable.min(account.workers);
        let standing = self.member.round(self.desire, account.awake);
        let Usage { cpu, voluntary_switches, involuntary_switches } = Usage::of_this_process();
        self.member.publish(cpu, Some([voluntary_switches, involuntary_switches]));
        let busy_ns = Self::total_busy_ns(pools);
        let observed = self.observer.end();
        self.share_milli = standing.share_milli;
        Account {
            owned: standing.owned,
            held: standing.held,
            free: standing.free,
            own_free: standing.own_free,
            lent: standing.lent,
            usage_ns: busy_ns.saturating_sub(std::mem::replace(&mut self.busy_ns, busy_ns)),
            allotted_ns: elapsed_ns * u64::from(self.allotment),
            allotment: self.allotment,
            elapsed_ns,
            used_ns: observed.used_ns,
            able_ns: observed.able_ns,
            wanted_ns: observed.wanted_ns,
            idle_ns: observed.idle_ns,
            held_ns: held_in_quantum,
            share_milli: standing.share_milli,
            programs: standing.programs,
            alone: standing.alone,
            unmoved: observed.unmoved,
            ..account
        }
    }

    fn claim(&self, pools: &[Pool], cores: Claims) {
        match cores {
            Claims::Owned => self.hold_what_is_owned(pools),
            Claims::More { free, own_only, back } => {
                let (mut free, mut back) = (free, back);
                for pool in pools {
                    let share = pool.share();
                    let mut books = share.books();
                    let Some(part) = share.member() else { continue };
                    let wanted = pool.queued.min(books.retired() as usize) as u32;
                    // One pool is asked for as the policy says, whatever it has queued.
                    let wanted = if pools.len() == 1 { u32::MAX } else { wanted };
                    let claimed =
                        (0..free.min(wanted)).take_while(|_| share.claim(&mut books, part, own_only)).count() as u32;
                    let left = wanted - claimed;
                    let taken = (0..back.min(left)).take_while(|_| share.take_back(&mut books, part)).count() as u32;
                    (free, back) = (free - claimed, back - taken);
                }
            }
        }
    }

    fn hold_what_is_owned(&self, pools: &[Pool]) {
        let owned = self.member.owned();
        for pool in pools {
            let share = pool.share();
            let mut books = share.books();
            let Some(part) = share.member() else { continue };
            for core in self.member.held().iter().filter(|core| !owned.contains(*core)) {
                share.release(&mut books, part, Some(core));
            }
            // Bounded, for what other programs write into the table is without end.
            (0..share.most()).take_while(|_| share.claim(&mut books, part, true)).for_each(drop);
            (0..share.most()).take_while(|_| share.take_back(&mut books, part)).for_each(drop);
        }
    }

    /// A core was taken back, there is one to be had, another program has come, or this one has lost its place. False: only the second.
    fn rung(&mut self, pools: &[Pool]) -> bool {
        let mut lost = false;
        for pool in pools {
            let mut books = pool.share().books();
            lost |= pool.share().rung(&mut books, &pool.view(), pool.queued);
        }
        let before = std::mem::replace(&mut self.population, self.member.population());
        lost || self.population > before || !self.member.has_its_place()
    }
}

/// What limits a program, and when that was found out.
struct Limits {
    /// The most cores that it may use at a time: what was found, or what it is told.
    usable: u32,
    /// The most that it can use.
    found_usable: u32,
    /// Cores' worth of time that a quota grants.
    quota: Option<f64>,
    found: Option<Instant>,
}
