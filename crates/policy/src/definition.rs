//! The definition of a policy: its constants and functions.

use alloc::boxed::Box;
use core::iter;

use crate::parameters::{Parameter, Values};
use crate::{Coordinator, Place, Thief, Victims};

/// The protocol by which the shell (the runtime or a simulator) wakes sleepers, so that no task waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// No worker sleeps while another worker is busy, so a push need not wake a worker.
    AlwaysAwake,
    /// Thieves wake each other, and one thief, the watchdog, stays awake while a worker is busy (BWS §4).
    Watchdog,
    /// A worker that falls asleep sets a flag. The first push that sees the flag wakes exactly one sleeper, which
    /// wakes another one when it has found a task.
    Hungry,
    /// Every push wakes this many sleepers: the ablation of BWS §5.5, which slows busy workers down on purpose.
    EveryPush {
        /// The number of sleepers that each push wakes.
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

/// The way in which a thief moves another thread to its own core.
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
    /// The core table assigns cores to programs. A program has one worker awake for each core that it holds.
    Cores(Sharing),
}

/// The rules for a program that uses the core table.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// The cores on which workers run, unless the program is alone in the table.
    pub placement: Placement,
    /// The fate of the core of a worker that falls asleep.
    pub sleeper: Sleeper,
    /// True if a worker without a core claims only cores that its own program owns, never idle cores of other
    /// programs.
    pub own_only: bool,
    /// True if a program alone in the table steals as it would without a table (DWS §3.5). All its workers may be
    /// awake then. Under [`Sleeper::LeavesCore`] no worker sleeps while another is busy. Under [`Sleeper::LendsCore`]
    /// the coordinator may allow only one awake worker per core, plus some for workers that need no core.
    pub plain_alone: bool,
    /// Length of a quantum, in microseconds.
    pub quantum_us: fn(&Values) -> u32,
    /// The time for which a core of another owner must have been free before the program claims it, in microseconds.
    pub lend_us: fn(&Values) -> u32,
    /// True if the coordinator uses steal time. The shell reads steal time only then.
    pub folds: fn(&Values) -> bool,
    /// Makes the coordinator of a program.
    pub coordinator: fn(&Values) -> Box<dyn Coordinator>,
}

/// The cores on which the workers of a program run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Any core, as the operating system decides. Exception: while a program has more awake workers than cores,
    /// because it lost a core, all its workers are confined to its remaining cores.
    Anywhere,
    /// Any core that the program holds.
    WithinCores,
    /// A core for each worker, which no other worker of the program uses.
    OnePerCore,
}

/// The fate of the core of a worker that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The program keeps the core.
    KeepsCore,
    /// The core is free at once. Only the coordinator wakes the sleeper, and gives it a core. Exception: a program
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
    /// The protocol that wakes its sleepers.
    pub waking: Waking,
    /// True if the shell keeps the counts that [`Action::Count`](crate::Action::Count) reads, under one lock.
    pub counts_roles: bool,
    /// The maximum number of spawned tasks that a thief takes from a victim at once, if none of its stack frames
    /// waits. A thief takes right halves of joins one at a time, because each half stands for half of the remaining
    /// work.
    pub batch: u16,
    /// The number of times that a worker that waits for the stolen half of a join tries to steal from the thief.
    /// After these attempts it becomes a thief. 0, as in the papers: it becomes a thief at once.
    pub steal_backs: u16,
    /// The queue that an unblocked task goes to, unless `place` is set.
    pub place: Place,
    /// The way in which a thief that yields to a peer ([`Action::YieldTo`](crate::Action::YieldTo)) moves the peer to
    /// its core, on systems where threads can be moved. `None`: the peer stays on its core.
    pub yield_to: fn(&Values) -> Option<Pull>,
    /// The threads and virtual CPUs that thieves accelerate. `None`: thieves accelerate nothing.
    pub accelerates: fn(&Values) -> Option<Accelerates>,
    /// The length in microseconds of a thief's time slices, from its first yield until it has a task. It has an effect
    /// where the operating system supports slices per thread. 0: the operating system's length.
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
