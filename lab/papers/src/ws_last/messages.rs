//! Experiment 3: running time and speedup over the work per message (figure 5).

use super::{Outcome, Point, Variant, at, grid};
use crate::measure::{Measure, part};

/// n.
pub const WORKERS: [u32; 3] = [16, 50, 250];

/// w, in nanoseconds.
pub const WORKS: [u64; 6] = [25_000, 50_000, 100_000, 200_000, 400_000, 800_000];

/// m: running times are given for as many rounds.
pub const ROUNDS: u32 = 12_500;

/// The paper's points.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &WORKS)
}

/// What is measured of them.
pub(super) const MEASURES: &[&str] = &[
    "cur-slower-than-linear",
    "cur-visible",
    "most-visible-at-16",
    "last-growth-50",
    "last-growth-250",
    "cur-gain-25-100",
    "last-gain-25-100",
    "cur-rate-100-over-25",
    "last-rate-100-over-25",
    "cur-anomaly",
    "last-anomaly",
    "cur-gain-over-last",
];

/// Measures the points.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    use Variant::{Cur, Last};
    let of = |variant, workers, work| at(outcomes, variant, workers, work);
    // By how many powers of two the running time grows when w doubles.
    let growth = |variant, workers, work: u64| {
        libm::log2(of(variant, workers, 2 * work).round() / of(variant, workers, work).round())
    };
    let speedup = |variant, workers, work| of(variant, workers, work).speedup();
    let gain = |variant, from, to| speedup(variant, 16, to) / speedup(variant, 16, from);
    let rate = |variant, work| of(variant, 16, work).steal_rate();
    let anomaly = |variant| {
        let [least, middle, most] = WORKERS.map(|workers| speedup(variant, workers, 800_000));
        middle / least.min(most)
    };
    let least_at_16 = |variant: Variant| {
        WORKERS[1..].iter().all(|workers| growth(variant, 16, 25_000) < growth(variant, *workers, 25_000))
    };
    vec![
        Measure::new("cur-slower-than-linear", part(&WORKS[..4], |work| growth(Cur, 16, *work) < 1.0)),
        Measure::new(
            "cur-visible",
            WORKERS.map(|workers| growth(Cur, workers, 25_000)).into_iter().fold(0.0, f64::max),
        ),
        Measure::new("most-visible-at-16", part(Variant::ALL, least_at_16)),
        Measure::new("last-growth-50", growth(Last, 50, 25_000)),
        Measure::new("last-growth-250", growth(Last, 250, 25_000)),
        Measure::new("cur-gain-25-100", gain(Cur, 25_000, 100_000)),
        Measure::new("last-gain-25-100", gain(Last, 25_000, 100_000)),
        Measure::new("cur-rate-100-over-25", rate(Cur, 100_000) / rate(Cur, 25_000)),
        Measure::new("last-rate-100-over-25", rate(Last, 100_000) / rate(Last, 25_000)),
        Measure::new("cur-anomaly", anomaly(Cur)),
        Measure::new("last-anomaly", anomaly(Last)),
        Measure::new("cur-gain-over-last", gain(Cur, 100_000, 800_000) / gain(Last, 100_000, 800_000)),
    ]
}
