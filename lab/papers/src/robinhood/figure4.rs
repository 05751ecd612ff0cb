//! The scenario of figure 4 (§2.2.2, §3.1): a poor worker in a guest that also runs other programs. The paper's text
//! describes the scenario without numbers.
//!
//! A program with a long task and a thief shares two CPUs with threads that compute all the time. The measure is the
//! CPU time of the thread with the task: the poor worker.

use super::setting::{Programs, Strategy};
use crate::Runner;
use crate::measure::Measure;

/// The strategies in the order of the runs.
const STRATEGIES: [Strategy; 3] = [Strategy::Baseline, Strategy::Bws, Strategy::Robinhood];

/// The number of runs for each strategy. Each run has its own seed.
const RUNS: usize = 5;

/// Runs the scenario. Returns the CPU time of the poor worker in each run, in nanoseconds.
pub(super) fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<Vec<u64>, R::Stop> {
    runner.run("figure4", STRATEGIES.len() * RUNS, |nth| {
        programs.poor_worker(STRATEGIES[nth / RUNS], (nth % RUNS) as u64).worked
    })
}

/// Computes the measures: the CPU time of the poor worker / its time under the baseline.
pub(super) fn measures(times: &[u64]) -> Vec<Measure> {
    let time = |nth: usize| times[nth * RUNS..][..RUNS].iter().sum::<u64>() as f64;
    let over_baseline = |nth: usize| time(nth) / time(0);
    vec![Measure::new("figure4-bws", over_baseline(1)), Measure::new("figure4-robinhood", over_baseline(2))]
}
