//! All processes and threads of a command: what they do, and where they may run.
//!
//! A process belongs to the command if the one that started it does; once known it stays, also when it is taken in by
//! another. One that was orphaned before it was seen is known by its [`MARK`].

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

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

/// A walk over all threads takes at most this part of the time.
const WALKS: u32 = 50;

/// And one over a command that does nothing comes no sooner than this after another.
const IDLE_REST: Duration = Duration::from_millis(200);

/// Threads are moved in passes, because those that have not been moved yet may start others. Whatever is left after so many
/// is met by a later walk.
const PASSES: usize = 4;

/// A command's processes.
pub struct Tree {
    /// What the environments of its processes have in them.
    mark: String,
    /// The cores that the command could use when it began.
    roams: CoreSet,
    /// Where it may run; `None`: where it likes.
    target: Option<CoreSet>,
    /// Where it might run before, while threads that were started meanwhile may still be there.
    before: Option<CoreSet>,
    processes: HashMap<u32, Process>,
    /// All others that were there at the last walk, so that only new ones are asked for their parents.
    strangers: HashSet<u32>,
    /// Some process had time since the last walk, so it may have started something.
    is_stale: bool,
    walked: Instant,
    /// Until the next walk.
    rest: Duration,
}

struct Process {
    start: u64,
    /// The processor time that it had at the last look.
    cpu: Duration,
    runnable: u32,
    threads: HashMap<u32, Thread>,
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
            roams,
            target: None,
            before: None,
            processes: HashMap::new(),
            strangers: HashSet::new(),
            is_stale: true,
            walked: Instant::now(),
            rest: Duration::ZERO,
        };
        let cpu = cpu_clock::of_process(root).unwrap_or_default();
        tree.processes.insert(root, Process { start, cpu, runnable: 0, threads: HashMap::new() });
        tree
    }

    /// What the command did in the time since the last look.
    pub fn look(&mut self, elapsed: Duration) -> Look {
        let mut used = Duration::ZERO;
        let mut active = HashSet::new();
        self.processes.retain(|id, process| {
            let Some(cpu) = cpu_clock::of_process(*id) else { return false };
            let since = cpu.saturating_sub(process.cpu);
            process.cpu = cpu;
            used += since;
            // One that had no time may be waiting for it.
            if since > Duration::ZERO || process.runnable > 0 {
                active.insert(*id);
            }
            true
        });
        let runnable = |tree: &Tree| tree.processes.values().fold(0u32, |sum, one| sum.saturating_add(one.runnable));
        let look = Look { elapsed, used, runnable: runnable(self) };
        // Whoever starts something uses time for it; so where none was used, nothing is new.
        self.is_stale |= !active.is_empty();
        let began = Instant::now();
        let rest = if look.is_idle() { self.rest.max(IDLE_REST) } else { self.rest };
        if !self.is_stale || began < self.walked + rest {
            return look;
        }
        used += self.find(&mut active);
        active.iter().for_each(|id| self.count_runnable(*id));
        // Where the command runs freely, and all are in place, every thread is where it wants to be.
        if self.target.is_some() || self.before.is_some() {
            let inherited = self.inherited();
            for id in active {
                self.place_threads(id, &inherited);
            }
        }
        self.is_stale = false;
        (self.walked, self.rest) = (began, began.elapsed() * WALKS);
        Look { elapsed, used, runnable: runnable(self) }
    }

    /// Takes in what the known processes have started, and forgets what is gone. Returns the processor time of the new ones.
    fn find(&mut self, found: &mut HashSet<u32>) -> Duration {
        // Without this process: where the command adopts orphans, as the first of a container does, it is a child of it.
        let this = std::process::id();
        let all: HashSet<u32> = census::processes().into_iter().filter(|id| *id != this).collect();
        self.processes.retain(|id, _| all.contains(id));
        self.strangers.retain(|id| all.contains(id));
        let unknown = all.iter().filter(|id| !self.processes.contains_key(id) && !self.strangers.contains(id));
        let mut new: Vec<(u32, Stat)> = unknown.filter_map(|id| Some((*id, Stat::of_process(*id)?))).collect();
        let mut used = Duration::ZERO;
        loop {
            let is_ours = |(id, stat): &(u32, Stat)| {
                self.processes.contains_key(&stat.parent) || census::has_in_environment(*id, &self.mark)
            };
            let (ours, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_ours);
            new = others;
            if ours.is_empty() {
                break;
            }
            for (id, stat) in ours {
                let cpu = cpu_clock::of_process(id).unwrap_or_default();
                used += cpu;
                self.processes.insert(id, Process { start: stat.start, cpu, runnable: 0, threads: HashMap::new() });
                found.insert(id);
            }
        }
        self.strangers.extend(new.into_iter().map(|(id, _)| id));
        used
    }

    fn count_runnable(&mut self, id: u32) {
        let runs = |thread: &u32| Stat::of_thread(id, *thread).is_some_and(|stat| stat.state == 'R');
        let runnable = census::threads(id).iter().filter(|thread| runs(thread)).count();
        if let Some(process) = self.processes.get_mut(&id) {
            process.runnable = runnable.try_into().unwrap_or(u32::MAX);
        }
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
            self.find(&mut HashSet::new());
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
