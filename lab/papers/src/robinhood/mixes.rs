//! Four virtual machines with a program each (§6.4 to §6.6): the runs and the measures of figures 9 and 10.

use serde::Serialize;

use super::rates::{Outcomes, alone};
use super::{Benchmark, Programs, Strategy};
use crate::Runner;
use crate::corun::Shared;
use crate::measure::average;

/// The compared strategies, in the order of a [`By`].
pub const STRATEGIES: [Strategy; 4] = [Strategy::Baseline, Strategy::CoScheduling, Strategy::Bws, Strategy::Robinhood];

/// The program of each machine.
pub type Mix = [Benchmark; 4];

/// Returns all choices of four of the six programs, because the paper's text does not list its mixes.
pub fn all() -> Vec<Mix> {
    let programs = Benchmark::STEALING;
    let is_mix = |mask: &u32| mask.count_ones() == 4;
    let mix = |mask: u32| {
        let mut chosen = (0..programs.len()).filter(|nth| mask & 1 << nth != 0).map(|nth| programs[nth]);
        std::array::from_fn(|_| chosen.next().expect("four are chosen"))
    };
    (0..1u32 << programs.len()).filter(is_mix).map(mix).collect()
}

/// The outcomes of each mix under each strategy.
pub type CoRuns = Vec<(Mix, Strategy, Shared)>;

/// Runs all mixes under all strategies.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<CoRuns, R::Stop> {
    let runs: Vec<(Mix, Strategy)> =
        all().into_iter().flat_map(|mix| STRATEGIES.map(|strategy| (mix, strategy))).collect();
    let ran = runner.run("mixes", runs.len(), |nth| programs.in_machines(&runs[nth].0, runs[nth].1, nth as u64 / 4))?;
    Ok(runs.into_iter().zip(ran).map(|((mix, strategy), ran)| (mix, strategy, ran)).collect())
}

/// The speedups of a mix under a strategy.
#[derive(Clone, Debug, Serialize)]
pub struct CoRun {
    /// The mix.
    pub mix: Mix,
    /// The strategy under which the mix ran.
    pub strategy: Strategy,
    /// The speedup T_s/T_c of each program (equation 2).
    pub speedups: [f64; 4],
}

impl CoRun {
    /// Returns the throughput, the sum of the speedups (equation 3).
    pub fn throughput(&self) -> f64 {
        self.speedups.iter().sum()
    }

    /// Returns the speedup of a program, if the mix contains it.
    pub fn of(&self, benchmark: Benchmark) -> Option<f64> {
        self.mix.iter().position(|one| *one == benchmark).map(|nth| self.speedups[nth])
    }
}

/// Computes the speedups of all mixes, relative to the programs alone.
pub fn co_runs(found: &Outcomes, mixes: &CoRuns) -> Vec<CoRun> {
    let each = |(mix, strategy, ran): &(Mix, Strategy, Shared)| {
        let speedup = |nth: usize| found.time(alone(mix[nth], 1, Strategy::Baseline)) / ran.programs[nth].mean();
        CoRun { mix: *mix, strategy: *strategy, speedups: std::array::from_fn(speedup) }
    };
    mixes.iter().map(each).collect()
}

/// A number for each strategy, in the order of [`STRATEGIES`].
pub(super) type By = [f64; 4];

pub(super) const BASELINE: usize = 0;
pub(super) const CS: usize = 1;
pub(super) const BWS: usize = 2;
pub(super) const ROBINHOOD: usize = 3;

/// Returns the values of all four strategies, for each mix that has a value.
pub(super) fn by_strategy(of: &[CoRun], value: impl Fn(&CoRun) -> Option<f64>) -> Vec<By> {
    let mix = |four: &[CoRun]| {
        let mut values = four.iter().map(&value);
        let by: [Option<f64>; 4] = std::array::from_fn(|_| values.next().flatten());
        by.iter().all(Option::is_some).then(|| by.map(|value| value.expect("all four values exist")))
    };
    of.chunks(STRATEGIES.len()).filter_map(mix).collect()
}

pub(super) fn is_best(nth: usize) -> impl Fn(&By) -> bool {
    move |by| (0..by.len()).all(|other| other == nth || by[nth] > by[other])
}

pub(super) fn is_worst(nth: usize) -> impl Fn(&By) -> bool {
    move |by| (0..by.len()).all(|other| other == nth || by[nth] < by[other])
}

pub(super) fn is_above(nth: usize, other: usize) -> impl Fn(&By) -> bool {
    move |by| by[nth] > by[other]
}

pub(super) fn cs_is_below(by: &By) -> bool {
    by[CS] < by[BWS] && by[CS] < by[ROBINHOOD]
}

pub(super) fn ratio(all: &[By], nth: usize, other: usize) -> f64 {
    average(all.iter().map(|by| by[nth] / by[other]))
}
