//! Experiment 1: speedup over the division of work (figure 3).

use super::drawing::{beside, division, figure, lines};
use super::setting::{at, grid};
use super::{Outcome, Point, T, Variant};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::fit::mean;
use crate::measure::{Measure, part};

/// The numbers n of workers.
pub const WORKERS: [u32; 5] = [50, 250, 500, 750, 1000];

/// The divisions d of the work.
pub const DIVISIONS: [u64; 12] =
    [100, 1_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 100_000];

/// Returns the data points of the experiment.
pub fn points() -> Vec<Point> {
    grid(&WORKERS, &DIVISIONS.map(|division| T / division))
}

/// Returns the divisions at which speedup degrades: d ≥ 10⁴.
fn fine() -> impl Iterator<Item = u64> + Clone {
    DIVISIONS.into_iter().filter(|division| *division >= 10_000)
}

/// The speedup measures of figure 3 that have a number in the paper, under both algorithms, each with its d.
const SPEEDUPS: [[(&str, u64); 2]; 2] =
    [[("cur-1000", 1_000), ("cur-100", 10_000)], [("last-1000", 1_000), ("last-100", 10_000)]];

/// The measures of the attempts to steal under both algorithms, at d = 10⁴.
const RATES: [&str; 2] = ["cur-rate", "last-rate"];

/// Computes the measures.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    use Variant::{Cur, Last};
    let of = |variant, workers, division| at(outcomes, variant, workers, T / division);
    let speedup = |variant, workers, division| of(variant, workers, division).speedup();
    // The unit is 10⁵ attempts per second. The paper does not give n for its rates, so n is 50 here.
    let rate = |variant| of(variant, 50, 10_000).steal_rate() / 1e5;
    let fits = |variant| {
        let points: Vec<(f64, f64)> =
            fine().map(|division| (division as f64, speedup(variant, 50, division))).collect();
        Decay { line: line_r2(&points, |y| y, |y| y), exponential: line_r2(&points, libm::log, libm::exp) }
    };
    let (cur, last) = (fits(Cur), fits(Last));
    let everywhere = WORKERS.into_iter().flat_map(|workers| fine().map(move |division| (workers, division)));
    let lines = || Variant::ALL.into_iter().flat_map(|variant| DIVISIONS.map(|division| (variant, division)));
    let gain = |(variant, division), from, to| speedup(variant, to, division) - speedup(variant, from, division);
    let steps = lines().flat_map(|line| WORKERS.windows(2).map(move |pair| (line, pair[0], pair[1])));
    let largest_first = |line| {
        let mut gains = WORKERS.windows(2).map(|pair| gain(line, pair[0], pair[1]));
        let first = gains.next().expect("there are steps");
        gains.all(|gain| gain < first)
    };
    let toward_1000: Vec<f64> = lines().map(|line| gain(line, 250, 1_000) / gain(line, 50, 250)).collect();
    let calm = outcomes.iter().filter(|outcome| outcome.steal_rate() < 1e5);
    let pairs: Vec<(f64, f64)> = outcomes.iter().map(|outcome| (outcome.steal_rate(), outcome.speedup())).collect();
    let drawn = Variant::ALL
        .into_iter()
        .zip(SPEEDUPS)
        .flat_map(|(variant, own)| own.map(|(name, division)| Measure::new(name, speedup(variant, 50, division))));
    let mut measures: Vec<Measure> = drawn.collect();
    measures.extend(Variant::ALL.into_iter().zip(RATES).map(|(variant, name)| Measure::new(name, rate(variant))));
    measures.extend([
        Measure::new("cur-10", speedup(Cur, 50, 100_000)),
        Measure::new("last-10", speedup(Last, 50, 100_000)),
        Measure::new("last-above-cur", part(everywhere, |(n, d)| speedup(Last, n, d) > speedup(Cur, n, d))),
        Measure::new("last-linear-over-exponential", last.line - last.exponential),
        Measure::new("last-line-r2", last.line),
        Measure::new("cur-exponential-over-linear", cur.exponential - cur.line),
        Measure::new("rate-ratio", rate(Cur) / rate(Last)),
        Measure::new("more-workers", part(steps, |(line, from, to)| gain(line, from, to) > 0.0)),
        Measure::new("first-step-largest", part(lines(), largest_first)),
        Measure::new("gain-toward-1000", mean(&toward_1000).value),
        Measure::new("few-steals-good-speedup", part(calm, |outcome| outcome.speedup() >= 7.0)),
        Measure::new("rate-against-speedup", correlation(&pairs)),
    ]);
    measures
}

/// The quality with which each of two shapes describes speedup over d, as R² of the speedups.
struct Decay {
    line: f64,
    exponential: f64,
}

/// Fits a least-squares line to the points (x, bent(y)), and returns R² of the predictions of y. `unbent` is the
/// inverse of `bent`.
fn line_r2(points: &[(f64, f64)], bent: fn(f64) -> f64, unbent: fn(f64) -> f64) -> f64 {
    let count = points.len() as f64;
    let average = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (average(&|point| point.0), average(&|point| bent(point.1)));
    let slope = average(&|point| (point.0 - x) * (bent(point.1) - y)) / average(&|point| (point.0 - x) * (point.0 - x));
    let told = |at: f64| unbent(y + slope * (at - x));
    let level = average(&|point| point.1);
    let square = |error: f64| error * error;
    1.0 - average(&|point| square(point.1 - told(point.0))) / average(&|point| square(point.1 - level))
}

/// Returns Pearson's correlation coefficient.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let average = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (average(&|pair| pair.0), average(&|pair| pair.1));
    let covariance = average(&|pair| (pair.0 - x) * (pair.1 - y));
    let variance = |of: &dyn Fn(&(f64, f64)) -> f64| average(&|pair| of(pair) * of(pair));
    covariance / (variance(&|pair| pair.0 - x) * variance(&|pair| pair.1 - y)).sqrt()
}

/// Draws speedup and attempts to steal.
pub(super) fn figures(outcomes: &[Outcome], claims: &[Claim], cpus: u32) -> Vec<Named> {
    // The axis is logarithmic, because the divisions range from 100 to 100,000.
    let x = || Axis::log("work division, d");
    let series = |y: fn(&Outcome) -> f64| lines(outcomes, &[50, 250], division, y);
    let mut speedups = series(Outcome::speedup);
    let [cur, last] = SPEEDUPS.map(|own| own.map(|(name, division)| (name, division as f64)));
    let points: [(&str, &[(&str, f64)]); 2] = [("WS-CUR, 50 workers", &cur), ("WS-LAST, 50 workers", &last)];
    beside(&mut speedups, claims, &points, 1.0, "");
    let mut steals = series(Outcome::steal_rate);
    let [cur, last] = RATES.map(|name| [(name, 1e4)]);
    let points: [(&str, &[(&str, f64)]); 2] = [("WS-CUR, 50 workers", &cur), ("WS-LAST, 50 workers", &last)];
    beside(&mut steals, claims, &points, 1e5, ", which does not say n");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        (
            "figure-3",
            figure(&format!("figure 3: speedup of {cpus} over 1 CPUs"), x(), Axis::linear("speedup"), speedups),
        ),
        ("figure-3-steals", figure("experiment 1: attempts to steal", x(), rates, steals)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_an_exponential_are_told_apart() {
        let points = |of: fn(f64) -> f64| (1..11).map(|x| (f64::from(x), of(f64::from(x)))).collect::<Vec<_>>();
        let (line, exponential) = (points(|x| 9.0 - 0.5 * x), points(|x| 7.0 * libm::exp(-0.3 * x)));
        let r2 = |points: &[(f64, f64)]| (line_r2(points, |y| y, |y| y), line_r2(points, libm::log, libm::exp));
        assert!(r2(&line).0 > 0.9999 && r2(&line).1 < 0.99, "{:?}", r2(&line));
        assert!(r2(&exponential).1 > 0.9999 && r2(&exponential).0 < 0.95, "{:?}", r2(&exponential));
        assert!(correlation(&line) < -0.9999);
    }
}
