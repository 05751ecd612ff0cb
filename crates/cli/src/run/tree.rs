//! All processes and threads of a command: what they do, and where they may run.
//!
//! A process belongs to the command if the one that started it does; once known it stays, also when it is taken in by
//! another. One that was orphaned before it was seen is known by its [`MARK`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use comity_os::affinity;
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::{self, ThreadId};
use comity_table::CoreSet;

use super::demand::Look;

/// The variable in a command's environment by which what it started is found again. Each command has a value of its own.
pub const MARK: &str = "COMITY_RUN";

/// The value of [`MARK`] for what is below the process `root`, which began at `start`.
pub fn mark(root: u32, start: u64) -> String {
    format!("{root}-{start}")
}

/// Threads are moved in passes, because those that have not been moved yet may start others. Whatever is left after so many
/// is met by a later walk.
const PASSES: usize = 4;

/// A command's processes.
pub struct Tree {
    /// What the environments of its processes have in them.
    mark: String,
    /// When the command began: nothing older is its.
    start: u64,
    /// The cores that the command could use when it began.
    roams: CoreSet,
    /// Where it may run; `None`: where it likes.
    target: Option<CoreSet>,
    /// Where it might run before, while threads that were started meanwhile may still be there.
    before: Option<CoreSet>,
    processes: HashMap<u32, Process>,
    /// All others that were there at the last walk, so that only new ones are asked for their parents.
    strangers: HashSet<u32>,
}

struct Process {
    start: u64,
    /// The processor time that it had at the last look.
    cpu: Duration,
    /// How its threads came by that.
    seen: Seen,
    threads: HashMap<u32, Thread>,
}

/// What is to be seen of the threads of a process.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// So many are on a core or wait for one.
    runnable: u32,
    /// How long they have waited for one, all together.
    waited: Duration,
}

impl Seen {
    fn of(id: u32, stat: &Stat) -> Seen {
        let threads = if stat.threads == 1 { vec![id] } else { census::threads(id) };
        let mut seen = Seen::default();
        for thread in threads {
            let stat = if stat.threads == 1 { Some(*stat) } else { Stat::of_thread(id, thread) };
            seen.runnable += u32::from(stat.is_some_and(|stat| stat.state == 'R'));
            seen.waited += census::waited_for_core(id, thread).unwrap_or_default();
        }
        seen
    }
}

/// A thread that was moved, or was met while others were.
#[derive(Clone, Copy)]
struct Thread {
    /// Where it was left.
    mask: CoreSet,
    /// Where it wants to be of its own accord, if it has said so.
    own: Option<CoreSet>,
}

impl Tree {
    /// The tree below a process, which began at `start`, runs freely and may use `roams`.
    pub fn new(root: u32, start: u64, roams: CoreSet) -> Tree {
        let mut tree = Tree {
            mark: format!("{MARK}={}", mark(root, start)),
            start,
            roams,
            target: None,
            before: None,
            processes: HashMap::new(),
            strangers: HashSet::new(),
        };
        let cpu = cpu_clock::of_process(root).unwrap_or_default();
        // Its number may be another's by now, if what it has left running is all that is there.
        if Stat::of_process(root).is_some_and(|stat| stat.start == start) {
            tree.processes.insert(root, Process { start, cpu, seen: Seen::default(), threads: HashMap::new() });
        }
        tree.find();
        tree
    }

    /// The same where another has put its threads on `target`.
    pub fn confined(root: u32, start: u64, roams: CoreSet, target: CoreSet) -> Tree {
        let mut tree = Tree::new(root, start, roams);
        tree.target = Some(target);
        tree
    }

    /// Where threads may have been put.
    pub fn places(&self) -> [Option<CoreSet>; 2] {
        [self.target, self.before]
    }

    /// What the command did in the time since the last look.
    pub fn look(&mut self, elapsed: Duration) -> Look {
        let mut look = Look { elapsed, ..Look::default() };
        let mut active = HashSet::new();
        let known = self.processes.len();
        self.processes.retain(|id, process| {
            let Some(cpu) = cpu_clock::of_process(*id) else { return false };
            let used = cpu.saturating_sub(process.cpu);
            process.cpu = cpu;
            look.used += used;
            // One that had no time may be waiting for it.
            if used > Duration::ZERO || process.seen.runnable > 0 {
                let stat = Stat::of_process(*id).filter(|stat| stat.start == process.start);
                let Some(stat) = stat else { return false };
                let seen = Seen::of(*id, &stat);
                look.able += used + seen.waited.saturating_sub(process.seen.waited);
                process.seen = seen;
                active.insert(*id);
            }
            true
        });
        // Whoever starts something uses time for it; so where none was used, nothing is new.
        if !active.is_empty() || self.processes.len() < known {
            for id in self.find() {
                let Process { cpu, seen, .. } = self.processes[&id];
                look.used += cpu;
                look.able += cpu + seen.waited;
                active.insert(id);
            }
        }
        // Where the command runs freely, and all are in place, every thread is where it wants to be.
        if self.target.is_some() || self.before.is_some() {
            let inherited = self.inherited();
            for id in active {
                self.place_threads(id, &inherited);
            }
        }
        look.runnable = self.processes.values().map(|process| process.seen.runnable).sum();
        look
    }

    /// Takes in what the known processes have started, and forgets what is gone. Returns the new ones.
    fn find(&mut self) -> Vec<u32> {
        // Without this process: where the command adopts orphans, as the first of a container does, it is a child of it.
        let this = std::process::id();
        let all: HashSet<u32> = census::processes().into_iter().filter(|id| *id != this).collect();
        self.processes.retain(|id, _| all.contains(id));
        self.strangers.retain(|id| all.contains(id));
        let unknown = all.iter().filter(|id| !self.processes.contains_key(id) && !self.strangers.contains(id));
        let mut new: Vec<(u32, Stat)> = unknown.filter_map(|id| Some((*id, Stat::of_process(*id)?))).collect();
        let mut found = Vec::new();
        loop {
            let is_ours = |(id, stat): &(u32, Stat)| {
                stat.start >= self.start
                    && (self.processes.contains_key(&stat.parent) || census::has_in_environment(*id, &self.mark))
            };
            let (ours, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_ours);
            new = others;
            if ours.is_empty() {
                break;
            }
            for (id, stat) in ours {
                let cpu = cpu_clock::of_process(id).unwrap_or_default();
                let seen = Seen::of(id, &stat);
                let process = Process { start: stat.start, cpu, seen, threads: HashMap::new() };
                self.processes.insert(id, process);
                found.push(id);
            }
        }
        self.strangers.extend(new.into_iter().map(|(id, _)| id));
        found
    }

    /// From now on the command runs on these cores only; `None`: wherever it could when it began.
    pub fn confine(&mut self, target: Option<CoreSet>) {
        // What is on the new cores now was not put there by this.
        let mut inherited = self.inherited();
        if target != self.target {
            self.before = std::mem::replace(&mut self.target, target);
        } else if self.before.is_none() {
            return;
        }
        for _ in 0..PASSES {
            self.find();
            let ids: Vec<u32> = self.processes.keys().copied().collect();
            let moved: usize = ids.into_iter().map(|id| self.place_threads(id, &inherited)).sum();
            if moved == 0 {
                // All threads are in place, and so is what they start from now on.
                self.before = None;
                break;
            }
            inherited.extend(self.inherited());
        }
    }

    /// Where a new thread may have been put because the one that started it was, and what it wants then.
    fn inherited(&self) -> Vec<Thread> {
        let anywhere = [Some(self.roams), self.target, self.before];
        let mut all: Vec<Thread> = anywhere.into_iter().flatten().map(|mask| Thread { mask, own: None }).collect();
        for thread in self.processes.values().flat_map(|process| process.threads.values()) {
            if !all.iter().any(|other| other.mask == thread.mask) {
                all.push(*thread);
            }
        }
        all
    }

    /// Puts every thread of a process where it belongs now. Returns how many had to move.
    fn place_threads(&mut self, id: u32, inherited: &[Thread]) -> usize {
        let Some(process) = self.processes.get(&id) else { return 0 };
        if Stat::of_process(id).is_none_or(|stat| stat.start != process.start) {
            self.processes.remove(&id);
            return 0;
        }
        let mut threads = HashMap::new();
        let mut moved = 0;
        for number in census::threads(id) {
            let thread = ThreadId::from_raw(number as i32);
            let mask: CoreSet = affinity::of(thread).into_iter().collect();
            if mask.is_empty() {
                continue;
            }
            let own = self.own_wish(id, number, mask, inherited);
            let wanted = self.place(own);
            let is_moved = wanted != mask && affinity::confine(thread, wanted.iter());
            moved += usize::from(is_moved);
            threads.insert(number, Thread { mask: if is_moved { wanted } else { mask }, own });
        }
        if let Some(process) = self.processes.get_mut(&id) {
            process.threads = threads;
        }
        moved
    }

    /// Where a thread that is found on `mask` wants to be, if it is not just where it was put, or where whoever started it was.
    fn own_wish(&self, id: u32, thread: u32, mask: CoreSet, inherited: &[Thread]) -> Option<CoreSet> {
        let own = match self.processes.get(&id).and_then(|process| process.threads.get(&thread)) {
            Some(known) if known.mask == mask => known.own,
            Some(_) => Some(mask),
            None => inherited.iter().find(|other| other.mask == mask).map_or(Some(mask), |other| other.own),
        };
        own.filter(|own| *own != self.roams)
    }

    /// A thread that is content with a part of what there is gets that part; one that wants something else gets what there is.
    fn place(&self, own: Option<CoreSet>) -> CoreSet {
        let wanted = own.unwrap_or(self.roams);
        match self.target {
            None => wanted,
            Some(target) => Some(wanted.intersection(target)).filter(|both| !both.is_empty()).unwrap_or(target),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.confine(None);
    }
}
