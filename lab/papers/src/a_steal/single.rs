//! One job alone on a machine, on what a profile leaves it.

use serde::{Deserialize, Serialize};

use super::profiles::TYPICAL_QUANTA;
use super::{Family, Jobs, Setting, Shape};
use comity_sim::availability::Profile;
use comity_sim::program::Program;
use comity_sim::quanta::job::Cycles;
use comity_sim::quanta::{ThreadScheduler, run_alone};

/// What came of one job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The kind of its availability profile.
    pub family: Family,
    /// P.
    pub processors: u32,
    /// T₁.
    pub work: u64,
    /// T∞.
    pub critical_path: u64,
    /// T; not there: the job had not ended after 2·T₁ + 100·T∞, in whole quanta.
    pub time: Option<u64>,
    /// P̄, over the time of the job.
    pub mean_availability: f64,
    /// P̃, with R = T∞ + L·lg P times what is chosen for `trimmed`.
    pub trimmed_availability: f64,
    /// What its processors did.
    pub cycles: Cycles,
}

impl Outcome {
    /// T₁/T∞.
    pub fn parallelism(&self) -> f64 {
        self.work as f64 / self.critical_path as f64
    }

    /// Cycles wasted, over those that the job needs.
    pub fn waste(&self) -> f64 {
        self.cycles.waste() as f64 / self.work as f64
    }

    /// T, infinite if it did not end.
    pub fn time(&self) -> f64 {
        self.time.map_or(f64::INFINITY, |time| time as f64)
    }
}

/// A job to run alone.
pub(super) struct Single {
    pub family: Family,
    pub processors: u32,
    pub profile: Profile,
    pub shape: Shape,
}

impl Single {
    /// A job for what a profile of this kind leaves it in the mean, on a machine of so many processors.
    pub fn draw(
        setting: &Setting,
        jobs: &Jobs,
        processors: u32,
        family: Family,
        random: &mut rand_chacha::ChaCha8Rng,
    ) -> Single {
        let profile = family.draw(processors, &setting.practical, random);
        let shape = jobs.draw(profile.mean(1, TYPICAL_QUANTA), random);
        Single { family, processors, profile, shape }
    }

    /// Runs it. The same `random` gives the same outcome.
    pub fn run(&self, setting: &Setting, scheduler: &ThreadScheduler, random: rand_chacha::ChaCha8Rng) -> Outcome {
        let Single { family, processors, profile, shape } = self;
        let program = shape.program(setting.fork);
        let (work, critical_path) = (program.work(), program.critical_path());
        // More than ABP needs with one processor for 512 deques.
        let at_most = 2 * work + 100 * critical_path;
        let mut client = scheduler.submit(Box::new(program), *processors, random);
        let mut cycles = Cycles::default();
        let time = run_alone(&mut client, *processors, profile, setting.quantum, at_most, |quantum| {
            cycles += quantum.cycles;
        });
        let steps = time.unwrap_or(at_most);
        let short = critical_path as f64 + setting.quantum as f64 * libm::log2(f64::from(*processors));
        let trimmed = (setting.trimmed * short).round() as u64;
        Outcome {
            family: *family,
            processors: *processors,
            work,
            critical_path,
            time,
            mean_availability: profile.mean(setting.quantum, steps),
            trimmed_availability: profile.trimmed_mean(setting.quantum, steps, trimmed),
            cycles,
        }
    }
}
