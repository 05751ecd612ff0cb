//! The time experiments (§4): 2331 jobs, and which constants the bounds have in practice.

use comity_console::Failure;
use rand_chacha::ChaCha8Rng;

use super::profiles::TYPICAL_QUANTA;
use super::setting::{DELTA, Draws, PROCESSORS};
use super::single::Single;
use super::{ASteal, Family, Outcome, Setting};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::fit::{Fit, mean, minimising_relative_error};
use crate::measure::Measure;
use crate::paper::Named;

/// As many as in the paper.
const RUNS: usize = 2_331;

/// Runs all jobs, and measures them.
pub(super) fn run_and_measure<R: Runner>(paper: &mut ASteal, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    Ok(paper.time(runner)?.map(measures))
}

/// Runs all jobs.
pub fn run<R: Runner>(setting: &Setting, runner: &R) -> Result<Vec<Outcome>, R::Stop> {
    let scheduler = (setting.a_steal)(DELTA);
    runner.run("time", setting.runs(RUNS), |nth| {
        let mut random = setting.draws(Draws::Time, nth);
        draw(setting, nth, &mut random).run(setting, &scheduler, random)
    })
}

/// One of the three kinds of profiles in turn.
fn draw(setting: &Setting, nth: usize, random: &mut ChaCha8Rng) -> Single {
    let family = Family::ALL[nth % 3];
    let profile = family.draw(PROCESSORS, &setting.practical, random);
    let shape = setting.jobs.draw(profile.mean(1, TYPICAL_QUANTA), random);
    Single { family, processors: PROCESSORS, profile, shape }
}

/// Both models.
pub struct Fits {
    /// T ≈ c₁·T₁/P̃ + c∞·T∞ (equation 4).
    pub trimmed: Fit,
    /// T ≈ ĉ₁·T₁/P̄ + ĉ∞·T∞ (equation 5).
    pub mean: Fit,
}

/// Fits both to the jobs that ended.
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

/// Measures the jobs.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let Fits { trimmed, mean: of_mean } = fit(outcomes);
    // No schedule is shorter.
    let optimal =
        |outcome: &Outcome| (outcome.work as f64 / outcome.mean_availability).max(outcome.critical_path as f64);
    let over_optimal: Vec<f64> = outcomes.iter().map(|outcome| outcome.time() / optimal(outcome)).collect();
    let normalized = |outcome: &Outcome| outcome.parallelism() / outcome.mean_availability;
    let left = by_family(outcomes, |outcome| normalized(outcome) > 5.0);
    let right = by_family(outcomes, |outcome| normalized(outcome) < 1.0);
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

/// The mean of P̃/P̄ over the jobs for which it is so, of each kind of profile. P̃ is never above P̄.
fn by_family(outcomes: &[Outcome], is_so: impl Fn(&Outcome) -> bool) -> Vec<f64> {
    let of = |family: Family| {
        let own = outcomes.iter().filter(|outcome| outcome.family == family && is_so(outcome));
        mean(&own.map(|outcome| outcome.trimmed_availability / outcome.mean_availability).collect::<Vec<_>>()).value
    };
    Family::ALL.map(of).into()
}

/// Both availabilities of the jobs, and the fit.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    let Some(outcomes) = &paper.time else { return Vec::new() };
    let mut figures = Vec::new();
    let by_family = |point: fn(&Outcome) -> (f64, f64)| {
        let own = |family: Family| outcomes.iter().filter(move |outcome| outcome.family == family);
        Family::ALL.map(|family| Series::new(family.name(), Marks::Points, own(family).map(point).collect()))
    };
    let mut series = Vec::from(by_family(|outcome| {
        let parallelism = outcome.parallelism();
        (outcome.mean_availability / parallelism, outcome.trimmed_availability / parallelism)
    }));
    let ends = series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let (least, most) = ends.fold((f64::INFINITY, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
    series.push(Series::new("both the same", Marks::Curve, vec![(least, least), (most, most)]));
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
    let own = |family: Family| outcomes.iter().filter(move |outcome| outcome.family == family);
    let series = Family::ALL.map(|family| Series::new(family.name(), Marks::Points, own(family).map(point).collect()));
    figures.push((
        "time-fit",
        Figure {
            title: "A-STEAL §4: time over the fit of equation 4".into(),
            x: Axis::log("parallelism / mean availability"),
            y: Axis::linear("measured / fitted"),
            series: series.into(),
        },
    ));
    figures
}
