//! The waste experiments (§5): waste as a function of δ, and of the parallelism of the job.

use rand_chacha::ChaCha8Rng;

use super::profiles::PROCESSORS;
use super::setting::{Draws, RHO};
use super::single::Single;
use super::{ASteal, Family, Jobs, Outcome, Setting, by_family, estimates};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::fit::{Estimate, mean};
use crate::measure::{Measure, most};

/// The number of jobs for each δ in the paper.
const JOBS: usize = 300;

/// The values of δ, in hundredths.
pub const DELTAS: [u32; 6] = [50, 60, 70, 80, 90, 100];

/// Runs the same jobs for each δ. Returns the outcomes by δ.
pub fn run<R: Runner>(setting: &Setting, runner: &R) -> Result<Vec<(u32, Vec<Outcome>)>, R::Stop> {
    let jobs = setting.runs(JOBS);
    let mut outcomes = runner
        .run("waste", jobs * DELTAS.len(), |nth| {
            let mut random = setting.draws(Draws::Waste, nth % jobs);
            let scheduler = (setting.a_steal)(DELTAS[nth / jobs]);
            draw(setting, nth % jobs, &mut random).run(setting, &scheduler, random)
        })?
        .into_iter();
    Ok(DELTAS.iter().map(|delta| (*delta, outcomes.by_ref().take(jobs).collect())).collect())
}

/// Draws a job. §5 describes jobs "most of which had parallelism T₁/T∞ > 5P̄", on profiles "drawn equally from the
/// three kinds". Here, nine of ten jobs have a parallelism above 5P̄.
fn draw(setting: &Setting, nth: usize, random: &mut ChaCha8Rng) -> Single {
    let (least, most) = setting.jobs.parallelism;
    let five = 5.0f64.clamp(least, most);
    let parallelism = if nth % 30 < 3 { (least, five) } else { (five, most) };
    let jobs = Jobs { parallelism, ..setting.jobs.clone() };
    Single::draw(setting, &jobs, PROCESSORS, Family::ALL[nth % 3], random)
}

/// Returns the mean of waste / T₁ over the jobs.
pub fn mean_waste(outcomes: &[Outcome]) -> Estimate {
    mean(&outcomes.iter().map(Outcome::waste).collect::<Vec<_>>())
}

/// Returns the upper bound of inequality 3 on waste / T₁, for quanta of `length` steps.
pub fn bound(delta: f64, length: f64) -> f64 {
    let rho = f64::from(RHO) / 100.0;
    (1.0 + rho - delta) / delta + (1.0 + rho) * (1.0 + rho) / (delta * (length * delta - 1.0 - rho))
}

/// Returns the upper bound on waste / T₁ in efficient quanta.
pub fn efficient_bound(delta: f64) -> f64 {
    (1.0 - delta) / delta
}

/// Computes the measures of waste by δ from `by_delta`, and of waste by parallelism from `time`, the outcomes of the
/// time experiments. A quantum has `length` steps.
pub fn measures(by_delta: &[(u32, Vec<Outcome>)], time: &[Outcome], length: u64) -> Vec<Measure> {
    let wastes: Vec<f64> = by_delta.iter().map(|(_, outcomes)| mean_waste(outcomes).value).collect();
    let highest = most(wastes.iter().copied());
    let lowest = -most(wastes.iter().map(|waste| -waste));
    let of_bound =
        by_delta.iter().zip(&wastes).map(|((delta, _), waste)| waste / bound(f64::from(*delta) / 100.0, length as f64));
    let mut of_allotted: Vec<f64> =
        time.iter().map(|outcome| outcome.cycles.waste() as f64 / outcome.cycles.total() as f64).collect();
    of_allotted.sort_by(f64::total_cmp);
    let within = |least: f64, most: f64| {
        let own = time.iter().filter(move |outcome| {
            let normalized = outcome.parallelism() / outcome.mean_availability;
            least < normalized && normalized <= most
        });
        mean(&own.map(Outcome::waste).collect::<Vec<_>>())
    };
    let bands = [(0.0, 1.0), (1.0, 3.0), (3.0, 10.0), (10.0, f64::INFINITY)].map(|(least, most)| within(least, most));
    let steps_down = bands.windows(2).filter(|pair| pair[1].value < pair[0].value).count();
    vec![
        Measure::new("deltas-below-a-tenth", wastes.iter().filter(|waste| **waste < 0.1).count() as f64),
        Measure::new("waste-spread-over-deltas", highest - lowest),
        Measure::new("waste-over-bound", most(of_bound)),
        Measure::new("waste-over-allotted-median", of_allotted[of_allotted.len() / 2]),
        Measure::new("waste-parallel", bands[3]),
        Measure::new("waste-highest", most(time.iter().map(Outcome::waste))),
        Measure::new("waste-steps-down", steps_down as f64),
    ]
}

/// Draws waste over δ with its bounds, and waste over the parallelism.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    let ASteal { by_delta, time, .. } = paper;
    let mut figures = Vec::new();
    let part = |delta: u32| f64::from(delta) / 100.0;
    let curve = |name: &str, of: &dyn Fn(f64) -> f64| {
        let points = by_delta.iter().map(|(delta, _)| (part(*delta), of(part(*delta))));
        Series::new(name, Marks::Curve, points.collect())
    };
    let mean = by_delta.iter().map(|(delta, outcomes)| (part(*delta), mean_waste(outcomes)));
    let length = paper.setting.quantum as f64;
    figures.push((
        "figure-4",
        Figure {
            title: "A-STEAL figure 4: waste and its bounds, by δ".into(),
            x: Axis::linear("δ").without_zero(),
            y: Axis::linear("waste / T₁"),
            series: vec![
                estimates("measured, mean", mean),
                curve("bound in efficient quanta", &efficient_bound),
                curve("bound (inequality 3)", &|delta| bound(delta, length)),
            ],
        },
    ));
    let point = |outcome: &Outcome| (outcome.parallelism() / outcome.mean_availability, outcome.waste());
    figures.push((
        "figure-5",
        Figure {
            title: "A-STEAL figure 5: waste and parallelism".into(),
            x: Axis::log("parallelism / mean availability"),
            y: Axis::linear("waste / T₁"),
            series: by_family(time, point),
        },
    ));
    figures
}
