//! The coordinator of a command: a process beside it that keeps its account with the core table.
//!
//! At each look it sees what the command's threads do, and [`command`] decides on that by the default policy, as
//! for a pool. If the command could use its share, it holds cores; else it shares time. This file is its driver. A
//! command that holds cores has exactly those that are its own, as `Claims::Owned` has a pool do, and its threads
//! are kept on them. One that shares time desires nothing, holds nothing and runs where it likes. The process ends
//! with the command.
//!
//! What is asked of the command from outside (`comity set`) holds as `comity_protocol::orders` says. A command that
//! is to rest is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::loudness::hint;
use comity_os::clock::now_ns;
use comity_os::cpu_clock::ThreadId;
use comity_os::idle_clock;
use comity_os::pidfd::Pidfd;
use comity_os::throttle::Throttle;
use comity_os::{cores, detached, task_group};
use comity_protocol::Look;
use comity_protocol::command::{self, Coordination, QUANTUM};
use comity_table::{CoreSet, InForce, Location, Member, Own, Snapshot, Way, other_layouts};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::companion::{self, Note};
use super::record::Record;
use super::terms::Terms;
use super::tree::{Spared, Tree};
use crate::weight;

/// How often it is looked which cores the command may use, and whether all of a command that rests is stopped. Its
/// threads may be bound to others, and its cpuset may change.
const SURVEY: Duration = Duration::from_secs(1);

/// If the coordinator is stopped while the command is out of turn, its companion has the command go on after this.
const LOST_TURN: Duration = Duration::from_secs(2);

/// A signal that comes just before the wait that it should end is noticed after this long.
const MISSED_SIGNAL: Duration = Duration::from_secs(1);

/// A stopped process that receives a signal such as SIGTERM continues within this time.
const SIGNAL_DELAY: Duration = Duration::from_millis(100);

/// Takes part until the command has ended, or a signal asks this process, which is a copy of the one that became
/// the command, to end.
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
    /// Opens one for a command that does not end within a quantum. This process must have one thread. Says on
    /// standard error why there is none, and what else is to be known.
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

    /// Keeps it until the command has ended, or `ended` is set and a signal comes. Returns what was seen of the
    /// command.
    pub fn keep(self, command: &Pidfd, location: &Location, terms: &Terms, ended: &AtomicBool) -> Record {
        let Account { member, may_use, note } = self;
        let member = &member;
        thread::scope(|scope| {
            let coordinator = Coordinator::begin(member, ended, terms, may_use, note);
            let served = scope.spawn(|| coordinator.serve());
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

struct Coordinator<'a> {
    coordination: Coordination,
    command: Command<'a>,
    /// This process is to end.
    ended: &'a AtomicBool,
    throttle: Throttle,
    /// The cores that it may use, and a quota lets it.
    usable: u32,
    surveyed: Instant,
    /// When it was last looked whether the table is still in its place.
    followed: Instant,
    /// Processor time that the command was seen to use.
    used: Duration,
    record: Record,
    /// What the command line says.
    own: Own,
    /// How much the command counts by now.
    weight: u32,
    is_weight_chosen: bool,
    session: Option<Session>,
    /// The first process of the command.
    process: u32,
    /// The value of [`weight::group_milli`] at the last survey, or at the start if the session is the command's own.
    group_milli: u32,
    /// The command was stopped.
    is_resting: bool,
}

/// The session of a command, if the first process of the command began it and the session is a task group. Its nice
/// value makes the weight of the command count relative to all other sessions.
struct Session {
    /// The nice value before the command began.
    start: i32,
    nice: i32,
    /// When the kernel last refused a value, because it came too soon after another.
    refused: Option<Instant>,
}

impl Session {
    fn of(terms: &Terms) -> Option<Session> {
        let start = terms.session_nice?;
        Some(Session { start, nice: task_group::nice_of(terms.process)?, refused: None })
    }

    /// Gives the session of `process` the nice value of this weight, if the user has set a weight. Returns true if the
    /// nice value has changed.
    fn weigh(&mut self, process: u32, weight: Option<u32>) -> bool {
        let nice = weight.map_or(self.start, |weight| weight::nice_for(weight).max(self.start));
        if nice == self.nice || self.refused.is_some_and(|refused| refused.elapsed() < SURVEY) {
            return false;
        }
        let is_set = task_group::set_nice_of(process, nice).is_ok();
        self.refused = (!is_set).then(Instant::now);
        self.nice = if is_set { nice } else { self.nice };
        is_set
    }
}

/// The command's threads, and its place in the table.
struct Command<'a> {
    member: &'a Member,
    tree: Tree,
    note: Option<Note>,
    /// It is out of turn or is to rest, and was stopped.
    is_closed: bool,
}

impl Command<'_> {
    fn rests_until(&self, until_ns: u64) {
        if let Some(note) = &self.note {
            note.rests_until(until_ns);
        }
    }
}

impl Coordinator<'_> {
    fn begin<'a>(
        member: &'a Member,
        ended: &'a AtomicBool,
        terms: &Terms,
        may_use: CoreSet,
        note: Option<Note>,
    ) -> Coordinator<'a> {
        let policy = terms.policy.coordinator().expect("programs under the default policy share cores");
        member.publish_group(task_group::of_process(terms.process));
        Coordinator {
            coordination: Coordination::new(policy, terms.own(), terms.most, now_ns()),
            command: Command { member, tree: Tree::new(terms, may_use), note, is_closed: false },
            ended,
            throttle: Throttle::of(terms.process),
            usable: terms.most,
            surveyed: Instant::now(),
            followed: Instant::now(),
            used: Duration::ZERO,
            record: Record::default(),
            own: terms.own(),
            weight: terms.weight,
            is_weight_chosen: terms.is_weight_chosen,
            session: Session::of(terms),
            process: terms.process,
            group_milli: weight::group_milli(terms.process),
            is_resting: false,
        }
    }

    /// Comes by until this process is to end, and returns what it saw.
    fn serve(mut self) -> Record {
        loop {
            let heard = self.command.member.bell();
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            let now = now_ns();
            if self.followed.elapsed() >= SURVEY {
                self.followed = Instant::now();
                // The command's standard error is not this process's to write to any more.
                let _is_alone = self.command.member.follow();
            }
            let told = self.obey(now);
            if let Some(rests_for) = told.rests_for(now) {
                if !self.is_resting || self.surveyed.elapsed() >= SURVEY {
                    self.pause(told, now);
                }
                self.command.tree.deliver();
                self.command.member.wait(heard, rests_for.min(SIGNAL_DELAY));
                continue;
            }
            self.go_on(now);
            if self.coordination.is_look_due(now) {
                self.look(now);
            } else {
                self.coordination.rung(&mut self.command, now);
            }
            let wait = Duration::from_nanos(self.coordination.next().saturating_sub(now_ns()));
            if self.command.is_closed {
                self.command.tree.deliver();
                self.command.member.wait(heard, wait.min(SIGNAL_DELAY));
            } else {
                self.command.member.wait(heard, wait);
            }
        }
        self.go_on(now_ns());
        command::Command::close(&mut self.command, false);
        command::Command::confine(&mut self.command, None);
        // What was asked of the command held as long as it was in the table.
        let chosen = Some(self.own.weight).filter(|_| self.is_weight_chosen);
        self.session.as_mut().map(|session| session.weigh(self.process, chosen));
        self.record
    }

    /// Learns what holds of the command by now.
    fn obey(&mut self, now: u64) -> InForce {
        let requests = self.command.member.requests();
        let told = requests.in_force(self.own, now);
        if std::mem::replace(&mut self.weight, told.weight) != told.weight {
            self.command.member.set_weight(told.weight);
        }
        let chosen = requests.weight.or(Some(self.own.weight).filter(|_| self.is_weight_chosen));
        if self.session.as_mut().is_some_and(|session| session.weigh(self.process, chosen)) {
            self.command.member.publish_group(self.command.tree.task_group());
        }
        self.coordination.obey(told, now);
        told
    }

    /// The command rests: it is stopped. Again each time, for others may have continued it.
    fn pause(&mut self, told: InForce, now: u64) {
        self.command.rests_until(told.paused_until.unwrap_or(0));
        self.command.tree.stop(Spared::Traced);
        (self.is_resting, self.command.is_closed) = (true, true);
        self.surveyed = Instant::now();
        self.coordination.pause(&mut self.command, now);
    }

    /// It rests no longer.
    fn go_on(&mut self, now: u64) {
        if !std::mem::take(&mut self.is_resting) {
            return;
        }
        command::Command::close(&mut self.command, false);
        // What was not done meanwhile is in no later look.
        self.command.tree.look(Duration::from_nanos(now - self.coordination.looked()));
        self.coordination.go_on(now);
    }

    fn look(&mut self, now: u64) {
        let own_time = || ThreadId::current().cpu_time().unwrap_or_default();
        let began = own_time();
        let command = &mut self.command;
        let look = command.tree.look(Duration::from_nanos(now - self.coordination.looked()));
        let look = if self.throttle.is_active(Instant::now()) { look.throttled() } else { look };
        let can_rest_unseen = command.note.is_some() && command.tree.can_be_frozen();
        let look = Look { is_nice: look.is_nice && !self.is_weight_chosen, can_rest_unseen, ..look };
        command.member.take_turns(can_rest_unseen && !self.coordination.has_limit());
        self.coordination.note(command, &look, now);
        if !look.is_idle() && self.surveyed.elapsed() >= SURVEY {
            self.survey();
        }
        self.used += look.used;
        self.command.member.publish(self.used, None);
        let looked = self.coordination.look(&mut self.command, &look, now);
        let due = Duration::from_nanos(self.coordination.due_ns());
        self.command.member.publish_due(due);
        self.record.due = due;
        self.record.note(&look, self.usable, looked.standing.owned, Duration::from_nanos(looked.had_ns));
        self.coordination.rest((own_time() - began).as_nanos() as u64);
    }

    fn survey(&mut self) {
        let Command { member, tree, .. } = &mut self.command;
        let may_use = tree.survey();
        if let Some(stat) = tree.root().filter(|_| !self.is_weight_chosen) {
            // The nice value of a session of its own follows the weight, so the weight does not follow it.
            if self.session.is_none() {
                self.group_milli = weight::group_milli(self.process);
            }
            self.own.weight = weight::of_nice(&stat, self.group_milli);
        }
        tree.free_abandoned();
        if member.set_may_use(may_use) {
            self.coordination.has_let_go(member.held());
        }
        self.usable = cores::usable_of(may_use.len()).get() as u32;
        self.coordination.limit(self.usable);
        self.surveyed = Instant::now();
        self.command.member.publish_group(self.command.tree.task_group());
    }
}

impl command::Command for Command<'_> {
    type Seat = Member;

    fn seat(&self) -> &Member {
        self.member
    }

    /// Out of turn its processes are halted, and go on when the turn comes.
    fn close(&mut self, closed: bool) {
        if std::mem::replace(&mut self.is_closed, closed) == closed {
            return;
        }
        if closed {
            self.rests_until(now_ns() + LOST_TURN.as_nanos() as u64);
            self.tree.halt(self.note.is_some());
        } else {
            self.tree.go_on();
            self.rests_until(0);
        }
    }

    fn cores(&self) -> CoreSet {
        self.member.may_use()
    }

    fn publish(&mut self, way: Way) {
        self.member.publish_way(way);
    }

    fn note_lost(&mut self, cores: u32) {
        self.member.note_lost(cores);
    }

    fn idle_ns(&mut self) -> Option<u64> {
        idle_clock::machine().map(|idle| idle.as_nanos() as u64)
    }

    /// The note comes first, and forgets where threads were only when none is there any more.
    fn confine(&mut self, confined: Option<CoreSet>) {
        let [target, before, came_before] = self.tree.places();
        let came = Some(self.tree.coming(confined)).filter(|came| !came.is_empty());
        if let Some(note) = &self.note {
            note.write([target, before, came_before, confined, came]);
        }
        self.tree.confine(confined);
        let [target, before, came] = self.tree.places();
        if let Some(note) = &self.note {
            note.write([target, before, came, None, None]);
        }
    }
}
