//! The coordinator of a command: a separate process that is the command's member of the core table.
//!
//! At each look, the coordinator reads the activity of the command's threads. The module [`command`] decides by the
//! default policy, as for a pool, and this file carries out its decisions. If the command can use its share, it holds
//! cores. It then holds exactly the cores that it owns, as a pool with `Claims::Owned` does, and its threads are
//! confined to them. Otherwise the command shares time: it has a desire of 0, holds no core, and runs on any core.
//! The coordinator ends when the command ends.
//!
//! Requests by `comity set` have the effects that `comity_protocol::orders` describes. A paused command is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::loudness::hint;
use comity_os::census::Stat;
use comity_os::clock::now_ns;
use comity_os::cpu_clock::ThreadId;
use comity_os::idle_clock;
use comity_os::pidfd::Pidfd;
use comity_os::throttle::Throttle;
use comity_os::{cores, detached, task_group};
use comity_protocol::Look;
use comity_protocol::command::{self, Coordination, QUANTUM};
use comity_table::{CoreSet, InForce, Life, Location, Member, Own, Program, Snapshot, Way, other_layouts};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::companion::{self, Note};
use super::history::History;
use super::terms::Terms;
use super::tokens::{JobsAccount, Tokens};
use super::tree::{Spared, Tree};
use crate::weight;

/// The interval at which the coordinator checks which cores the command may use, and whether all processes of a
/// paused command are stopped. The program or an administrator may change the affinity of threads, and the cpuset of
/// the command may change.
const SURVEY: Duration = Duration::from_secs(1);

/// The time after which the companion continues a command that is out of turn, if the coordinator is stopped.
const LOST_TURN: Duration = Duration::from_secs(2);

/// The longest wait for the end of the command. A signal that arrives just before a wait does not interrupt it, and
/// is noticed when the wait ends.
const MISSED_SIGNAL: Duration = Duration::from_secs(1);

/// The interval at which halted processes are checked for a signal such as SIGTERM, for which they must continue.
const SIGNAL_DELAY: Duration = Duration::from_millis(100);

/// Serves as the command's member of the table until the command has ended, or a signal asks this process to end.
/// This process is a copy of the process that became the command, or that adopts it.
///
/// `told` gets the reason if this process could not join the table, or `None` if it has joined.
pub fn run(
    command: &Pidfd,
    location: &Location,
    terms: &Terms,
    mut tokens: Option<Tokens>,
    told: impl FnOnce(Option<String>),
) {
    let ended = Arc::new(AtomicBool::new(false));
    let registered = [SIGTERM, SIGINT, SIGHUP]
        .map(|signal| signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(|error| error.to_string()))
        .into_iter()
        .collect::<Result<Vec<_>, String>>();
    let account = registered.and_then(|_handlers| Account::open(command, location, terms, tokens.as_ref()));
    let (account, why) = match account {
        Ok(account) => (account, None),
        Err(why) => (None, Some(why)),
    };
    told(why);
    detached::fall_silent();
    if let Some(account) = account {
        account.keep(command, location, terms, tokens, &ended);
    } else if let Some(tokens) = &mut tokens {
        // An adopted command does not know the jobserver yet.
        if terms.mark.is_none() {
            return tokens.remove();
        }
        tokens.look_alone(terms.cap());
        while !ended.load(Ordering::Acquire) && !command.has_ended_within(MISSED_SIGNAL) {}
        tokens.remove();
    }
}

/// The membership of a command in the core table, with the note for the companion, which releases the command if this
/// process dies.
pub struct Account {
    member: Member,
    may_use: CoreSet,
    note: Option<Note>,
}

impl Account {
    /// Opens the membership. Returns `None` if the command ends within a quantum. This process must have one thread.
    /// Prints hints about tables of other layouts on standard error.
    ///
    /// # Errors
    /// The reason why the membership is not possible.
    pub fn open(
        command: &Pidfd,
        location: &Location,
        terms: &Terms,
        tokens: Option<&Tokens>,
    ) -> Result<Option<Account>, String> {
        if command.has_ended_within(QUANTUM) {
            return Ok(None);
        }
        let profile = terms.profile();
        // The companion is a copy of this process, so it is started while this process has one thread. Without a
        // companion, the command stays confined or halted if this process is killed.
        let note = companion::start(terms, profile.may_use, command, tokens).ok();
        let joined = Member::join(location, &profile);
        for other in other_layouts(location) {
            hint(format!("comity: {other}"));
        }
        let member = joined.map_err(|why| why.to_string())?;
        member.stand_for(terms.process);
        Ok(Some(Account { member, may_use: profile.may_use, note }))
    }

    /// Keeps the membership until the command has ended, or a signal has set `ended`. Returns the history of the
    /// command.
    pub fn keep(
        self,
        command: &Pidfd,
        location: &Location,
        terms: &Terms,
        tokens: Option<Tokens>,
        ended: &AtomicBool,
    ) -> History {
        let Account { member, may_use, note } = self;
        let member = &member;
        thread::scope(|scope| {
            let coordinator = Coordinator::begin(member, ended, terms, may_use, note);
            let jobs = tokens.map(|tokens| Jobs { tokens, location });
            let adopted_at = terms.mark.is_none().then_some(location);
            let coordinator = Coordinator { jobs, adopted_at, ..coordinator };
            let served = scope.spawn(|| coordinator.serve());
            while !ended.load(Ordering::Acquire) {
                if command.has_ended_within(MISSED_SIGNAL) {
                    ended.store(true, Ordering::Release);
                }
            }
            member.ring_own();
            let mut history = served.join().expect("a coordinator of commands does not panic");
            let programs = Snapshot::take(location).ok().flatten().map_or(Vec::new(), |snapshot| snapshot.programs);
            history.account = programs.into_iter().find(|program| program.slot == member.slot());
            history
        })
    }
}

struct Coordinator<'a> {
    coordination: Coordination,
    command: Command<'a>,
    /// True if this process must end: the command has ended, or a signal asks for it.
    ended: &'a AtomicBool,
    throttle: Throttle,
    /// The number of cores that the affinity and the cgroup quota allow the command.
    usable: u32,
    surveyed: Instant,
    /// The time of the last check that the table is still in its place.
    followed: Instant,
    /// The processor time that the command has used so far.
    used: Duration,
    history: History,
    /// The weight and the core limit that apply if `comity set` has requested no others.
    own: Own,
    /// The weight that applies now.
    weight: u32,
    is_weight_chosen: bool,
    session: Option<Session>,
    /// The first process of the command.
    process: u32,
    /// The value of [`weight::group_milli`] at the last survey, or at the start if the session is the command's own.
    group_milli: u32,
    /// True if the command was stopped for a pause.
    is_resting: bool,
    /// The limit on cores that applies now.
    most: u32,
    jobs: Option<Jobs<'a>>,
    /// The table, if the command was adopted.
    adopted_at: Option<&'a Location>,
}

/// The jobserver of a command.
struct Jobs<'a> {
    tokens: Tokens,
    location: &'a Location,
}

impl Jobs<'_> {
    /// Ends the jobserver. Builds that the command has left behind, or the command if a signal ends this process, get
    /// all tokens. New clients find no FIFO for whose other end they would wait.
    fn end(mut self, most: u32) -> JobsAccount {
        self.tokens.look_alone(most);
        self.tokens.end()
    }
}

/// The session of a command, if the command's first process began the session and the session is a task group. Its
/// nice value gives the command its weight relative to all other sessions.
struct Session {
    /// The nice value before the command began.
    start: i32,
    nice: i32,
    /// The time when the kernel last refused a nice value. The kernel limits how often the value of a session
    /// changes.
    refused: Option<Instant>,
}

impl Session {
    fn of(terms: &Terms) -> Option<Session> {
        let start = terms.session_nice?;
        Some(Session { start, nice: task_group::nice_of(terms.process)?, refused: None })
    }

    /// Sets the nice value of the session of `process` to that of `weight`. `None` stands for a weight that the user
    /// has not set; the session then gets its nice value from before the command. Returns true if the nice value has
    /// changed.
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

/// The command's threads and its member of the table.
struct Command<'a> {
    member: &'a Member,
    tree: Tree,
    note: Option<Note>,
    /// True if the command was halted because it is out of turn or paused.
    is_closed: bool,
}

impl Command<'_> {
    /// Leaves out the processes of the adopted command that are members of the table now. Returns false if the first
    /// process has become another command.
    fn sort_out(&mut self, location: &Location) -> bool {
        let Ok(Some(snapshot)) = Snapshot::take(location) else { return true };
        let others =
            snapshot.programs.iter().filter(|program| program.slot != self.member.slot() && program.life != Life::Dead);
        let is_inside = |program: &&Program| match self.tree.has_left_out(program.pid) {
            Some(true) => true,
            Some(false) => program.keeper().is_some(),
            None => false,
        };
        let members: Vec<(u32, u64)> = others
            .filter(is_inside)
            .filter_map(|program| Some((program.pid, Stat::of_process(program.pid)?.start)))
            .collect();
        self.tree.sort_out(members)
    }

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
        mut note: Option<Note>,
    ) -> Coordinator<'a> {
        let policy = terms.policy.coordinator().expect("programs under the default policy share cores");
        member.publish_group(task_group::of_process(terms.process));
        let mut tree = Tree::new(terms, may_use);
        if let Some(roster) = note.as_mut().and_then(|note| note.roster.take()) {
            tree.record(roster);
        }
        Coordinator {
            coordination: Coordination::new(policy, terms.own(), terms.most, now_ns()),
            command: Command { member, tree, note, is_closed: false },
            ended,
            throttle: Throttle::of(terms.process),
            usable: terms.most,
            surveyed: Instant::now(),
            followed: Instant::now(),
            used: Duration::ZERO,
            history: History::default(),
            own: terms.own(),
            weight: terms.weight,
            is_weight_chosen: terms.is_weight_chosen,
            session: Session::of(terms),
            process: terms.process,
            group_milli: weight::group_milli(terms.process),
            is_resting: false,
            most: terms.cap(),
            jobs: None,
            adopted_at: None,
        }
    }

    /// Looks at the command regularly until this process must end. Returns the history of the command.
    fn serve(mut self) -> History {
        loop {
            let heard = self.command.member.bell();
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            let now = now_ns();
            if self.followed.elapsed() >= SURVEY {
                self.followed = Instant::now();
                // The coordinator must not write to the command's standard error any more, so it gives no hint about
                // a new table.
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
        // Requests end with the membership. The session gets the nice value that it would have without requests.
        let chosen = Some(self.own.weight).filter(|_| self.is_weight_chosen);
        self.session.as_mut().map(|session| session.weigh(self.process, chosen));
        self.history.jobs = self.jobs.map(|jobs| jobs.end(InForce::of(self.own).cap(self.usable)));
        self.history
    }

    /// Adjusts the tokens of the jobserver to the share of the command. The share is what a program would get that can
    /// use all cores, because a build runs more jobs as soon as it gets more tokens.
    fn look_at_jobs(&mut self) {
        let Some(jobs) = self.jobs.as_mut().filter(|jobs| jobs.tokens.is_look_due()) else { return };
        let Command { member, tree, is_closed, .. } = &mut self.command;
        let share = Snapshot::take(jobs.location).ok().flatten().map(|mut snapshot| {
            snapshot.programs.retain(|program| program.slot != member.slot());
            snapshot.entitled(self.weight, self.most, member.may_use()).div_ceil(1000)
        });
        let most = share.unwrap_or(self.most).clamp(1, self.most.max(1));
        let processes: Vec<u32> = tree.ids().collect();
        let leaves = || (!*is_closed).then(|| tree.leaves());
        jobs.tokens.look(most, leaves, &processes);
    }

    /// Applies the requests that are in effect now.
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
        self.most = told.cap(self.usable);
        told
    }

    /// Stops the command for a pause. Every call stops it again, because other programs may have continued it.
    fn pause(&mut self, told: InForce, now: u64) {
        self.command.rests_until(told.paused_until.unwrap_or(0));
        self.sort_out();
        self.command.tree.stop(Spared::Traced);
        (self.is_resting, self.command.is_closed) = (true, true);
        self.surveyed = Instant::now();
        self.coordination.pause(&mut self.command, now);
    }

    /// Ends the pause.
    fn go_on(&mut self, now: u64) {
        if !std::mem::take(&mut self.is_resting) {
            return;
        }
        command::Command::close(&mut self.command, false);
        // This look is discarded, so that no later look includes the pause.
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
        self.history.due = due;
        self.history.note(&look, self.usable, looked.standing.owned, Duration::from_nanos(looked.had_ns));
        self.look_at_jobs();
        self.coordination.rest((own_time() - began).as_nanos() as u64);
    }

    /// Gives up the processes of an adopted command that have another coordinator. If the first process has one, this
    /// coordinator ends.
    fn sort_out(&mut self) {
        if let Some(location) = self.adopted_at
            && !self.command.sort_out(location)
        {
            self.ended.store(true, Ordering::Release);
        }
    }

    fn survey(&mut self) {
        self.sort_out();
        let Command { member, tree, .. } = &mut self.command;
        let may_use = tree.survey();
        if let Some(stat) = tree.root().filter(|_| !self.is_weight_chosen) {
            // The nice value of the command's own session is computed from the weight, so the weight must not be
            // computed from the session.
            if self.session.is_none() {
                self.group_milli = weight::group_milli(self.process);
            }
            self.own.weight = weight::of_nice(&stat, self.group_milli);
        }
        tree.free_abandoned();
        if member.set_may_use(may_use) {
            self.coordination.has_let_go(member.held());
        }
        self.usable = cores::usable_by(self.process, may_use.len()).get() as u32;
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

    /// Halts the command's processes when its turn on the cores ends, and continues them when its next turn begins.
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

    /// Confines the command to these cores, or restores its affinity. Notes the new places before threads are
    /// confined to them, and removes an old place from the note only after all threads have left it.
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
