//! The parameters of A-STEAL's experiments. Values that the paper does not give (for example its jobs, and the size
//! of its machines) are chosen here. `docs/papers/a-steal.md` describes how the outcomes depend on these values.

use comity_sim::program::Fork;
use comity_sim::quanta::ThreadScheduler;

use super::jobs::Jobs;
use super::profiles::{Practical, SECONDS_PER_QUANTUM};
use crate::vary::Vary;

/// The parameters that all four experiments share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The length L of a quantum, in steps.
    pub quantum: u64,
    /// Returns the thread scheduler under test for a δ in hundredths. It is A-STEAL, except in tests that replace it
    /// by a broken scheduler.
    pub a_steal: fn(u32) -> ThreadScheduler,
    /// The jobs of all experiments except the time-waste experiments.
    pub jobs: Jobs,
    /// The jobs of the time-waste experiments.
    pub alternating: Jobs,
    /// The way in which the strands of a parallel phase are created.
    pub fork: Fork,
    /// Returns ABP, with one of two rules for the strand that the end of a quantum interrupts.
    pub abp: fn() -> ThreadScheduler,
    /// The factor C in R = C·(T∞ + L·lg P). R is the number of steps that the trimmed availability P̃ leaves out. The
    /// paper only gives R = O(T∞ + L·lg P).
    pub trimmed: f64,
    /// Only one of every `one_in` runs is done. Tests use values above 1.
    pub one_in: usize,
    /// The source of practical profiles.
    pub practical: Practical,
}

/// The value of A-STEAL's parameter δ in all experiments except the waste experiments, in hundredths. A quantum is
/// efficient if the job used at least a fraction δ of its processors' time.
pub const DELTA: u32 = 80;

/// The value of A-STEAL's parameter ρ, in hundredths: the factor by which the desire (the number of processors that a
/// job requests) grows and shrinks.
pub(super) const RHO: u32 = 150;

impl Setting {
    /// Returns the paper's parameters: ρ = 1.5, L = 200.
    pub fn new(seed: u64, practical: Practical) -> Setting {
        let a_steal = |delta| ThreadScheduler::a_steal(delta, RHO);
        Setting {
            seed,
            quantum: 200,
            a_steal,
            jobs: Jobs::FEW_PHASES,
            alternating: Jobs::MANY_PHASES,
            fork: Fork::AtOnce,
            abp: ThreadScheduler::abp,
            trimmed: 0.5,
            one_in: 1,
            practical,
        }
    }

    fn both(&mut self, set: fn(&mut Jobs, (f64, f64)), range: (f64, f64)) {
        set(&mut self.jobs, range);
        set(&mut self.alternating, range);
    }

    /// Returns the number of runs to do, if the paper's experiment has `of` runs.
    pub(super) fn runs(&self, of: usize) -> usize {
        of.div_ceil(self.one_in)
    }

    pub(super) fn draws(&self, part: Draws, run: usize) -> rand_chacha::ChaCha8Rng {
        comity_sim::random::stream(self.seed, (part as u64 + 1) << 32 | run as u64)
    }
}

impl Vary for Setting {
    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed, Practical::synthetic(seed, SECONDS_PER_QUANTUM)?))
    }

    fn vary(&mut self, text: &str) -> Result<(), String> {
        const KEYS: &str = "fork=at-once or tree, interrupted=stealable or kept, trimmed=C, or a range least-most of \
                            critical-path, parallelism, serial, iterations or alternating, or seconds-per-quantum=S";
        let wrong = || format!("'{text}' is not one of {KEYS}");
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let range = |least: f64, most: f64| {
            let (from, to) = value.split_once('-').unwrap_or((value, value));
            let range = (from.parse::<f64>().ok()?, to.parse::<f64>().ok()?);
            (least <= range.0 && range.0 <= range.1 && range.1 <= most).then_some(range)
        };
        let within = |least: f64, most: f64| {
            range(least, most).ok_or_else(|| format!("'{value}' is not a range within {least}-{most}"))
        };
        let one =
            |(from, to): (f64, f64)| if from == to { Ok(from) } else { Err(format!("'{value}' is not a number")) };
        let whole = |(from, to): (f64, f64)| match (from.fract(), to.fract()) {
            (0.0, 0.0) => Ok((from as u32, to as u32)),
            _ => Err(format!("'{value}' is not a range of whole numbers")),
        };
        match (key, value) {
            ("fork", "at-once") => self.fork = Fork::AtOnce,
            ("fork", "tree") => self.fork = Fork::Tree,
            ("interrupted", "stealable") => self.abp = ThreadScheduler::abp,
            ("interrupted", "kept") => self.abp = ThreadScheduler::abp_per_process,
            ("trimmed", _) => self.trimmed = one(within(0.0, 100.0)?)?,
            ("critical-path", _) => self.both(|jobs, range| jobs.critical_path = range, within(10.0, 1e6)?),
            ("parallelism", _) => self.both(|jobs, range| jobs.parallelism = range, within(0.01, 1e3)?),
            ("serial", _) => self.both(|jobs, range| jobs.serial = range, within(0.0, 0.95)?),
            ("iterations", _) => self.jobs.iterations = whole(within(1.0, 1e3)?)?,
            ("alternating", _) => self.alternating.iterations = whole(within(1.0, 1e3)?)?,
            ("seconds-per-quantum", _) => {
                let seconds = value.parse().ok().filter(|seconds| (1..=1_000_000).contains(seconds));
                let seconds = seconds.ok_or_else(|| format!("'{value}' is not a whole number from 1 to 1000000"))?;
                self.practical = Practical::synthetic(self.seed, seconds)?;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

/// The random streams, one for each part of the runs, so that the numbers of a part do not depend on the other parts.
#[derive(Clone, Copy)]
pub(super) enum Draws {
    Time,
    Waste,
    TimeWaste,
    Utilization,
    LongQuanta,
    Sampling,
    Machines,
}
