//! Experiment 2: speedup and attempts to steal over the number of workers (figure 4).

use super::drawing::{beside, figure, lines, workers_of};
use super::setting::{at, grid};
use super::{Outcome, Point, T, Variant};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::measure::{Measure, part};

/// The numbers n of workers.
pub const WORKERS: [u32; 7] = [8, 16, 32, 64, 128, 192, 256];

/// The division d of the work.
pub const DIVISION: u64 = 10_000;

/// Returns the data points of the experiment.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &[T / DIVISION])
}

/// The measures of the speedups with 256 workers under both algorithms.
const MOST: [&str; 2] = ["cur-256", "last-256"];

/// Computes the measures.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let speedup = |variant, workers| at(outcomes, variant, workers, T / DIVISION).speedup();
    let gain = |variant, pair: &[u32]| speedup(variant, pair[1]) - speedup(variant, pair[0]);
    let steps = Variant::ALL.into_iter().flat_map(|variant| WORKERS.windows(2).map(move |pair| (variant, pair)));
    // The gain per additional worker.
    let slope = |variant, pair: &[u32]| gain(variant, pair) / f64::from(pair[1] - pair[0]);
    let last = &WORKERS[WORKERS.len() - 2..];
    let diminished = Variant::ALL.map(|variant| slope(variant, last) / slope(variant, &WORKERS[..2]));
    vec![
        Measure::new(MOST[0], speedup(Variant::Cur, 256)),
        Measure::new(MOST[1], speedup(Variant::Last, 256)),
        Measure::new("increases-with-n", part(steps, |(variant, pair)| gain(variant, pair) > 0.0)),
        Measure::new("gain-diminishes", diminished[0].max(diminished[1])),
    ]
}

/// Draws speedup and attempts to steal.
pub(super) fn figures(outcomes: &[Outcome], claims: &[Claim], _: u32) -> Vec<Named> {
    let x = || Axis::linear("workers, n");
    let series = |y: fn(&Outcome) -> f64| lines(outcomes, &[], workers_of, y);
    let mut speedups = series(Outcome::speedup);
    let [cur, last] = MOST.map(|name| [(name, 256.0)]);
    beside(&mut speedups, claims, &[("WS-CUR", &cur), ("WS-LAST", &last)], 1.0, "");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        ("figure-4-speedup", figure("figure 4: speedup", x(), Axis::linear("speedup"), speedups)),
        ("figure-4-steals", figure("figure 4: attempts to steal", x(), rates, series(Outcome::steal_rate))),
    ]
}
