//! Figure 9 (§6.4): the speedup of each program in four machines.

use super::mixes::{BASELINE, BWS, By, CS, CoRun, ROBINHOOD, STRATEGIES, by_strategy, cs_is_below, is_above};
use super::mixes::{is_best, is_worst, ratio};
use super::{Benchmark, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::{Measure, most, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let of = &paper.co_runs();
    let program = |benchmark| by_strategy(of, |one| one.of(benchmark));
    let [cg, clip, ep, mi, mm, rt] = Benchmark::STEALING.map(program);
    let mut pairs = Vec::new();
    [&cg, &clip, &ep, &mi, &mm, &rt].into_iter().for_each(|own| pairs.extend_from_slice(own));
    // The time T_c is T_s / speedup.
    let saved = |all: &[By], other: usize| most(all.iter().map(|by| 100.0 * (1.0 - by[other] / by[ROBINHOOD])));
    let fair: Vec<By> = [&cg, &clip, &mi].into_iter().flatten().copied().collect();
    vec![
        Measure::new("fig9-cg-best", percent(&cg, is_best(ROBINHOOD))),
        Measure::new("fig9-cg-over-baseline", saved(&cg, BASELINE)),
        Measure::new("fig9-cg-over-cs", saved(&cg, CS)),
        Measure::new("fig9-cg-over-bws", saved(&cg, BWS)),
        Measure::new("fig9-mi-best", percent(&mi, is_best(ROBINHOOD))),
        Measure::new("fig9-mi-over-baseline", saved(&mi, BASELINE)),
        Measure::new("fig9-mi-over-cs", saved(&mi, CS)),
        Measure::new("fig9-mi-over-bws", saved(&mi, BWS)),
        Measure::new("fig9-clip-like-bws", ratio(&clip, ROBINHOOD, BWS)),
        Measure::new("fig9-mm-like-bws", ratio(&mm, ROBINHOOD, BWS)),
        Measure::new("fig9-ep-cs-best", percent(&ep, is_best(CS))),
        Measure::new("fig9-rt-cs-best", percent(&rt, is_best(CS))),
        Measure::new(
            "fig9-ep-only-cs-better",
            percent(&ep, |by| by[ROBINHOOD] > by[BASELINE] && by[ROBINHOOD] > by[BWS]),
        ),
        Measure::new("fig9-ep-of-cs", ratio(&ep, ROBINHOOD, CS)),
        Measure::new("fig9-rt-of-cs", ratio(&rt, ROBINHOOD, CS)),
        Measure::new("fig9-rt-over-bws", ratio(&rt, ROBINHOOD, BWS)),
        Measure::new("fig9-cg-cs-below", percent(&cg, cs_is_below)),
        Measure::new("fig9-clip-cs-below", percent(&clip, cs_is_below)),
        Measure::new("fig9-mi-cs-below", percent(&mi, cs_is_below)),
        Measure::new("fig9-cs-much-below", ratio(&fair, CS, ROBINHOOD)),
        // The range is 0.25 ± 25 %, because a quarter of the machine gives a quarter of the solo speed.
        Measure::new("fig9-cs-at-rate", percent(&pairs, |by| (0.1875..=0.3125).contains(&by[CS]))),
        Measure::new("fig9-baseline-worst", percent(&pairs, is_worst(BASELINE))),
        Measure::new("fig9-bws-above-baseline", percent(&pairs, is_above(BWS, BASELINE))),
        Measure::new("fig9-bws-above-cs", percent(&pairs, is_above(BWS, CS))),
        Measure::new("fig9-robinhood-above-bws", percent(&pairs, is_above(ROBINHOOD, BWS))),
    ]
}

/// Draws the speedups of three programs.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    let co_runs = paper.co_runs();
    [
        ("figure-9-cg", Benchmark::Cg, "Robinhood figure 9: the speedup of CG with three other programs"),
        ("figure-9-mi", Benchmark::Mi, "Robinhood figure 9: the speedup of MI with three other programs"),
        ("figure-9-ep", Benchmark::Ep, "Robinhood figure 9: the speedup of EP with three other programs"),
    ]
    .map(|(name, benchmark, title)| (name, speedups(title, &co_runs, benchmark)))
    .into()
}

/// Returns the names of the programs of a mix other than `benchmark`.
fn beside(one: &CoRun, benchmark: Benchmark) -> String {
    let others = one.mix.iter().filter(|other| **other != benchmark).map(|other| other.name());
    others.collect::<Vec<_>>().join(", ")
}

/// Draws a program's speedup in each mix that contains it.
fn speedups(title: &str, of: &[CoRun], benchmark: Benchmark) -> Figure {
    let with =
        |strategy: Strategy| of.iter().filter(move |one| one.strategy == strategy && one.mix.contains(&benchmark));
    let speedup = |one: &CoRun| one.speedups[one.mix.iter().position(|own| *own == benchmark).unwrap_or(0)];
    let series = |strategy: Strategy| Series::in_order(strategy.name(), Marks::Points, with(strategy).map(speedup));
    Figure {
        title: title.into(),
        x: Axis::named("together with", with(Strategy::Baseline).map(|one| beside(one, benchmark))),
        y: Axis::linear("speedup"),
        series: STRATEGIES.map(series).into(),
    }
}
