//! Programs alone: what the model is calibrated on (§5.1), BWS beside the original (§5.2, footnote 4), and its two
//! ablations (§5.5).

use super::{Benchmark, Programs};
use crate::Runner;
use crate::corun::Ran;
use crate::measure::{Measure, average};

/// What is measured of the original and of BWS.
pub const MEASURES: &[&str] =
    &["solo-group-1", "solo-group-2", "solo-bfs", "solo-cg", "solo-clip", "solo-rest", "solo-mean"];

/// What is measured of BWS and its two ablations.
pub const ABLATIONS: &[&str] = &["busy-wakes-mean", "busy-wakes-mi", "wsgi-mean", "wsgi-clip"];

/// A program and what came of it alone.
fn programs(all: &[Ran]) -> impl Iterator<Item = (Benchmark, &Ran)> {
    Benchmark::ALL.into_iter().zip(all).filter(|(benchmark, _)| *benchmark != Benchmark::Loop)
}

/// By how much longer a program takes here than there, in per cent.
fn longer(here: &Ran, there: &Ran) -> f64 {
    100.0 * (here.mean() / there.mean() - 1.0)
}

fn of(all: &[Ran], benchmark: Benchmark) -> &Ran {
    &all[benchmark as usize]
}

/// How many times as fast each program is under the original as on one core, in table 1's order; LOOP has the cores.
pub fn speedups(programs: &Programs<'_>, original: &[Ran]) -> Vec<f64> {
    let each = Benchmark::ALL.into_iter().zip(original);
    each.map(|(benchmark, ran)| match programs.serial(benchmark) {
        Some(work) => work as f64 / ran.mean(),
        None => ran.worked as f64 / ran.there as f64,
    })
    .collect()
}

/// The measures, of what came of the programs alone under the original and under BWS.
pub fn measures(with: &Programs<'_>, original: &[Ran], bws: &[Ran]) -> Vec<Measure> {
    let speedups = speedups(with, original);
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

/// The measures of §5.5, of what came of the programs alone under BWS and its ablations.
pub fn ablations(bws: &[Ran], busy_wakes: &[Ran], wsgi: &[Ran]) -> Vec<Measure> {
    let slower = |all: &[Ran]| {
        let all = all.to_vec();
        programs(bws).map(move |(one, there)| (one, longer(of(&all, one), there))).collect::<Vec<_>>()
    };
    let (busy_wakes, wsgi) = (slower(busy_wakes), slower(wsgi));
    let at = |all: &[(Benchmark, f64)], one| all.iter().find(|(own, _)| *own == one).expect("it is there").1;
    vec![
        Measure::new("busy-wakes-mean", average(busy_wakes.iter().map(|(_, slower)| *slower))),
        Measure::new("busy-wakes-mi", at(&busy_wakes, Benchmark::Mi)),
        Measure::new("wsgi-mean", average(wsgi.iter().map(|(_, slower)| *slower))),
        Measure::new("wsgi-clip", at(&wsgi, Benchmark::Clip)),
    ]
}

/// All that §5.5 needs.
///
/// # Errors
/// If not all of the runs are done.
pub fn run_ablations<R: Runner>(programs: &Programs<'_>, runner: &R) -> Result<[Vec<Ran>; 3], R::Stop> {
    Ok([
        programs.alone(programs.setting.bws, runner)?,
        programs.alone("bws-busy-wakes", runner)?,
        programs.alone("wsgi", runner)?,
    ])
}

impl Programs<'_> {
    /// The nanoseconds of a program on one core; `None`: it never ends.
    fn serial(&self, benchmark: Benchmark) -> Option<u64> {
        self.graphs[benchmark as usize].as_ref().map(|graph| graph.measure(self.setting.seed).work)
    }
}

/// How many cores LOOP has.
pub(super) fn rate(ran: &Ran) -> f64 {
    ran.worked as f64 / ran.there as f64
}
