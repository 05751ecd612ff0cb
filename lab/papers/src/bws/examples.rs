//! The examples of §2.3.2: three pairs under the paper's original work stealing ([ABP](ORIGINAL)), and one pair almost
//! without yields ([`NO_YIELDS`]).

use super::{Benchmark, Bws, CORES, ORIGINAL, Programs};
use crate::Runner;
use crate::corun::Ran;
use crate::measure::Measure;

/// The measures of the slowdowns in the first example.
pub(super) const BFS_EP: [&str; 2] = ["bfs-ep-bfs", "bfs-ep-ep"];

/// The measures of the slowdowns in the second example.
pub(super) const CG_MM: [&str; 2] = ["cg-mm-cg", "cg-mm-mm"];

/// A scheduler with hardly any yields: a thief yields only after 4096 failed steals for each worker, which take
/// several time slices.
const NO_YIELDS: &str = "delay-yield:failures_per_worker=4096";

/// The number of CG's workers in the third example.
const HALF: u32 = CORES / 2;

/// The examples: two programs, each with its number of workers, and the policy.
const RUNS: [([(Benchmark, u32); 2], &str); 4] = [
    ([(Benchmark::Bfs, CORES), (Benchmark::Ep, CORES)], ORIGINAL),
    ([(Benchmark::Cg, CORES), (Benchmark::Mm, CORES)], ORIGINAL),
    ([(Benchmark::Cg, HALF), (Benchmark::Mm, CORES)], ORIGINAL),
    ([(Benchmark::Cg, CORES), (Benchmark::Mm, CORES)], NO_YIELDS),
];

/// Runs the examples.
pub(super) fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<Vec<Vec<Ran>>, R::Stop> {
    runner.run("examples", RUNS.len(), |nth| {
        let (pair, policy) = RUNS[nth];
        programs.run(&pair, policy, nth)
    })
}

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let (examples, original) = (&paper.examples, paper.alone.of(ORIGINAL));
    let slowdown = |example: usize, program: usize| {
        let (benchmark, _) = RUNS[example].0[program];
        100.0 * (examples[example][program].mean() / original[benchmark as usize].mean() - 1.0)
    };
    let bfs = &examples[0][0];
    let better = (0..2).filter(|program| slowdown(2, *program) < slowdown(1, *program)).count();
    vec![
        Measure::new(BFS_EP[0], slowdown(0, 0)),
        Measure::new(BFS_EP[1], slowdown(0, 1)),
        // The paper's active workers are the workers with a task, with or without a core.
        Measure::new("bfs-ep-active", bfs.busy as f64 / bfs.there as f64),
        Measure::new(CG_MM[0], slowdown(1, 0)),
        Measure::new(CG_MM[1], slowdown(1, 1)),
        Measure::new("cg16-mm-cg", slowdown(2, 0)),
        Measure::new("cg16-mm-mm", slowdown(2, 1)),
        Measure::new("cg16-both", better as f64 / 2.0),
        Measure::new("no-yield-cg", slowdown(3, 0)),
        Measure::new("no-yield-mm", slowdown(3, 1)),
    ]
}
