//! Figure 14 (§6.7): Robinhood, compared with Robinhood_s (its variant with BWS's yields in the guest), BWS and the
//! baseline. LOOP programs, which compute and do not steal, run in the same machine.

use super::rates::{LOOPS, Point, WITH_LOOPS, alone, by_program, saved};
use super::{Benchmark, Robinhood, Strategy};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, most, percent};

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let found = &paper.found;
    let time = |benchmark, loops, strategy| found.time(Point { loops, ..alone(benchmark, 4, strategy) });
    let mut measures = Vec::new();
    for loops in LOOPS {
        let is_best = |one: &Benchmark| {
            let others = [Strategy::Baseline, Strategy::Bws, Strategy::RobinhoodS];
            others.iter().all(|other| time(*one, loops, Strategy::Robinhood) < time(*one, loops, *other))
        };
        measures.push(Measure::new(format!("fig14-best-{loops}"), percent(&Benchmark::STEALING, is_best)));
    }
    for (name, other) in [("baseline", Strategy::Baseline), ("bws", Strategy::Bws), ("s", Strategy::RobinhoodS)] {
        let all = Benchmark::STEALING.into_iter().flat_map(|one| LOOPS.map(|loops| (one, loops)));
        let saves = |(one, loops)| saved(time(one, loops, Strategy::Robinhood), time(one, loops, other));
        measures.push(Measure::new(format!("fig14-saves-{name}"), most(all.map(saves))));
    }
    measures
}

/// Draws the slowdowns with each number of loops.
pub(super) fn figures(paper: &Robinhood, _: &[Claim]) -> Vec<Named> {
    let figure = |(name, loops, title)| {
        let slowdown = |one, strategy| paper.found.slowdown(Point { loops, ..alone(one, 4, strategy) });
        (name, by_program(title, "slowdown", &WITH_LOOPS, &slowdown))
    };
    [
        ("figure-14-1", 1, "Robinhood figure 14: slowdowns at 25 % with a loop in the machine"),
        ("figure-14-2", 2, "Robinhood figure 14: slowdowns at 25 % with two loops"),
        ("figure-14-4", 4, "Robinhood figure 14: slowdowns at 25 % with four loops"),
    ]
    .map(figure)
    .into()
}
