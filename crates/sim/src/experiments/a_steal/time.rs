//! The time experiments (§4): 2331 jobs, and which constants the bounds have in practice.

use rand_chacha::ChaCha8Rng;

use super::profiles::TYPICAL_QUANTA;
use super::single::Single;
use super::{DELTA, Draws, Family, Outcome, PROCESSORS, Setting};
use crate::experiments::Runner;
use crate::experiments::claim::Claim;
use crate::experiments::fit::{Fit, minimising_relative_error};

/// As many as in the paper.
const RUNS: usize = 2_331;

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

/// What the paper says of them.
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let Fits { trimmed, mean } = fit(outcomes);
    let ended = outcomes.iter().filter(|outcome| outcome.time.is_some()).count();
    const MIX: &str = "by about as much a small change of what is unsaid moves it (docs/papers/a-steal.md); without mugging, \
                       or with desires that come late, it is far off";
    const FIT: &str = "a mean relative error of 14 %, and the paper's of 8 %";
    vec![
        Claim::new("part of the jobs that ended", "all", ended as f64 / outcomes.len() as f64, 1.0..=1.0, "all"),
        Claim::new("c₁: work overhead, over P̃", "0.960 ± 0.003", trimmed.c1, 0.91..=1.01, MIX),
        Claim::new("c∞: critical-path overhead", "0.812 ± 0.009", trimmed.c_infinity, 0.7..=0.95, MIX),
        Claim::new("R² of that fit", "99.4 %", trimmed.r_squared, 0.98..=1.0, FIT),
        Claim::new("ĉ₁: work overhead, over P̄", "0.992 ± 0.003", mean.c1, 0.94..=1.04, MIX),
        Claim::new("ĉ∞: critical-path overhead", "0.911 ± 0.008", mean.c_infinity, 0.8..=1.05, MIX),
        Claim::new("R² of that fit", "99.4 %", mean.r_squared, 0.98..=1.0, FIT),
    ]
}
