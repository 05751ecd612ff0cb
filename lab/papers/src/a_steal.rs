//! The four experiments of A-STEAL (§4 to §7), at the paper's parameters, and experiments on four questions that its
//! authors left open.
//!
//! Agrawal, He and Leiserson, *An Empirical Evaluation of Work Stealing with Parallelism Feedback*, ICDCS 2006.

pub mod beyond;
mod jobs;
mod profiles;
mod setting;
mod single;
pub mod time;
pub mod time_waste;
pub mod utilization;
pub mod waste;

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_sim::workload::swf;
use serde::Serialize;

pub use jobs::{Jobs, Shape};
pub use profiles::{Family, Practical, SECONDS_PER_QUANTUM};
pub use setting::{DELTA, Setting};
pub use single::Outcome;

use crate::figure::{Marks, Series};
use crate::fit::Estimate;
use crate::paper::{Experiment, Paper, Text};
use crate::report;
use crate::{Runner, Stop};
use beyond::Varied;
use time_waste::HeadToHead;
use utilization::Set;

/// The outcomes of A-STEAL's experiments with one setting.
pub struct ASteal {
    setting: Setting,
    /// The outcomes of the time experiments.
    time: Vec<Outcome>,
    /// The outcomes of the waste experiments, by δ.
    by_delta: Vec<(u32, Vec<Outcome>)>,
    /// The outcomes of the time-waste experiments, on the large machine and on the small machine.
    head_to_head: [Vec<HeadToHead>; 2],
    sets: Vec<Set>,
    beyond: Vec<Varied>,
}

/// A part of the runs: one experiment, or the time-waste experiments on one of the two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The jobs of the time experiments.
    Time,
    /// The jobs of the waste experiments.
    Waste,
    /// The jobs of the time-waste experiments on one machine, given by its index in [`time_waste::MACHINES`].
    TimeWaste(usize),
    /// The jobs of the utilization experiments.
    Utilization,
    /// An experiment beyond the paper: longer quanta.
    LongQuanta,
    /// An experiment beyond the paper: sampled usage.
    Sampling,
    /// An experiment beyond the paper: larger machines.
    Machines,
}

/// The source of the practical profiles.
#[derive(Args)]
#[group(skip)]
pub struct Options {
    /// Read practical profiles from this log (Standard Workload Format) instead of the workload model
    #[arg(long, value_name = "FILE.swf", requires = "log_processors", conflicts_with = "full")]
    log: Option<PathBuf>,
    /// Number of processors of the log's machine
    #[arg(long, value_name = "P", requires = "log", value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    log_processors: Option<u32>,
    /// Length of a quantum, in seconds of the log or of the workload model, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = SECONDS_PER_QUANTUM, value_parser = whole::<u64>(1..=1_000_000))]
    seconds_per_quantum: u64,
}

impl Paper for ASteal {
    const TEXT: Text = Text {
        name: "a-steal",
        title: "A-STEAL: the time, waste, time-waste and utilization experiments of §4 to §7",
        about: "The machine is simulated. Its thieves, desires and allotments use the same code as the runtime. \
            --out writes each figure as an SVG file, and the numbers to result.json.",
        examples: "Examples:
  comity-lab reproduce a-steal --check
  comity-lab reproduce a-steal --check --full --out results
  comity-lab reproduce a-steal --figure 8 --plot .
  comity-lab reproduce a-steal time --vary fork=tree --vary iterations=1-8
  comity-lab reproduce a-steal --out shard-3 --shard 3/8
  comity-lab reproduce a-steal --merge shard-1 --merge shard-2 … --out all

If a command with --out is interrupted, run it again to continue. --shard
divides the runs among machines; --merge combines them.

Agrawal, He and Leiserson, An Empirical Evaluation of Work Stealing with
Parallelism Feedback, ICDCS 2006. docs/papers/a-steal.md lists the parameters
that the paper omits, the chosen values and the numbers that differ. lab/papers/
has the kind and the tolerance of each claim.",
        default: "the paper's four",
        vary: (
            "KEY=VALUE",
            "Change a parameter that the paper omits; can be repeated. fork=tree creates the strands of a phase by a \
             tree instead of at once. interrupted=kept lets a process of ABP keep the strand in which it is \
             interrupted. trimmed=C sets R = C·(T∞ + L·lg P). The others take a range, for example \
             iterations=1-8: critical-path (steps), parallelism (multiples of the mean availability), serial (part of \
             the critical path), iterations (repetitions of the two phases), alternating (iterations in the time-waste \
             experiments)",
        ),
        one_in: Some("run"),
        file: "lab/papers/src/a_steal/claims.toml",
        claims: include_str!("a_steal/claims.toml"),
    };

    type Options = Options;
    type Setting = Setting;
    type Part = Part;
    type Extra = Extra;

    fn setting(options: &Options, seed: u64, one_in: u32) -> Result<(Setting, String), Failure> {
        let (practical, source) = practical(options, seed)?;
        let setting = Setting { one_in: one_in as usize, ..Setting::new(seed, practical) };
        Ok((setting, format!("a-steal, seed {seed}, {source}")))
    }

    fn with(setting: &Setting) -> ASteal {
        ASteal {
            setting: setting.clone(),
            time: Vec::new(),
            by_delta: Vec::new(),
            head_to_head: Default::default(),
            sets: Vec::new(),
            beyond: Vec::new(),
        }
    }

    fn experiments() -> Vec<Experiment<ASteal>> {
        vec![
            Experiment::new(
                "time",
                "§4: 2331 jobs, and the constants of the bounds in practice",
                [Part::Time],
                |paper| time::measures(&paper.time),
                time::figures,
            ),
            Experiment::new(
                "waste",
                "§5: waste for δ from 0.5 to 1, and over the parallelism",
                [Part::Time, Part::Waste],
                |paper| waste::measures(&paper.by_delta, &paper.time, paper.setting.quantum),
                waste::figures,
            ),
            Experiment::new(
                "time-waste",
                "§6: A-STEAL and ABP, job by job",
                [0, 1].map(Part::TimeWaste),
                |paper| time_waste::measures(&paper.head_to_head[0], &paper.head_to_head[1]),
                time_waste::figures,
            ),
            Experiment::new(
                "utilization",
                "§7: jobs that arrive and end on a machine of 1000 processors",
                [Part::Utilization],
                |paper| utilization::measures(&paper.sets),
                utilization::figures,
            ),
            Experiment::beyond(
                "beyond",
                "Beyond the paper: quanta up to 10⁵ steps, sampled usage, 10⁵ processors",
                [Part::LongQuanta, Part::Sampling, Part::Machines],
                beyond::figures,
            ),
        ]
    }

    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Part, runner: &R) -> Result<(), Stop> {
        let setting = &self.setting;
        match *part {
            Part::Time => self.time = time::run(setting, runner)?,
            Part::Waste => self.by_delta = waste::run(setting, runner)?,
            Part::TimeWaste(nth) => {
                self.head_to_head[nth] = time_waste::run(setting, time_waste::MACHINES[nth], runner)?;
            }
            Part::Utilization => self.sets = utilization::run(setting, runner)?,
            Part::LongQuanta => self.beyond.push(beyond::long_quanta(setting, runner)?),
            Part::Sampling => self.beyond.push(beyond::sampling(setting, runner)?),
            Part::Machines => self.beyond.push(beyond::machines(setting, runner)?),
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let ended = self.sets.iter().filter_map(Set::note);
        self.jobs().into_iter().chain(ended).collect()
    }

    fn extra(self) -> Extra {
        Extra { beyond: self.beyond.iter().flat_map(Varied::rows).collect() }
    }

    fn table(extra: &Extra) -> String {
        let told = |of: &Estimate| report::estimate(of.value, (of.half_width > 0.0).then_some(of.half_width));
        let rows = extra.beyond.iter().map(|Beyond { varied, value, jobs, time, waste }| {
            [(*varied).to_owned(), value.clone(), jobs.to_string(), told(time), told(waste)]
        });
        report::table(["varied", "", "jobs", "T / (T₁/P̄ + T∞)", "waste / T₁"], rows)
    }
}

impl ASteal {
    /// Returns notes on the jobs, which differ between the experiments here. The paper does not define its jobs.
    fn jobs(&self) -> [String; 4] {
        let setting = &self.setting;
        let note = |experiments: &str, jobs: &Jobs| {
            let Jobs { critical_path, parallelism, serial, iterations } = jobs;
            format!(
                "Jobs of {experiments}: critical path {} to {} steps, parallelism {} to {} times P̄, serial part {} \
                 to {}, both phases {} to {} times.",
                critical_path.0,
                critical_path.1,
                parallelism.0,
                parallelism.1,
                serial.0,
                serial.1,
                iterations.0,
                iterations.1
            )
        };
        let Jobs { serial, iterations, .. } = &setting.jobs;
        let many = format!(
            "Jobs of utilization: critical path and parallelism of U, HT1 and HT2, serial part {} to {}, both phases {} to {} times.",
            serial.0, serial.1, iterations.0, iterations.1
        );
        let differ = "The phases of time-waste jobs alternate more often than those of other jobs. With the other \
            jobs' phases, ABP is as fast as A-STEAL.";
        [note("time and waste", &setting.jobs), note("time-waste", &setting.alternating), many, differ.to_owned()]
    }
}

/// Returns the practical profiles, and their source in words.
fn practical(options: &Options, seed: u64) -> Result<(Practical, String), Failure> {
    let Options { log, log_processors, seconds_per_quantum: seconds } = options;
    let (Some(path), Some(processors)) = (log, *log_processors) else {
        let source = format!("Lublin-Feitelson workload, {seconds} s per quantum");
        let practical = Practical::synthetic(seed, *seconds);
        let refuse =
            |why| Failure::Usage(format!("cannot use the workload with --seconds-per-quantum {seconds}: {why}"));
        return Ok((practical.map_err(refuse)?, source));
    };
    let refuse = |why: &dyn Display| Failure::Usage(format!("cannot use the log '{}': {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(&error))?;
    let jobs = swf::read(BufReader::new(file)).map_err(|error| refuse(&error))?;
    let file = path.file_name().unwrap_or_default().display();
    let used: u128 = jobs.iter().map(|job| u128::from(job.processors) * u128::from(job.ran)).sum();
    let source = format!(
        "log {file} of {processors} processors, {} jobs, {used} processor-seconds, {seconds} s per quantum",
        jobs.len()
    );
    let practical = Practical::new(&jobs, processors, *seconds).map_err(|why| refuse(&why))?;
    Ok((practical, source))
}

/// Returns a line of estimates with their confidence intervals.
pub(super) fn estimates(name: &str, all: impl Iterator<Item = (f64, Estimate)> + Clone) -> Series {
    let points = all.clone().map(|(x, Estimate { value, .. })| (x, value));
    let intervals = all.map(|(x, Estimate { value, half_width })| (x, value - half_width, value + half_width));
    Series::new(name, Marks::Line, points.collect()).with_intervals(intervals)
}

/// Returns a series for each family of profiles, with a point for each outcome.
fn by_family(outcomes: &[Outcome], point: impl Fn(&Outcome) -> (f64, f64)) -> Vec<Series> {
    let series = |family: Family| {
        let own = outcomes.iter().filter(|outcome| outcome.family == family);
        Series::new(family.name(), Marks::Points, own.map(&point).collect())
    };
    Family::ALL.map(series).into()
}

/// The numbers that the paper does not have.
#[derive(Serialize)]
pub struct Extra {
    beyond: Vec<Beyond>,
}

/// Estimates over several jobs, with one value of one varied parameter.
#[derive(Clone, Serialize)]
pub struct Beyond {
    varied: &'static str,
    value: String,
    jobs: usize,
    /// The mean of T/(T₁/P̄ + T∞).
    time: Estimate,
    /// The mean of waste / T₁.
    waste: Estimate,
}
