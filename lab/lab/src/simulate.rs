//! `comity-lab simulate`: runs a scenario on a simulated machine.

mod conversations;
mod csv;
mod figures;
mod lines;
mod points;
mod recordings;
pub mod statistics;
mod table;
mod timeline;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use comity_console::output::ResultFile;
use comity_console::parse::whole;
use comity_console::{Failure, output};
use comity_papers::Stop;
use comity_sim::scenario::{Model, Observers, Outcome, Scenario, Written};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::choices;
use crate::filing::RESULT;
use crate::runs::{self, Sweep};
use figures::Plot;
use lines::Lines;
use points::{Axis, Point, Points};
use recordings::Recordings;
use statistics::Summary;
use timeline::Timeline;

pub use timeline::MACHINE;

const EXAMPLES: &str = "Examples:
  comity-lab simulate lab/scenarios/server.toml
  comity-lab simulate lab/scenarios/faults.toml --json
  comity-lab simulate lab/scenarios/host.toml --policy abp,bws,comity
  comity-lab simulate lab/scenarios/host.toml --policy comity,dws \\
    --set machine.cores=4,8,16 --csv host.csv --plot pictures
  comity-lab simulate lab/scenarios/host.toml --policy parallel=abp,comity \\
    --set machine.costs.steal=100,1000 --set programs.parallel.width=64,256
  comity-lab simulate lab/scenarios/server.toml --out results --shard 3/8
  comity-lab simulate lab/scenarios/host.toml --timeline host.trace
  comity-lab simulate lab/scenarios/host.toml --record thieves.jsonl
  comity-lab simulate --replay thieves.jsonl

lab/scenarios/README.md documents the file, its keys, and the columns of --csv.
Open a timeline with https://ui.perfetto.dev, chrome://tracing or `comity-lab
report`.";

/// Simulate a scenario file: a machine, its programs and its faults
///
/// A seed determines the outcome, for any number of threads. A scenario can have many runs, with successive seeds. They
/// use all cores, are saved one by one, and can be divided among machines. --policy and --set repeat the runs for each
/// setting, with the same seeds, and compare the results.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Scenario file
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "replay")]
    scenario: Option<PathBuf>,
    /// Run the scenario once with each of these policies, for all programs, or only for program NAME; can be repeated
    #[arg(long, value_name = "[NAME=]P,…")]
    policy: Vec<String>,
    /// Run the scenario once with each of these values of a key, for example machine.cores, machine.costs.steal,
    /// programs.NAME.width or faults.1.at; can be repeated. Several --set and --policy run all combinations
    #[arg(long, value_name = "KEY=V,…")]
    set: Vec<String>,
    /// Print JSON with every run (schema comity-simulate/1; with --policy or --set, comity-simulate-sweep/1)
    #[arg(long)]
    json: bool,
    /// Write CSV to this file, with one row per run and program. `-` prints only the CSV
    #[arg(long, value_name = "FILE", conflicts_with = "shard")]
    csv: Option<PathBuf>,
    /// Draw SVG files in this folder: each program's time over the first number that --set varies, one line per policy
    #[arg(long, value_name = "DIR", conflicts_with = "shard")]
    plot: Option<PathBuf>,
    /// Check the simulator's invariants in one of every QUANTA quanta; on a host, after one of every QUANTA events
    #[arg(long, value_name = "QUANTA", default_value_t = 1_000, value_parser = whole::<u64>(1..=u64::MAX))]
    check_every: u64,
    /// Do only the first run, and write a timeline to a new file: when each thread ran, on which core, and its activity
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "shard", "merge", "plot"])]
    timeline: Option<PathBuf>,
    /// Do only the first run, and write every conversation of its thieves to a new file, one JSON object per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "shard", "merge", "plot"])]
    record: Option<PathBuf>,
    /// Replay the conversations of a record, and check that the policies give the recorded answers
    #[arg(long, value_name = "FILE", exclusive = true)]
    replay: Option<PathBuf>,
    #[command(flatten)]
    sweep: runs::Options,
}

impl Arguments {
    /// True if the command does only the first run, for a record or a timeline.
    fn is_observed(&self) -> bool {
        self.record.is_some() || self.timeline.is_some()
    }
}

/// Checks that the scenario can run, with all varied settings.
pub fn check(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.scenario.as_deref().expect("there is a scenario");
    read(path, arguments, &mut Recordings::beside(path)).map(|_points| ())
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(record) = &arguments.replay {
        return conversations::hold_again(record);
    }
    let path = arguments.scenario.as_deref().expect("there is a scenario or a record");
    let mut recordings = Recordings::beside(path);
    let (written, points) = read(path, &arguments, &mut recordings)?;
    let policies =
        points.all.iter().flat_map(|point| &point.scenario.written().programs).map(|program| &program.policy);
    for policy in policies.collect::<BTreeSet<_>>() {
        choices::tell_simulated(policy.parse().expect("the scenario was read with it"));
    }
    let results = Results::check(&arguments, &points)?;
    if arguments.is_observed() {
        let [point] = &points.all[..] else {
            let what = "--record and --timeline need a single setting. Give one value to each --set and --policy";
            return Err(Failure::Usage(format!("there are {} settings, and {what}", points.all.len())));
        };
        let outcome = observed(&point.scenario, &arguments)?;
        return results.tell(&points, &[vec![outcome]], None);
    }
    let setting = serde_json::to_string(&written).expect("it has string keys");
    let setting = setting + &points.told() + &recordings.told();
    let sweep = Sweep::new(arguments.sweep, setting)?;
    let run = |run| {
        let (point, nth) = points.of_run(run);
        // An error in the simulator itself is a panic, so that it is not written to the file as an outcome.
        point.scenario.run(nth, arguments.check_every, None).unwrap_or_else(|what| panic!("please report it: {what}"))
    };
    let check = |run, outcome: &Outcome| {
        let (point, nth) = points.of_run(run);
        is_of_run(point.scenario.written(), nth, outcome)
    };
    let outcomes: Vec<Outcome> = match sweep.run_checked("simulate", points.runs(), run, &check) {
        Ok(outcomes) => outcomes,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Elsewhere) => return output::print(&sweep.elsewhere()),
    };
    let mut outcomes = outcomes.into_iter();
    let runs: Vec<Vec<Outcome>> =
        points.all.iter().map(|point| outcomes.by_ref().take(point.scenario.runs() as usize).collect()).collect();
    results.tell(&points, &runs, sweep.out())
}

/// Checks that an outcome belongs to the `nth` run: it has the run's seed, and the run's programs with their start
/// times.
fn is_of_run(written: &Written, nth: u64, outcome: &Outcome) -> Result<(), String> {
    let seed = written.seed.wrapping_add(nth);
    if outcome.seed != seed {
        return Err(format!("its seed is {}, and that of the run is {seed}", outcome.seed));
    }
    let each = written.programs.iter().enumerate();
    let mut expected: Vec<(u64, usize)> =
        each.flat_map(|(nth, one)| (0..one.count).map(move |later| (one.at + later * one.every, nth))).collect();
    expected.sort_unstable();
    // The outcome of a host also has programs that would have begun after the end of the run. Outcomes of other
    // machines do not.
    if written.machine.model != Model::Host {
        expected.retain(|(at, _)| *at <= outcome.steps);
    }
    let expected = expected.iter().map(|(at, program)| (*at, written.programs[*program].name.as_str()));
    match expected.eq(outcome.programs.iter().map(|program| (program.came, program.name.as_str()))) {
        true => Ok(()),
        false => Err("its programs are not those of the scenario".into()),
    }
}

fn read(
    path: &Path,
    Arguments { set, policy, .. }: &Arguments,
    recordings: &mut Recordings<'_>,
) -> Result<(Written, Points), Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("scenario '{}': {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refuse(&error))?;
    // The message of the parser shows the line of the error.
    let written: Written = toml_edit::de::from_str(&text).map_err(|error| refuse(&error.to_string().trim_end()))?;
    let points = Points::new(&written, set, policy, &mut |name| recordings.read(name)).map_err(|why| refuse(&why))?;
    Ok((written, points))
}

/// Does the first run, and writes the requested record and timeline to files.
fn observed(scenario: &Scenario, arguments: &Arguments) -> Result<Outcome, Failure> {
    let Arguments { record, timeline, check_every, .. } = arguments;
    if scenario.written().machine.model != Model::Host {
        let option = if record.is_some() { "record" } else { "timeline" };
        let what = "only a host has threads to observe. Write machine.model = \"host\" in the scenario";
        return Err(Failure::Usage(format!("--{option}: {what}")));
    }
    let record = record.as_deref().map(Lines::create).transpose()?;
    let timeline = timeline.as_deref().map(Lines::create).transpose()?;
    let timeline = timeline.map(|lines| Timeline::begin(lines, scenario));
    let observers = Observers {
        conversations: record.as_ref().map(conversations::recorder),
        timeline: timeline.as_ref().map(Timeline::observer),
    };
    let outcome = scenario.observed(0, *check_every, observers);
    let outcome = outcome.unwrap_or_else(|what| panic!("please report it: {what}"));
    record.map_or(Ok(()), Lines::finish)?;
    timeline.map_or(Ok(()), |timeline| timeline.end(scenario, &outcome))?;
    Ok(outcome)
}

/// The requested outputs of the results.
struct Results {
    json: bool,
    csv: Option<ResultFile>,
    plot: Option<Plot>,
}

/// The report of one setting.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    comity: &'static str,
    #[serde(flatten)]
    runs: Runs<'a>,
}

/// The report of several settings.
#[derive(Serialize)]
struct SweepReport<'a> {
    schema: &'static str,
    comity: &'static str,
    varied: &'a [Axis],
    points: Vec<PointReport<'a>>,
}

#[derive(Serialize)]
struct PointReport<'a> {
    settings: Map<String, Value>,
    #[serde(flatten)]
    runs: Runs<'a>,
}

#[derive(Serialize)]
struct Runs<'a> {
    scenario: &'a Written,
    summary: Summary,
    runs: &'a [Outcome],
}

impl Runs<'_> {
    fn new<'a>(point: &'a Point, runs: &'a [Outcome]) -> Runs<'a> {
        Runs { scenario: point.scenario.written(), summary: Summary::new(runs), runs }
    }
}

impl Results {
    /// Checks that the results can be written, before anything runs.
    fn check(Arguments { json, csv, plot, .. }: &Arguments, points: &Points) -> Result<Results, Failure> {
        let csv = csv.as_deref().map(|path| ResultFile::check(path, "--csv")).transpose()?;
        if *json && csv == Some(ResultFile::Standard) {
            return Err(Failure::Usage("--json and --csv - both print. Give a file to --csv".into()));
        }
        let plot = plot.as_deref().map(|folder| Plot::new(folder, points)).transpose()?;
        Ok(Results { json: *json, csv, plot })
    }

    /// Writes and prints the outcomes of the runs of each point.
    fn tell(&self, points: &Points, runs: &[Vec<Outcome>], out: Option<&Path>) -> Result<(), Failure> {
        let report = if self.json || out.is_some() { report(points, runs) } else { String::new() };
        if let Some(out) = out {
            let path = out.join(RESULT);
            output::replace(&path, report.as_bytes())
                .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))?;
        }
        let drawn = self.plot.as_ref().map(|plot| plot.write(points, runs)).transpose()?;
        match &self.csv {
            Some(ResultFile::Standard) => return output::print(&csv::rows(points, runs)),
            Some(file) => file.write(&csv::rows(points, runs))?,
            None => {}
        }
        match self.json {
            true => output::print(&report),
            false => output::print(&(table::tables(points, runs) + &drawn.unwrap_or_default())),
        }
    }
}

fn report(points: &Points, runs: &[Vec<Outcome>]) -> String {
    let comity = env!("CARGO_PKG_VERSION");
    if points.axes.is_empty() {
        let runs = Runs::new(&points.all[0], &runs[0]);
        return output::to_json(&Report { schema: "comity-simulate/1", comity, runs });
    }
    let each = points.all.iter().zip(runs);
    let each = each.map(|(point, runs)| PointReport { settings: points.settings(point), runs: Runs::new(point, runs) });
    let schema = "comity-simulate-sweep/1";
    output::to_json(&SweepReport { schema, comity, varied: &points.axes, points: each.collect() })
}
