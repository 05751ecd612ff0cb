//! Figure 13 (§6.7): Robinhood_u, which also accelerates across NUMA nodes.

use super::rates::{alone, by_rate};
use super::{Benchmark, RATES, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, average, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let found = &paper.found;
    use Strategy::{Bws, Robinhood, RobinhoodU};
    let time = |benchmark, machines, strategy| found.time(alone(benchmark, machines, strategy));
    let over = |one| {
        average(RATES[1..].iter().map(|machines| time(one, *machines, RobinhoodU) / time(one, *machines, Robinhood)))
    };
    let cg = Benchmark::Cg;
    let slower_than =
        |other| percent(&RATES[1..], |machines: &u32| time(cg, *machines, RobinhoodU) > time(cg, *machines, other));
    vec![
        Measure::new("fig13-u-worse", slower_than(Robinhood)),
        Measure::new("fig13-u-much", over(cg)),
        Measure::new("fig13-u-no-gain", slower_than(Bws)),
        Measure::new("fig13-others", percent(&Benchmark::STEALING[1..], |one| over(*one) > 1.0)),
    ]
}

/// Draws the slowdowns of CG.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    let strategies = [Strategy::Bws, Strategy::Robinhood, Strategy::RobinhoodU];
    let slowdown = |machines, strategy| match (machines, strategy) {
        (1, Strategy::RobinhoodU) => f64::NAN,
        _ => paper.found.slowdown(alone(Benchmark::Cg, machines, strategy)),
    };
    let title = "Robinhood figure 13: CG across NUMA nodes";
    vec![("figure-13", by_rate(title, "slowdown", &strategies, &slowdown))]
}
