//! Figure 10 (§6.4): the throughput of four machines.

use super::mixes::{BASELINE, BWS, CS, CoRun, ROBINHOOD, STRATEGIES, by_strategy, cs_is_below, is_above};
use super::mixes::{is_best, is_worst};
use super::rates::FAIR;
use super::{Benchmark, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::{Measure, average, most, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let of = &paper.co_runs();
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

/// Draws the throughput of all mixes.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    let of = paper.co_runs();
    let with = |strategy: Strategy| of.iter().filter(move |one| one.strategy == strategy);
    let series =
        |strategy: Strategy| Series::in_order(strategy.name(), Marks::Points, with(strategy).map(CoRun::throughput));
    let name = |one: &CoRun| one.mix.map(Benchmark::name).join(", ");
    let figure = Figure {
        title: "Robinhood figure 10: throughput of four machines".into(),
        x: Axis::named("mix", with(Strategy::Baseline).map(name)),
        y: Axis::linear("weighted speedup"),
        series: STRATEGIES.map(series).into(),
    };
    vec![("figure-10", figure)]
}
