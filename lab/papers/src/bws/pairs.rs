//! All 28 pairs (§5.2 to §5.4) under a policy: their runs, and the values that the paper plots.

use serde::Serialize;

use super::setting::named;
use super::{Benchmark, Programs, solo};
use crate::Runner;
use crate::claims::{Claim, number};
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::measure::average;

/// A pair of programs.
pub type Pair = [Benchmark; 2];

/// Returns all pairs of two different programs, in the order of table 1.
pub fn all() -> Vec<Pair> {
    let programs = Benchmark::ALL;
    let second = |first: usize| programs[first + 1..].iter().map(move |second| [programs[first], *second]);
    (0..programs.len()).flat_map(second).collect()
}

/// The outcomes of pairs under one policy.
pub type CoRuns = Vec<(Pair, Vec<Ran>)>;

/// Runs all pairs under a policy.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(programs: &Programs, policy: &str, runner: &R) -> Result<CoRuns, R::Stop> {
    let pairs = all();
    let name = format!("pairs-{}", named(policy));
    let ran = runner.run(&name, pairs.len(), |nth| {
        programs.run(&pairs[nth].map(|one| (one, programs.setting.cores)), policy, nth)
    })?;
    Ok(pairs.into_iter().zip(ran).collect())
}

/// A pair under a policy, compared with both programs alone under ABP.
#[derive(Clone, Debug, Serialize)]
pub struct CoRun {
    /// The pair.
    pub pair: Pair,
    /// The slowdown (T_c − T_s)/T_s of each program, in per cent.
    pub slowdowns: [f64; 2],
    /// The weighted speedup.
    pub throughput: f64,
    /// The standard deviation / the mean of the execution times of each program, in per cent. `None` for LOOP, which
    /// never ends.
    pub variations: [Option<f64>; 2],
}

impl CoRun {
    /// Returns the larger slowdown minus the smaller.
    pub fn unfairness(&self) -> f64 {
        (self.slowdowns[0] - self.slowdowns[1]).abs()
    }

    /// Returns the kind of the pair.
    pub fn kind(&self) -> PairKind {
        PairKind::of(self.pair)
    }
}

/// The three kinds of pairs of figures 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairKind {
    /// Both programs are of group 1: see [`Benchmark::is_scalable`].
    Scalable,
    /// Both programs are of group 2.
    Fair,
    /// The programs are of different groups.
    Mixed,
}

impl PairKind {
    /// Returns the kind of a pair.
    pub fn of(pair: Pair) -> PairKind {
        match pair.map(Benchmark::is_scalable) {
            [true, true] => PairKind::Scalable,
            [false, false] => PairKind::Fair,
            _ => PairKind::Mixed,
        }
    }
}

/// Computes the values that the paper plots for all pairs. `original` has the outcomes of the programs alone under
/// ABP.
pub fn co_runs(original: &[Ran], of: &CoRuns) -> Vec<CoRun> {
    let one = |(pair, ran): &(Pair, Vec<Ran>)| {
        let pair = *pair;
        let ratio = |nth: usize| {
            let (alone, together) = (&original[pair[nth] as usize], &ran[nth]);
            match pair[nth] {
                Benchmark::Loop => solo::rate(alone) / solo::rate(together),
                _ => together.mean() / alone.mean(),
            }
        };
        let ratios = [ratio(0), ratio(1)];
        CoRun {
            pair,
            slowdowns: ratios.map(|ratio| 100.0 * (ratio - 1.0)),
            throughput: ratios.iter().map(|ratio| 1.0 / ratio).sum(),
            variations: [0, 1].map(|nth| (pair[nth] != Benchmark::Loop).then(|| variation(&ran[nth].times))),
        }
    };
    of.iter().map(one).collect()
}

/// Returns the coefficient of variation, in per cent.
fn variation(times: &[u64]) -> f64 {
    let count = times.len() as f64;
    let mean = times.iter().sum::<u64>() as f64 / count;
    let squares: f64 = times.iter().map(|time| (*time as f64 - mean).powi(2)).sum();
    100.0 * (squares / (count - 1.0)).sqrt() / mean
}

/// Returns the average unfairness of the pairs of a kind, or of all pairs.
pub fn unfairness(of: &[CoRun], kind: Option<PairKind>) -> f64 {
    average(of.iter().filter(|one| kind.is_none_or(|kind| one.kind() == kind)).map(CoRun::unfairness))
}

/// Returns the average throughput of the pairs of a kind, or of all pairs.
pub fn throughput(of: &[CoRun], kind: Option<PairKind>) -> f64 {
    average(of.iter().filter(|one| kind.is_none_or(|kind| one.kind() == kind)).map(|one| one.throughput))
}

/// Returns the outcome of one pair.
///
/// # Panics
/// If the pair was not run.
pub(super) fn at(of: &CoRuns, pair: Pair) -> &[Ran] {
    &of.iter().find(|(own, _)| *own == pair).expect("the pair was run").1
}

/// The three kinds of pairs, and all pairs.
pub(super) const KINDS: [Option<PairKind>; 4] =
    [Some(PairKind::Scalable), Some(PairKind::Fair), Some(PairKind::Mixed), None];

/// Draws a number for each of [`KINDS`], under ABP and under BWS. `ids` has the claims with the paper's numbers.
pub(super) fn by_kind(
    title: &str,
    y: &str,
    value: fn(&[CoRun], Option<PairKind>) -> f64,
    of: &[Vec<CoRun>; 2],
    ids: [[&str; 4]; 2],
    claims: &[Claim],
) -> Figure {
    let mut series: Vec<Series> = ["ABP", "BWS"]
        .into_iter()
        .zip(of)
        .map(|(name, of)| Series::in_order(name, Marks::Points, KINDS.map(|kind| value(of, kind))))
        .collect();
    for (of, ids) in ids.into_iter().enumerate() {
        let points = ids.into_iter().zip(1..).filter_map(|(id, x)| Some((f64::from(x), number(claims, id)?))).collect();
        series.push(Series::of_paper(format!("{}: the paper's", series[of].name), of, points));
    }
    let x = Axis::named("pairs", ["of group 1", "of group 2", "of both", "all"]);
    Figure { title: title.into(), x, y: Axis::linear(y), series }
}
