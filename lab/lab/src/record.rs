//! `comity-lab record`: writes the task graph of a real run to a file, for the simulator.

mod command;
pub mod kernel;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};
use comity_console::machine::{Machine, Versions};
use comity_console::output::ResultFile;
use comity_console::parse::whole;
use comity_console::{Failure, machine, output, printable};
use comity_graph::{About, Graph, Leaves, Measures, Scale};
use comity_kernels::catalog;
use comity_kernels::record::MERGE_NS;
use serde::Serialize;

use crate::backend::{default_workers, workers_range};
use crate::choices;

const EXAMPLES: &str = "Examples:
  comity-lab record cg:class=W --workers 8 --out cg.graph
  comity-lab record --show cg.graph
  comity-lab record --show cg.graph --scale cg:class=A
  comity-lab record --show cg.graph --scale repeats=2,width=4
  comity rayon enable --record && cargo build --release
  comity-lab record --workers 8 --out mine.graph -- target/release/mine ARGS

A kernel runs serially, alternately with and without recording. The recording
with the median work is kept. A COMMAND is recorded in this way too. Build it
after `comity rayon enable --record`. A program whose tasks wait for each other
(at a barrier, for a message) hangs in a serial run and cannot be recorded.

More information:
  lab/recording/README.md      how each kind of fork is recorded
  lab/scenarios/README.md      how a recording is simulated
  comity-lab kernel --list     the scaling rule of each kernel
  docs/results/recorded.md     the effect of each factor, the rules' accuracy

Exit codes: 0: success; 1: a run was wrong or a file cannot be written;
2: invalid command line or recording.";

/// Record the task graph of a run for the simulator, or show a recording
///
/// The report shows work, span, tasks, the lengths of leaves, and the time of a run without recording.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Kernel and its parameters: NAME or NAME:key=value,…; see `comity-lab kernel --list`
    #[arg(value_name = "NAME[:key=value,…]", required_unless_present_any = ["show", "command"])]
    name: Option<String>,
    /// Program that was built after `comity rayon enable --record`, and its arguments
    ///
    /// Its standard input is empty. The first run is not counted; its output goes to standard error. Of later runs,
    /// only the recorder's messages go to standard error. If a run fails, its whole standard error is shown.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["name", "show"])]
    command: Vec<OsString>,
    /// Recording to write
    #[arg(long, value_name = "FILE", required_unless_present = "show")]
    out: Option<PathBuf>,
    /// Number of workers to record for, 1 to 1024. A COMMAND divides its work by this number; a kernel does not
    /// [default: as in `comity-lab kernel`]
    #[arg(long, value_name = "N", value_parser = workers_range(), conflicts_with = "show")]
    workers: Option<u16>,
    /// Minimum length of a recorded task, in nanoseconds. A shorter task is merged into its parent, or with other tasks
    /// of its fork
    #[arg(long, value_name = "NS", default_value_t = MERGE_NS, conflicts_with = "show",
        value_parser = whole::<u64>(0..=1_000_000_000))]
    merge_ns: u64,
    /// Number of runs with recording, and of runs without, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 5, conflicts_with = "show",
        value_parser = whole::<u32>(1..=1000))]
    rounds: u32,
    /// Show this recording instead of making one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "out", "command"])]
    show: Option<PathBuf>,
    /// Scale the recording of --show to another input of its kernel, or multiply repeats, phases, width, length or
    /// serial by a number
    #[arg(long, value_name = "NAME:key=value,… | factor=N,…", requires = "show")]
    scale: Option<String>,
    /// Print JSON (schema comity-record/1)
    #[arg(long)]
    json: bool,
}

/// Returns the factors that the option `--scale` requests for a graph. Its text has the factors, or a kernel with
/// other parameters, to which the recorded kernel is scaled.
fn factors(graph: &Graph, text: &str) -> Result<Scale, String> {
    let is_kernel = |name: &str| catalog::DEFINITIONS.iter().any(|definition| definition.name == name);
    let recorded = &printable(&graph.about.program);
    if text.contains(':') || is_kernel(text) {
        if !is_kernel(recorded.split(':').next().unwrap_or_default()) {
            return Err(format!(
                "the recording is of '{recorded}', which is not a kernel and has no scaling rule. Give factors, for \
                 example width=4"
            ));
        }
        return catalog::factors(recorded, text).map_err(|error| error.to_string());
    }
    let mut scale = Scale::default();
    for piece in text.split(',') {
        let (key, value) = piece.split_once('=').ok_or_else(|| {
            format!("'{piece}' is not of the form factor=N; the form for a kernel is NAME:key=value,…")
        })?;
        let names = Scale::NAMES.join(", ");
        let factor = scale.factor(key).ok_or_else(|| format!("no factor is called '{key}'. Choose one of {names}"))?;
        *factor = value.parse().map_err(|_| format!("'{value}' is not a number"))?;
    }
    Ok(scale)
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.show {
        let graph = read(path).map_err(|why| Failure::Usage(format!("recording '{}': {why}", path.display())))?;
        let Some(wanted) = &arguments.scale else { return tell(&graph, None, None, arguments.json) };
        let scaled = factors(&graph, wanted).and_then(|scale| Ok((graph.scaled(scale)?, scale)));
        let (graph, scale) = scaled.map_err(|why| Failure::Usage(format!("--scale: {why}")))?;
        return tell(&graph, Some(scale), None, arguments.json);
    }
    let Some(out) = &arguments.out else {
        return Err(Failure::Usage("no file to write is given. Give one with --out".into()));
    };
    let out = ResultFile::check(out, "--out")?;
    if out == ResultFile::Standard {
        let why = "--out - would mix the recording with the report on standard output. Give a file name";
        return Err(Failure::Usage(why.into()));
    }
    let (graph, rounds) = match &arguments.name {
        Some(name) => {
            let workers = arguments.workers.map_or_else(default_workers, Ok)?;
            choices::tell(&format!("record {name}, {} rounds", arguments.rounds));
            choices::tell_workers(workers, arguments.workers.is_some());
            kernel::record(name, workers, arguments.merge_ns, arguments.rounds)?
        }
        None => command::record(&arguments.command, arguments)?,
    };
    let mut text = Vec::new();
    graph.write(&mut text).expect("memory takes all that is written");
    out.write(&String::from_utf8(text).expect("JSON is Unicode"))?;
    tell(&graph, None, Some(&rounds), arguments.json)
}

/// Reads a recording from a file.
///
/// # Errors
/// If the file cannot be read or contains no recording. The error is a sentence with the reason.
pub fn read(path: &Path) -> Result<Graph, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err("it is a folder instead of a recording".into());
    }
    Graph::read(&mut BufReader::new(file))
}

/// The measurements of each round, in nanoseconds.
pub struct Rounds {
    plain: Vec<u64>,
    recorded: Vec<u64>,
    work: Vec<u64>,
}

/// Returns the recording with the median work. Its times, with and without recording, are set to the medians over the
/// rounds.
fn choose(plain: Vec<u64>, mut graphs: Vec<Graph>) -> (Graph, Rounds) {
    graphs.sort_by_key(|graph| graph.measure(0).work);
    let rounds = Rounds {
        plain,
        recorded: graphs.iter().map(|graph| graph.about.recorded_ns).collect(),
        work: graphs.iter().map(|graph| graph.measure(0).work).collect(),
    };
    let mut graph = graphs.swap_remove(graphs.len() / 2);
    graph.about.plain_ns = median(&rounds.plain);
    graph.about.recorded_ns = median(&rounds.recorded);
    (graph, rounds)
}

fn median(times: &[u64]) -> u64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

fn spread(times: &[u64]) -> Spread {
    let seconds = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e9);
    Spread { median: median(times) as f64 / 1e9, least: seconds(times.iter().min()), most: seconds(times.iter().max()) }
}

fn tell(graph: &Graph, scale: Option<Scale>, rounds: Option<&Rounds>, json: bool) -> Result<(), Failure> {
    let (found, leaves) = (graph.measure(0), graph.leaves());
    if !json {
        return output::print(&table(graph, scale, found, leaves, rounds));
    }
    let about = &graph.about;
    output::print(&output::to_json(&RecordReport {
        schema: "comity-record/1",
        machine: machine::describe(None),
        versions: machine::versions(),
        name: about.program.clone(),
        workers: about.workers,
        scale,
        merge_ns: about.merge_ns,
        clock_ns: about.clock_ns,
        work_s: found.work as f64 / 1e9,
        span_s: found.span as f64 / 1e9,
        recorded_span_s: about.span_ns as f64 / 1e9,
        parallelism: found.work as f64 / found.span as f64,
        tasks: graph.count_tasks() as u64,
        merged_joins: graph.merged_joins(),
        kept_tasks: graph.tasks().len(),
        leaves: leaves.count,
        leaf_ns: [leaves.tenth, leaves.median, leaves.nine_tenths, leaves.longest],
        plain_s: about.plain_ns as f64 / 1e9,
        slowdown: slowdown(about),
        plain: rounds.map(|rounds| spread(&rounds.plain)),
        recorded: rounds.map(|rounds| spread(&rounds.recorded)),
        work: rounds.map(|rounds| spread(&rounds.work)),
    }))
}

/// Returns (T_recorded − T_plain) / T_plain, or `None` if the time of the plain run is unknown.
fn slowdown(about: &About) -> Option<f64> {
    (about.plain_ns > 0).then(|| about.recorded_ns as f64 / about.plain_ns as f64 - 1.0)
}

fn table(graph: &Graph, scale: Option<Scale>, found: Measures, leaves: Leaves, rounds: Option<&Rounds>) -> String {
    let about = &graph.about;
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let mut row = |what: &str, value: String| {
        table.add_row([what.to_owned(), value]);
    };
    let ranged = |times: Option<&Vec<u64>>| {
        let range = times.map(|times| (times.iter().min(), times.iter().max()));
        match range {
            Some((Some(least), Some(most))) => format!(" ({} to {})", in_words(*least), in_words(*most)),
            _ => String::new(),
        }
    };
    row("work T₁", in_words(found.work) + &ranged(rounds.map(|rounds| &rounds.work)));
    // These times belong to the recorded input, so they do not apply to a scaled graph.
    let is_as_it_ran = scale.is_none();
    if about.plain_ns > 0 && is_as_it_ran {
        row("the serial run, not recorded", in_words(about.plain_ns) + &ranged(rounds.map(|rounds| &rounds.plain)));
    }
    row("span T∞", in_words(found.span));
    if is_as_it_ran {
        row("span of the recorded run", in_words(about.span_ns));
    }
    row("parallelism T₁/T∞", format!("{:.1}", found.work as f64 / found.span as f64));
    row("tasks", format!("{}, of which {} kept", graph.count_tasks(), graph.tasks().len()));
    row("joins merged", graph.merged_joins().to_string());
    let Leaves { count, tenth, median, nine_tenths, longest } = leaves;
    row("leaves", count.to_string());
    let quantiles = [tenth, median, nine_tenths, longest].map(in_words).join(", ");
    row("leaves, p10, p50, p90, longest", quantiles);
    let mut text = format!("{}, for {} workers\n{table}\n", printable(&about.program), about.workers);
    if let Some(scale) = scale {
        let factors = scale.each().map(|(name, factor)| format!("{name} = {factor}"));
        let _ = writeln!(text, "Scaled; in a scenario: scale = {{ {} }}.", factors.join(", "));
    }
    let _ = writeln!(
        text,
        "Tasks shorter than {} are merged into their parents, or with other tasks of their fork. {} per reading of the \
         clock are subtracted.",
        in_words(about.merge_ns),
        in_words(about.clock_ns)
    );
    if let Some(slowdown) = slowdown(about).filter(|_| is_as_it_ran) {
        let _ = writeln!(
            text,
            "The run with recording took {}{}: {:.0} % longer.",
            in_words(about.recorded_ns),
            ranged(rounds.map(|rounds| &rounds.recorded)),
            100.0 * slowdown
        );
    }
    text
}

fn in_words(ns: u64) -> String {
    format!("{:.3?}", Duration::from_nanos(ns))
}

/// The report of one `comity-lab record`, in schema `comity-record/1`.
#[derive(Debug, Serialize)]
struct RecordReport {
    /// The schema: `comity-record/1`.
    schema: &'static str,
    /// The machine on which this command ran. A recording that is only shown may come from another machine.
    machine: Machine,
    /// The versions of the software.
    versions: Versions,
    /// The program that was recorded.
    name: String,
    /// The number of workers that the program was recorded for.
    workers: u32,
    /// The factors by which the graph was scaled. `null` if it was not scaled. Times of plain runs are not scaled.
    scale: Option<Scale>,
    /// The merge length in nanoseconds. A shorter task is joined to its parent, or to other tasks of its fork.
    merge_ns: u64,
    /// The cost of reading the clock, in nanoseconds, which is subtracted from all lengths.
    clock_ns: u64,
    /// T₁ of the recording.
    work_s: f64,
    /// T∞ of the graph that unfolds from the recording.
    span_s: f64,
    /// T∞ of the recorded run, before tasks were merged.
    recorded_span_s: f64,
    /// The parallelism T₁/T∞.
    parallelism: f64,
    /// The number of tasks of the graph that unfolds from the recording.
    tasks: u64,
    /// The number of joins that were merged into stretches (serial parts of tasks).
    merged_joins: u64,
    /// The number of different tasks in the recording. Equal tasks are kept once.
    kept_tasks: usize,
    /// The number of leaves: tasks that fork no other task.
    leaves: u64,
    /// The lengths of leaves in nanoseconds: first decile, median, ninth decile, longest.
    leaf_ns: [u64; 4],
    /// Processor seconds of the serial run without recording. 0: unknown.
    plain_s: f64,
    /// The slowdown by recording, (T_recorded − T_plain) / T_plain. `null` if T_plain is unknown.
    slowdown: Option<f64>,
    /// The times of the runs without recording. `null` for a recording that is only shown.
    plain: Option<Spread>,
    /// The times of the runs with recording. `null` for a recording that is only shown.
    recorded: Option<Spread>,
    /// The work T₁ of the recordings of all rounds. `null` for a recording that is only shown.
    work: Option<Spread>,
}

/// The median of some numbers, and their range.
#[derive(Clone, Copy, Debug, Serialize)]
struct Spread {
    /// The median. For an even number of values, the larger one of the middle two.
    median: f64,
    /// The smallest value.
    least: f64,
    /// The largest value.
    most: f64,
}
