//! The availability profiles of A-STEAL §3: the number of processors that a job may have in each quantum.

use std::iter;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use comity_sim::availability::Profile;
use comity_sim::random::stream;
use comity_sim::workload::{Rigid, availability, first_come_first_served, lublin};

/// The number of processors of the machine of the time and waste experiments, which the paper does not give. It is
/// also the number of processors of the smaller machine of §6.
pub(super) const PROCESSORS: u32 = 128;

/// The three families of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// The availability of each quantum is independent of the previous quantum.
    Uniform,
    /// The availability changes from quantum to quantum by a step of a standard normal distribution.
    Smooth,
    /// The availability is the number of processors that the jobs of a log or a workload model left free.
    Practical,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 3] = [Family::Uniform, Family::Smooth, Family::Practical];

    /// Returns the name in the paper's legends.
    pub fn name(self) -> &'static str {
        match self {
            Family::Uniform => "uniform",
            Family::Smooth => "smooth",
            Family::Practical => "practical",
        }
    }

    /// Draws a profile of this family on a machine of `processors`. For practical profiles, `processors` is at least
    /// [`PROCESSORS`].
    pub(super) fn draw(self, processors: u32, practical: &Practical, random: &mut impl Rng) -> Profile {
        match self {
            Family::Uniform => Profile::uniform(processors, QUANTA, random),
            Family::Smooth => Profile::smooth(processors, QUANTA, random),
            Family::Practical => {
                let profile = practical.profile.chopped(processors);
                let mut drawn = || profile.from(random.random_range(0..profile.quanta()));
                let has_room = |profile: &Profile| profile.mean(1, TYPICAL_QUANTA) >= ROOM as f64;
                iter::repeat_with(&mut drawn).find(has_room).expect("it has room at times")
            }
        }
    }
}

/// The approximate number of quanta that a job takes. A job is drawn by the mean availability over this many quanta.
pub(super) const TYPICAL_QUANTA: u64 = 50;

/// The number of quanta of a drawn profile. The few jobs that take longer see the profile again from its start.
const QUANTA: usize = 2_000;

/// The processors that the jobs on a machine left free in each quantum.
#[derive(Clone, Debug)]
pub struct Practical {
    profile: Profile,
}

/// The number of seconds of a log in one quantum, which the paper does not give. With 1 s, the finest resolution of a
/// log, availability changes a few times while a job runs.
pub const SECONDS_PER_QUANTUM: u64 = 1;

/// The number of quanta over which profiles of the time-waste experiments must have the required mean.
const WINDOW: u64 = 500;

/// The maximum number of quanta of a log. It is limited because the quanta are kept in memory.
const LONGEST: u64 = 1 << 26;

/// The least mean availability over the first [`TYPICAL_QUANTA`]. Profiles with less are not drawn, because users do
/// not start a parallel job on a full machine.
const ROOM: u64 = 16;

impl Practical {
    /// Computes the profile from the jobs that ran on a machine of `machine` processors, according to a log. One
    /// processor stays free for the job under test, which could not run otherwise.
    ///
    /// # Errors
    /// A sentence that says why the log is not usable: it is too short or too long, or leaves too few processors.
    ///
    /// # Panics
    /// If `seconds_per_quantum` is 0.
    pub fn new(jobs: &[Rigid], machine: u32, seconds_per_quantum: u64) -> Result<Practical, String> {
        let end = jobs.iter().map(|job| job.started().saturating_add(job.ran)).max().unwrap_or(0);
        let start = jobs.iter().map(Rigid::started).min().unwrap_or(0);
        let quanta = (end - start) / seconds_per_quantum;
        if quanta > LONGEST {
            return Err(format!("it has {quanta} quanta of {seconds_per_quantum} s, and the maximum is {LONGEST}"));
        }
        let practical = Practical { profile: availability(jobs, machine, seconds_per_quantum) };
        let quanta = practical.profile.quanta();
        if quanta < WINDOW {
            return Err(format!(
                "it has {quanta} quanta of {seconds_per_quantum} s, and the experiments need {WINDOW}"
            ));
        }
        let starts = quanta - TYPICAL_QUANTA;
        // Drawn profiles must have room on the smallest of the simulated machines.
        let chopped = Practical { profile: practical.profile.chopped(PROCESSORS) };
        let with_room = chopped.sums(TYPICAL_QUANTA).filter(|sum| *sum >= ROOM * TYPICAL_QUANTA).count() as u64;
        if with_room * 100 < starts {
            return Err(format!(
                "it hardly ever leaves {ROOM} of the {machine} processors free for the job under test"
            ));
        }
        Ok(practical)
    }

    /// Returns the sum of the availabilities over each sequence of `quanta` consecutive quanta, by its first quantum.
    fn sums(&self, quanta: u64) -> impl Iterator<Item = u64> {
        let available = |quantum| u64::from(self.profile.in_quantum(quantum));
        let mut sum: u64 = (0..quanta).map(available).sum();
        (quanta..=self.profile.quanta()).map(move |next| {
            let this = sum;
            sum = sum + available(next) - available(next - quanta);
            this
        })
    }

    /// Simulates a machine of 256 processors with 10,000 jobs of the workload of Lublin and Feitelson. Each job
    /// starts as soon as all earlier jobs have started and enough processors are free.
    ///
    /// # Errors
    /// See [`Practical::new`]: fails if `seconds_per_quantum` is too large.
    ///
    /// # Panics
    /// If `seconds_per_quantum` is 0.
    pub fn synthetic(seed: u64, seconds_per_quantum: u64) -> Result<Practical, String> {
        const MACHINE: u32 = 256;
        let mut jobs = lublin::jobs(MACHINE, 10_000, &mut stream(seed, 0));
        first_come_first_served(&mut jobs, MACHINE);
        Practical::new(&jobs, MACHINE, seconds_per_quantum)
    }

    /// Returns the parts of the profile whose mean availability over the first [`WINDOW`] is within 10 % of `mean`.
    /// If no part is that close, returns the closest part.
    pub(super) fn around(&self, mean: f64) -> Vec<Profile> {
        let distance = |sum: u64| (sum as f64 / WINDOW as f64 - mean).abs();
        // Parts start only at every 50th quantum, because neighbouring parts are similar.
        let starts = || self.sums(WINDOW).zip(0..).step_by(TYPICAL_QUANTA as usize);
        let mut found: Vec<u64> =
            starts().filter(|(sum, _)| distance(*sum) <= mean / 10.0).map(|start| start.1).collect();
        if found.is_empty() {
            let nearest = starts().min_by(|one, other| distance(one.0).total_cmp(&distance(other.0)));
            found.extend(nearest.map(|start| start.1));
        }
        found.into_iter().map(|first| self.profile.from(first)).collect()
    }
}
