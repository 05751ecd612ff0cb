//! The waste experiments (§5): how waste depends on δ, and on the parallelism of the job.

use rand_chacha::ChaCha8Rng;

use super::profiles::TYPICAL_QUANTA;
use super::single::Single;
use super::{Draws, Family, Jobs, Outcome, PROCESSORS, RHO, Setting};
use crate::experiments::Runner;
use crate::experiments::claim::Claim;
use crate::experiments::fit::{Estimate, mean};

/// As many as in the paper, for each δ.
const JOBS: usize = 300;

/// In hundredths.
pub const DELTAS: [u32; 6] = [50, 60, 70, 80, 90, 100];

/// Runs the same jobs for each δ; the outcomes by δ.
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

/// "Most of which had parallelism T₁/T∞ > 5P̄", on profiles "drawn equally from the three kinds" (§5): here nine of ten.
fn draw(setting: &Setting, nth: usize, random: &mut ChaCha8Rng) -> Single {
    let family = Family::ALL[nth % 3];
    let profile = family.draw(PROCESSORS, &setting.practical, random);
    let (least, most) = setting.jobs.parallelism;
    let five = 5.0f64.clamp(least, most);
    let parallelism = if nth % 30 < 3 { (least, five) } else { (five, most) };
    let jobs = Jobs { parallelism, ..setting.jobs.clone() };
    let shape = jobs.draw(profile.mean(1, TYPICAL_QUANTA), random);
    Single { family, processors: PROCESSORS, profile, shape }
}

/// The mean of waste over work.
pub fn mean_waste(outcomes: &[Outcome]) -> Estimate {
    mean(&outcomes.iter().map(Outcome::waste).collect::<Vec<_>>())
}

/// The bound of inequality 3 on the waste over work, for quanta of `length`.
pub fn bound(delta: f64, length: f64) -> f64 {
    let rho = f64::from(RHO) / 100.0;
    (1.0 + rho - delta) / delta + (1.0 + rho) * (1.0 + rho) / (delta * (length * delta - 1.0 - rho))
}

/// The bound on the waste over work in efficient quanta.
pub fn efficient_bound(delta: f64) -> f64 {
    (1.0 - delta) / delta
}

/// What the paper says of both experiments; `time` are the outcomes of the time experiments.
pub fn claims(by_delta: &[(u32, Vec<Outcome>)], time: &[Outcome]) -> Vec<Claim> {
    let wastes: Vec<f64> = by_delta.iter().map(|(_, outcomes)| mean_waste(outcomes).value).collect();
    let below = wastes.iter().filter(|waste| **waste < 0.1).count();
    let highest = wastes.iter().copied().fold(0.0, f64::max);
    let mut all: Vec<f64> = time.iter().map(Outcome::waste).collect();
    all.sort_by(f64::total_cmp);
    let typical = all[all.len() / 2];
    let parallel = time.iter().filter(|outcome| outcome.parallelism() > 10.0 * outcome.mean_availability);
    let parallel = mean(&parallel.map(Outcome::waste).collect::<Vec<_>>());
    const TOLD: &str = "as the paper tells it";
    vec![
        Claim::new("values of δ, of 6, with mean waste under 10 % of the work", "most", below as f64, 4.0..=6.0, TOLD),
        Claim::new(
            "highest mean waste over work, at any δ",
            "hardly to be told from 0",
            highest,
            0.0..=0.15,
            "the paper's figure goes to 5",
        ),
        Claim::new("median waste over work of the 2331 jobs", "typically under 20 %", typical, 0.0..=0.2, TOLD),
        Claim::new(
            "mean waste over work where T₁/T∞ > 10·P̄",
            "a tiny fraction",
            parallel,
            0.0..=0.1,
            "under 10 %, as above",
        ),
        Claim::new("highest waste over work of any job", "never above 1", all[all.len() - 1], 0.0..=1.0, TOLD),
    ]
}
