//! Experiment 3: running time and speedup over the work per message (figure 5).

use super::drawing::{figure, lines, microseconds};
use super::setting::{at, grid};
use super::{Outcome, Point, Variant};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::measure::{Measure, part};

/// The numbers n of workers.
pub const WORKERS: [u32; 3] = [16, 50, 250];

/// The work w of a message, in nanoseconds.
pub const WORKS: [u64; 6] = [25_000, 50_000, 100_000, 200_000, 400_000, 800_000];

/// The number m of rounds for which running times are given.
pub const ROUNDS: u32 = 12_500;

/// Returns the data points of the experiment.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &WORKS)
}

/// Computes the measures.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    use Variant::{Cur, Last};
    let of = |variant, workers, work| at(outcomes, variant, workers, work);
    // log₂ of the factor by which the running time grows when w doubles: 1 if the growth is linear.
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

/// Draws running time, speedup and attempts to steal.
pub(super) fn figures(outcomes: &[Outcome], _: &[Claim], _: u32) -> Vec<Named> {
    let x = || Axis::log("work per message, µs");
    let of_few: Vec<Outcome> = outcomes.iter().filter(|outcome| outcome.point.workers == 16).copied().collect();
    let time = |outcome: &Outcome| (outcome.round() * f64::from(ROUNDS) / 1e9).log2();
    let times = Axis::linear("log₂ of the running time of 12500 rounds, s");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        ("figure-5-time", figure("figure 5: running time", x(), times, lines(outcomes, &WORKERS, microseconds, time))),
        (
            "figure-5-speedup",
            figure(
                "figure 5: speedup",
                x(),
                Axis::linear("speedup"),
                lines(outcomes, &WORKERS, microseconds, Outcome::speedup),
            ),
        ),
        (
            "figure-5-steals",
            figure(
                "figure 5: attempts to steal, 16 workers",
                x(),
                rates,
                lines(&of_few, &[], microseconds, Outcome::steal_rate),
            ),
        ),
    ]
}
