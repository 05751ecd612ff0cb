//! The papers' experiments: what is run, and what the paper claims of it.
//!
//! An experiment is a list of independent runs and a function of their outcomes. What comes out does not depend on
//! which command runs them, on how many threads or in which order.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod a_steal;
pub mod all_five;
pub mod bws;
pub mod claims;
pub mod corun;
pub mod dws;
pub mod fit;
pub mod measure;
pub mod programs;
pub mod robinhood;
pub mod ws_last;

use std::convert::Infallible;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Runs the runs of an experiment.
pub trait Runner {
    /// Why there may be no outcomes.
    type Stop;

    /// Does `work` for each number below `runs`, in any order and at the same time; the outcomes in the numbers'
    /// order. `name` is that of the experiment's part, by which it shows progress and files what is done.
    ///
    /// # Errors
    /// If not all of the runs are done.
    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Self::Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync;
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
