//! The time experiments (§4): 2331 jobs, and the measured constants of the paper's bounds on time.

use super::profiles::PROCESSORS;
use super::setting::{DELTA, Draws};
use super::single::Single;
use super::{ASteal, Family, Outcome, Setting, by_family};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::fit::{Fit, mean, minimising_relative_error};
use crate::measure::Measure;

/// The number of jobs in the paper.
const RUNS: usize = 2_331;

/// Runs all jobs.
pub fn run<R: Runner>(setting: &Setting, runner: &R) -> Result<Vec<Outcome>, R::Stop> {
    let scheduler = (setting.a_steal)(DELTA);
    runner.run("time", setting.runs(RUNS), |nth| {
        let mut random = setting.draws(Draws::Time, nth);
        // The jobs use the three families of profiles alternately.
        let single = Single::draw(setting, &setting.jobs, PROCESSORS, Family::ALL[nth % 3], &mut random);
        single.run(setting, &scheduler, random)
    })
}

/// The fits of the paper's two models.
pub struct Fits {
    /// The model T ≈ c₁·T₁/P̃ + c∞·T∞ (equation 4).
    pub trimmed: Fit,
    /// The model T ≈ ĉ₁·T₁/P̄ + ĉ∞·T∞ (equation 5).
    pub mean: Fit,
}

/// Fits both models to the jobs that ended.
pub fn fit(outcomes: &[Outcome]) -> Fits {
    let to = |availability: fn(&Outcome) -> f64| {
        let point = |outcome: &Outcome| {
            let work = outcome.work as f64 / availability(outcome);
            (work, outcome.critical_path as f64, outcome.time())
        };
        let ended = outcomes.iter().filter(|outcome| outcome.time.is_some());
        minimising_relative_error(&ended.map(point).collect::<Vec<_>>())
    };
    Fits { trimmed: to(|outcome| outcome.trimmed_availability), mean: to(|outcome| outcome.mean_availability) }
}

/// Computes the measures of the jobs.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let Fits { trimmed, mean: of_mean } = fit(outcomes);
    // The lower bound on the length of any schedule.
    let optimal =
        |outcome: &Outcome| (outcome.work as f64 / outcome.mean_availability).max(outcome.critical_path as f64);
    let over_optimal: Vec<f64> = outcomes.iter().map(|outcome| outcome.time() / optimal(outcome)).collect();
    let normalized = |outcome: &Outcome| outcome.parallelism() / outcome.mean_availability;
    let left = trimmed_over_mean(outcomes, |outcome| normalized(outcome) > 5.0);
    let right = trimmed_over_mean(outcomes, |outcome| normalized(outcome) < 1.0);
    let farthest = |ratios: &[f64]| ratios.iter().copied().min_by(|a, b| a.total_cmp(b)).unwrap_or(f64::NAN);
    let most = right.iter().copied().max_by(|a, b| a.total_cmp(b)).unwrap_or(f64::NAN);
    vec![
        Measure::new("c1", trimmed.c1),
        Measure::new("c-infinity", trimmed.c_infinity),
        Measure::new("r2", trimmed.r_squared),
        Measure::new("c1-mean", of_mean.c1),
        Measure::new("c-infinity-mean", of_mean.c_infinity),
        Measure::new("r2-mean", of_mean.r_squared),
        Measure::new("time-over-optimal", mean(&over_optimal)),
        Measure::new("trimmed-over-mean-left", farthest(&left)),
        Measure::new("trimmed-over-mean-right", farthest(&right)),
        Measure::new("trimmed-spread-right", most - farthest(&right)),
    ]
}

/// Returns, for each family of profiles, the mean of P̃/P̄ over the jobs for which `is_so` is true. P̃ is never above
/// P̄.
fn trimmed_over_mean(outcomes: &[Outcome], is_so: impl Fn(&Outcome) -> bool) -> Vec<f64> {
    let of = |family: Family| {
        let own = outcomes.iter().filter(|outcome| outcome.family == family && is_so(outcome));
        mean(&own.map(|outcome| outcome.trimmed_availability / outcome.mean_availability).collect::<Vec<_>>()).value
    };
    Family::ALL.map(of).into()
}

/// Draws the trimmed availability over the mean availability, and the measured time over the fit.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    let outcomes = &paper.time;
    let mut figures = Vec::new();
    let mut series = by_family(outcomes, |outcome| {
        let parallelism = outcome.parallelism();
        (outcome.mean_availability / parallelism, outcome.trimmed_availability / parallelism)
    });
    let ends = series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let (least, most) = ends.fold((f64::INFINITY, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
    series.push(Series::new("equal availabilities", Marks::Curve, vec![(least, least), (most, most)]));
    figures.push((
        "figure-3",
        Figure {
            title: "A-STEAL figure 3: mean and trimmed availability".into(),
            x: Axis::log("mean availability / parallelism"),
            y: Axis::log("trimmed availability / parallelism"),
            series,
        },
    ));
    let fits = fit(outcomes);
    let predicted = |outcome: &Outcome| {
        let work = outcome.work as f64 / outcome.trimmed_availability;
        fits.trimmed.predict(work, outcome.critical_path as f64)
    };
    let point =
        |outcome: &Outcome| (outcome.parallelism() / outcome.mean_availability, outcome.time() / predicted(outcome));
    figures.push((
        "time-fit",
        Figure {
            title: "A-STEAL §4: time / fit of equation 4".into(),
            x: Axis::log("parallelism / mean availability"),
            y: Axis::linear("measured / fitted"),
            series: by_family(outcomes, point),
        },
    ));
    figures
}
