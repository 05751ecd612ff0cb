//! The utilization experiments (§7): jobs that come and go on a large machine, A-STEAL with dynamic equipartitioning against
//! ABP with equipartitioning.

use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Exp};
use serde::{Deserialize, Serialize};

use super::{DELTA, Draws, Setting};
use crate::experiments::Runner;
use crate::experiments::claim::Claim;
use crate::quanta::{Server, ThreadScheduler};

/// P.
const PROCESSORS: u32 = 1_000;

/// For how long.
const STEPS: u64 = 1_000_000;

/// The mean time between two arrivals.
const BETWEEN_ARRIVALS: f64 = 1_000.0;

/// Utilization is measured over so many steps at a time.
pub const INTERVAL: u64 = 2_000;

/// The distributions of a job's parallelism and of its critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform.
    U,
    /// The probability of x is proportional to 1/x.
    HT1,
    /// The probability of x is proportional to 1/√x.
    HT2,
}

impl Distribution {
    /// From 1 on, with the paper's mean: 40 for U, about 36 for the others.
    fn parallelism(self, random: &mut impl Rng) -> f64 {
        match self {
            Distribution::U => self.draw(1.0, 80.0, random),
            Distribution::HT1 => self.draw(1.0, 190.0, random),
            Distribution::HT2 => self.draw(1.0, 97.0, random),
        }
    }

    /// From 1,000 on, with a mean of 50,000.
    fn critical_path(self, random: &mut impl Rng) -> f64 {
        match self {
            Distribution::U => self.draw(1_000.0, 99_000.0, random),
            Distribution::HT1 => self.draw(1_000.0, 283_000.0, random),
            Distribution::HT2 => self.draw(1_000.0, 137_000.0, random),
        }
    }

    fn draw(self, least: f64, most: f64, random: &mut impl Rng) -> f64 {
        let part: f64 = random.random();
        match self {
            Distribution::U => least + (most - least) * part,
            Distribution::HT1 => least * libm::pow(most / least, part),
            Distribution::HT2 => {
                let root = least.sqrt() + (most.sqrt() - least.sqrt()) * part;
                root * root
            }
        }
    }
}

/// Of the parallelism and of the critical path, the six that the paper ran of nine.
pub const SETS: [(Distribution, Distribution); 6] = {
    use Distribution::{HT1, HT2, U};
    [(U, U), (U, HT1), (HT1, U), (HT1, HT1), (HT2, U), (HT2, HT2)]
};

/// What came of one set of jobs under one scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The part of the processors' cycles that were spent working, interval by interval.
    pub utilization: Vec<f64>,
    /// For each job in the order of arrival: how long after it came it ended, if it did.
    pub completions: Vec<Option<u64>>,
    /// Jobs on the machine at the end of each interval.
    pub jobs: Vec<u32>,
}

/// One set of jobs, scheduled all three ways.
#[derive(Clone, Debug)]
pub struct Set {
    /// As in the paper: parallelism/critical path.
    pub name: String,
    /// Under A-STEAL and DEQ.
    pub a_steal: Outcome,
    /// Under ABP and EQ.
    pub abp: Outcome,
    /// Under ABP with mugging and EQ, which the paper leaves open (§9).
    pub abp_mug: Outcome,
}

/// Runs all sets.
pub fn run<R: Runner>(setting: &Setting, runner: &R) -> Result<Vec<Set>, R::Stop> {
    let steps = STEPS / setting.one_in as u64;
    // The longest first.
    let mut outcomes = runner
        .run("utilization", 3 * SETS.len(), |nth| {
            let schedulers = [ThreadScheduler::abp(), ThreadScheduler::abp_mug(), (setting.a_steal)(DELTA)];
            simulate(setting, nth % SETS.len(), &schedulers[nth / SETS.len()], steps)
        })?
        .into_iter();
    let [abp, abp_mug]: [Vec<Outcome>; 2] = [(); 2].map(|()| outcomes.by_ref().take(SETS.len()).collect());
    let name = |(parallelism, critical_path)| format!("{parallelism:?}/{critical_path:?}");
    let all = SETS.map(name).into_iter().zip(outcomes).zip(abp.into_iter().zip(abp_mug));
    Ok(all.map(|((name, a_steal), (abp, abp_mug))| Set { name, a_steal, abp, abp_mug }).collect())
}

/// The same jobs come at the same times, whatever the scheduler.
fn simulate(setting: &Setting, set: usize, scheduler: &ThreadScheduler, steps: u64) -> Outcome {
    let mut random = setting.draws(Draws::Utilization, set << 20);
    let (parallelism, critical_path) = SETS[set];
    let between = Exp::new(1.0 / BETWEEN_ARRIVALS).expect("a positive rate");
    let mut server = Server::new(PROCESSORS, setting.quantum);
    let mut next: f64 = between.sample(&mut random);
    let mut arrivals = Vec::new();
    let mut outcome = Outcome { utilization: Vec::new(), completions: Vec::new(), jobs: Vec::new() };
    let mut worked = 0;
    while server.now() < steps {
        while next <= server.now() as f64 {
            let parallelism = parallelism.parallelism(&mut random);
            let critical_path = critical_path.critical_path(&mut random);
            let shape = setting.jobs.with(critical_path, parallelism, &mut random);
            let name = arrivals.len();
            let own = setting.draws(Draws::Utilization, set << 20 | (name + 1));
            server.admit(name as u64, scheduler.submit(Box::new(shape.program(setting.fork)), PROCESSORS, own));
            arrivals.push(next);
            outcome.completions.push(None);
            next += between.sample(&mut random);
        }
        let completions = &mut outcome.completions;
        let each = server.quantum(PROCESSORS, false, |name, end| {
            let name = name as usize;
            completions[name] = Some(end - arrivals[name] as u64);
        });
        worked += each.iter().map(|(_, cycles)| cycles.work).sum::<u64>();
        if server.now().is_multiple_of(INTERVAL) {
            outcome.utilization.push(worked as f64 / (u64::from(PROCESSORS) * INTERVAL) as f64);
            outcome.jobs.push(server.jobs() as u32);
            worked = 0;
        }
    }
    outcome
}

/// So many intervals, a hundredth of the time, are looked at together when utilizations are compared.
const WINDOW: usize = (STEPS / INTERVAL / 100) as usize;

impl Set {
    /// The part of the time after which A-STEAL's utilization stays above ABP's.
    pub fn overtaken_at(&self) -> f64 {
        let (a_steal, abp) = (&self.a_steal.utilization, &self.abp.utilization);
        let window = WINDOW.min(a_steal.len());
        let sum = |utilization: &[f64], at: usize| utilization[at..at + window].iter().sum::<f64>();
        let behind = (0..=a_steal.len() - window).rev().find(|at| sum(a_steal, *at) <= sum(abp, *at));
        behind.map_or(0.0, |at| (at + window) as f64 / a_steal.len() as f64)
    }

    /// The mean completion time of the jobs that ended under ABP over that of those that ended under A-STEAL.
    pub fn completion_ratio(&self) -> f64 {
        self.abp.mean_completion() / self.a_steal.mean_completion()
    }
}

impl Outcome {
    fn mean_completion(&self) -> f64 {
        let ended = self.completions.iter().flatten();
        ended.clone().sum::<u64>() as f64 / ended.count() as f64
    }
}

/// What the paper says of the sets.
pub fn claims(sets: &[Set]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for set in sets {
        let what = format!("{}: part of the time after which A-STEAL+DEQ's utilization stays above ABP+EQ's", set.name);
        claims.push(Claim::new(what, "before 10 %", set.overtaken_at(), 0.0..=0.1, "as the paper tells it"));
    }
    for set in sets {
        let what = format!("{}: mean completion time under ABP+EQ over A-STEAL+DEQ", set.name);
        let because =
            "the paper has one number for several sets; each is to be slower, and none by three times as much";
        claims.push(Claim::new(what, "nearly 1.5", set.completion_ratio(), 1.1..=2.5, because));
    }
    let mean = sets.iter().map(Set::completion_ratio).sum::<f64>() / sets.len() as f64;
    let what = "mean of the six: completion time under ABP+EQ over A-STEAL+DEQ";
    claims.push(Claim::new(what, "nearly 1.5", mean, 1.25..=1.75, "half of the difference"));
    claims
}
