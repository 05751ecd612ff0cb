//! Figure 11 (§6.5): programs that do not steal, together with three programs that steal.

use super::mixes::{BASELINE, BWS, By, CS, ROBINHOOD, STRATEGIES, is_above, is_worst};
use super::{Benchmark, Programs, Robinhood};
use crate::Runner;
use crate::corun::Shared;
use crate::measure::{Measure, most, percent};

/// The programs that do not steal. They run together with CG, CLIP and MI.
pub(super) const OTHERS: [Benchmark; 2] = [Benchmark::Loop, Benchmark::Server];

/// Runs both of [`OTHERS`] under all strategies.
pub(super) fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<Vec<Shared>, R::Stop> {
    runner.run("others", OTHERS.len() * STRATEGIES.len(), |nth| {
        let mix = [Benchmark::Cg, Benchmark::Clip, Benchmark::Mi, OTHERS[nth / STRATEGIES.len()]];
        programs.in_machines(&mix, STRATEGIES[nth % STRATEGIES.len()], (nth / STRATEGIES.len()) as u64)
    })
}

/// Returns the time, in s, in which the fourth program of a run does the work of one second alone on a physical CPU.
pub(super) fn time_beside(ran: &Shared) -> f64 {
    ran.programs[3].there as f64 / ran.programs[3].worked as f64
}

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let beside = &paper.beside;
    let times: Vec<By> =
        beside.chunks(STRATEGIES.len()).map(|four| std::array::from_fn(|nth| time_beside(&four[nth]))).collect();
    let over = |by: &By, other: f64| 100.0 * (by[ROBINHOOD] / other - 1.0);
    let least = |by: &By| by[BASELINE].min(by[CS]).min(by[BWS]);
    let shares: Vec<By> = beside
        .chunks(STRATEGIES.len())
        .map(|four| std::array::from_fn(|nth| four[nth].ran[3] as f64 / four[nth].ran.iter().sum::<u64>() as f64))
        .collect();
    let best = |by: &By| if is_worst(BWS)(by) { 100.0 } else { 0.0 };
    vec![
        Measure::new("fig11-loop-bws-best", best(&times[0])),
        Measure::new("fig11-loop-over-bws", over(&times[0], times[0][BWS])),
        Measure::new("fig11-server-bws-best", best(&times[1])),
        Measure::new("fig11-server-over-bws", over(&times[1], times[1][BWS])),
        Measure::new("fig11-slight", most(times.iter().map(|by| over(by, least(by))))),
        Measure::new("fig11-relinquish", percent(&shares, is_above(BWS, ROBINHOOD))),
    ]
}
