//! Experiment 4: speedup over the number of workers, in steps of one (figure 6).

use super::drawing::{figure, lines, workers_of};
use super::setting::at;
use super::{CPUS, Outcome, Point, Variant};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::measure::{Measure, part};

/// The work w of a message, in nanoseconds.
pub const WORK: u64 = 800_000;

/// The first and the last number n of workers.
pub const WORKERS: (u32, u32) = (16, 48);

/// Returns the data points of the experiment.
pub fn points() -> Vec<Point> {
    (WORKERS.0..=WORKERS.1).map(|workers| Point::scatter_gather(workers, WORK, Variant::Last)).collect()
}

/// Computes the measures.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let speedup = |workers| at(outcomes, Variant::Last, workers, WORK).speedup();
    let inner = || WORKERS.0 + 1..WORKERS.1;
    let is_lowest = |n: u32| speedup(n) < speedup(n - 1) && speedup(n) < speedup(n + 1);
    let is_highest = |n: u32| speedup(n) > speedup(n - 1) && speedup(n) > speedup(n + 1);
    let low: Vec<u32> = inner().filter(|n| n % CPUS == 1).collect();
    let high: Vec<u32> = inner().filter(|n| n % CPUS == 0).collect();
    let elsewhere = inner().filter(|n| n % CPUS > 1).filter(|n| is_lowest(*n) || is_highest(*n)).count();
    let peaks = (WORKERS.0..=WORKERS.1).filter(|n| n % CPUS == 0).map(speedup);
    let (least, most) = peaks.fold((f64::INFINITY, 0.0f64), |(least, most), one| (least.min(one), most.max(one)));
    vec![
        Measure::new("minima", part(&low, |n| is_lowest(*n))),
        Measure::new("maxima", part(&high, |n| is_highest(*n))),
        Measure::new("extrema-elsewhere", elsewhere as f64),
        Measure::new("minima-increase", part(low.windows(2), |pair| speedup(pair[1]) > speedup(pair[0]))),
        Measure::new("maxima-spread", most / least),
    ]
}

/// Draws the sawtooth.
pub(super) fn figures(outcomes: &[Outcome], _: &[Claim], _: u32) -> Vec<Named> {
    let series = lines(outcomes, &[], workers_of, Outcome::speedup);
    let title = "figure 6: speedup under WS-LAST, w = 800 µs";
    let figure = figure(title, Axis::linear("workers, n"), Axis::linear("speedup"), series);
    vec![("figure-6", figure)]
}
