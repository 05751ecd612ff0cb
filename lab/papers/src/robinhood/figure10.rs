//! Figure 10 (§6.4): the throughput of four machines.

use comity_console::Failure;

use super::mixes::{self, BASELINE, BWS, CS, CoRun, ROBINHOOD, STRATEGIES, by_strategy, cs_is_below, is_above};
use super::mixes::{is_best, is_worst, most, percent};
use super::rates::FAIR;
use super::{Benchmark, Robinhood, Strategy};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::measure::{Measure, average};
use crate::paper::Named;

/// Runs all mixes.
pub(super) fn run<R: Runner>(paper: &mut Robinhood, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    Ok(paper.co_runs(runner)?.map(|co_runs| measures(&co_runs)))
}

/// The measures.
fn measures(of: &[CoRun]) -> Vec<Measure> {
    let all = by_strategy(of, |one| Some(one.throughput()));
    let several = |one: &CoRun| one.mix.iter().filter(|benchmark| FAIR.contains(benchmark)).count() >= 2;
    let fair = by_strategy(of, |one| several(one).then(|| one.throughput()));
    let gain = |other: usize| 100.0 * average(all.iter().map(|by| by[ROBINHOOD] / by[other] - 1.0));
    let others = [BASELINE, CS, BWS];
    vec![
        Measure::new("fig10-best", percent(&all, is_best(ROBINHOOD))),
        Measure::new("fig10-over-baseline", gain(BASELINE)),
        Measure::new("fig10-over-cs", gain(CS)),
        Measure::new("fig10-over-bws", gain(BWS)),
        Measure::new("fig10-most", most(all.iter().flat_map(|by| others.map(|other| by[ROBINHOOD] / by[other])))),
        Measure::new("fig10-baseline-worst", percent(&all, is_worst(BASELINE))),
        Measure::new("fig10-cs-below", percent(&fair, cs_is_below)),
        Measure::new("fig10-cs-much-below", average(fair.iter().map(|by| by[CS] / by[BWS].min(by[ROBINHOOD])))),
        Measure::new("fig10-bws-above-baseline", percent(&all, is_above(BWS, BASELINE))),
        Measure::new("fig10-bws-above-cs", percent(&all, is_above(BWS, CS))),
    ]
}

/// The throughput of all mixes.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    vec![("figure-10", drawn(&mixes::co_runs(&paper.found, &paper.mixes)))]
}

/// The throughput of all mixes.
fn drawn(of: &[CoRun]) -> Figure {
    let with = |strategy: Strategy| of.iter().filter(move |one| one.strategy == strategy);
    let series = |strategy: Strategy| {
        let points = with(strategy).zip(1..).map(|(one, x)| (f64::from(x), one.throughput())).collect();
        Series::new(strategy.name(), Marks::Points, points)
    };
    let name = |one: &CoRun| one.mix.map(Benchmark::name).join(", ");
    Figure {
        title: "Robinhood figure 10: throughput of four machines".into(),
        x: Axis::named("mix", with(Strategy::Baseline).map(name)),
        y: Axis::linear("weighted speedup"),
        series: STRATEGIES.map(series).into(),
    }
}
