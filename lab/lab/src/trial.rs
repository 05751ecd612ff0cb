//! A prepared kernel on a started backend, for `comity-lab kernel` and for the processes of a co-run.

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

/// A round, and the result that the kernel wrote for the user.
pub struct Shown {
    /// The round.
    pub round: Round,
    /// A sentence about the result that the kernel wrote for the user to look at, for example a picture, and its
    /// place.
    pub presented: Option<String>,
}

impl Trial {
    /// Builds the input of the kernel `name` and starts the workers.
    pub fn prepare(name: &str, backend: &Backend, workers: u16) -> Result<Trial, Failure> {
        let program = catalog::prepare(name).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Trial { name: name.to_owned(), program, started: backend.start(workers)? })
    }

    /// Runs the kernel once. With `present`, the kernel may also write a result for the user to look at.
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

/// An execution of a program. The processes of a co-run send it to the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Wall-clock seconds: for a kernel only its computation, for a command the time from its start to its end.
    pub seconds: f64,
    /// True if the result was right.
    pub verified: bool,
    /// The result and the expected result, as text.
    pub detail: String,
    /// Processor seconds of all threads, without the check of a kernel's result.
    pub cpu_s: f64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: u64,
    /// The counters of the workers, under Comity only.
    pub counters: Option<Counters>,
}

/// The counters of all workers of a pool together (see `comity::WorkerCounters`).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Attempts to steal.
    pub steal_attempts: u64,
    /// Attempts to steal that took a task.
    pub steals: u64,
    /// The number of times that a worker offered its core.
    pub yields: u64,
    /// The number of times that a worker went to sleep.
    pub sleeps: u64,
    /// The number of times that a worker woke another worker.
    pub wakeups: u64,
    /// The number of times that a thief (a worker without a task) gave the rest of its time slice to a worker.
    #[serde(default)]
    pub accelerations: u64,
    /// The number of refused accelerations, by the reason for the refusal.
    #[serde(default)]
    pub refused: Refused,
    /// Seconds with a task, over all workers.
    pub busy_s: f64,
    /// Seconds awake without a task, over all workers.
    pub thief_s: f64,
    /// Seconds asleep, over all workers.
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

/// The number of times that a thief did not give the rest of its time slice to a worker, by reason (see
/// `comity::Refusal`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused<N = u64> {
    /// The policy accelerates virtual CPUs, and there is no hypervisor.
    pub no_hypervisor: N,
    /// The worker ran, or had not been off its core for long enough.
    pub running: N,
    /// The worker waited in a system call.
    pub blocked: N,
    /// The worker had been pulled to another core, and had not run since.
    pub pulled: N,
    /// Another thief was accelerating the worker.
    pub taken: N,
    /// The thief itself was accelerated.
    pub chain: N,
    /// The worker ran on another NUMA node.
    pub other_node: N,
    /// The worker may not run on the thief's core.
    pub mask: N,
    /// The kernel did not allow the worker to be moved.
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
