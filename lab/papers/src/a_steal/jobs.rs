//! Jobs with the parallelism profile of A-STEAL figure 2.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use comity_sim::program::{Fork, ForkJoin};

/// A job of figure 2, described by the parameters that the experiments vary.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// The length w₁ of a serial phase, in steps.
    pub serial: u64,
    /// The length w₂ of a parallel phase, in steps.
    pub parallel: u64,
    /// The number h of strands of a parallel phase.
    pub width: u32,
    /// The number of repetitions of the serial and the parallel phase.
    pub iterations: u32,
}

/// A range, from least to most.
pub type Range = (f64, f64);

/// The distribution of the jobs' parameters. The paper varies the jobs, but does not give the distribution.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// The critical path T∞, log-uniform: "on the order of only a few thousand time steps" (§3).
    pub critical_path: Range,
    /// The parallelism T₁/T∞ / the mean availability of the profile, log-uniform.
    pub parallelism: Range,
    /// The serial part of the critical path, w₁/(w₁ + w₂).
    pub serial: Range,
    /// The number of repetitions of the serial and the parallel phase.
    pub iterations: (u32, u32),
}

impl Jobs {
    /// Jobs with few phases. After each change of phase, the number of processors that A-STEAL requests needs some
    /// quanta to adapt, and the time T grows by these quanta. The paper's bounds have no term for these quanta, so T
    /// would not fit the bounds with many phases.
    pub const FEW_PHASES: Jobs =
        Jobs { critical_path: (4_000.0, 10_000.0), parallelism: (0.3, 50.0), serial: (0.0, 0.1), iterations: (1, 2) };

    /// Jobs with many phases.
    pub const MANY_PHASES: Jobs = Jobs { iterations: (20, 40), ..Jobs::FEW_PHASES };

    /// Draws a job for a machine with this mean availability.
    pub fn draw(&self, mean_availability: f64, random: &mut impl Rng) -> Shape {
        let parallelism = mean_availability * log_uniform(self.parallelism, random);
        self.with(log_uniform(self.critical_path, random), parallelism, random)
    }

    /// Draws a job with about this critical path and average parallelism.
    pub fn with(&self, critical_path: f64, parallelism: f64, random: &mut impl Rng) -> Shape {
        let iterations = random.random_range(self.iterations.0..=self.iterations.1);
        let serial = random.random_range(self.serial.0..=self.serial.1);
        // Solves the average parallelism (w₁ + h·w₂)/(w₁ + w₂) for h, rounded to a whole number.
        let width = ((parallelism - serial) / (1.0 - serial)).round().max(1.0);
        let iteration = critical_path / f64::from(iterations);
        let phase = |part: f64| (part * iteration).round().max(1.0) as u64;
        Shape { serial: phase(serial), parallel: phase(1.0 - serial), width: width as u32, iterations }
    }
}

impl Shape {
    /// Returns the program of the job.
    pub fn program(&self, fork: Fork) -> ForkJoin {
        ForkJoin::new(self.serial, self.parallel, self.width, self.iterations, fork)
    }
}

/// Draws a number so that each order of magnitude of the range is equally likely.
fn log_uniform((from, to): Range, random: &mut impl Rng) -> f64 {
    from * libm::pow(to / from, random.random())
}
