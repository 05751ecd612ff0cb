//! The availability profiles of A-STEAL §3, as many as an experiment needs.

use std::iter;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use comity_sim::availability::Profile;
use comity_sim::random::stream;
use comity_sim::workload::{Rigid, availability, first_come_first_served, lublin};

/// Processors of the machine of the time and the waste experiments, which the paper leaves unsaid, and of the
/// smaller one of §6.
pub(super) const PROCESSORS: u32 = 128;

/// The three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// Each quantum unrelated to the one before.
    Uniform,
    /// Steps of a standard normal distribution.
    Smooth,
    /// From what ran on a machine.
    Practical,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 3] = [Family::Uniform, Family::Smooth, Family::Practical];

    /// As the paper's legends have it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Uniform => "uniform",
            Family::Smooth => "smooth",
            Family::Practical => "practical",
        }
    }

    /// A profile of this kind on a machine of `processors`, which is no smaller than [`PROCESSORS`] for practical
    /// ones.
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

/// Quanta that a job takes, more or less: it is drawn by the mean availability of so many.
pub(super) const TYPICAL_QUANTA: u64 = 50;

/// The length of the profiles that are drawn: a job that takes longer, as few do, sees the same again.
const QUANTA: usize = 2_000;

/// What ran on a machine, and what it left over.
#[derive(Clone, Debug)]
pub struct Practical {
    profile: Profile,
}

/// Seconds of a log that count as one quantum, which the paper leaves unsaid. With one, the shortest that a log
/// tells, availability changes a few times while a job runs.
pub const SECONDS_PER_QUANTUM: u64 = 1;

/// Over so many quanta the profiles of the time-waste experiments have the mean that they are to have.
const WINDOW: u64 = 500;

/// Quanta of a log at the most: they are kept in memory.
const LONGEST: u64 = 1 << 26;

/// No user starts a parallel job on a machine that others fill: so many processors are available in the mean of the
/// first [`TYPICAL_QUANTA`].
const ROOM: u64 = 16;

impl Practical {
    /// From the jobs that a log says have run on a machine of so many processors. One of these stays free for the
    /// job under test, which could not run without any.
    ///
    /// # Errors
    /// Says in a sentence why it does not do for the experiments: it is too short, or leaves too few processors.
    ///
    /// # Panics
    /// If a quantum has no seconds.
    pub fn new(jobs: &[Rigid], machine: u32, seconds_per_quantum: u64) -> Result<Practical, String> {
        let end = jobs.iter().map(|job| job.started().saturating_add(job.ran)).max().unwrap_or(0);
        let start = jobs.iter().map(Rigid::started).min().unwrap_or(0);
        let quanta = (end - start) / seconds_per_quantum;
        if quanta > LONGEST {
            return Err(format!("it has {quanta} quanta of {seconds_per_quantum} s, and {LONGEST} is the most"));
        }
        let practical = Practical { profile: availability(jobs, machine, seconds_per_quantum) };
        let quanta = practical.profile.quanta();
        if quanta < WINDOW {
            return Err(format!(
                "it has {quanta} quanta of {seconds_per_quantum} s, and the experiments need {WINDOW}"
            ));
        }
        let starts = quanta - TYPICAL_QUANTA;
        // As the smallest of the simulated machines sees it.
        let chopped = Practical { profile: practical.profile.chopped(PROCESSORS) };
        let with_room = chopped.sums(TYPICAL_QUANTA).filter(|sum| *sum >= ROOM * TYPICAL_QUANTA).count() as u64;
        if with_room * 100 < starts {
            return Err(format!(
                "it hardly ever leaves {ROOM} of the {machine} processors free for the job under test"
            ));
        }
        Ok(practical)
    }

    /// The availabilities of each so many successive quanta, summed.
    fn sums(&self, quanta: u64) -> impl Iterator<Item = u64> {
        let available = |quantum| u64::from(self.profile.in_quantum(quantum));
        let mut sum: u64 = (0..quanta).map(available).sum();
        (quanta..=self.profile.quanta()).map(move |next| {
            let this = sum;
            sum = sum + available(next) - available(next - quanta);
            this
        })
    }

    /// A machine of 256 processors with the workload of Lublin and Feitelson, each job started as soon as all that
    /// came before it have been: 10,000 jobs.
    ///
    /// # Errors
    /// As [`Practical::new`], if a quantum has too many seconds.
    ///
    /// # Panics
    /// If it has none.
    pub fn synthetic(seed: u64, seconds_per_quantum: u64) -> Result<Practical, String> {
        const MACHINE: u32 = 256;
        let mut jobs = lublin::jobs(MACHINE, 10_000, &mut stream(seed, 0));
        first_come_first_served(&mut jobs, MACHINE);
        Practical::new(&jobs, MACHINE, seconds_per_quantum)
    }

    /// From where on the mean availability is within a tenth of `mean`, or if it nowhere is, from where on it is
    /// nearest.
    pub(super) fn around(&self, mean: f64) -> Vec<Profile> {
        let distance = |sum: u64| (sum as f64 / WINDOW as f64 - mean).abs();
        // Not from every second on: neighbours are alike.
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
