//! `comity-lab corun`: measures what sharing the machine costs each of several programs.
//!
//! The method is that of BWS (Ding et al., EuroSys 2012, section 5.1). Each program runs alone. Then all programs run
//! together, repeatedly, so that their executions overlap fully. In addition to the paper, each program also runs
//! alone with one worker on one core, from which the upper bound of the weighted speedup is computed.

pub mod chart;
mod csv;
pub mod measures;
pub mod pairs;
pub mod program;
pub mod report;
pub mod schedule;
mod stage;
pub mod summary;
pub mod table;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use comity_console::output::{self, ResultFile};
use comity_console::parse::whole;
use comity_console::{Failure, loudness, machine};
use comity_os::{cores, task_group};

use crate::backend::{Backend, BackendName, PolicyList, backends, default_workers, workers_range};
use crate::choices;
use crate::descendants;
use crate::filing::{self, Filing, Header, Meanwhile};

use pairs::Pairs;
use program::Program;
use report::{Baseline, Corun, CorunReport};
use schedule::{Measurements, Place, Plan, Samples};

/// The schema of the JSON report.
pub const SCHEMA: &str = "comity-corun/1";

/// The largest number of programs of a co-run.
const MAX_PROGRAMS: usize = 64;

const EXAMPLES: &str = "Examples:
  comity-lab corun mergesort cg --policy abp,bws --backend rayon
  comity-lab corun cg:class=W mm mi --policy bws:sleep_threshold=128,comity \\
      --workers 8 --group separate
  comity-lab corun cg:class=W mm mi ep:class=S --pairs --policy abp,bws \\
      --backend rayon --json pairs.json
  comity-lab corun cg mm mi --pairs=all --policy bws,comity
  comity-lab corun cg './my-solver --size 100' --rounds 6 --timeout 60 \\
      --json result.json

A PROGRAM is one of:
  - a kernel: NAME or NAME:key=value,… (see `comity-lab kernel --list`);
  - a command for /bin/sh: any other text with a space or a slash. Each
    execution is one round and must end with exit code 0. The command gets the
    number of workers in COMITY_NUM_THREADS and RAYON_NUM_THREADS, and the
    policy in COMITY_POLICY. It runs on the runtime that it was built with,
    under each --backend. Its output is discarded. If the command fails, the
    end of its standard error is shown.

Measures, per backend:
  alone T_s, together T_c    mean seconds over the counted rounds
  one core T_1               mean seconds alone, one worker, pinned to one core
  slowdown                   (T_c - T_s) / T_s
  unfairness                 largest slowdown - smallest slowdown
  unfairness of cpu          largest r - smallest r; r: cores used / cores due;
                             cores used: processor time / T_c; cores due: an
                             equal share, at most the cores used alone; the
                             other programs share the cores that are left
  response time T            mean seconds together over all rounds, including
                             uncounted rounds (overlapped_s in JSON)
  slow-down ratio T/B        T / B; B = T_b: seconds alone under the baseline
  D                          largest slow-down ratio - smallest slow-down ratio
  weighted speedup           sum of T_b / T_c; T_b: see slow-down ratio
  work W                     mean processor seconds alone, one worker, pinned
                             to one core
  bound                      (number of programs) / s;
                             s = max(1, sum of (W / T_b) / cores);
                             the weighted speedup if no work is wasted and all
                             programs are slowed down equally
  efficiency                 weighted speedup / bound
  cv                         coefficient of variation of T_c: standard
                             deviation / mean
  switches per second        sum of (voluntary + involuntary context switches
                             of a counted round) / T_c

If there are no uncounted rounds and each backend is its own baseline, T/B is
1 + slowdown, and D is the unfairness. T and T_c differ if a short program
repeats while a long program runs: T covers all its rounds, T_c only its counted
rounds.

The output begins with the slowdowns. The table below them has eight columns,
or four in a narrow terminal; --full prints all measures. With --pairs, the
output ends with means and worst cases over all pairs, one line per backend.
`comity-lab plot` draws a file that --json wrote.

The rounds are divided into up to three blocks. Each block runs every backend,
so that a change of the machine's speed affects all backends equally. A backend
runs each program alone, then each program alone on one core, then all programs
together. A program that has completed its rounds repeats, uncounted, until all
programs have completed theirs. A kernel runs one uncounted round when its
process starts. When a co-run ends, processes that still run get SIGTERM, and
SIGKILL one second later.

A signal that ends the command (Ctrl-C, SIGTERM, SIGHUP) makes it print and save
the rounds measured so far, marked as partial. With --out DIR, each completed
block is saved in DIR/runs. Run the same command again to continue after it.
DIR/result.json is the output of --json. If DIR has results of another command,
machine or version, the command refuses to run.

Exit codes: 0: success; 1: a program failed, hung or gave a wrong result;
2: invalid command line.";

/// Run programs alone and together; print the slowdown of each program
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Programs to run, at least two (with --pairs=all, at least one): kernels, or commands in quotes
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
    /// Comity's policies to compare, for example abp,bws:sleep_threshold=128; see `comity policies` [default:
    /// COMITY_POLICY, or comity]
    #[arg(long, value_name = "P,…", value_parser = str::parse::<PolicyList>)]
    policy: Vec<PolicyList>,
    /// Other backends to compare. Comity is compared if this option has `comity`, if --policy is given, or without this
    /// option
    #[arg(long, value_enum, value_name = "B,…", value_delimiter = ',')]
    backend: Vec<BackendName>,
    /// Run each pair of the programs together, one pair after the other, instead of all programs. Without WHICH:
    /// distinct
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "distinct")]
    pairs: Option<Pairs>,
    /// Number of workers of each program, 1 to 1024 (serial always has one) [default: COMITY_NUM_THREADS,
    /// RAYON_NUM_THREADS, or the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Number of counted rounds of each program, alone and together, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 12, value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,
    /// Number of uncounted rounds that each program runs alone, in turn, before all programs run together, 0 to 10000
    #[arg(long, value_name = "R", default_value_t = 0, value_parser = whole::<u32>(0..=10_000))]
    lead_in: u32,
    /// Sessions of the programs. With autogroup, each session is a task group
    #[arg(long, value_enum, value_name = "GROUPING", default_value = "same")]
    group: Grouping,
    /// Backend that gives the baseline (T_b and B): the time of a program alone, for example under abp as in the BWS
    /// paper. `own`: each backend is its own baseline
    #[arg(long, value_name = "NAME", default_value = "own")]
    baseline: String,
    /// Maximum time of one round, and of the preparation of a program, in seconds, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = 600, value_parser = whole::<u32>(1..=1_000_000))]
    timeout: u32,
    /// Print all columns and all measures
    #[arg(long)]
    full: bool,
    /// Also write JSON (schema comity-corun/1) to this file. `-` prints the JSON instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write CSV to this file, with one row per backend and program. `-` prints the CSV instead of the table
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Folder for results. Each finished block is saved there at once. With the same folder, an interrupted command
    /// continues
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also draw an SVG file: the time together divided by the time alone, for each program. `-` prints the SVG instead
    /// of the table
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The task groups of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// All programs stay in the session of this command, as if started from one shell
    Same,
    /// Each program has its own session, as if started from its own terminal
    Separate,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // All checks of the command line come first, before a program has run or a file has changed.
    let programs = programs(&arguments.programs, arguments.pairs)?;
    let backends = backends(&arguments.policy, &arguments.backend)?;
    let baseline = Baseline::choose(&arguments.baseline, &backends)?;
    let files = files(arguments)?;
    let workers = arguments.workers.map_or_else(default_workers, Ok)?;
    let plan = |programs| Plan {
        programs,
        backends: backends.clone(),
        workers,
        rounds: arguments.rounds as usize,
        lead_in: arguments.lead_in as usize,
        grouping: arguments.group,
        timeout: Duration::from_secs(arguments.timeout.into()),
        one_core: cores::allowed().first().map_or(0, |core| core.id),
    };
    let plans: Vec<Plan> = match arguments.pairs {
        Some(pairs) => pairs.of(&programs).into_iter().map(plan).collect(),
        None => vec![plan(programs)],
    };
    let measurements: Vec<Measurements> = plans.iter().map(Measurements::empty).collect();
    let filing = arguments.out.as_deref().map(|out| filed(out, &plans, &measurements)).transpose()?;
    let task_grouping = task_grouping(arguments.group);
    let job = Arc::new(Job {
        measurements,
        plans,
        baseline,
        baseline_name: baseline.name(&backends),
        task_grouping,
        rounds: arguments.rounds as usize,
        over_pairs: arguments.pairs.is_some(),
        full: arguments.full,
        files,
    });
    descendants::look_after()?;
    let interrupted = Arc::clone(&job);
    descendants::at_a_signal(move || interrupted.tell_what_there_is());
    choices::tell(&what(&job.plans));
    job.plans[0].backends.iter().for_each(|backend| choices::tell_policy(backend, !arguments.policy.is_empty()));
    choices::tell_workers(workers, arguments.workers.is_some());
    let mut first = 0;
    for (plan, measured) in job.plans.iter().zip(&job.measurements) {
        schedule::measure(plan, measured, filing.as_ref().map(|filing| (filing, first)))?;
        first += Place::all(plan).count();
    }
    let report = job.report(false);
    descendants::finish(|| job.file(&report))?;
    job.print(&report)?;
    job.plans.iter().zip(&job.measurements).try_for_each(|(plan, measured)| wrong_result(plan, &measured.samples()))
}

/// The plans of the command, their measurements, and the form of the output.
struct Job {
    plans: Vec<Plan>,
    /// The measurements, one for each plan.
    measurements: Vec<Measurements>,
    baseline: Baseline,
    baseline_name: String,
    task_grouping: &'static str,
    rounds: usize,
    over_pairs: bool,
    full: bool,
    files: Vec<(ResultFile, Form)>,
}

impl Job {
    /// Writes the requested files.
    fn file(&self, report: &CorunReport) -> Result<(), Failure> {
        let files = self.files.iter().filter(|(file, _)| *file != ResultFile::Standard);
        files.map(|(file, form)| file.write(&form(report))).fold(Ok(()), Result::and)
    }

    /// Prints the requested form, or else the tables.
    fn print(&self, report: &CorunReport) -> Result<(), Failure> {
        match self.files.iter().find(|(file, _)| *file == ResultFile::Standard) {
            Some((_, form)) => output::print(&form(report)),
            None => output::print(&format!("{}\n{}", summary::lines(report), table::render(report, self.full))),
        }
    }

    /// Returns the report of the measurements so far. `partial` is true for an interrupted command.
    fn report(&self, partial: bool) -> CorunReport {
        let measured = self.plans.iter().zip(&self.measurements);
        let coruns: Vec<Vec<Corun>> = measured
            .map(|(plan, measured)| report::coruns(plan, &measured.samples(), self.baseline, cores::usable().get()))
            .collect();
        // Only pairs that all backends have run are in the comparison of backends.
        let is_whole = |(plan, coruns): &(&Plan, &Vec<Corun>)| coruns.len() == plan.backends.len();
        let whole = self.plans.iter().zip(&coruns).filter(is_whole).flat_map(|(_, coruns)| coruns);
        let over_pairs = if self.over_pairs { pairs::over(&whole.collect::<Vec<_>>()) } else { Vec::new() };
        CorunReport {
            schema: SCHEMA.to_owned(),
            machine: machine::describe(Some(self.task_grouping.to_owned())),
            versions: machine::versions(),
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            baseline: self.baseline_name.clone(),
            rounds: self.rounds,
            lead_in: self.plans[0].lead_in,
            blocks: schedule::blocks(self.rounds).len(),
            partial,
            over_pairs,
            coruns: coruns.into_iter().flatten().collect(),
        }
    }

    /// Writes and prints the measurements so far when a signal ends the command.
    fn tell_what_there_is(&self) {
        let [measured, all] = self
            .plans
            .iter()
            .zip(&self.measurements)
            .fold([0, 0], |[measured, all], (plan, own)| [measured + own.rounds(), all + schedule::rounds(plan)]);
        let report = self.report(true);
        let none = "no backend has run all programs alone and together yet";
        if descendants::say_interrupted(measured, all, "rounds", report.coruns.is_empty().then_some(none)) {
            descendants::say_failures([self.file(&report), self.print(&report)]);
        }
    }
}

/// A function that formats the report for a file.
type Form = fn(&CorunReport) -> String;

/// Checks that the requested files can be written, and returns each with its format.
fn files(arguments: &Arguments) -> Result<Vec<(ResultFile, Form)>, Failure> {
    let forms: [(&Option<PathBuf>, &str, Form); 3] = [
        (&arguments.json, "--json", |report| output::to_json(report)),
        (&arguments.csv, "--csv", csv::rows),
        (&arguments.plot, "--plot", chart::svg),
    ];
    let result = match &arguments.out {
        Some(out) => {
            Filing::folder(out)?;
            Some(out.join(filing::RESULT))
        }
        None => None,
    };
    let result = result.as_deref().map(|path| (path, "--out", forms[0].2));
    let asked = forms.iter().filter_map(|(path, option, form)| Some((path.as_deref()?, *option, *form))).chain(result);
    let mut files: Vec<(ResultFile, Form)> = Vec::new();
    for (path, option, form) in asked {
        let file = ResultFile::check(path, option)?;
        if files.iter().any(|(other, _)| *other == file) {
            return Err(Failure::Usage(format!(
                "'{}' is named twice. Choose another file for {option}",
                path.display()
            )));
        }
        files.push((file, form));
    }
    Ok(files)
}

/// Opens the file of blocks in `out`, and adds the blocks in it to the measurements.
fn filed(out: &Path, plans: &[Plan], measurements: &[Measurements]) -> Result<Filing, Failure> {
    let blocks = plans.iter().map(|plan| Place::all(plan).count()).sum();
    let mut outcomes: Vec<OnceLock<Vec<Samples>>> = Vec::new();
    outcomes.resize_with(blocks, OnceLock::new);
    let path = Filing::folder(out)?.join("corun.jsonl");
    let filing = Filing::open(
        &path,
        &Header::new(filing::measured(&what(plans)), blocks),
        &outcomes,
        &filing::unchecked,
        Meanwhile::Refuse,
    )?;
    let places = plans
        .iter()
        .zip(measurements)
        .flat_map(|(plan, measured)| Place::all(plan).map(move |place| (measured, place)));
    for ((measured, place), samples) in places.zip(outcomes) {
        if let Some(samples) = samples.into_inner() {
            measured.take(place, samples).map_err(|why| {
                Failure::Usage(format!("'{}': {why}. Choose another folder, or remove that file", path.display()))
            })?;
        }
    }
    Ok(filing)
}

/// Describes everything that the blocks depend on.
fn what(plans: &[Plan]) -> String {
    let programs = |plan: &Plan| plan.programs.iter().map(Program::text).collect::<Vec<_>>().join(" + ");
    let programs: Vec<String> = plans.iter().map(programs).collect();
    let Plan { backends, workers, rounds, lead_in, grouping, .. } = &plans[0];
    let backends: Vec<String> = backends.iter().map(Backend::to_string).collect();
    let group = grouping.to_possible_value().expect("no grouping is hidden");
    format!(
        "corun {}; {}; {workers} workers, {rounds} rounds{}, group {}",
        programs.join(", "),
        backends.join(", "),
        if *lead_in > 0 { format!(" after {lead_in} alone") } else { String::new() },
        group.get_name()
    )
}

/// Reads a report that `--json` wrote.
pub fn read(path: &Path) -> Result<CorunReport, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        let what = "Give a file that `comity-lab corun --json` wrote";
        Failure::Usage(format!("cannot read '{}': {why}. {what}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => of_json(value).map_err(|why| refuse(&why)),
        Some(other) => Err(refuse(&format!("its schema is {other} instead of {SCHEMA}"))),
        None => Err(refuse(&"it has no schema")),
    }
}

/// Parses a report that `--json` wrote, and checks that it can be drawn.
///
/// # Errors
/// If the JSON is not a report, has no co-run, has a co-run without programs, or has a slowdown out of range.
pub fn of_json(value: serde_json::Value) -> Result<CorunReport, String> {
    let report: CorunReport = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let is_empty = report.coruns.is_empty() || report.coruns.iter().any(|corun| corun.programs.is_empty());
    let mut slowdowns = report.coruns.iter().flat_map(|corun| &corun.programs).map(|program| program.slowdown);
    match (is_empty, slowdowns.all(|slowdown| slowdown > -1.0 && slowdown < 1e9)) {
        (true, _) => Err("it has no co-runs, or a co-run without programs".to_owned()),
        (_, false) => Err("it has a slowdown of -1 or less".to_owned()),
        _ => Ok(report),
    }
}

fn programs(texts: &[String], pairs: Option<Pairs>) -> Result<Vec<Program>, Failure> {
    let programs: Vec<Program> = texts.iter().map(|text| Program::parse(text)).collect::<Result<_, _>>()?;
    match programs.len() {
        1 if pairs != Some(Pairs::All) => Err(Failure::Usage(format!(
            "a co-run needs at least two programs, and {} is the only program. Add a program, or use --pairs=all to \
             run it together with itself",
            programs[0]
        ))),
        many if many > MAX_PROGRAMS => {
            Err(Failure::Usage(format!("{many} programs are too many. Give 2 to {MAX_PROGRAMS} programs")))
        }
        _ => Ok(programs),
    }
}

/// Returns the name of the grouping in reports. Warns if the programs get separate sessions, but the kernel does not
/// make task groups of sessions.
pub fn task_grouping(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::Same => "same",
        Grouping::Separate if task_group::autogroup_enabled() => "separate",
        Grouping::Separate => {
            loudness::hint(
                "warning: autogroup is off, so separate sessions share one task group. To change this, write 1 to \
                 /proc/sys/kernel/sched_autogroup_enabled",
            );
            "separate-without-autogroup"
        }
    }
}

fn wrong_result(plan: &Plan, samples: &[Vec<schedule::Samples>]) -> Result<(), Failure> {
    for (backend, samples) in plan.backends.iter().zip(samples) {
        for (program, samples) in plan.programs.iter().zip(samples) {
            if let Some(detail) = &samples.wrong {
                return Err(Failure::Run(format!("{program} gave a wrong result under {backend}: {detail}")));
            }
        }
    }
    Ok(())
}
