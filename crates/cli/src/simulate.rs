//! `comity simulate`: a machine that one does not have.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{Table, presets};
use comity_sim::experiments::Runner;
use comity_sim::experiments::fit::{Estimate, mean};
use comity_sim::scenario::{Outcome, ProgramOutcome, Scenario, Written};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::sweep::{self, Stop, Sweep};

const EXAMPLES: &str = "Examples:
  comity simulate scenarios/server.toml
  comity simulate scenarios/faults.toml --json
  comity simulate scenarios/server.toml --out results --shard 3/8

scenarios/README.md documents the file.";

/// Run a scenario file: a machine, its programs, and what goes wrong
///
/// One seed gives one outcome, on any number of threads. A scenario may ask for many runs with successive seeds, which are done
/// on all cores, filed one by one, and may be divided among machines.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Print JSON (schema comity-simulate/1), with every run
    #[arg(long)]
    json: bool,
    /// Look at everything that must hold in one quantum of so many
    #[arg(long, value_name = "QUANTA", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    check_every: u64,
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

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { scenario: path, json, check_every, sweep } = arguments;
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("scenario '{}': {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
    // The parser's message shows the line.
    let written: Written = toml_edit::de::from_str(&text).map_err(|error| refuse(&error.to_string().trim_end()))?;
    let scenario = Scenario::new(written).map_err(|why| refuse(&why))?;
    let setting = serde_json::to_string(scenario.written()).expect("it has string keys");
    let sweep = Sweep::new(sweep, setting)?;
    // What is wrong in the simulator itself is not filed as an outcome.
    let run = |nth| scenario.run(nth as u64, check_every).unwrap_or_else(|what| panic!("please report it: {what}"));
    let runs: Vec<Outcome> = match sweep.run("simulate", scenario.runs() as usize, run) {
        Ok(runs) => runs,
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(Stop::Elsewhere) => return output::print(&sweep.elsewhere()),
    };
    let report = Report {
        schema: "comity-simulate/1",
        comity: env!("CARGO_PKG_VERSION"),
        scenario: scenario.written(),
        runs: &runs,
    };
    let report = output::to_json(&report);
    if let Some(out) = sweep.out() {
        let path = out.join("result.json");
        output::replace(&path, report.as_bytes())
            .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))?;
    }
    output::print(&if json { report } else { table(&runs) })
}

/// Programs that have one name, over all runs, in the order in which the names come.
fn table(runs: &[Outcome]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let all = || runs.iter().flat_map(|run| &run.programs);
    for program in all() {
        if !names.contains(&program.name.as_str()) {
            names.push(&program.name);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["program", "came", "ended", "died", "time", "T₁", "T∞", "waste / T₁"]);
    for name in names {
        let of = || all().filter(|program| program.name == name);
        let ended = || of().filter(|program| program.ended.is_some());
        // A run's programs share a machine: only runs are independent.
        let mean_of = |number: &dyn Fn(&ProgramOutcome) -> f64| {
            let of_run = |run: &Outcome| {
                let ended = run.programs.iter().filter(|program| program.name == name && program.ended.is_some());
                let numbers: Vec<f64> = ended.map(number).collect();
                (!numbers.is_empty()).then(|| mean(&numbers).value)
            };
            mean(&runs.iter().filter_map(of_run).collect::<Vec<_>>())
        };
        let time = mean_of(&|program| (program.ended.unwrap_or(program.came) - program.came) as f64);
        let waste = mean_of(&|program| program.cycles.waste() as f64 / program.work as f64);
        let (work, critical_path) = of().next().map_or((0, 0), |program| (program.work, program.critical_path));
        let died = of().filter(|program| program.died.is_some()).count();
        let count = |count: usize| count.to_string();
        let cells = [count(of().count()), count(ended().count()), count(died), steps(time)];
        table.add_row([name.to_owned()].into_iter().chain(cells).chain([
            work.to_string(),
            critical_path.to_string(),
            part(waste),
        ]));
    }
    let mut text = format!("{table}\n");
    let utilization = mean(&runs.iter().map(|run| run.utilization).collect::<Vec<_>>());
    let length = mean(&runs.iter().map(|run| run.steps as f64).collect::<Vec<_>>());
    let plural = if runs.len() == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "{} run{plural} of {} steps; utilization {}. Times and waste are means over the runs, of the programs that ended.",
        runs.len(),
        steps(length),
        part(utilization)
    );
    text
}

fn steps(estimate: Estimate) -> String {
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
