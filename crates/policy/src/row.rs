//! What a policy says of itself in the catalog: its row.

use alloc::boxed::Box;
use core::iter;

use crate::parameters::{Parameter, Values};
use crate::{Coordinator, Place, Thief, Victims};

/// Which way of waking a pool needs, and so by which protocol the shell keeps the pool alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// No worker sleeps while one is busy, so no push has to wake any.
    AlwaysAwake,
    /// Thieves wake each other, and one of them, the watchdog, stays awake while a worker is busy (BWS §4).
    Watchdog,
    /// A sleeper leaves a flag. The first push that sees it wakes exactly one sleeper, and that one wakes more.
    Hungry,
    /// Every push wakes this many sleepers: the ablation of BWS §5.5, which taxes the busy path on purpose.
    EveryPush {
        /// Sleepers woken per new task.
        sleepers: u8,
    },
}

/// What thieves ask to have accelerated ([`Action::Accelerate`](crate::Action::Accelerate)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerates {
    /// How threads that the operating system has preempted are, if they are.
    pub threads: Option<Pull>,
    /// Whether virtual CPUs that a hypervisor has preempted are.
    pub vcpus: bool,
}

/// How a thread comes to a thief's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Also from another NUMA node (against Robinhood's Algorithm 2, line 1).
    pub across_nodes: bool,
    /// Whether the thief goes to the core that the thread left, and rests there. Otherwise it stays and yields (BWS
    /// §4).
    pub changes_places: bool,
}

/// How the programs of a machine come by their cores.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// The operating system shares out time, to all workers of all programs.
    Time,
    /// By the core table: a program has as many workers awake as it holds cores.
    Cores(Sharing),
}

/// How a program takes part in the core table.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// Where workers run, unless the program is alone in the table.
    pub placement: Placement,
    /// What becomes of a sleeper's core.
    pub sleeper: Sleeper,
    /// Whether workers that are awake without a core wait for one of the program's own, and leave those that others do
    /// not use.
    pub own_only: bool,
    /// Whether the program steals as it would without a table while it is alone there (DWS §3.5). All its workers may
    /// be awake then, and none that would leave its core sleeps beside a busy one. Where sleepers lend their cores, as
    /// many may be awake as there are cores, and more only while some need none.
    pub plain_alone: bool,
    /// Microseconds of a quantum.
    pub quantum_us: fn(&Values) -> u32,
    /// A core that another program owns is claimed once it has been free for so many microseconds.
    pub lend_us: fn(&Values) -> u32,
    /// Whether its coordinator heeds steal time: then it is read.
    pub folds: fn(&Values) -> bool,
    /// Makes the coordinator of one program.
    pub coordinator: fn(&Values) -> Box<dyn Coordinator>,
}

/// On which cores the workers of a program run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where the operating system puts them. Only after a core was taken back is a worker too many, with all others,
    /// confined to the cores that are left.
    Anywhere,
    /// On any of the cores that the program holds.
    WithinCores,
    /// Each on a core of its own.
    OnePerCore,
}

/// What becomes of the core of a worker that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// Its program keeps it.
    KeepsCore,
    /// It is free at once. The coordinator alone wakes the sleeper, with a core, unless the program is alone in the
    /// table.
    LeavesCore,
    /// It is free at once. A sleeper that a peer wakes takes a core, if one is free.
    LendsCore,
}

/// One policy: its name, its source, and its answers to the design's questions.
#[derive(Debug)]
pub struct Row {
    /// The name, as in `COMITY_POLICY`.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// How its pools stay alive.
    pub waking: Waking,
    /// Whether the shell keeps the counts that [`Action::Count`](crate::Action::Count) reads, under one lock.
    pub counts_roles: bool,
    /// The most spawned tasks that a thief without any other work takes from a victim at once. The right halves of
    /// joins go one by one, for each stands for half of what is left.
    pub batch: u16,
    /// How often a worker that waits for the stolen half of a join tries to rob the worker that runs it, before it
    /// becomes a thief. 0, as in the papers: it becomes a thief at once.
    pub steal_backs: u16,
    /// Where an unblocked task goes, unless a setting says otherwise.
    pub place: Place,
    /// How a peer comes to the thief that yields to it ([`Action::YieldTo`](crate::Action::YieldTo)), where threads
    /// can be moved. `None`: it stays where it is.
    pub yield_to: fn(&Values) -> Option<Pull>,
    /// What its thieves accelerate, if anything.
    pub accelerates: fn(&Values) -> Option<Accelerates>,
    /// Microseconds of a thief's time slices from its first yield until it has a task, where threads can have slices
    /// of their own. 0: as the operating system has them.
    pub slice_us: fn(&Values) -> u32,
    /// How its programs come by their cores.
    pub share: Share,
    /// What can be set beside `place`.
    pub parameters: &'static [Parameter],
    /// Makes the thief of one worker.
    pub rest: fn(Victims, &Values) -> Box<dyn Thief>,
}

impl Row {
    /// All that can be set: what every policy takes, then its own.
    pub fn all_parameters(&self) -> impl Iterator<Item = Parameter> {
        let place = Parameter::choice(self.place as u32, &Place::NAMES, "where an unblocked task goes");
        iter::once(Parameter { key: "place", ..place }).chain(self.parameters.iter().copied())
    }
}
