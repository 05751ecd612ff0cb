//! The number of processors that a job may have in each quantum: the profiles of A-STEAL §3, and the trimmed
//! availability of §1.

use std::sync::Arc;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

/// The numbers of processors that a job scheduler offers to one job, quantum by quantum. The profile repeats after
/// its last quantum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    availabilities: Arc<[u32]>,
    /// The quantum at which the profile begins.
    first: u64,
    /// An upper limit for every availability.
    most: u32,
}

impl Profile {
    /// Creates a profile of these availabilities, one for each quantum.
    ///
    /// # Panics
    /// Panics if there are no quanta, or if no processor is ever available: such a job would never end.
    pub fn new(availabilities: Vec<u32>) -> Profile {
        assert!(
            availabilities.iter().any(|available| *available > 0),
            "the job never ends, because it never has a processor"
        );
        Profile { availabilities: availabilities.into(), first: 0, most: u32::MAX }
    }

    /// Creates a profile with the same number of processors in all quanta.
    ///
    /// # Panics
    /// Panics if `processors` is zero.
    pub fn constant(processors: u32) -> Profile {
        Profile::new(vec![processors])
    }

    /// Creates a near-adversarial profile. The availability of each quantum is drawn uniformly from 1 to
    /// `processors`, independent of the quantum before.
    ///
    /// # Panics
    /// Panics if there are no quanta or no processors.
    pub fn uniform(processors: u32, quanta: usize, random: &mut impl Rng) -> Profile {
        Profile::new((0..quanta).map(|_| random.random_range(1..=processors)).collect())
    }

    /// Creates a smooth profile. The change from one quantum to the next follows a standard normal distribution, and
    /// the availability stays between 1 and `processors`. The paper does not state the first availability, so it is
    /// drawn uniformly from this range.
    ///
    /// # Panics
    /// Panics if there are no quanta or no processors.
    pub fn smooth(processors: u32, quanta: usize, random: &mut impl Rng) -> Profile {
        let mut available = f64::from(random.random_range(1..=processors));
        let next = |_| {
            let now = available.round() as u32;
            let change: f64 = StandardNormal.sample(random);
            available = (available + change).clamp(1.0, processors.into());
            now
        };
        Profile::new((0..quanta).map(next).collect())
    }

    /// Returns the profile that begins with quantum `quantum` of this profile. Quanta are counted from 0.
    pub fn from(&self, quantum: u64) -> Profile {
        Profile { first: self.first + quantum, ..self.clone() }
    }

    /// Returns the profile in which no availability is above `processors`.
    ///
    /// # Panics
    /// Panics if `processors` is zero.
    pub fn chopped(&self, processors: u32) -> Profile {
        assert!(processors > 0, "the job never ends, because it never has a processor");
        Profile { most: self.most.min(processors), ..self.clone() }
    }

    /// The number of quanta after which the profile repeats.
    pub fn quanta(&self) -> u64 {
        self.availabilities.len() as u64
    }

    /// Returns p_q, for quanta counted from 0.
    pub fn in_quantum(&self, quantum: u64) -> u32 {
        self.most.min(self.availabilities[((self.first + quantum) % self.quanta()) as usize])
    }

    /// Returns P̄, the mean availability of the first `steps` time steps. A quantum has `length` steps.
    pub fn mean(&self, length: u64, steps: u64) -> f64 {
        self.trimmed_mean(length, steps, 0)
    }

    /// Returns the R-high-trimmed mean availability of the first `steps` time steps (§1). It is "the value obtained
    /// by removing the R time steps with the highest availability and taking the arithmetic average of the
    /// remaining". If no step remains, the result is the lowest availability.
    pub fn trimmed_mean(&self, length: u64, steps: u64, trimmed: u64) -> f64 {
        let quanta = steps.div_ceil(length);
        let steps_of = |quantum: u64| length.min(steps - quantum * length);
        let mut parts: Vec<(u32, u64)> =
            (0..quanta).map(|quantum| (self.in_quantum(quantum), steps_of(quantum))).collect();
        parts.sort_unstable();
        let lowest = parts.first().map_or(0.0, |(available, _)| f64::from(*available));
        let kept = steps.saturating_sub(trimmed);
        let (mut left, mut sum) = (kept, 0.0);
        for (available, steps) in parts {
            let taken = steps.min(left);
            sum += f64::from(available) * taken as f64;
            left -= taken;
        }
        if kept == 0 { lowest } else { sum / kept as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn trimming_removes_the_steps_with_the_highest_availability() {
        let profile = Profile::new(vec![8, 2, 4]);
        // 25 steps in quanta of 10: 10 steps with 8 processors, 10 with 2, 5 with 4.
        assert_eq!(profile.mean(10, 25), (80.0 + 20.0 + 20.0) / 25.0);
        assert_eq!(profile.trimmed_mean(10, 25, 10), (20.0 + 20.0) / 15.0);
        assert_eq!(profile.trimmed_mean(10, 25, 12), (20.0 + 12.0) / 13.0);
        assert_eq!(profile.trimmed_mean(10, 25, 25), 2.0);
        assert_eq!(profile.trimmed_mean(10, 25, 1_000), 2.0);
    }

    #[test]
    fn it_starts_again_after_the_last() {
        let profile = Profile::new(vec![1, 2, 3]);
        let seen: Vec<u32> = (0..5).map(|quantum| profile.from(2).in_quantum(quantum)).collect();
        assert_eq!(seen, [3, 1, 2, 3, 1]);
        assert_eq!(profile.chopped(2).from(1).in_quantum(1), 2);
    }

    #[test]
    fn smooth_profiles_are_smooth_and_uniform_ones_are_not() {
        let roughness = |profile: Profile| {
            let at = |quantum| f64::from(profile.in_quantum(quantum));
            (1..1_000).map(|quantum| (at(quantum) - at(quantum - 1)).abs()).sum::<f64>() / 999.0
        };
        let smooth = roughness(Profile::smooth(512, 1_000, &mut stream(1, 0)));
        let uniform = roughness(Profile::uniform(512, 1_000, &mut stream(1, 0)));
        // E|N(0, 1)| = 0.80, a little more by rounding; E|U − U'| = 512/3.
        assert!((0.7..1.1).contains(&smooth), "{smooth}");
        assert!((150.0..190.0).contains(&uniform), "{uniform}");
    }
}
