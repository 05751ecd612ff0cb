//! The papers that are reproduced: for each paper its experiments, their measures, and the claims of the paper's
//! authors.
//!
//! Each paper has an entry in the [`catalog`], and a folder with its setting, its claims and a file for each
//! experiment. An experiment lists the parts that it needs, and computes measures and figures from their outcomes. A
//! part is a set of independent runs, which several experiments can share. The outcomes do not depend on the command
//! that does the runs, on the number of threads or on the order of the runs.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod a_steal;
pub mod all_five;
pub mod bws;
pub mod catalog;
pub mod claims;
pub mod corun;
pub mod costs;
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

/// A way to do the runs of an experiment, for example one after the other ([`Serial`]).
pub trait Runner {
    /// The error type: the reason why there are no outcomes.
    type Stop: Into<Stop>;

    /// Does `work` for each number below `runs`, in any order and possibly at the same time, and returns the outcomes
    /// in the order of the numbers. `name` is the name of the part. The runner shows progress and files outcomes
    /// under this name.
    ///
    /// # Errors
    /// If not all of the runs are done.
    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Self::Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync;

    /// True if the runner does only the runs of one shard. Claims are then not judged, because outcomes are missing.
    fn is_part(&self) -> bool {
        false
    }
}

/// The reason why outcomes are missing.
pub enum Stop {
    /// The runs of this shard are done and filed. Other shards do the other runs.
    Elsewhere,
    /// A run failed, or a file could not be used.
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

/// Returns the outcomes, or `None` if other shards do some of the runs.
fn here<T, S: Into<Stop>>(outcomes: Result<T, S>) -> Result<Option<T>, Failure> {
    match outcomes.map_err(Into::into) {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(Stop::Elsewhere) => Ok(None),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// A runner that files the runs of a part under another name, so that the runs of several settings stay apart.
struct Renamed<'a, R, F> {
    runner: &'a R,
    /// Returns the name under which the runs of a part are filed.
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

/// A runner that does the runs one after the other.
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
