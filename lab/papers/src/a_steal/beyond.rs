//! Experiments that the authors of A-STEAL could not run, or left open.
//!
//! The experiments here are long quanta with long jobs (§3), usage that is sampled instead of counted (§9), and
//! larger machines. §9 also leaves ABP with mugging open: it is part of the time-waste and utilization experiments.

use comity_sim::program::Fork;
use comity_sim::quanta::{Feedback, ThreadScheduler};
use rand_chacha::ChaCha8Rng;

use super::setting::{DELTA, Draws, RHO};
use super::single::Single;
use super::{ASteal, Beyond, Family, Jobs, Outcome, Setting, estimates};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Named};
use crate::fit::{Estimate, mean};

/// The outcomes with one value of the varied parameter.
#[derive(Clone, Debug)]
pub struct Point {
    /// The varied value: L, the number of sampled cycles, or P.
    pub varied: u64,
    /// The outcome of each job.
    pub outcomes: Vec<Outcome>,
}

impl Point {
    /// Returns the mean of T/(T₁/P̄ + T∞) over the jobs.
    pub fn time(&self) -> Estimate {
        let ratio = |outcome: &Outcome| {
            outcome.time() / (outcome.work as f64 / outcome.mean_availability + outcome.critical_path as f64)
        };
        mean(&self.outcomes.iter().map(ratio).collect::<Vec<_>>())
    }

    /// Returns the mean of waste / T₁ over the jobs.
    pub fn waste(&self) -> Estimate {
        mean(&self.outcomes.iter().map(Outcome::waste).collect::<Vec<_>>())
    }
}

/// Outcomes for several values of one parameter.
#[derive(Debug)]
pub struct Varied {
    /// The name of the figure.
    name: &'static str,
    /// The name of the varied parameter, in words.
    what: &'static str,
    /// The values and their outcomes.
    pub points: Vec<Point>,
}

impl Varied {
    /// Returns the rows of the table.
    pub(super) fn rows(&self) -> impl Iterator<Item = Beyond> {
        self.points.iter().map(|point| Beyond {
            varied: self.what,
            value: if point.varied == u64::MAX { "all".to_owned() } else { point.varied.to_string() },
            jobs: point.outcomes.len(),
            time: point.time(),
            waste: point.waste(),
        })
    }

    fn figure(&self) -> Figure {
        let line = |name: &str, of: fn(&Point) -> Estimate| {
            let numbered = self.points.iter().filter(|point| point.varied != u64::MAX);
            estimates(name, numbered.map(|point| (point.varied as f64, of(point))))
        };
        Figure {
            title: format!("Beyond the paper: A-STEAL over {}", self.what),
            x: Axis::log(self.what),
            y: Axis::linear("means"),
            series: vec![
                line("time / (work / mean availability + critical path)", Point::time),
                line("waste / work", Point::waste),
            ],
        }
    }
}

/// Draws time and waste over each varied parameter.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    paper.beyond.iter().map(|varied| (varied.name, varied.figure())).collect()
}

/// The lengths L of a quantum, in steps: the paper's 200, and 10³ to 10⁵ as in conventional systems.
pub const QUANTA: [u64; 5] = [200, 1_000, 5_000, 20_000, 100_000];

/// Runs jobs with a critical path of 10·L·lg P on 128 processors.
pub fn long_quanta<R: Runner>(setting: &Setting, runner: &R) -> Result<Varied, R::Stop> {
    const PROCESSORS: u32 = 128;
    let points =
        points(setting, runner, ("beyond-quantum", Draws::LongQuanta), &QUANTA, 30, |length, family, random| {
            let setting = Setting { quantum: length, ..setting.clone() };
            let critical_path = 10.0 * length as f64 * libm::log2(f64::from(PROCESSORS));
            // Jobs with more parallelism would take hours, and would give no more information on quanta.
            let jobs = Jobs { critical_path: (critical_path, critical_path), parallelism: (0.3, 5.0), ..setting.jobs };
            let single = Single::draw(&setting, &jobs, PROCESSORS, family, random);
            (setting, (single, ThreadScheduler::a_steal(DELTA, RHO)))
        })?;
    Ok(Varied { name: "quanta", what: "steps in a quantum, L", points })
}

/// The numbers of cycles of a quantum that are sampled. The last value, `u64::MAX`, stands for all cycles.
pub const SAMPLES: [u64; 7] = [1, 4, 16, 64, 256, 1_024, u64::MAX];

/// Runs the jobs of the time experiments with a sampled usage, on 128 processors. A quantum has 25,600 cycles in
/// total.
pub fn sampling<R: Runner>(setting: &Setting, runner: &R) -> Result<Varied, R::Stop> {
    let points =
        points(setting, runner, ("beyond-sampling", Draws::Sampling), &SAMPLES, 90, |cycles, family, random| {
            let single = Single::draw(setting, &setting.jobs, 128, family, random);
            let feedback = u32::try_from(cycles).map_or(Feedback::Counted, |cycles| Feedback::Sampled { cycles });
            (setting.clone(), (single, ThreadScheduler { feedback, ..ThreadScheduler::a_steal(DELTA, RHO) }))
        })?;
    Ok(Varied { name: "sampling", what: "cycles sampled in a quantum", points })
}

/// The numbers P of processors of the machines.
pub const PROCESSORS: [u64; 4] = [100, 1_000, 10_000, 100_000];

/// Runs jobs whose parallelism is three times the available processors, on uniform and smooth profiles.
///
/// A tree of forks creates the strands of these jobs. If all strands were ready at once in one deque, random thieves
/// would take about one strand per step, which is too few for machines of this size.
pub fn machines<R: Runner>(setting: &Setting, runner: &R) -> Result<Varied, R::Stop> {
    let points = points(
        setting,
        runner,
        ("beyond-processors", Draws::Machines),
        &PROCESSORS,
        6,
        |processors, family, random| {
            let jobs = Jobs { parallelism: (3.0, 3.0), ..setting.jobs };
            let family = if family == Family::Practical { Family::Smooth } else { family };
            let single = Single::draw(setting, &jobs, processors as u32, family, random);
            let setting = Setting { fork: Fork::Tree, ..setting.clone() };
            (setting, (single, ThreadScheduler::a_steal(DELTA, RHO)))
        },
    )?;
    Ok(Varied { name: "processors", what: "processors, P", points })
}

/// Runs `jobs` jobs for each value. All values use the same random numbers, so that the jobs differ only where they
/// depend on the value.
fn points<R, W>(
    setting: &Setting,
    runner: &R,
    (name, part): (&str, Draws),
    values: &[u64],
    jobs: usize,
    work: W,
) -> Result<Vec<Point>, R::Stop>
where
    R: Runner,
    W: Fn(u64, Family, &mut ChaCha8Rng) -> (Setting, (Single, ThreadScheduler)) + Sync,
{
    let jobs = setting.runs(jobs);
    // The largest values come first, because their runs take the longest.
    let mut outcomes = runner
        .run(name, jobs * values.len(), |nth| {
            let (job, value) = (nth % jobs, values[values.len() - 1 - nth / jobs]);
            let mut random = setting.draws(part, job);
            let (setting, (single, scheduler)) = work(value, Family::ALL[job % 3], &mut random);
            single.run(&setting, &scheduler, random)
        })?
        .into_iter();
    let point = |varied: &u64| Point { varied: *varied, outcomes: outcomes.by_ref().take(jobs).collect() };
    let mut points: Vec<Point> = values.iter().rev().map(point).collect();
    points.reverse();
    Ok(points)
}
