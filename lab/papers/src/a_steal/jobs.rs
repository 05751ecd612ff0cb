//! Jobs with the parallelism profile of A-STEAL figure 2.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use comity_sim::program::{Fork, ForkJoin};

/// A job of figure 2, by what the experiments vary.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// w₁: the length of a serial phase.
    pub serial: u64,
    /// w₂: the length of a parallel phase.
    pub parallel: u64,
    /// h: the strands of a parallel phase.
    pub width: u32,
    /// How often both follow each other.
    pub iterations: u32,
}

/// From the least to the most.
pub type Range = (f64, f64);

/// Which jobs are drawn: what the paper varies and does not say.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// T∞, each order of magnitude as likely: "on the order of only a few thousand time steps" (§3).
    pub critical_path: Range,
    /// T₁/T∞ over the mean of the profile, each order of magnitude as likely.
    pub parallelism: Range,
    /// The serial part of the critical path: w₁/(w₁ + w₂).
    pub serial: Range,
    /// How often the two phases follow each other.
    pub iterations: (u32, u32),
}

impl Jobs {
    /// Jobs that change little: with many changes T grows by the quanta in which desire follows, and no longer fits
    /// a bound without them.
    pub const FEW_PHASES: Jobs =
        Jobs { critical_path: (4_000.0, 10_000.0), parallelism: (0.3, 50.0), serial: (0.0, 0.1), iterations: (1, 2) };

    /// Jobs with more frequent changes.
    pub const MANY_PHASES: Jobs = Jobs { iterations: (20, 40), ..Jobs::FEW_PHASES };

    /// A job for a machine of which so much is available in the mean.
    pub fn draw(&self, mean_availability: f64, random: &mut impl Rng) -> Shape {
        let parallelism = mean_availability * log_uniform(self.parallelism, random);
        self.with(log_uniform(self.critical_path, random), parallelism, random)
    }

    /// A job of about this critical path and average parallelism.
    pub fn with(&self, critical_path: f64, parallelism: f64, random: &mut impl Rng) -> Shape {
        let iterations = random.random_range(self.iterations.0..=self.iterations.1);
        let serial = random.random_range(self.serial.0..=self.serial.1);
        // (w₁ + h·w₂)/(w₁ + w₂), with h whole.
        let width = ((parallelism - serial) / (1.0 - serial)).round().max(1.0);
        let iteration = critical_path / f64::from(iterations);
        let phase = |part: f64| (part * iteration).round().max(1.0) as u64;
        Shape { serial: phase(serial), parallel: phase(1.0 - serial), width: width as u32, iterations }
    }
}

impl Shape {
    /// The program.
    pub fn program(&self, fork: Fork) -> ForkJoin {
        ForkJoin::new(self.serial, self.parallel, self.width, self.iterations, fork)
    }
}

/// Drawn so that each order of magnitude between both is as likely.
fn log_uniform((from, to): Range, random: &mut impl Rng) -> f64 {
    from * libm::pow(to / from, random.random())
}
