//! The papers: what each of them ran, what is measured of it here, and what it claims.
//!
//! A paper is a folder, with its setting, a file for each experiment and its claims, and a row of the [`catalog`]. An
//! experiment is a list of the parts of the runs that it needs, and functions of their outcomes. The runs of a part are
//! independent. What comes out does not depend on which command runs them, on how many threads or in which order.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod a_steal;
pub mod all_five;
pub mod bws;
pub mod catalog;
pub mod claims;
pub mod corun;
pub mod driver;
pub mod dws;
pub mod figure;
pub mod fit;
pub mod measure;
pub mod paper;
pub mod programs;
pub mod report;
pub mod robinhood;
pub mod vary;
pub mod ws_last;

use std::convert::Infallible;

use comity_console::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Runs the runs of an experiment.
pub trait Runner {
    /// Why there may be no outcomes.
    type Stop: Into<Stop>;

    /// Does `work` for each number below `runs`, in any order and at the same time; the outcomes in the numbers'
    /// order. `name` is that of the experiment's part, by which it shows progress and files what is done.
    ///
    /// # Errors
    /// If not all of the runs are done.
    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Self::Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync;

    /// True if it does a part of the runs only, of which nothing can be said.
    fn is_part(&self) -> bool {
        false
    }
}

/// Why there are no outcomes.
pub enum Stop {
    /// The runs of a shard are done and filed; the others are other shards'.
    Elsewhere,
    /// Something is wrong.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<Infallible> for Stop {
    fn from(never: Infallible) -> Stop {
        match never {}
    }
}

/// The outcomes; `None`, if some of them are elsewhere.
fn here<T, S: Into<Stop>>(outcomes: Result<T, S>) -> Result<Option<T>, Failure> {
    match outcomes.map_err(Into::into) {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(Stop::Elsewhere) => Ok(None),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// A runner whose runs have other names, so that those of one setting are told apart from those of another.
struct Renamed<'a, R, F> {
    runner: &'a R,
    /// The name of a part with this setting.
    rename: F,
}

impl<R: Runner, F: Fn(&str) -> String> Runner for Renamed<'_, R, F> {
    type Stop = Stop;

    fn run<T, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<T>, Stop>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> T + Sync,
    {
        self.runner.run(&(self.rename)(name), runs, work).map_err(Into::into)
    }
}

/// One after the other.
pub struct Serial;

impl Runner for Serial {
    type Stop = Infallible;

    fn run<R, W>(&self, _: &str, runs: usize, work: W) -> Result<Vec<R>, Infallible>
    where
        W: Fn(usize) -> R + Sync,
    {
        Ok((0..runs).map(work).collect())
    }
}
