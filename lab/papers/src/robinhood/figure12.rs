//! Figure 12 (§6.6): the rate of the hypervisor's scheduling decisions, and the cost that Robinhood adds to a
//! decision.

use super::rates::FAIR;
use super::{Benchmark, CPUS, Programs, Robinhood, Strategy};
use crate::Runner;
use crate::corun::Shared;
use crate::measure::{Measure, most};

/// The numbers of virtual machines in figure 12. The second number is the time, in µs, that Robinhood adds to a
/// scheduling decision according to the paper, with slices of 30 ms.
const DISTANCES: [(usize, f64); 4] = [(1, 0.159), (2, 0.162), (4, 0.45), (8, 0.139)];

/// The lengths of a slice, in nanoseconds.
const INTERVALS: [u64; 2] = [30_000_000, 5_000_000];

/// Runs each number of machines with each interval. The machines run CG, CLIP and MI alternately.
pub(super) fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<Vec<Shared>, R::Stop> {
    runner.run("decisions", INTERVALS.len() * DISTANCES.len(), |nth| {
        let (count, _) = DISTANCES[nth % DISTANCES.len()];
        let mix: Vec<Benchmark> = (0..count).map(|nth| FAIR[nth % FAIR.len()]).collect();
        let programs = programs.with_interval(INTERVALS[nth / DISTANCES.len()]);
        programs.in_machines(&mix, Strategy::Robinhood, nth as u64)
    })
}

/// Computes the measures from the simulated number of decisions × the paper's additional time for a decision.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let per_second = |ran: &Shared| ran.counts.decisions as f64 * 1e9 / ran.lasted as f64 / f64::from(CPUS);
    let overhead = |ran: &Shared, us: f64| 100.0 * per_second(ran) * us / 1e6;
    let passed_over = |ran: &Shared| ran.counts.passed_over as f64 / ran.counts.decisions as f64;
    let (long, short) = paper.decisions.split_at(DISTANCES.len());
    vec![
        Measure::new("fig12-overhead-30", most(long.iter().zip(DISTANCES).map(|(ran, (_, us))| overhead(ran, us)))),
        Measure::new("fig12-overhead-5", most(short.iter().map(|ran| overhead(ran, 0.45)))),
        Measure::new("fig12-no-growth", passed_over(&long[DISTANCES.len() - 1]) - passed_over(&long[0])),
    ]
}
