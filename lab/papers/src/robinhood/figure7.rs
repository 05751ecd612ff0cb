//! Figure 7 (§6.3): slowdowns of six programs at four online rates.

use super::rates::{FAIR, GOOD, STRATEGIES, add_paper, alone, by_program, saved};
use super::table2::cell;
use super::{Benchmark, RATE_NAMES, RATES, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, average, most, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let found = &paper.found;
    use Strategy::{Baseline, Bws, Robinhood};
    let time = |benchmark, machines, strategy| found.time(alone(benchmark, machines, strategy));
    let all = || Benchmark::STEALING.into_iter().flat_map(|one| RATES.map(|machines| (one, machines)));
    let saves = |other| most(all().map(|(one, at)| saved(time(one, at, Robinhood), time(one, at, other))));
    let over = |one, at, other| time(one, at, Robinhood) / time(one, at, other);
    let at_100 = |one| STRATEGIES.map(|strategy| time(one, 1, strategy));
    let alike = [Benchmark::Cg].into_iter().chain(GOOD).flat_map(|one| {
        let [base, bws, robinhood] = at_100(one);
        [bws, robinhood].map(|time| 100.0 * (time / base - 1.0).abs())
    });
    let differs = |one| {
        let times = at_100(one);
        100.0 * (most(times) / times.into_iter().fold(f64::INFINITY, f64::min) - 1.0)
    };
    let mut measures = vec![
        Measure::new("fig7-saves-baseline", saves(Baseline)),
        Measure::new("fig7-saves-bws", saves(Bws)),
        Measure::new("fig7-100-alike", most(alike)),
        Measure::new("fig7-100-clip-differs", differs(Benchmark::Clip)),
        Measure::new("fig7-100-mi-differs", differs(Benchmark::Mi)),
    ];
    let pairs = [(Robinhood, Bws), (Robinhood, Baseline), (Bws, Baseline)];
    let cases = FAIR.into_iter().flat_map(|one| pairs.map(|pair| (one, pair)));
    for (one, (faster, slower)) in cases {
        let [program, faster_name, slower_name] = [one.name(), faster.name(), slower.name()].map(str::to_lowercase);
        let name = format!("fig7-{program}-{faster_name}-below-{slower_name}");
        let is_below = |machines: &u32| time(one, *machines, faster) < time(one, *machines, slower);
        measures.push(Measure::new(name, percent(&RATES[1..], is_below)));
    }
    for (name, one) in [("fig7-clip-suffers", Benchmark::Clip), ("fig7-mi-suffers", Benchmark::Mi)] {
        let suffers = |machines: &u32| found.slowdown(alone(one, *machines, Baseline)) > f64::from(*machines);
        measures.push(Measure::new(name, percent(&RATES[1..], suffers)));
    }
    let cases = GOOD.into_iter().flat_map(|one| [Baseline, Bws].map(|other| (one, other)));
    for (one, other) in cases.clone() {
        let [program, other_name] = [one.name(), other.name()].map(str::to_lowercase);
        let name = format!("fig7-{program}-like-{other_name}");
        measures.push(Measure::new(name, average(RATES[1..].iter().map(|machines| over(one, *machines, other)))));
    }
    let factors = cases.flat_map(|(one, other)| RATES[1..].iter().map(move |machines| over(one, *machines, other)));
    measures.push(Measure::new("fig7-alike-most", most(factors.map(|factor| factor.max(1.0 / factor)))));
    measures
}

/// Draws the slowdowns at each rate below 100 %.
pub(super) fn figures(paper: &Robinhood, claims: &[Claim]) -> Vec<Named> {
    let figure = |(name, nth, title): (_, usize, _)| {
        let slowdown = |one, strategy| paper.found.slowdown(alone(one, RATES[nth], strategy));
        let mut figure = by_program(title, "slowdown", &STRATEGIES, &slowdown);
        // The paper's text has numbers only for CG, in table 2. CG is the first program on the axis.
        add_paper(&mut figure, |of| {
            cell(claims, RATE_NAMES[nth], of).map(|number| (1.0, number)).into_iter().collect()
        });
        (name, figure)
    };
    [
        ("figure-7-50", 1, "Robinhood figure 7: slowdowns at an online rate of 50 %"),
        ("figure-7-25", 2, "Robinhood figure 7: slowdowns at an online rate of 25 %"),
        ("figure-7-12.5", 3, "Robinhood figure 7: slowdowns at an online rate of 12.5 %"),
    ]
    .map(figure)
    .into()
}
