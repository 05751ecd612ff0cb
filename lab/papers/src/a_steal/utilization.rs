//! The utilization experiments (§7): jobs arrive at a large machine and leave it. The experiments compare A-STEAL
//! under dynamic equipartitioning (DEQ) with ABP under equipartitioning (EQ).

use comity_sim::quanta::{Server, ThreadScheduler};
use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Exp};
use serde::{Deserialize, Serialize};

use super::setting::{DELTA, Draws};
use super::{ASteal, Setting};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::Measure;

/// The number P of processors.
const PROCESSORS: u32 = 1_000;

/// The length of a simulation, in steps.
const STEPS: u64 = 1_000_000;

/// The mean time between two arrivals, in steps.
const BETWEEN_ARRIVALS: f64 = 1_000.0;

/// The number of steps over which each utilization is measured.
const INTERVAL: u64 = 2_000;

/// A distribution of a job's parallelism or critical path.
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
    /// Draws a parallelism of at least 1, with the paper's mean: 40 for U, about 36 for HT1 and HT2.
    fn parallelism(self, random: &mut impl Rng) -> f64 {
        match self {
            Distribution::U => self.draw(1.0, 80.0, random),
            Distribution::HT1 => self.draw(1.0, 190.0, random),
            Distribution::HT2 => self.draw(1.0, 97.0, random),
        }
    }

    /// Draws a critical path of at least 1,000 steps, with a mean of 50,000.
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

/// The pairs of a distribution of the parallelism and a distribution of the critical path. The paper ran these six of
/// nine pairs.
pub const SETS: [(Distribution, Distribution); 6] = {
    use Distribution::{HT1, HT2, U};
    [(U, U), (U, HT1), (HT1, U), (HT1, HT1), (HT2, U), (HT2, HT2)]
};

/// The outcome of one set of jobs under one scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The fraction of the processors' cycles that were spent working, for each interval.
    pub utilization: Vec<f64>,
    /// The time from arrival to end of each job, in steps, in the order of arrival. `None` if the job did not end.
    pub completions: Vec<Option<u64>>,
    /// The time, in steps, that each job had been on the machine when it ended or when the simulation ended.
    pub waited: Vec<u64>,
    /// The number of jobs on the machine at the end of each interval.
    pub jobs: Vec<u32>,
}

/// The outcomes of one set of jobs under the three schedulers.
#[derive(Clone, Debug)]
pub struct Set {
    /// The name of the set, as in the paper: parallelism/critical path.
    pub name: String,
    /// The outcome under A-STEAL and DEQ.
    pub a_steal: Outcome,
    /// The outcome under ABP and EQ.
    pub abp: Outcome,
    /// The outcome under ABP with mugging and EQ, which the paper leaves open (§9).
    pub abp_mug: Outcome,
}

/// Runs all sets.
pub fn run<R: Runner>(setting: &Setting, runner: &R) -> Result<Vec<Set>, R::Stop> {
    let steps = STEPS / setting.one_in as u64;
    // The schedulers whose runs take the longest come first.
    let mut outcomes = runner
        .run("utilization", 3 * SETS.len(), |nth| {
            let schedulers = [(setting.abp)(), ThreadScheduler::abp_mug(), (setting.a_steal)(DELTA)];
            simulate(setting, nth % SETS.len(), &schedulers[nth / SETS.len()], steps)
        })?
        .into_iter();
    let [abp, abp_mug]: [Vec<Outcome>; 2] = [(); 2].map(|()| outcomes.by_ref().take(SETS.len()).collect());
    let name = |(parallelism, critical_path)| format!("{parallelism:?}/{critical_path:?}");
    let all = SETS.map(name).into_iter().zip(outcomes).zip(abp.into_iter().zip(abp_mug));
    Ok(all.map(|((name, a_steal), (abp, abp_mug))| Set { name, a_steal, abp, abp_mug }).collect())
}

/// Simulates a set of jobs. The same jobs arrive at the same times under every scheduler.
fn simulate(setting: &Setting, set: usize, scheduler: &ThreadScheduler, steps: u64) -> Outcome {
    let mut random = setting.draws(Draws::Utilization, set << 20);
    let (parallelism, critical_path) = SETS[set];
    let between = Exp::new(1.0 / BETWEEN_ARRIVALS).expect("a positive rate");
    let mut server = Server::new(PROCESSORS, setting.quantum);
    let mut next: f64 = between.sample(&mut random);
    let mut arrivals = Vec::new();
    let mut outcome =
        Outcome { utilization: Vec::new(), completions: Vec::new(), waited: Vec::new(), jobs: Vec::new() };
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
    let end = server.now();
    let each = arrivals.iter().zip(&outcome.completions);
    outcome.waited = each.map(|(arrival, ended)| ended.unwrap_or(end.saturating_sub(*arrival as u64))).collect();
    outcome
}

/// The number of intervals over which utilizations are averaged before they are compared: 1 % of the simulation.
const WINDOW: usize = (STEPS / INTERVAL / 100) as usize;

impl Set {
    /// Returns a sentence on how many jobs ended, for a set that figure 8 shows.
    pub(super) fn note(&self) -> Option<String> {
        let ended = |outcome: &Outcome| outcome.completions.iter().flatten().count();
        let (all, a_steal, abp) = (self.a_steal.completions.len(), ended(&self.a_steal), ended(&self.abp));
        let is_shown = FIGURE_8.contains(&self.name.as_str());
        is_shown.then(|| format!("{}: of {all} jobs {a_steal} ended under A-STEAL+DEQ, {abp} under ABP+EQ.", self.name))
    }

    /// Returns the time after which A-STEAL's utilization stays above ABP's utilization, as a fraction of the
    /// simulation.
    pub fn overtaken_at(&self) -> f64 {
        let (a_steal, abp) = (&self.a_steal.utilization, &self.abp.utilization);
        let window = WINDOW.min(a_steal.len());
        let sum = |utilization: &[f64], at: usize| utilization[at..at + window].iter().sum::<f64>();
        let behind = (0..=a_steal.len() - window).rev().find(|at| sum(a_steal, *at) <= sum(abp, *at));
        behind.map_or(0.0, |at| (at + window) as f64 / a_steal.len() as f64)
    }

    /// Returns ABP's utilization / A-STEAL's utilization in the first interval in which A-STEAL's utilization is
    /// above zero.
    pub fn starts_higher_by(&self) -> f64 {
        let pairs = self.abp.utilization.iter().zip(&self.a_steal.utilization);
        pairs.map(|(abp, a_steal)| abp / a_steal).find(|ratio| ratio.is_finite()).unwrap_or(f64::NAN)
    }

    /// Returns the mean completion time under ABP / the mean under A-STEAL, for the jobs that `counted` selects.
    pub fn completion_ratio(&self, counted: Counted) -> f64 {
        let mean = |own: &Outcome, other: &Outcome| {
            let both = own.completions.iter().zip(&own.waited).zip(&other.completions);
            let times = both.filter_map(|((completion, waited), elsewhere)| match counted {
                Counted::Ended => *completion,
                Counted::Both => completion.filter(|_| elsewhere.is_some()),
                Counted::All => Some(completion.unwrap_or(*waited)),
            });
            let (sum, count) = times.fold((0, 0), |(sum, count), time| (sum + time, count + 1));
            sum as f64 / f64::from(count)
        };
        mean(&self.abp, &self.a_steal) / mean(&self.a_steal, &self.abp)
    }
}

/// The jobs over which a mean completion time is taken. The paper does not give this choice, and many jobs have not
/// ended when the simulation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The jobs that ended, separately for each scheduler.
    Ended,
    /// The jobs that ended under both schedulers.
    Both,
    /// All jobs. A job that did not end is included with the time since its arrival.
    All,
}

/// Computes the measures of the sets of figure 8, and the latest [`Set::overtaken_at`] of the other sets.
pub fn measures(sets: &[Set]) -> Vec<Measure> {
    let (shown, others): (Vec<&Set>, Vec<&Set>) = sets.iter().partition(|set| FIGURE_8.contains(&set.name.as_str()));
    let of_set = |set: &Set| {
        let name = set.name.to_lowercase().replace('/', "-");
        [
            Measure::new(format!("starts-higher-{name}"), set.starts_higher_by()),
            Measure::new(format!("overtaken-{name}"), set.overtaken_at()),
            Measure::new(format!("completion-{name}-ended"), set.completion_ratio(Counted::Ended)),
            Measure::new(format!("completion-{name}-both"), set.completion_ratio(Counted::Both)),
            Measure::new(format!("completion-{name}-all"), set.completion_ratio(Counted::All)),
        ]
    };
    let elsewhere = others.into_iter().map(Set::overtaken_at).fold(f64::NAN, f64::max);
    let elsewhere = Measure::new("overtaken-elsewhere", elsewhere);
    shown.into_iter().flat_map(of_set).chain([elsewhere]).collect()
}

/// The sets that figure 8 shows.
const FIGURE_8: [&str; 2] = ["U/U", "HT1/HT1"];

/// Draws the utilization of each set over time.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    const NAMES: [&str; 6] = [
        "figure-8-u-u",
        "utilization-u-ht1",
        "utilization-ht1-u",
        "figure-8-ht1-ht1",
        "utilization-ht2-u",
        "utilization-ht2-ht2",
    ];
    let mut figures = Vec::new();
    for (name, set) in NAMES.into_iter().zip(&paper.sets) {
        let line = |name: &str, outcome: &Outcome| {
            let steps = (1..).map(|nth| (nth * INTERVAL) as f64);
            Series::new(name, Marks::Line, steps.zip(outcome.utilization.clone()).collect())
        };
        figures.push((
            name,
            Figure {
                title: format!("A-STEAL §7: utilization over time, {} (parallelism/critical path)", set.name),
                x: Axis::log("time steps"),
                y: Axis::linear("part of the cycles spent working"),
                series: vec![
                    line("A-STEAL + DEQ", &set.a_steal),
                    line("ABP + EQ", &set.abp),
                    line("ABP with mugging (§9) + EQ", &set.abp_mug),
                ],
            },
        ));
    }
    figures
}
