//! Programs alone: the calibration of the model (§5.1), and BWS compared with ABP (§5.2, footnote 4).

use super::{BWS, Benchmark, Bws, ORIGINAL, Programs};
use crate::corun::Ran;
use crate::measure::{Measure, average};

/// Returns all programs except LOOP, each with its outcome alone.
pub(super) fn programs(all: &[Ran]) -> impl Iterator<Item = (Benchmark, &Ran)> {
    Benchmark::ALL.into_iter().zip(all).filter(|(benchmark, _)| *benchmark != Benchmark::Loop)
}

/// Returns the percentage by which a program takes longer in `here` than in `there`.
pub(super) fn longer(here: &Ran, there: &Ran) -> f64 {
    100.0 * (here.mean() / there.mean() - 1.0)
}

pub(super) fn of(all: &[Ran], benchmark: Benchmark) -> &Ran {
    &all[benchmark as usize]
}

/// Returns the speedup of each program alone under ABP relative to one core, in the order of table 1. The value for
/// LOOP is the number of cores that it uses.
pub(super) fn speedups(programs: &Programs, original: &[Ran]) -> Vec<f64> {
    let each = Benchmark::ALL.into_iter().zip(original);
    each.map(|(benchmark, ran)| match programs.serial(benchmark) {
        Some(work) => work as f64 / ran.mean(),
        None => ran.worked as f64 / ran.there as f64,
    })
    .collect()
}

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let [original, bws] = [ORIGINAL, BWS].map(|policy| paper.alone.of(policy));
    let speedups = speedups(&paper.programs, original);
    let group = |is_scalable: bool| {
        Benchmark::ALL.into_iter().zip(&speedups).filter(move |(one, _)| one.is_scalable() == is_scalable)
    };
    let least = group(true).filter(|(one, _)| *one != Benchmark::Loop).map(|(_, speedup)| *speedup);
    let most = group(false).map(|(_, speedup)| *speedup);
    let change = |one: Benchmark| longer(of(bws, one), of(original, one));
    let rest = programs(bws).filter(|(one, _)| !matches!(one, Benchmark::Cg | Benchmark::Clip));
    let changes = programs(bws).map(|(one, _)| change(one));
    vec![
        Measure::new("solo-group-1", least.fold(f64::INFINITY, f64::min)),
        Measure::new("solo-group-2", most.fold(0.0, f64::max)),
        Measure::new("solo-bfs", speedups[Benchmark::Bfs as usize]),
        Measure::new("solo-cg", change(Benchmark::Cg)),
        Measure::new("solo-clip", change(Benchmark::Clip)),
        Measure::new("solo-rest", rest.map(|(one, _)| change(one).abs()).fold(0.0, f64::max)),
        Measure::new("solo-mean", average(changes)),
    ]
}

impl Programs {
    /// Returns the time of a program on one core, in ns. `None` if the program never ends.
    fn serial(&self, benchmark: Benchmark) -> Option<u64> {
        self.graphs[benchmark as usize].as_ref().map(|graph| graph.measure(self.setting.seed).work)
    }
}

/// Returns the mean number of cores that LOOP uses.
pub(super) fn rate(ran: &Ran) -> f64 {
    ran.worked as f64 / ran.there as f64
}
