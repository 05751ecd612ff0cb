//! Experiment 2: speedup and attempts to steal over the number of workers (figure 4).

use super::{Outcome, Point, T, Variant, at, grid};
use crate::measure::{Measure, part};

/// n.
pub const WORKERS: [u32; 7] = [8, 16, 32, 64, 128, 192, 256];

/// d.
pub const DIVISION: u64 = 10_000;

/// The paper's points.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &[T / DIVISION])
}

/// What is measured of them.
pub(super) const MEASURES: &[&str] = &["cur-256", "last-256", "increases-with-n", "gain-diminishes"];

/// Measures the points.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let speedup = |variant, workers| at(outcomes, variant, workers, T / DIVISION).speedup();
    let gain = |variant, pair: &[u32]| speedup(variant, pair[1]) - speedup(variant, pair[0]);
    let steps = Variant::ALL.into_iter().flat_map(|variant| WORKERS.windows(2).map(move |pair| (variant, pair)));
    // Per worker.
    let slope = |variant, pair: &[u32]| gain(variant, pair) / f64::from(pair[1] - pair[0]);
    let last = &WORKERS[WORKERS.len() - 2..];
    let diminished = Variant::ALL.map(|variant| slope(variant, last) / slope(variant, &WORKERS[..2]));
    vec![
        Measure::new("cur-256", speedup(Variant::Cur, 256)),
        Measure::new("last-256", speedup(Variant::Last, 256)),
        Measure::new("increases-with-n", part(steps, |(variant, pair)| gain(variant, pair) > 0.0)),
        Measure::new("gain-diminishes", diminished[0].max(diminished[1])),
    ]
}
