//! The coordinator of a command: a process beside it that keeps its account with the core table.
//!
//! At each look it sees what the command's threads do, and `protocol`'s [`quantum`](comity_protocol::quantum) decides on that by the
//! default policy as it does for a pool: whether the command could use its share, and so holds cores, or shares time. This file is its
//! driver. One that holds cores has exactly those that are its own, as `Claims::Owned` has a pool do, and its threads are kept on them.
//! One that shares time desires nothing, holds nothing and runs where it likes. The process ends with the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::loudness::hint;
use comity_os::cpu_clock::ThreadId;
use comity_os::idle_clock;
use comity_os::pidfd::Pidfd;
use comity_os::throttle::Throttle;
use comity_os::{affinity, cores, detached};
use comity_policy::{Claims, Mode, Orders, Policy, Room};
use comity_protocol::observer::IdleClock;
use comity_protocol::quantum::{Program, Quantum, Staff};
use comity_table::{
    CoreSet, Location, Member, Profile, STOPPED_AFTER, Snapshot, Standing, draw_program, other_layouts,
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

/// How often it is looked which cores the command may use: its threads may be bound to others, its cpuset may change.
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

/// What the coordinator of a command knows of it, and the table.
struct Coordination<'a> {
    quantum: Quantum,
    command: Command<'a>,
    /// This process is to end.
    ended: &'a AtomicBool,
    throttle: Throttle,
    surveyed: Instant,
    looked: Instant,
    /// Processor time that the command was seen to use.
    used: Duration,
    /// When the next look is due.
    next: Instant,
    record: Record,
}

/// The command to the quantum: it uses its cores all together.
struct Command<'a> {
    member: &'a Member,
    tree: Tree,
    note: Option<Note>,
    idle_clock: IdleClock,
    demand: Demand,
    cores: Option<u32>,
    cap: u32,
    /// The cores that it may use, and a quota lets it.
    usable: u32,
    held: CoreSet,
    alone: bool,
    /// Processor time of the cores that were held since the last look, up to `counted`.
    had: Duration,
    counted: Instant,
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
        let policy = Policy::default().coordinator().expect("programs under the default policy share cores");
        Coordination {
            quantum: Quantum::new(policy, nanos(QUANTUM)),
            command: Command {
                member,
                tree: Tree::new(terms, may_use),
                note,
                idle_clock: IdleClock::default(),
                demand: Demand::default(),
                cores: terms.cores,
                cap: terms.cap(),
                usable: terms.most,
                held: CoreSet::EMPTY,
                alone: true,
                had: Duration::ZERO,
                counted: now,
            },
            ended,
            throttle: Throttle::of(terms.process),
            surveyed: now,
            looked: now,
            used: Duration::ZERO,
            next: now + QUANTUM,
            record: Record::default(),
        }
    }

    /// Comes by until this process is to end, and returns what it saw.
    fn serve(mut self) -> Record {
        loop {
            let heard = self.command.member.bell();
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            let now = Instant::now();
            if now >= self.next {
                self.look(now);
            } else {
                // A core was taken back, or a program has joined: then one that was alone need not be so any more.
                self.command.note_losses(now);
                self.command.place();
                self.next = self.next.min(self.looked + QUANTUM).max(now);
            }
            self.command.member.wait(heard, self.next.saturating_duration_since(Instant::now()));
        }
        self.command.confine(None);
        self.record
    }

    fn look(&mut self, now: Instant) {
        let own_time = || ThreadId::current().cpu_time().unwrap_or_default();
        let began = own_time();
        let command = &mut self.command;
        let look = command.tree.look(now - self.looked);
        let look = if self.throttle.is_active(now) { look.throttled() } else { look };
        command.demand.note(&look);
        command.note_losses(now);
        if !look.is_idle() && now - self.surveyed >= SURVEY {
            command.survey();
            self.surveyed = now;
        }
        self.used += look.used;
        command.member.publish(self.used, None);
        let account = command.account(&look);
        let decided = self.quantum.decide(command, account, look.runnable, command.cap);
        self.record.note(&look, command.usable, decided.standing.owned, command.had);
        (self.looked, command.had) = (now, Duration::ZERO);
        let rest = (own_time() - began) * PART;
        let least = if command.demand.desire(command.cap) == 0 { IDLE } else { QUANTUM };
        self.next = now + rest.max(Duration::from_nanos(decided.due)).max(least).min(LONGEST);
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

impl Command<'_> {
    fn survey(&mut self) {
        let may_use = self.tree.survey();
        if self.member.set_may_use(may_use) {
            self.held = self.member.held();
        }
        self.usable = cores::usable_of(may_use.len()).get() as u32;
        self.cap = self.cores.map_or(self.usable, |cores| cores.min(self.usable));
    }

    /// What was seen of it. Who of its threads is awake, and what they have queued, is no pool's to tell.
    fn account(&mut self, look: &Look) -> comity_policy::Account {
        let able_ns = nanos(self.demand.able(self.cap));
        let leaves_some = look.used < self.had;
        let idle = if leaves_some { idle_clock::machine() } else { None };
        comity_policy::Account {
            workers: self.cap,
            usable: self.cap,
            elapsed_ns: nanos(look.elapsed),
            used_ns: nanos(look.used),
            able_ns,
            // What its threads waited for is in it.
            wanted_ns: able_ns,
            held_ns: nanos(self.had),
            idle_ns: self.idle_clock.look(idle.map(nanos)),
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

    /// Who is alone leaves nothing to others, and who has no core has to run somewhere.
    fn place(&mut self) {
        let is_free = self.alone || self.held.is_empty();
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

impl Program for Command<'_> {
    type Staff<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn staffs(&self) -> usize {
        1
    }

    fn staff(&mut self, _nth: usize) -> &mut Self {
        self
    }

    fn round(&mut self, desire: u32, awake: u32) -> Standing {
        let standing = self.member.round(desire, awake);
        Standing { share_milli: standing.share_milli.min(self.cap.saturating_mul(1000)), ..standing }
    }

    fn owned(&self) -> CoreSet {
        self.member.owned()
    }

    fn held(&self) -> CoreSet {
        self.held
    }

    fn amend(&self, orders: Orders) -> Orders {
        let desire = match orders.mode {
            Mode::Time => 0,
            Mode::Cores => self.cores.unwrap_or_else(|| self.demand.desire(self.cap).max(1)),
        };
        Orders { desire, cores: Claims::Owned, ..orders }
    }

    /// Its threads are its own to wake: whatever the room.
    fn stand(&mut self, alone: bool, _mode: Mode, _room: Room, _usable: u32) {
        self.alone = alone;
    }
}

impl Staff for &mut Command<'_> {
    fn retired(&self) -> u32 {
        0
    }

    fn queued(&self) -> u64 {
        0
    }

    fn most(&self) -> u32 {
        self.member.owned().len() as u32
    }

    fn held(&self) -> CoreSet {
        self.held
    }

    fn claim(&mut self, own_only: bool) -> bool {
        self.member.claim(own_only).is_some()
    }

    fn take_back(&mut self) -> bool {
        self.member.take_back().is_some()
    }

    fn release(&mut self, core: usize) {
        self.member.release(Some(core));
    }

    /// Its threads run on the cores that it has by now.
    fn employ(&mut self) {
        self.held = self.member.held();
        self.place();
    }
}
