//! The coordinator of a command: a process beside it that keeps its account with the core table.
//!
//! At each look it sees what the command's threads do, and the coordinator of the default policy decides on that as it does for a
//! pool: whether the command could use its share, and so holds cores, or shares time. One that holds cores has exactly those
//! that are its own, as `Claims::Owned` has a pool do, and its threads are kept on them. One that shares time desires nothing,
//! holds nothing and runs where it likes. The process ends with the command.
//!
//! What is asked of the command from outside (`comity set`) holds as `comity_protocol::orders` says. A command that is to rest is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::loudness::hint;
use comity_os::clock::now_ns;
use comity_os::cpu_clock::ThreadId;
use comity_os::idle_clock::IdleClock;
use comity_os::pidfd::Pidfd;
use comity_os::throttle::Throttle;
use comity_os::{affinity, cores, detached};
use comity_policy::{Coordinator, Mode, Policy};
use comity_table::{
    CoreSet, InForce, Location, Member, Own, Profile, STOPPED_AFTER, Snapshot, Standing, draw_program, other_layouts,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::companion::{self, Note};
use super::demand::{Demand, Look};
use super::record::Record;
use super::tree::Tree;

/// The least time between two looks. A command that has ended by the first takes no part.
const QUANTUM: Duration = Duration::from_millis(10);

/// The same of a command that does nothing: what it begins to do runs at once all the same, on the cores of others.
const IDLE: Duration = Duration::from_millis(100);

/// Looks take at most this part of the time of a core.
const PART: u32 = 150;

/// The most time between two looks, however long they take: half of the time after which others take this for stopped.
const LONGEST: Duration = Duration::from_millis(250);
const _: () = assert!(2 * LONGEST.as_millis() <= STOPPED_AFTER.as_millis());

/// How often it is looked which cores the command may use: its threads may be bound to others, its cpuset may change; and whether all of a
/// command that rests is stopped.
const SURVEY: Duration = Duration::from_secs(1);

/// A signal that comes just before the wait that it should end is noticed after this long.
const MISSED_SIGNAL: Duration = Duration::from_secs(1);

/// On what terms a command takes part.
pub struct Terms {
    /// The process that becomes the command.
    pub process: u32,
    /// When that began, as the kernel counts.
    pub start: u64,
    /// The value of [`MARK`](super::tree::MARK) in the environments of its processes.
    pub mark: String,
    /// What others call it.
    pub name: String,
    /// How much it counts.
    pub weight: u32,
    /// How many cores it desires while it could use its share; `None`: as many as its threads can use.
    pub cores: Option<u32>,
    /// The most that it can use.
    pub most: u32,
}

impl Terms {
    /// How it introduces itself in the table.
    pub fn profile(&self) -> Profile {
        Profile {
            program: draw_program(),
            name: self.name.clone(),
            policy: "run".to_owned(),
            weight: self.weight,
            workers: self.cap(),
            may_use: affinity::of(ThreadId::current()),
        }
    }

    fn own(&self) -> Own {
        Own { weight: self.weight, cores: self.cores }
    }

    fn cap(&self) -> u32 {
        self.cores.unwrap_or(self.most)
    }
}

/// Takes part until the command has ended, or a signal asks this process, which is a copy of the one that became the command, to end.
pub fn run(command: &Pidfd, location: &Location, terms: &Terms) {
    let ended = Arc::new(AtomicBool::new(false));
    let registered = [SIGTERM, SIGINT, SIGHUP]
        .map(|signal| signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(|error| error.to_string()))
        .into_iter()
        .collect::<Result<Vec<_>, String>>();
    let account = match registered {
        Ok(_handlers) => Account::open(command, location, terms),
        Err(why) => {
            hint(super::goes_without(&why));
            None
        }
    };
    detached::fall_silent();
    if let Some(account) = account {
        account.keep(command, location, terms, &ended);
    }
}

/// A command's account with the core table, and what sets the command free if this process dies.
pub struct Account {
    member: Member,
    may_use: CoreSet,
    note: Option<Note>,
}

impl Account {
    /// Opens one for a command that does not end at once. This process must have one thread. Says on standard error why there is none, and what
    /// else is to be known.
    pub fn open(command: &Pidfd, location: &Location, terms: &Terms) -> Option<Account> {
        if command.has_ended_within(QUANTUM) {
            return None;
        }
        let profile = terms.profile();
        // As long as there is one thread. Without a companion all is as with one, until this process is killed.
        let note = companion::start(terms, profile.may_use).ok();
        let joined = Member::join(location, &profile).map_err(|why| hint(super::goes_without(&why.to_string())));
        for other in other_layouts(location) {
            hint(format!("comity: {other}"));
        }
        let member = joined.ok()?;
        member.stand_for(terms.process);
        Some(Account { member, may_use: profile.may_use, note })
    }

    /// Keeps it until the command has ended, or `ended` is set and a signal comes. Returns what was seen of the command.
    pub fn keep(self, command: &Pidfd, location: &Location, terms: &Terms, ended: &AtomicBool) -> Record {
        let Account { member, may_use, note } = self;
        let member = &member;
        thread::scope(|scope| {
            let coordination = Coordination::begin(member, ended, terms, may_use, note);
            let served = scope.spawn(|| coordination.serve());
            while !ended.load(Ordering::Acquire) {
                if command.has_ended_within(MISSED_SIGNAL) {
                    ended.store(true, Ordering::Release);
                }
            }
            member.ring_own();
            let mut record = served.join().expect("a coordinator of commands does not panic");
            let programs = Snapshot::take(location).ok().flatten().map_or(Vec::new(), |snapshot| snapshot.programs);
            record.account = programs.into_iter().find(|program| program.slot == member.slot());
            record
        })
    }
}

struct Coordination<'a> {
    member: &'a Member,
    /// This process is to end.
    ended: &'a AtomicBool,
    tree: Tree,
    note: Option<Note>,
    throttle: Throttle,
    idle_clock: IdleClock,
    demand: Demand,
    policy: Box<dyn Coordinator>,
    /// What the command line says.
    own: Own,
    /// What holds by now, after what was asked from outside.
    told: InForce,
    cap: u32,
    /// The cores that it may use, and a quota lets it.
    usable: u32,
    surveyed: Instant,
    desire: u32,
    held: CoreSet,
    alone: bool,
    looked: Instant,
    /// Processor time that the command was seen to use.
    used: Duration,
    /// When the next look is due.
    next: Instant,
    /// Processor time of the cores that were held since the last look, up to `counted`.
    had: Duration,
    counted: Instant,
    record: Record,
    /// The command was stopped.
    is_resting: bool,
}

impl Coordination<'_> {
    fn begin<'a>(
        member: &'a Member,
        ended: &'a AtomicBool,
        terms: &Terms,
        may_use: CoreSet,
        note: Option<Note>,
    ) -> Coordination<'a> {
        let now = Instant::now();
        Coordination {
            member,
            ended,
            tree: Tree::new(terms, may_use),
            note,
            throttle: Throttle::of(terms.process),
            idle_clock: IdleClock::default(),
            demand: Demand::default(),
            policy: Policy::default().coordinator().expect("programs under the default policy share cores"),
            own: terms.own(),
            told: InForce::of(terms.own()),
            cap: terms.cap(),
            surveyed: now,
            desire: 0,
            held: CoreSet::EMPTY,
            alone: true,
            looked: now,
            used: Duration::ZERO,
            next: now + QUANTUM,
            had: Duration::ZERO,
            counted: now,
            usable: terms.most,
            record: Record::default(),
            is_resting: false,
        }
    }

    /// Comes by until this process is to end, and returns what it saw.
    fn serve(mut self) -> Record {
        loop {
            let heard = self.member.bell();
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            let now = Instant::now();
            let is_told_anew = self.obey();
            if let Some(rests_for) = self.told.rests_for(now_ns()) {
                self.rest(now);
                self.member.wait(heard, rests_for.min(SURVEY));
                continue;
            }
            self.go_on(now);
            if now >= self.next || is_told_anew {
                self.look(now);
            } else {
                // A core was taken back, or a program has joined: then one that was alone need not be so any more.
                self.note_losses(now);
                self.place();
                self.next = self.next.min(self.looked + QUANTUM).max(now);
            }
            self.member.wait(heard, self.next.saturating_duration_since(Instant::now()));
        }
        self.go_on(Instant::now());
        self.confine(None);
        self.record
    }

    /// Learns what is asked of the command by now. True if that has changed.
    fn obey(&mut self) -> bool {
        let told = self.member.requests().in_force(self.own, now_ns());
        let before = std::mem::replace(&mut self.told, told);
        if told.weight != before.weight {
            self.member.set_weight(told.weight);
        }
        self.cap = told.cap(self.usable);
        told != before
    }

    /// The command rests: it is stopped, holds nothing and desires nothing. Again at each look, for it may have been continued by others.
    fn rest(&mut self, now: Instant) {
        if let Some(note) = &self.note {
            note.rests_until(self.told.paused_until.unwrap_or(0));
        }
        self.tree.stop();
        self.is_resting = true;
        self.note_losses(now);
        (self.desire, self.alone) = (0, false);
        self.member.round(0, 0);
        self.hold_the_allotment();
        self.place();
    }

    /// It rests no longer.
    fn go_on(&mut self, now: Instant) {
        if !std::mem::take(&mut self.is_resting) {
            return;
        }
        self.tree.go_on();
        if let Some(note) = &self.note {
            note.rests_until(0);
        }
        // What it did not do meanwhile says nothing.
        self.tree.look(now - self.looked);
        (self.looked, self.next, self.had) = (now, now + QUANTUM, Duration::ZERO);
    }

    fn look(&mut self, now: Instant) {
        let own_time = || ThreadId::current().cpu_time().unwrap_or_default();
        let began = own_time();
        let look = self.tree.look(now - self.looked);
        let look = if self.throttle.is_active(now) { look.throttled() } else { look };
        self.demand.note(&look);
        self.note_losses(now);
        if !look.is_idle() && now - self.surveyed >= SURVEY {
            self.survey(now);
        }
        self.used += look.used;
        self.member.publish(self.used, None);
        let standing = self.member.round(self.desire, look.runnable);
        self.record.note(&look, self.usable, standing.owned, self.had);
        let account = self.account(&look, &standing);
        let orders = self.policy.quantum(&account);
        let desire = match orders.mode {
            Mode::Time => 0,
            Mode::Cores => self.told.cores.map_or_else(|| self.demand.desire(self.cap).max(1), |_| self.cap),
        };
        let changes = desire != self.desire;
        self.desire = desire;
        let standing = if changes { self.member.round(desire, look.runnable) } else { standing };
        self.alone = standing.alone;
        self.hold_the_allotment();
        self.place();
        (self.looked, self.had) = (now, Duration::ZERO);
        let rest = (own_time() - began) * PART;
        let least = if self.demand.desire(self.cap) == 0 { IDLE } else { QUANTUM };
        self.next = now + rest.max(QUANTUM * orders.due.into()).max(least).min(LONGEST);
    }

    fn survey(&mut self, now: Instant) {
        let may_use = self.tree.survey();
        if self.member.set_may_use(may_use) {
            self.held = self.member.held();
        }
        self.usable = cores::usable_of(may_use.len()).get() as u32;
        self.cap = self.told.cap(self.usable);
        self.surveyed = now;
    }

    fn account(&mut self, look: &Look, standing: &Standing) -> comity_policy::Account {
        let nanos = |time: Duration| time.as_nanos().try_into().unwrap_or(u64::MAX);
        let able_ns = nanos(self.demand.able(self.cap));
        let idle = self.idle_clock.look(look.used < self.had);
        comity_policy::Account {
            workers: self.cap,
            usable: self.cap,
            owned: standing.owned,
            held: standing.held,
            elapsed_ns: nanos(look.elapsed),
            used_ns: nanos(look.used),
            able_ns,
            // What its threads waited for is in it.
            wanted_ns: able_ns,
            held_ns: nanos(self.had),
            idle_ns: nanos(idle),
            share_milli: standing.share_milli.min(self.cap.saturating_mul(1000)),
            programs: standing.programs,
            alone: standing.alone,
            ..comity_policy::Account::default()
        }
    }

    fn note_losses(&mut self, now: Instant) {
        self.had += (now - self.counted) * self.held.len() as u32;
        self.counted = now;
        let held = self.member.held();
        let lost = self.held.iter().filter(|core| !held.contains(*core)).count();
        if lost > 0 {
            self.member.note_lost(lost as u32);
        }
        self.held = held;
    }

    fn hold_the_allotment(&mut self) {
        // Where nobody desires any, the owners stay as they are.
        let owned = if self.desire == 0 { CoreSet::EMPTY } else { self.member.owned() };
        for core in self.held.iter().filter(|core| !owned.contains(*core)) {
            self.member.release(Some(core));
        }
        // No more often than there are cores, whatever others write into the table.
        (0..owned.len()).take_while(|_| self.member.claim(true).is_some()).for_each(drop);
        (0..owned.len()).take_while(|_| self.member.take_back().is_some()).for_each(drop);
        self.held = self.member.held();
    }

    /// Who is alone leaves nothing to others, unless it was asked to use less; and who has no core has to run somewhere.
    fn place(&mut self) {
        let is_bound = self.told.cores != self.own.cores;
        let is_free = (self.alone && !is_bound) || self.held.is_empty();
        let confined = (!is_free).then_some(self.held);
        self.confine(confined);
    }

    /// The note comes first, and forgets where threads were only when none is there any more.
    fn confine(&mut self, confined: Option<CoreSet>) {
        let [target, before] = self.tree.places();
        if let Some(note) = &self.note {
            note.write([target, before, confined]);
        }
        self.tree.confine(confined);
        let [target, before] = self.tree.places();
        if let Some(note) = &self.note {
            note.write([target, before, None]);
        }
    }
}
