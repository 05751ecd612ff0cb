//! All processes and threads of a command: their activity, and the cores on which they may run.
//!
//! A process belongs to the command if its parent belongs to it, and stays a process of the command when another
//! process adopts it. If the parent ends before this module has seen the process in `/proc`, the process is recognized
//! by its [`MARK`]. It must then have the same user as the coordinator. The processes of an adopted command have no
//! mark: see [`adopted`].
//!
//! Threads are moved only within the affinity that their program or an administrator grants: see [`Mask`]. If a new
//! thread has a mask that this module has set, the thread inherited the mask from the thread that started it. Before
//! the coordinator confines a thread to a set of cores, it writes the set to a note. The [companion](super::companion)
//! process reads the note, to release the command if the coordinator is killed or stopped.
//!
//! The coordinator stops the processes of a paused command, and continues them at the end of the pause or when the
//! coordinator ends. It halts a command that is [out of turn](comity_policy::OutOfTurn), which holds no core and waits
//! for its turn. If a control group can be made for the command, its processes are frozen, which no process can notice.
//! Otherwise only the processes are stopped whose stop no other process can notice: see [`Spared::Watched`].
//!
//! During a halt, a process that the user stops stays stopped. A process that receives a signal such as SIGTERM
//! continues, so that it can handle the signal.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use comity_os::affinity::{self, Mask};
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::{self, ThreadId};
use comity_os::environment;
use comity_os::files;
use comity_os::freezer::{Freezer, Membership, Place};
use comity_os::pidfd::Pidfd;
use comity_os::signals::{Signals, Watching};
use comity_os::task_group;
use comity_protocol::Look;
use comity_table::{CoreSet, TaskGroup};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2};

use super::adopted::{self, Adopted};
use super::roster::Roster;
use super::terms::Terms;

/// The environment variable by which the processes of a command are found. Each command has a different value.
pub const MARK: &str = "COMITY_RUN";

/// Returns the value of [`MARK`] for the process `starter`, which began at `start`, and for its descendants.
pub fn mark(starter: u32, start: u64) -> String {
    format!("{starter}-{start}")
}

/// True if the command that this process belongs to, according to its [`MARK`], still runs.
pub fn outer_command_lives() -> bool {
    environment::variable(MARK).and_then(|mark| mark.into_string().ok()).is_some_and(|mark| command_lives(&mark))
}

/// True if the command with this value of [`MARK`] still runs.
pub fn command_lives(mark: &str) -> bool {
    mark.split_once('-').is_some_and(|(process, start)| match (process.parse(), start.parse()) {
        (Ok(process), Ok(start)) => census::lives(process, start),
        _ => false,
    })
}

/// The maximum number of passes over all threads or processes. A thread or process that a pass has not reached yet may
/// start others, so another pass follows. A later look finds those that are left after the last pass.
const PASSES: usize = 4;

/// The time between two attempts to make a control group for the command.
const FREEZER_AGAIN: Duration = Duration::from_secs(10);

/// The processes that [`Tree::stop`] does not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    /// Processes that are traced or trace others, because a tracer would report the stop.
    Traced,
    /// The processes of [`Spared::Traced`], and processes whose parent may notice the stop. For example, an
    /// interactive shell would report that a job was stopped and take the terminal back. `su` would stop itself and
    /// never continue.
    Watched,
}

/// A process is new if it started less than this time ago, in ticks of 10 ms, as in [`Stat::start`].
const YOUNG: u64 = 100;

/// A process with less processor time than this may still be about to begin its first actions, for example to wait
/// for a child.
const SETTLED: Duration = Duration::from_millis(100);

/// The signals for which a stopped process continues.
const CONTINUES: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The signals that stop a process.
const STOPS: [i32; 4] = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];

/// The way in which a process of the command is recognized whose parent has ended.
enum Descent {
    /// The process has this entry in its environment, as `MARK=value`.
    Marked(String),
    /// The command was adopted.
    Adopted(Adopted),
}

/// A command's processes.
pub struct Tree {
    descent: Descent,
    /// The first process of the command.
    root: u32,
    /// The start time of the first process. The command has no older process.
    start: u64,
    /// The mask that the command had when it began.
    roams: Thread,
    /// The cores that the system granted to the command when it began.
    granted: CoreSet,
    /// The cores to which the command is confined. `None`: it is not confined.
    target: Option<CoreSet>,
    /// The previous `target`. Set while new threads may still have this mask, because their starter had it.
    before: Option<CoreSet>,
    /// The cores that the last change added to `target`. Set while new threads may have a mask of these cores alone
    /// (see `fill`).
    came: Option<CoreSet>,
    processes: HashMap<u32, Process>,
    /// The processes of the machine that did not belong to the command when [`Tree::find`] last looked at all
    /// processes. For a process in `processes` or `strangers`, `find` does not read the parent.
    strangers: HashSet<u32>,
    /// The processes that this tree has stopped, each with its start time.
    stopped: HashSet<(u32, u64)>,
    /// The place where the control group of the command can be made. `None` if there is no such place.
    place: Option<Place>,
    freezer: Option<Freezer>,
    /// The time of the next attempt to make a control group.
    next_freezer: Instant,
    /// True if the control group was frozen and not thawed since.
    is_frozen: bool,
    /// True if nice processes had more than half of [`Look::able`], the time for which the command's threads ran or
    /// waited for a core. Kept from the last look at which this time was not 0.
    is_nice: bool,
    /// The task group of all processes that worked before the last survey. `None`: it is unknown, or the processes
    /// have several.
    group: Option<TaskGroup>,
}

struct Process {
    start: u64,
    session: u32,
    /// True if the process had a runnable thread, or used processor time, at the last look.
    works: bool,
    /// The process's place relative to the control group, at the last freeze. `None` if it is not known yet.
    membership: Option<Membership>,
    /// The processor time that the parent had used when this process was found.
    parent_had: Duration,
    /// The processor time of the process at the last look.
    cpu: Duration,
    /// The activity of the process's threads at the last look.
    activity: ThreadActivity,
    /// True if the process has a nice value above 0, or is of SCHED_IDLE.
    is_nice: bool,
    /// True if the process had a child when the leaves were last counted, or before.
    had_children: bool,
    /// The cores that the system grants the process, as far as they are known.
    granted: CoreSet,
    threads: HashMap<u32, Thread>,
}

impl Process {
    fn new(stat: &Stat, activity: ThreadActivity, granted: CoreSet) -> Process {
        let (start, session, is_nice) = (stat.start, stat.session, is_nice(stat));
        let parent_had = cpu_clock::of_process(stat.parent).unwrap_or_default();
        let (cpu, threads) = (Duration::ZERO, HashMap::new());
        let (works, membership, had_children) = (true, None, false);
        Process {
            start,
            session,
            works,
            membership,
            parent_had,
            cpu,
            activity,
            is_nice,
            had_children,
            granted,
            threads,
        }
    }
}

/// The activity of a process's threads, as `/proc` shows it.
#[derive(Clone, Copy, Default)]
struct ThreadActivity {
    /// The number of threads that are on a core or wait for one.
    runnable: u32,
    /// The time for which the threads have waited for a core, summed over threads.
    waited: Duration,
}

impl ThreadActivity {
    fn of(id: u32, stat: &Stat) -> ThreadActivity {
        let threads = if stat.threads == 1 { vec![id] } else { census::threads(id) };
        let mut activity = ThreadActivity::default();
        for thread in threads {
            let stat = if stat.threads == 1 { Some(*stat) } else { Stat::of_thread(id, thread) };
            activity.runnable += u32::from(stat.is_some_and(|stat| stat.state == 'R'));
            activity.waited += census::waited_for_core(id, thread).unwrap_or_default();
        }
        activity
    }
}

/// The masks of a thread of the command.
#[derive(Clone, Copy)]
struct Thread {
    mask: Mask,
    /// The mask of the thread at the last look.
    found: CoreSet,
}

impl Tree {
    /// Returns the tree of a command that runs on any core in `roams`.
    pub fn new(terms: &Terms, roams: CoreSet) -> Tree {
        let descent = match &terms.mark {
            Some(mark) => Descent::Marked(format!("{MARK}={mark}")),
            None => Descent::Adopted(Adopted::new(terms.process, terms.left_out.clone())),
        };
        Tree::of(terms.process, terms.start, descent, roams)
    }

    fn of(root: u32, start: u64, descent: Descent, roams: CoreSet) -> Tree {
        let granted = affinity::granted();
        let mut mask = Mask::default();
        mask.learn(roams, granted);
        let mut tree = Tree {
            descent,
            root,
            start,
            roams: Thread { mask, found: roams },
            granted,
            target: None,
            before: None,
            came: None,
            processes: HashMap::new(),
            strangers: HashSet::new(),
            stopped: HashSet::new(),
            place: Place::of(root, start),
            freezer: None,
            next_freezer: Instant::now(),
            is_frozen: false,
            is_nice: false,
            group: task_group::of_process(root),
        };
        let cpu = cpu_clock::of_process(root).unwrap_or_default();
        // The first process may have ended before its descendants, and its number may belong to another process by
        // now.
        if let Some(stat) = tree.root() {
            let process = Process { cpu, ..Process::new(&stat, ThreadActivity::default(), granted) };
            tree.processes.insert(root, process);
        }
        tree.find();
        tree
    }

    /// Returns the tree of a command whose threads another process has put on `target`.
    pub fn confined(terms: &Terms, roams: CoreSet, target: CoreSet) -> Tree {
        let mut tree = Tree::new(terms, roams);
        tree.target = Some(target);
        tree
    }

    /// Halts the command, which is out of turn. `may_freeze` is true if another process thaws the command in case
    /// this process is killed. A process that cannot be frozen is stopped, if no other process can notice the stop.
    pub fn halt(&mut self, may_freeze: bool) {
        self.is_frozen = may_freeze && self.freeze();
        self.stop(Spared::Watched);
    }

    /// Moves the command's processes into a control group and freezes the group. Processes that are in another
    /// control group than the command's first process stay there and are not frozen. Returns false if no group can be
    /// made for the command.
    fn freeze(&mut self) -> bool {
        if self.freezer.is_none() && Instant::now() >= self.next_freezer {
            self.next_freezer = Instant::now() + FREEZER_AGAIN;
            self.freezer = self.place.as_ref().and_then(|place| place.make().ok());
            self.processes.values_mut().for_each(|process| process.membership = None);
        }
        let Some(freezer) = self.freezer.take() else { return false };
        for _ in 0..PASSES {
            self.find();
            let mut has_new = false;
            for (id, process) in self.processes.iter_mut().filter(|(_, process)| process.membership.is_none()) {
                // While the descriptor is open, the kernel does not give the number to another process.
                let is_there = Pidfd::of_process(*id, process.start);
                let found = freezer.place().membership(*id);
                let is_taken = found == Membership::Beside && is_there.is_some() && freezer.take(*id);
                process.membership = Some(if is_taken { Membership::Inside } else { found });
                // If the moved process started others before the move, the next pass finds them.
                has_new |= is_taken;
            }
            if !has_new {
                break;
            }
        }
        // A command of another table that is started inside forks its coordinator in this group.
        if let Descent::Adopted(_) = self.descent {
            let unknown = freezer.members().into_iter().filter(|id| !self.processes.contains_key(id));
            unknown.filter(|id| adopted::is_of_comity(*id)).for_each(|id| freezer.put_back(id));
        }
        let is_frozen = freezer.freeze();
        // Freezing fails only if the group no longer exists: the companion removed it while the coordinator was
        // stopped.
        self.freezer = Some(freezer).filter(|_| is_frozen);
        is_frozen
    }

    /// True if no working process of the command is known to be outside of the group that [`Tree::halt`] freezes, and
    /// the group can be made.
    pub fn can_be_frozen(&self) -> bool {
        let is_out = |process: &Process| matches!(process.membership, Some(Membership::Beside | Membership::Elsewhere));
        let has_group = self.freezer.is_some() || (self.place.is_some() && Instant::now() >= self.next_freezer);
        has_group && !self.processes.values().any(|process| process.works && is_out(process))
    }

    fn thaw(&mut self) {
        if let Some(freezer) = self.freezer.as_ref().filter(|_| self.is_frozen) {
            self.is_frozen = !freezer.thaw();
        }
    }

    /// Thaws other commands whose coordinator and companion were both killed, and removes their control groups. Finds
    /// only groups in the parent group of this command's group.
    pub fn free_abandoned(&self) {
        if let Some(place) = &self.place {
            place.free_abandoned();
        }
    }

    /// Stops the processes of the command that this process may signal, except stopped and `spared` processes.
    pub fn stop(&mut self, spared: Spared) {
        let mut watching = HashMap::new();
        let mut is_watched = |stat: &Stat, parent_had: Duration, used: Duration| {
            let mut parent = || *watching.entry(stat.parent).or_insert_with(|| Watching::of_process(stat.parent));
            let is_young = || census::now().saturating_sub(stat.start) < YOUNG || used < SETTLED;
            // A parent that has used little processor time since it started this process may be about to wait for it.
            let may_wait = || {
                let state = Stat::of_process(stat.parent).map(|stat| stat.state);
                let has = || cpu_clock::of_process(stat.parent).unwrap_or_default();
                matches!(state, Some('R' | 'D')) && has().saturating_sub(parent_had) < SETTLED
            };
            spared == Spared::Watched
                && (stat.is_job()
                    || match parent() {
                        Watching::No => false,
                        // A stopped parent may begin to wait when it continues.
                        Watching::Later => is_young() || is_stopped(stat.parent) || may_wait(),
                        Watching::Yes => true,
                    })
        };
        // `sent` has the processes that were already sent SIGSTOP. A second SIGSTOP could stay pending and would
        // later look like one from the user.
        let mut sent = HashSet::new();
        for _ in 0..PASSES {
            self.find();
            // A process without a known membership is new since the freeze. A member of the group started it, so it
            // is frozen too.
            let may_be_frozen = |process: &Process| {
                self.is_frozen && !matches!(process.membership, Some(Membership::Beside | Membership::Elsewhere))
            };
            let mut of = |(id, process): (&u32, &Process)| {
                let stat = Stat::of_process(*id).filter(|stat| stat.start == process.start)?;
                let is_watched = is_watched(&stat, process.parent_had, process.cpu);
                Some((*id, stat, Signals::of_process(*id)?.tracer, is_watched))
            };
            let is_to_stop = |process: &Process| spared == Spared::Traced || !may_be_frozen(process);
            let to_stop = self.processes.iter().filter(|(_, process)| is_to_stop(process));
            let all: Vec<(u32, Stat, u32, bool)> = to_stop.filter_map(&mut of).collect();
            let tracers: HashSet<u32> = all.iter().map(|(_, _, tracer, _)| *tracer).collect();
            let may_stop = |(id, stat, tracer, is_watched): &(u32, Stat, u32, bool)| {
                let is_traced = *tracer != 0 || tracers.contains(id);
                !matches!(stat.state, 'T' | 't' | 'Z' | 'X') && !is_traced && !sent.contains(id) && !is_watched
            };
            let stops = |(id, stat, ..): &(u32, Stat, u32, bool)| {
                Pidfd::of_process(*id, stat.start).is_some_and(|process| process.stop())
            };
            let stopped: Vec<_> = all.into_iter().filter(may_stop).filter(stops).collect();
            if stopped.is_empty() {
                break;
            }
            // The next pass finds processes that a process started before it was stopped.
            sent.extend(stopped.iter().map(|(id, ..)| *id));
            self.stopped.extend(stopped.into_iter().map(|(id, stat, ..)| (id, stat.start)));
        }
        if spared == Spared::Traced {
            // A frozen process stops as soon as it is thawed.
            self.thaw();
        }
    }

    /// Continues the processes that [`Tree::halt`] or [`Tree::stop`] has halted. Children continue before their
    /// parents, because a running parent might notice a stopped child. A process that the user or a shell has also
    /// stopped stays stopped.
    pub fn go_on(&mut self) {
        self.thaw();
        let stopped = std::mem::take(&mut self.stopped);
        let is_users_job = |id: u32| {
            let leader = Stat::of_process(id).filter(|stat| stat.terminal != 0).map(|stat| stat.group);
            leader.is_some_and(|leader| is_stopped(leader) && !stopped.iter().any(|(other, _)| *other == leader))
        };
        let mut all: Vec<(u32, u64)> = stopped.iter().copied().collect();
        all.sort_by_key(|(id, _)| Reverse(self.depth(*id)));
        for (id, start) in all {
            if is_users_job(id) {
                self.stopped.insert((id, start));
            } else if !(is_stopped(id) && is_sent(id, &STOPS)) {
                // A process that had no core after this tree sent SIGSTOP has not stopped yet. Its pending SIGSTOP is
                // the signal from this tree, so the process continues.
                Pidfd::of_process(id, start).map(|process| process.go_on());
            }
        }
    }

    /// Continues the stopped processes that have received a signal such as SIGTERM, and the whole command if it is
    /// frozen.
    pub fn deliver(&mut self) {
        let members = self.freezer.as_ref().filter(|_| self.is_frozen).map_or(Vec::new(), Freezer::members);
        if members.into_iter().any(|id| is_sent(id, &CONTINUES) || is_sent(id, &[SIGTSTP])) {
            self.thaw();
        }
        let has_signal = |(id, _): &&(u32, u64)| is_sent(*id, &CONTINUES);
        let asked: Vec<(u32, u64)> = self.stopped.iter().filter(has_signal).copied().collect();
        for (id, start) in asked {
            self.stopped.remove(&(id, start));
            Pidfd::of_process(id, start).map(|process| process.go_on());
        }
    }

    /// Returns the number of ancestors of a process that belong to the command.
    fn depth(&self, id: u32) -> usize {
        let parent = |id: &u32| Stat::of_process(*id).map(|stat| stat.parent);
        let above = std::iter::successors(parent(&id), parent).take_while(|id| self.processes.contains_key(id));
        // A reused process number could lead to a cycle.
        above.take(self.processes.len()).count()
    }

    /// Continues all stopped processes, for a caller that does not know which processes it stopped.
    pub fn go_on_all(&mut self) {
        self.stopped = self.processes.iter().map(|(id, process)| (*id, process.start)).collect();
        self.go_on();
    }

    /// Returns the state of the first process of the command, or `None` if that process has ended.
    pub fn root(&self) -> Option<Stat> {
        Stat::of_process(self.root).filter(|stat| stat.start == self.start)
    }

    /// Returns the numbers of the command's processes.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// Returns the processes that never had children at such a look, by number and start time, each with its number of
    /// threads. Daemons are left out: they may live as long as the command without work.
    pub fn leaves(&mut self) -> HashMap<(u32, u64), u32> {
        let lives = |stat: &Stat| !matches!(stat.state, 'Z' | 'X');
        let stats: HashMap<u32, Stat> =
            self.ids().filter_map(|id| Some((id, Stat::of_process(id).filter(lives)?))).collect();
        for stat in stats.values() {
            if let Some(parent) = self.processes.get_mut(&stat.parent) {
                parent.had_children = true;
            }
        }
        let session = self.processes.get(&self.root).map(|root| root.session);
        let is_daemon = |stat: &Stat| !stats.contains_key(&stat.parent) && Some(stat.session) != session;
        let has_none = |id: u32| !self.processes[&id].had_children;
        let is_leaf = |id: u32, stat: &Stat| has_none(id) && (id == self.root || !is_daemon(stat));
        let leaves = stats.iter().filter(|(id, stat)| is_leaf(**id, stat));
        leaves.map(|(id, stat)| ((*id, stat.start), stat.threads)).collect()
    }

    /// Returns the sets of cores to which threads may be confined now.
    pub fn places(&self) -> [Option<CoreSet>; 3] {
        [self.target, self.before, self.came]
    }

    /// Returns the activity of the command since the last look, and updates the tree.
    pub fn look(&mut self, elapsed: Duration) -> Look {
        let mut look = Look { elapsed, ..Look::default() };
        let mut nice = Duration::ZERO;
        let mut note = |look: &mut Look, is_nice: bool, able: Duration| {
            look.able += able;
            nice += if is_nice { able } else { Duration::ZERO };
        };
        let mut active = HashSet::new();
        let known = self.processes.len();
        self.processes.retain(|id, process| {
            let Some(cpu) = cpu_clock::of_process(*id) else { return false };
            let used = cpu.saturating_sub(process.cpu);
            process.cpu = cpu;
            look.used += used;
            // A process that used no processor time may have a thread that waits for a core.
            process.works = used > Duration::ZERO || process.activity.runnable > 0;
            if process.works {
                let stat = Stat::of_process(*id).filter(|stat| stat.start == process.start);
                let Some(stat) = stat else { return false };
                let activity = ThreadActivity::of(*id, &stat);
                (process.is_nice, process.session) = (is_nice(&stat), stat.session);
                note(&mut look, process.is_nice, used + activity.waited.saturating_sub(process.activity.waited));
                process.activity = activity;
                active.insert(*id);
            }
            true
        });
        // Starting a process takes processor time. If no known process used processor time, there are no new
        // processes.
        if !active.is_empty() || self.processes.len() < known {
            for id in self.find() {
                let Process { cpu, activity, is_nice, .. } = self.processes[&id];
                look.used += cpu;
                note(&mut look, is_nice, cpu + activity.waited);
                active.insert(id);
            }
        }
        // If the command is not confined now and no earlier place is in use, every thread has its own affinity
        // already.
        if self.places().into_iter().any(|place| place.is_some()) {
            let inherited = self.inherited();
            for id in active {
                self.place_threads(id, &inherited, false);
            }
        }
        let runnable = || self.processes.values().map(|process| process.activity.runnable);
        (look.runnable, look.team) = (runnable().sum(), runnable().max().unwrap_or(0));
        if look.able > Duration::ZERO {
            self.is_nice = 2 * nice > look.able;
        }
        look.is_nice = self.is_nice;
        look
    }

    /// Returns the task group of all processes that worked at the last look. `None`: it is unknown, or there are
    /// several.
    pub fn task_group(&mut self) -> Option<TaskGroup> {
        let mut groups = HashMap::new();
        for (id, process) in self.processes.iter().filter(|(_, process)| process.works) {
            // Most processes have the same control groups. To read a task group is slower than to find it in this
            // map.
            let Some(membership) = census::control_groups(*id) else { continue };
            if let Entry::Vacant(place) = groups.entry((process.session, membership)) {
                let group = task_group::of_process(*id);
                if census::lives(*id, process.start) {
                    place.insert(group);
                }
            }
        }
        // If all of the processes have ended by now, the old value is kept.
        if let Some(group) = groups.values().next() {
            self.group = group.filter(|_| groups.values().all(|other| other == group));
        }
        self.group
    }

    /// Updates the cores that the command may use according to its program, an administrator and the system.
    pub fn survey(&mut self) -> CoreSet {
        let inherited = self.inherited();
        let ids: Vec<u32> = self.processes.keys().copied().collect();
        for id in ids {
            self.place_threads(id, &inherited, true);
        }
        let of = |process: &Process| {
            let threads = process.threads.values().map(|thread| thread.mask.roams(process.granted));
            threads.fold(CoreSet::EMPTY, CoreSet::union)
        };
        let all = self.processes.values().map(of).fold(CoreSet::EMPTY, CoreSet::union);
        if all.is_empty() { self.roams.found } else { all }
    }

    /// Walks over all processes of the machine. Adds new processes of the command and removes ended processes.
    /// Returns the numbers of the new processes.
    fn find(&mut self) -> Vec<u32> {
        // The coordinator (this process) is left out. It was started as an orphan, so it is a child of the command if
        // the command adopts orphans, as the first process of a container does.
        let this = std::process::id();
        let all: HashSet<u32> = census::processes().into_iter().filter(|id| *id != this).collect();
        self.processes.retain(|id, _| all.contains(id));
        self.strangers.retain(|id| all.contains(id));
        let unknown = all.iter().filter(|id| !self.processes.contains_key(id) && !self.strangers.contains(id));
        let mut new: Vec<(u32, Stat)> = unknown.filter_map(|id| Some((*id, Stat::of_process(*id)?))).collect();
        let mut found = Vec::new();
        loop {
            // The mark alone is no proof: any user can start a process with it, even one that runs as root, by a
            // set-user-id program. A coordinator that runs as root can read the environments of all these processes.
            let is_marked = |id: u32, mark: &str| {
                census::has_in_environment(id, mark)
                    && census::user(id) == Some(files::user())
                    && census::has_rights_of_its_caller(id)
            };
            let has_parent = |stat: &Stat| self.processes.contains_key(&stat.parent);
            let belongs = |id: u32, stat: &Stat| match &self.descent {
                Descent::Marked(mark) => has_parent(stat) || is_marked(id, mark),
                Descent::Adopted(adopted) => {
                    (has_parent(stat) || adopted::is_left_behind(self.root, id, stat))
                        && adopted.may_have(id, stat.start)
                }
            };
            let is_ours = |(id, stat): &(u32, Stat)| stat.start >= self.start && belongs(*id, stat);
            let (ours, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_ours);
            new = others;
            if ours.is_empty() {
                break;
            }
            for (id, stat) in ours {
                let cpu = cpu_clock::of_process(id).unwrap_or_default();
                let activity = ThreadActivity::of(id, &stat);
                let granted = self.processes.get(&stat.parent).map_or(self.granted, |parent| parent.granted);
                self.processes.insert(id, Process { cpu, ..Process::new(&stat, activity, granted) });
                found.push(id);
            }
        }
        self.strangers.extend(new.into_iter().map(|(id, _)| id));
        self.enlist(&found);
        found
    }

    /// Writes each process to `roster` from now on, before it is confined or stopped.
    pub fn record(&mut self, roster: Roster) {
        if let Descent::Adopted(adopted) = &mut self.descent {
            adopted.roster = Some(roster);
        }
        let all: Vec<u32> = self.processes.keys().copied().collect();
        self.enlist(&all);
    }

    fn enlist(&mut self, new: &[u32]) {
        let Descent::Adopted(Adopted { roster: Some(roster), .. }) = &mut self.descent else { return };
        if new.is_empty() {
            return;
        }
        let new: Vec<(u32, u64)> = new.iter().map(|id| (*id, self.processes[id].start)).collect();
        roster.add(&new);
        if roster.is_long(self.processes.len()) {
            roster.keep(|(id, start)| self.processes.get(id).is_some_and(|process| process.start == *start));
        }
    }

    /// Adds the processes that a coordinator has written to its roster, and those that they have started.
    pub fn include(&mut self, listed: &[(u32, u64)]) {
        for (id, start) in listed {
            if let Some(stat) = Stat::of_process(*id).filter(|stat| stat.start == *start) {
                self.strangers.remove(id);
                self.processes
                    .entry(*id)
                    .or_insert_with(|| Process::new(&stat, ThreadActivity::default(), self.granted));
            }
        }
        self.find();
    }

    /// True if the adopted command has this process, or has left it out as a member of the table. `None` if it has
    /// neither.
    pub fn has_left_out(&self, id: u32) -> Option<bool> {
        let Descent::Adopted(adopted) = &self.descent else { return None };
        let is_left_out = adopted.left_out.iter().any(|(other, _)| *other == id);
        (is_left_out || self.processes.contains_key(&id)).then_some(is_left_out)
    }

    /// Updates which processes inside of an adopted command are `members` of the table themselves. Gives up processes
    /// that are members, or have become the processes of another command. Processes that are no members any more belong
    /// to this command again. Returns false if the first process has become another command.
    pub fn sort_out(&mut self, members: Vec<(u32, u64)>) -> bool {
        let Descent::Adopted(adopted) = &mut self.descent else { return true };
        if !adopted.may_have(self.root, self.start) {
            return false;
        }
        if adopted.left_out != members {
            adopted.left_out = members;
            self.strangers.clear();
        }
        let mut given_up: HashSet<u32> = self
            .processes
            .iter()
            .filter(|(id, process)| **id != self.root && !adopted.may_have(**id, process.start))
            .map(|(id, _)| *id)
            .collect();
        if given_up.is_empty() {
            return true;
        }
        let parents: Vec<(u32, u32)> =
            self.processes.keys().filter_map(|id| Some((*id, Stat::of_process(*id)?.parent))).collect();
        // A process stands after its parent in this order only if it has a higher number. So the passes repeat.
        while parents.iter().any(|(id, parent)| given_up.contains(parent) && given_up.insert(*id)) {}
        for id in given_up {
            self.give_up(id);
        }
        if let Descent::Adopted(Adopted { roster: Some(roster), .. }) = &mut self.descent {
            roster.keep(|(id, start)| self.processes.get(id).is_some_and(|process| process.start == *start));
        }
        true
    }

    /// Forgets a process, which runs on as before the adoption. A mask that another coordinator has set stays.
    fn give_up(&mut self, id: u32) {
        let Some(process) = self.processes.remove(&id) else { return };
        if process.membership == Some(Membership::Inside) {
            self.freezer.iter().for_each(|freezer| freezer.put_back(id));
        }
        for (number, Thread { mut mask, found }) in process.threads {
            let thread = ThreadId::from_raw(number as i32);
            if mask.note(None).is_some() && affinity::of(thread) == found {
                affinity::confine(thread, mask.cores());
            }
        }
        if self.stopped.remove(&(id, process.start)) {
            Pidfd::of_process(id, process.start).map(|process| process.go_on());
        }
    }

    /// Confines the threads of the command to these cores, within their own affinities. `None` restores their
    /// affinities.
    pub fn confine(&mut self, target: Option<CoreSet>) {
        // The masks are collected before the target changes. A thread that already has the mask of the new target got
        // it from another program, not from this tree.
        let mut inherited = self.inherited();
        let mut came = CoreSet::EMPTY;
        if target != self.target {
            came = self.coming(target);
            self.before = std::mem::replace(&mut self.target, target);
        } else if self.before.is_none() && self.came.is_none() {
            return;
        }
        self.put(&mut inherited);
        if !came.is_empty() {
            self.came = Some(came);
            self.fill(came);
            // While `fill` moved a thread, the thread may have started other threads, whose mask then has only the
            // new cores.
            inherited.extend(self.inherited());
            self.put(&mut inherited);
        }
    }

    /// Returns the cores that `target` adds to the cores to which the command is confined now. Empty if the command is
    /// not confined now, or `target` is `None`.
    pub fn coming(&self, target: Option<CoreSet>) -> CoreSet {
        let (Some(target), Some(before)) = (target, self.target) else { return CoreSet::EMPTY };
        target.iter().filter(|core| !before.contains(*core)).collect()
    }

    /// Sets the masks of all threads for the current target, in several passes.
    fn put(&mut self, inherited: &mut Vec<Thread>) {
        for _ in 0..PASSES {
            self.find();
            let ids: Vec<u32> = self.processes.keys().copied().collect();
            let moved: usize = ids.into_iter().map(|id| self.place_threads(id, inherited, false)).sum();
            if moved == 0 {
                // All threads have the right mask, and so will the threads that they start.
                (self.before, self.came) = (None, None);
                break;
            }
            inherited.extend(self.inherited());
        }
    }

    /// Moves waiting threads to the new cores, `came`, and restores their masks immediately. The masks allow these
    /// cores already. But each thread would stay where it is until the kernel balances its queues, and a new core
    /// would be idle until then.
    fn fill(&mut self, came: CoreSet) {
        // A process without runnable threads at the last look has no thread to move.
        let processes = self.processes.iter().filter(|(_, process)| process.activity.runnable > 0);
        let threads =
            processes.flat_map(|(id, process)| process.threads.iter().map(|(thread, at)| (*id, *thread, *at)));
        let runnable: Vec<(u32, Thread, usize)> = threads
            .filter_map(|(id, thread, at)| {
                let stat = Stat::of_thread(id, thread).filter(|stat| stat.state == 'R')?;
                Some((thread, at, stat.core))
            })
            .collect();
        let may_move = |nth: usize| !runnable[nth].1.found.intersection(came).is_empty();
        let places: Vec<usize> = runnable.iter().map(|(_, _, core)| *core).collect();
        for nth in to_move(&places, came.len(), may_move) {
            let (thread, Thread { found, .. }, _) = runnable[nth];
            let thread = ThreadId::from_raw(thread as i32);
            let there = found.intersection(came);
            // A thread whose program has changed its mask in the meantime is skipped.
            if affinity::of(thread) == found && affinity::confine(thread, there) && affinity::of(thread) == there {
                affinity::confine(thread, found);
            }
        }
    }

    /// Returns the masks that a new thread may have inherited from the thread that started it, each with that
    /// thread's own affinity.
    fn inherited(&self) -> Vec<Thread> {
        let put = self.places().into_iter().flatten().map(|cores| {
            let mut mask = self.roams.mask;
            mask.note(Some(cores));
            Thread { mask, found: mask.cores() }
        });
        let mut all: Vec<Thread> = std::iter::once(self.roams).chain(put).collect();
        for thread in self.processes.values().flat_map(|process| process.threads.values()) {
            if !all.iter().any(|other| other.found == thread.found) {
                all.push(*thread);
            }
        }
        all
    }

    /// Sets the mask of each thread of a process for the current target. Returns the number of threads whose mask was
    /// changed. With `survey`, also updates the cores that the system grants the process.
    fn place_threads(&mut self, id: u32, inherited: &[Thread], survey: bool) -> usize {
        let Some(process) = self.processes.get_mut(&id) else { return 0 };
        if Stat::of_process(id).is_none_or(|stat| stat.start != process.start) {
            self.processes.remove(&id);
            return 0;
        }
        let mut threads = HashMap::new();
        let mut moved = 0;
        for number in census::threads(id) {
            let thread = ThreadId::from_raw(number as i32);
            let found = affinity::of(thread);
            if found.is_empty() {
                continue;
            }
            let known = process.threads.get(&number).copied();
            // If the mask has changed to a mask that `inherited` contains, it does not count as the thread's own
            // choice. For example, a pool moves a thread, and then restores the mask that the thread had before.
            let as_known = known
                .filter(|known| known.found == found)
                .or_else(|| inherited.iter().find(|other| other.found == found).copied());
            let mut mask = as_known.or(known).map_or(Mask::default(), |thread| thread.mask);
            let asks = as_known.is_none() || survey && number == id;
            if asks {
                // The mask is restored below.
                let granted = affinity::free(thread);
                if granted.is_empty() {
                    // The thread has ended, or it belongs to another user by now.
                    continue;
                }
                if as_known.is_none() {
                    mask.learn(found, granted);
                }
                process.granted = granted;
            }
            let mut now = found;
            if mask.note(self.target).is_some() || asks {
                if !affinity::confine(thread, mask.cores()) {
                    // The system does not grant the thread any of these cores, or the thread has ended.
                    let granted = affinity::free(thread);
                    process.granted = if granted.is_empty() { process.granted } else { granted };
                }
                now = affinity::of(thread);
            }
            moved += usize::from(now != found);
            threads.insert(number, Thread { mask, found: now });
        }
        process.threads = threads;
        moved
    }
}

fn is_nice(stat: &Stat) -> bool {
    stat.nice > 0 || stat.is_idle_class
}

fn is_stopped(id: u32) -> bool {
    Stat::of_process(id).is_some_and(|stat| stat.state == 'T')
}

/// True if one of the signals is pending for the process, and the process does not block or ignore it.
fn is_sent(id: u32, signals: &[i32]) -> bool {
    let Some(Signals { pending, blocked, ignored, .. }) = Signals::of_process(id) else { return false };
    signals.iter().any(|signal| Signals::has(pending & !blocked & !ignored, *signal))
}

/// Returns the indices of at most `came` threads that move to new cores. `places` has the core of each thread. A
/// thread moves if it `may_move` and another thread stays on its core.
fn to_move(places: &[usize], came: usize, may_move: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut left: HashMap<usize, usize> = HashMap::new();
    for core in places {
        *left.entry(*core).or_default() += 1;
    }
    let mut leaves_others = |core: &usize| {
        let there = left.get_mut(core).expect("all are counted");
        let leaves_others = *there > 1;
        *there -= usize::from(leaves_others);
        leaves_others
    };
    (0..places.len()).filter(|nth| may_move(*nth) && leaves_others(&places[*nth])).take(came).collect()
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.go_on();
        self.confine(None);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Tests a thread that a thief of its own pool pulls to another core: the first survey sees a narrow mask, and
    /// the next survey sees the original mask again.
    #[test]
    fn a_mask_that_a_thread_is_given_back_is_no_wish_of_its_own() {
        let all = affinity::of(ThreadId::current());
        let (Some(one), Some(other)) = (all.iter().next(), all.iter().nth(1)) else {
            println!("skipped: this takes two cores");
            return;
        };
        let [one, other] = [one, other].map(|core| [core].into_iter().collect::<CoreSet>());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (process, thread) = (child.id(), ThreadId::from_raw(child.id() as i32));
        let start = Stat::of_process(process).unwrap().start;
        let mut tree = Tree::of(process, start, Descent::Marked("none".to_owned()), all);
        tree.confine(Some(one));
        assert_eq!(affinity::of(thread), one);
        for cores in [other, one] {
            affinity::confine(thread, cores);
            tree.survey();
            assert_eq!(affinity::of(thread), cores);
        }
        tree.confine(None);
        assert_eq!(affinity::of(thread), all);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn threads_move_from_cores_that_have_several_and_as_many_as_cores_came() {
        assert_eq!(to_move(&[0, 0], 1, |_| true), [0]);
        assert_eq!(to_move(&[0, 0, 0], 1, |_| true), [0]);
        assert_eq!(to_move(&[0, 0, 0], 3, |_| true), [0, 1], "one stays");
        assert_eq!(to_move(&[3, 0, 1, 0, 2], 1, |_| true), [1], "none that has a core for itself");
        assert_eq!(to_move(&[0, 1, 2], 1, |_| true), [0usize; 0]);
        assert_eq!(to_move(&[0, 0, 1, 1], 2, |nth| nth != 0), [1, 2], "another for one that may not");
        assert_eq!(to_move(&[], 1, |_| true), [0usize; 0]);
    }
}
