//! A prepared kernel on a started backend: what `kernel` and the processes of a co-run have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};

use comity::{Refusal, Refusals, WorkerCounters};
use comity_console::Failure;
use comity_kernels::{Backend as Started, Program, catalog};
use serde::{Deserialize, Serialize};

use crate::backend::Backend;

/// A kernel that is ready to run.
pub struct Trial {
    name: String,
    program: Box<dyn Program>,
    started: Started,
}

/// A round, and what the kernel had to show.
pub struct Shown {
    /// The round.
    pub round: Round,
    /// What and where.
    pub presented: Option<String>,
}

impl Trial {
    /// Builds the input of the kernel `name` and starts the workers.
    pub fn prepare(name: &str, backend: &Backend, workers: u16) -> Result<Trial, Failure> {
        let program = catalog::prepare(name).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Trial { name: name.to_owned(), program, started: backend.start(workers)? })
    }

    /// Runs once. With `present`, the kernel may also write what a person would look at.
    pub fn run(&self, present: bool) -> Result<Shown, Failure> {
        let run = catch_unwind(AssertUnwindSafe(|| self.program.run(&self.started, present)))
            .map_err(|_| Failure::Run(format!("{} panicked; its message is above", self.name)))?;
        let presented = run.presented.transpose().map_err(|error| Failure::Run(format!("{}: {error}", self.name)))?;
        let round = Round {
            seconds: run.seconds,
            verified: run.verdict.verified,
            detail: run.verdict.detail,
            cpu_s: run.used.cpu.as_secs_f64(),
            voluntary_switches: run.used.voluntary_switches,
            involuntary_switches: run.used.involuntary_switches,
            counters: run.counters.map(Counters::from),
        };
        Ok(Shown { round, presented })
    }
}

/// One execution of a program. Also what the processes of a co-run tell the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Wall-clock time. Of a kernel: of the computation alone; of a command: from its start to its end.
    pub seconds: f64,
    /// Whether the result was right.
    pub verified: bool,
    /// What it was compared with.
    pub detail: String,
    /// Processor time of all threads. A kernel's check is not in it.
    pub cpu_s: f64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: u64,
    /// What the workers did; Comity only.
    pub counters: Option<Counters>,
}

/// The counters of all workers of a pool together (see `comity::WorkerCounters`).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Attempts to steal.
    pub steal_attempts: u64,
    /// Those that took a task.
    pub steals: u64,
    /// Times that a worker offered its core.
    pub yields: u64,
    /// Times that a worker went to sleep.
    pub sleeps: u64,
    /// Workers woken by others.
    pub wakeups: u64,
    /// Workers that had what was left of a thief's time slice.
    #[serde(default)]
    pub accelerations: u64,
    /// Those that a thief would have given it to, by the reason why it was refused.
    #[serde(default)]
    pub refused: Refused,
    /// Time with a task, over all workers.
    pub busy_s: f64,
    /// Time awake without a task, over all workers.
    pub thief_s: f64,
    /// Time asleep, over all workers.
    pub asleep_s: f64,
}

impl From<WorkerCounters> for Counters {
    fn from(counters: WorkerCounters) -> Counters {
        Counters {
            steal_attempts: counters.steal_attempts,
            steals: counters.steals,
            yields: counters.yields,
            sleeps: counters.sleeps,
            wakeups: counters.wakeups,
            accelerations: counters.accelerations,
            refused: Refused::from(counters.refusals),
            busy_s: counters.busy.as_secs_f64(),
            thief_s: counters.thief.as_secs_f64(),
            asleep_s: counters.asleep.as_secs_f64(),
        }
    }
}

/// How often a worker was not accelerated, by reason (see `comity::Refusal`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused<N = u64> {
    /// A virtual CPU was meant, and no hypervisor takes part.
    pub no_hypervisor: N,
    /// The worker ran, or had not been off its core for long enough.
    pub running: N,
    /// It waited in a system call.
    pub blocked: N,
    /// It had been pulled to another core, and had not run since.
    pub pulled: N,
    /// Another thief accelerated it.
    pub taken: N,
    /// The thief was accelerated itself.
    pub chain: N,
    /// It ran on another NUMA node.
    pub other_node: N,
    /// It may not run on the thief's core.
    pub mask: N,
    /// The kernel did not let it be moved.
    pub kernel: N,
}

impl From<Refusals> for Refused {
    fn from(refusals: Refusals) -> Refused {
        Refused {
            no_hypervisor: refusals.of(Refusal::NoHypervisor),
            running: refusals.of(Refusal::Running),
            blocked: refusals.of(Refusal::Blocked),
            pulled: refusals.of(Refusal::Pulled),
            taken: refusals.of(Refusal::Taken),
            chain: refusals.of(Refusal::Chain),
            other_node: refusals.of(Refusal::OtherNode),
            mask: refusals.of(Refusal::Mask),
            kernel: refusals.of(Refusal::Kernel),
        }
    }
}
