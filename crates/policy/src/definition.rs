//! The definition of a policy: its constants and functions.

use alloc::boxed::Box;
use core::iter;

use crate::parameters::{Parameter, Values};
use crate::{Coordinator, Place, Thief, Victims};

/// The protocol by which sleepers are woken, and by which the shell keeps a pool alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// No worker sleeps while a worker is busy, so no push has to wake a worker.
    AlwaysAwake,
    /// Thieves wake each other, and one thief, the watchdog, stays awake while a worker is busy (BWS §4).
    Watchdog,
    /// A sleeper leaves a flag. The first push that sees the flag wakes exactly one sleeper, and this worker wakes
    /// more.
    Hungry,
    /// Every push wakes this many sleepers: the ablation of BWS §5.5, which slows busy workers down on purpose.
    EveryPush {
        /// Sleepers woken per new task.
        sleepers: u8,
    },
}

/// The threads and virtual CPUs that thieves accelerate ([`Action::Accelerate`](crate::Action::Accelerate)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerates {
    /// The way in which a thief pulls a thread that the operating system has preempted. `None`: it pulls no thread.
    pub threads: Option<Pull>,
    /// True if thieves accelerate virtual CPUs that a hypervisor has preempted.
    pub vcpus: bool,
}

/// The way in which a thread comes to a thief's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// True if the thread may come from another NUMA node (against Robinhood's Algorithm 2, line 1).
    pub across_nodes: bool,
    /// True if the thief goes to the core that the thread left, and rests there. Otherwise it stays and yields (BWS
    /// §4).
    pub changes_places: bool,
}

/// The way in which the programs of a machine get their cores.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// The operating system divides time among all workers of all programs.
    Time,
    /// The core table assigns cores, and a program has one worker awake for each core that it holds.
    Cores(Sharing),
}

/// The rules for a program that uses the core table.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// The cores on which workers run, unless the program is alone in the table.
    pub placement: Placement,
    /// Fate of a sleeper's core.
    pub sleeper: Sleeper,
    /// True if a worker without a core claims only cores that its own program owns, never idle cores of other
    /// programs.
    pub own_only: bool,
    /// True if a program alone in the table steals as it would without a table (DWS §3.5). All its workers may be
    /// awake then, and no worker that would leave its core sleeps while another is busy. If sleepers lend their
    /// cores, at most one worker per core may be awake, and more only while some need no core.
    pub plain_alone: bool,
    /// Length of a quantum, in microseconds.
    pub quantum_us: fn(&Values) -> u32,
    /// The time for which a core of another owner must have been free before the program claims it, in microseconds.
    pub lend_us: fn(&Values) -> u32,
    /// True if the coordinator uses steal time. The shell reads steal time only then.
    pub folds: fn(&Values) -> bool,
    /// Makes the coordinator of one program.
    pub coordinator: fn(&Values) -> Box<dyn Coordinator>,
}

/// The cores on which the workers of a program run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Any core, as the operating system decides. Exception: after a program has lost a core and has a worker too
    /// many, all its workers are confined to the cores that are left.
    Anywhere,
    /// Any core that the program holds.
    WithinCores,
    /// A core for each worker alone.
    OnePerCore,
}

/// The fate of the core of a worker that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The program keeps the core.
    KeepsCore,
    /// The core is free at once. Only the coordinator wakes the sleeper, and gives it a core, unless the program is
    /// alone in the table.
    LeavesCore,
    /// The core is free at once. A sleeper that a peer wakes takes a core, if one is free.
    LendsCore,
}

/// A policy: its name, its source, and its constants and functions.
#[derive(Debug)]
pub struct Definition {
    /// The name, as in `COMITY_POLICY`.
    pub name: &'static str,
    /// The policy in one line.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// The way in which its pools stay alive.
    pub waking: Waking,
    /// True if the shell keeps the counts that [`Action::Count`](crate::Action::Count) reads, under one lock.
    pub counts_roles: bool,
    /// The most spawned tasks that a thief without other work takes from a victim at once. A thief takes right halves
    /// of joins one at a time, because each half stands for half of the remaining work.
    pub batch: u16,
    /// The number of times that a worker that waits for the stolen half of a join tries to steal from the thief.
    /// After these attempts it becomes a thief. 0, as in the papers: it becomes a thief at once.
    pub steal_backs: u16,
    /// The queue that an unblocked task goes to, unless `place` is set.
    pub place: Place,
    /// The way in which a peer comes to the core of a thief that yields to it
    /// ([`Action::YieldTo`](crate::Action::YieldTo)), on systems where threads can be moved. `None`: the peer stays
    /// where it is.
    pub yield_to: fn(&Values) -> Option<Pull>,
    /// The threads and virtual CPUs that thieves accelerate. `None`: thieves accelerate nothing.
    pub accelerates: fn(&Values) -> Option<Accelerates>,
    /// Length of a thief's time slices from its first yield until it has a task, in microseconds, where threads can
    /// have slices of their own. 0: the operating system's length.
    pub slice_us: fn(&Values) -> u32,
    /// The way in which its programs get their cores.
    pub share: Share,
    /// The parameters besides `place`.
    pub parameters: &'static [Parameter],
    /// Makes the thief of one worker.
    pub rest: fn(Victims, &Values) -> Box<dyn Thief>,
}

impl Definition {
    /// All parameters: `place`, which every policy has, then the policy's own.
    pub fn all_parameters(&self) -> impl Iterator<Item = Parameter> {
        let place = Parameter::choice(self.place as u32, &Place::NAMES, "worker to which an unblocked task goes");
        iter::once(Parameter { key: "place", ..place }).chain(self.parameters.iter().copied())
    }
}
