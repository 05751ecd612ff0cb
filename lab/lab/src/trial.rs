//! A prepared kernel on a started backend: what `kernel` and the processes of a co-run have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};

use comity_console::Failure;
use comity_kernels::{Backend as Started, Program, catalog};

use crate::backend::Backend;
use crate::json::{Counters, Round};

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
