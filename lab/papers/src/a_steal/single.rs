//! Runs one job alone on a machine, with the processors that an availability profile gives to the job.

use serde::{Deserialize, Serialize};

use super::profiles::TYPICAL_QUANTA;
use super::{Family, Jobs, Setting, Shape};
use comity_sim::availability::Profile;
use comity_sim::program::Program;
use comity_sim::quanta::job::Cycles;
use comity_sim::quanta::{ThreadScheduler, run_alone};

/// The outcome of one job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The family of the job's availability profile.
    pub family: Family,
    /// The number P of processors of the machine.
    pub processors: u32,
    /// The work T₁.
    pub work: u64,
    /// The critical path T∞.
    pub critical_path: u64,
    /// The time T, in steps. `None` if the job did not end within 2·T₁ + 100·T∞ steps, rounded up to whole quanta.
    pub time: Option<u64>,
    /// The mean availability P̄ over the time of the job.
    pub mean_availability: f64,
    /// The trimmed availability P̃ over the time of the job, with R = C·(T∞ + L·lg P). [`Setting::trimmed`] is C.
    pub trimmed_availability: f64,
    /// The cycles of the job's processors, by use.
    pub cycles: Cycles,
}

impl Outcome {
    /// Returns the parallelism T₁/T∞.
    pub fn parallelism(&self) -> f64 {
        self.work as f64 / self.critical_path as f64
    }

    /// Returns waste / T₁: the wasted cycles, divided by the cycles of the job's own work.
    pub fn waste(&self) -> f64 {
        self.cycles.waste() as f64 / self.work as f64
    }

    /// Returns the time T. Infinite if the job did not end.
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
    /// Draws a profile of this family on a machine of `processors` processors, and a job for its mean availability.
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

    /// Runs the job. The same `random` gives the same outcome.
    pub fn run(&self, setting: &Setting, scheduler: &ThreadScheduler, random: rand_chacha::ChaCha8Rng) -> Outcome {
        let Single { family, processors, profile, shape } = self;
        let program = shape.program(setting.fork);
        let (work, critical_path) = (program.work(), program.critical_path());
        // ABP needs fewer steps, even with one processor for 512 deques.
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
