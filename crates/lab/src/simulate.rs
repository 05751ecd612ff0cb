//! `comity-lab simulate`: a machine that one does not have.

use std::cell::RefCell;
use std::fmt::Write;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use comfy_table::{Table, presets};
use comity_console::{Failure, output};
use comity_graph::Graph;
use comity_sim::conversation::{Line, replay};
use comity_sim::experiments::Runner;
use comity_sim::experiments::fit::{Estimate, mean};
use comity_sim::scenario::{Model, Outcome, ProgramOutcome, Scenario, Written};
use comity_sim::threads::Counts;
use serde::Serialize;

use crate::choices;
use crate::sweep::{self, Stop, Sweep};

const EXAMPLES: &str = "Examples:
  comity-lab simulate scenarios/server.toml
  comity-lab simulate scenarios/faults.toml --json
  comity-lab simulate scenarios/server.toml --out results --shard 3/8
  comity-lab simulate scenarios/host.toml --record thieves.jsonl
  comity-lab simulate --replay thieves.jsonl

scenarios/README.md documents the file.";

/// Run a scenario file: a machine, its programs, and what goes wrong
///
/// One seed gives one outcome, on any number of threads. A scenario may ask for many runs with successive seeds, which are done
/// on all cores, filed one by one, and may be divided among machines.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "replay")]
    scenario: Option<PathBuf>,
    /// Print JSON (schema comity-simulate/1), with every run
    #[arg(long)]
    json: bool,
    /// Look at everything that must hold in one quantum of so many; on a host, after one event of so many
    #[arg(long, value_name = "QUANTA", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
    /// Do the first run alone, and write every conversation of its thieves to a new file, a JSON object a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "shard", "merge"])]
    record: Option<PathBuf>,
    /// Hold the conversations of a record again: whether the policies still answer as they did
    #[arg(long, value_name = "FILE", exclusive = true)]
    replay: Option<PathBuf>,
    #[command(flatten)]
    sweep: sweep::Options,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    comity: &'static str,
    scenario: &'a Written,
    runs: &'a [Outcome],
}

impl Arguments {
    /// Whether there are many runs, which are done by a sweep.
    pub fn is_sweep(&self) -> bool {
        self.replay.is_none() && self.record.is_none()
    }
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { scenario: path, json, check_every, record, replay, sweep } = arguments;
    if let Some(record) = replay {
        return hold_again(&record);
    }
    let path = path.expect("there is a scenario or a record");
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("scenario '{}': {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
    // The parser's message shows the line.
    let written: Written = toml_edit::de::from_str(&text).map_err(|error| refuse(&error.to_string().trim_end()))?;
    let mut recordings = Vec::new();
    let mut read = |file: &str| {
        let file = path.parent().unwrap_or(Path::new("")).join(file);
        let text = fs::read(&file).map_err(|error| error.to_string())?;
        let graph = Graph::read(&mut text.as_slice())?;
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        recordings.push(hash.finish());
        Ok(graph)
    };
    let scenario = Scenario::with_recordings(written, &mut read).map_err(|why| refuse(&why))?;
    for program in &scenario.written().programs {
        let policy = program.policy.parse().expect("the scenario was read with it");
        choices::tell_simulated(policy);
    }
    if let Some(record) = record {
        let outcome = recorded(&scenario, check_every, &record)?;
        return print(&scenario, &[outcome], json, None);
    }
    let mut setting = serde_json::to_string(scenario.written()).expect("it has string keys");
    if !recordings.is_empty() {
        // Runs of another recording with the same name are others.
        let _ = write!(setting, " of recordings {recordings:x?}");
    }
    let sweep = Sweep::new(sweep, setting)?;
    // What is wrong in the simulator itself is not filed as an outcome.
    let run =
        |nth| scenario.run(nth as u64, check_every, None).unwrap_or_else(|what| panic!("please report it: {what}"));
    let runs: Vec<Outcome> = match sweep.run("simulate", scenario.runs() as usize, run) {
        Ok(runs) => runs,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Elsewhere) => return output::print(&sweep.elsewhere()),
    };
    print(&scenario, &runs, json, sweep.out())
}

fn print(scenario: &Scenario, runs: &[Outcome], json: bool, out: Option<&Path>) -> Result<(), Failure> {
    let report =
        Report { schema: "comity-simulate/1", comity: env!("CARGO_PKG_VERSION"), scenario: scenario.written(), runs };
    let report = output::to_json(&report);
    if let Some(out) = out {
        let path = out.join("result.json");
        output::replace(&path, report.as_bytes())
            .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))?;
    }
    output::print(&if json { report } else { table(runs) })
}

/// The first run, with the conversations of its thieves written to a file.
fn recorded(scenario: &Scenario, check_every: u64, path: &Path) -> Result<Outcome, Failure> {
    if scenario.written().machine.model != Model::Host {
        return Err(Failure::Usage(
            "--record: only a host's thieves are recorded; write machine.model = \"host\"".into(),
        ));
    }
    let cannot = |error| Failure::Run(format!("cannot write '{}': {error}", path.display()));
    let file = Rc::new(RefCell::new((BufWriter::new(File::create_new(path).map_err(cannot)?), Ok(()))));
    let record = Rc::clone(&file);
    let record = move |line: Line| {
        let (file, result) = &mut *record.borrow_mut();
        if result.is_ok() {
            *result = serde_json::to_writer(&mut *file, &line).map_err(Into::into).and_then(|()| file.write_all(b"\n"));
        }
    };
    let outcome = scenario.run(0, check_every, Some(Box::new(record)));
    let outcome = outcome.unwrap_or_else(|what| panic!("please report it: {what}"));
    let (mut file, result) = Rc::into_inner(file).expect("the run is over").into_inner();
    result.and_then(|()| file.flush()).map_err(cannot)?;
    Ok(outcome)
}

fn hold_again(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("record '{}': {why}", path.display()));
    let file = BufReader::new(File::open(path).map_err(|error| refuse(&error))?);
    let mut wrong = None;
    let lines = file.lines().enumerate().map_while(|(nth, line)| {
        let line = line.map_err(|error| error.to_string());
        let line = line.and_then(|line| serde_json::from_str::<Line>(&line).map_err(|error| error.to_string()));
        line.map_err(|why| wrong = Some(format!("line {}: {why}", nth + 1))).ok()
    });
    let held = replay(lines);
    match wrong {
        Some(why) => Err(refuse(&why)),
        None => {
            let turns = held.map_err(|why| Failure::Run(format!("record '{}': {why}", path.display())))?;
            output::print(&format!("{turns} turns, all answered as they were\n"))
        }
    }
}

/// What is told of some runs.
pub struct Told {
    /// The columns: the program's name, and numbers.
    pub header: Vec<&'static str>,
    /// A row for each name.
    pub rows: Vec<Vec<String>>,
    /// What concerns all of them.
    pub sentences: Vec<String>,
}

fn table(runs: &[Outcome]) -> String {
    let Told { header, rows, sentences } = told(runs);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header).add_rows(rows);
    let mut text = format!("{table}\n");
    for sentence in sentences {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

/// The programs' names, in the order in which they come.
pub fn names(runs: &[Outcome]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for program in runs.iter().flat_map(|run| &run.programs) {
        if !names.contains(&program.name.as_str()) {
            names.push(&program.name);
        }
    }
    names
}

/// Of the programs of a name that ended, or did so and started again. A run's programs share a machine: only runs are independent.
pub fn mean_of(runs: &[Outcome], name: &str, number: impl Fn(&ProgramOutcome) -> f64) -> Estimate {
    let of_run = |run: &Outcome| {
        let ended = run.programs.iter().filter(|program| program.name == name && program.time().is_some());
        let numbers: Vec<f64> = ended.map(&number).collect();
        (!numbers.is_empty()).then(|| mean(&numbers).value)
    };
    mean(&runs.iter().filter_map(of_run).collect::<Vec<_>>())
}

/// From when a program came to when it ended; of one that starts again, a whole execution in the mean.
pub fn time(program: &ProgramOutcome) -> f64 {
    program.time().unwrap_or(0.0)
}

/// Programs that have one name, over all runs.
pub fn told(runs: &[Outcome]) -> Told {
    let all = || runs.iter().flat_map(|run| &run.programs);
    let on_a_host = all().any(|program| program.counts.is_some());
    let of_host: &[&str] = if on_a_host { &["sleeps", "preemptions", "cores lost", "cores used"] } else { &[] };
    let clock = if on_a_host { Clock::Nanoseconds } else { Clock::Steps };
    let repeats = all().any(|program| !program.executions.is_empty());
    let of_repeated: &[&str] = if repeats { &["executions"] } else { &[] };
    let header = ["program", "came", "ended", "died", "time", "T₁", "T∞", "waste / T₁"];
    let mut rows = Vec::new();
    for name in names(runs) {
        let of = || all().filter(|program| program.name == name);
        let ended = || of().filter(|program| program.ended.is_some());
        let mean_of = |number: &dyn Fn(&ProgramOutcome) -> f64| mean_of(runs, name, number);
        // One that starts again has done its work several times, the last time in part.
        let done = |program: &ProgramOutcome| match program.executions.as_slice() {
            [] => program.work,
            _ => program.cycles.work,
        };
        let waste = mean_of(&|program| program.cycles.waste() as f64 / done(program) as f64);
        let executions = whole(mean_of(&|program| program.executions.len() as f64));
        let (work, critical_path) = of().next().map_or((0, 0), |program| (program.work, program.critical_path));
        let died = of().filter(|program| program.died.is_some()).count();
        let counted =
            |number: fn(&Counts) -> u64| whole(mean_of(&|program| number(&program.counts.unwrap_or_default()) as f64));
        let counts: [fn(&Counts) -> u64; 3] =
            [|counts| counts.sleeps, |counts| counts.preemptions, |counts| counts.lost];
        let counts = counts.into_iter().map(counted).chain([part(cores_used(runs, name))]).filter(|_| on_a_host);
        let count = |count: usize| count.to_string();
        let cells = [count(of().count()), count(ended().count()), count(died), clock.tell(mean_of(&time))];
        let [work, critical_path] = [work, critical_path].map(|time| clock.tell(Estimate::from(time as f64)));
        let cells = [name.to_owned()].into_iter().chain(cells).chain([work, critical_path, part(waste)]);
        let executions = Some(executions).filter(|_| repeats);
        rows.push(cells.chain(counts).chain(executions).collect());
    }
    let utilization = mean(&runs.iter().map(|run| run.utilization).collect::<Vec<_>>());
    let length = mean(&runs.iter().map(|run| run.steps as f64).collect::<Vec<_>>());
    let unshared: u64 = all().map(|program| program.counts.unwrap_or_default().unshared).sum();
    let mut sentences = Vec::new();
    if unshared > 0 {
        sentences.push(format!("{unshared} programs found the core table full, and went on without it."));
    }
    if on_a_host {
        let idle = mean(&runs.iter().map(|run| run.idle_beside_work.unwrap_or(0) as f64).collect::<Vec<_>>());
        sentences.push(format!("Cores idled for {} while a thread or a task waited for one.", clock.tell(idle)));
    }
    let plural = if runs.len() == 1 { "" } else { "s" };
    sentences.push(format!(
        "{} run{plural} of {}; utilization {}. Times and waste are means over the runs, of the programs that ended.",
        runs.len(),
        clock.tell(length),
        part(utilization)
    ));
    Told { header: header.iter().chain(of_host).chain(of_repeated).copied().collect(), rows, sentences }
}

/// How many cores all programs of a name used, in the mean over a run.
fn cores_used(runs: &[Outcome], name: &str) -> Estimate {
    let of_run = |run: &Outcome| {
        let used = run.programs.iter().filter(|program| program.name == name).map(|program| program.cycles.total());
        used.sum::<u64>() as f64 / run.steps.max(1) as f64
    };
    mean(&runs.iter().map(of_run).collect::<Vec<_>>())
}

/// What a machine counts time in.
#[derive(Clone, Copy)]
enum Clock {
    /// Those of the A-STEAL paper's machine, which have no length.
    Steps,
    /// Those of a host.
    Nanoseconds,
}

impl Clock {
    /// With the unit that fits.
    fn tell(self, estimate: Estimate) -> String {
        let (unit, scale, digits) = match self {
            Clock::Steps => ("steps", 1.0, 0),
            Clock::Nanoseconds => match estimate.value.abs() {
                ..1e3 => ("ns", 1.0, 0),
                1e3..1e6 => ("µs", 1e3, 2),
                1e6..1e9 => ("ms", 1e6, 2),
                _ => ("s", 1e9, 3),
            },
        };
        if !estimate.value.is_finite() {
            return "-".to_owned();
        }
        let scaled = Estimate { value: estimate.value / scale, half_width: estimate.half_width / scale };
        format!("{} {unit}", with_interval(scaled, digits))
    }
}

fn whole(estimate: Estimate) -> String {
    with_interval(estimate, 0)
}

fn part(estimate: Estimate) -> String {
    with_interval(estimate, 3)
}

fn with_interval(Estimate { value, half_width }: Estimate, digits: usize) -> String {
    match (value.is_finite(), half_width > 0.0) {
        (false, _) => "-".to_owned(),
        (_, false) => format!("{value:.digits$}"),
        (_, true) => format!("{value:.digits$} ± {half_width:.digits$}"),
    }
}
