//! Figure 8 (§6.3): the fraction of the time of programs that is useful work.

use super::rates::{FAIR, GOOD, STRATEGIES, alone, by_rate};
use super::{Benchmark, RATES, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, average, most, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let found = &paper.found;
    use Strategy::{Baseline, Bws, Robinhood};
    let useful = |benchmark, machines, strategy| found.useful(alone(benchmark, machines, strategy));
    let is_highest = |(one, machines)| {
        most(STRATEGIES.map(|strategy| useful(one, machines, strategy))) <= useful(one, machines, Robinhood) + 1.0
    };
    let cg = Benchmark::Cg;
    let over = |other| {
        average(RATES[1..].iter().map(|machines| useful(cg, *machines, Robinhood) / useful(cg, *machines, other)))
    };
    let others = Benchmark::STEALING[1..].iter().flat_map(|one| RATES.map(|machines| (*one, machines)));
    let pairs = GOOD.into_iter().flat_map(|good| FAIR.map(|fair| (good, fair)));
    vec![
        Measure::new("fig8-highest", percent(RATES.map(|machines| (cg, machines)), is_highest)),
        Measure::new("fig8-over-baseline", over(Baseline)),
        Measure::new("fig8-over-bws", over(Bws)),
        Measure::new("fig8-others", percent(others, is_highest)),
        Measure::new(
            "fig8-scalable",
            percent(pairs, |(good, fair)| useful(good, 1, Baseline) > useful(fair, 1, Baseline)),
        ),
    ]
}

/// Draws the useful work of CG.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    let useful = |machines, strategy| paper.found.useful(alone(Benchmark::Cg, machines, strategy));
    let title = "Robinhood figure 8: CG's useful work";
    vec![("figure-8", by_rate(title, "part of CG's time, %", &STRATEGIES, &useful))]
}
