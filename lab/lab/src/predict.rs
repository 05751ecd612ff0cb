//! `comity-lab predict`: the simulated counterpart of `corun`, on a host with the properties of the machine on which
//! the command runs.
//!
//! ```text
//! twin.rs       the machine: cores, kernel, ticks, task groups
//! costs.rs      the costs of operations on the machine
//! programs.rs   the programs: kernels, which are recorded here, or recordings
//! foretell.rs   the simulated rounds, alone and together
//! report.rs     the predictions, together with measurements
//! table.rs      the report for people
//! ```

mod costs;
mod foretell;
mod programs;
mod report;
mod table;
mod twin;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use comity_console::output::{self, ResultFile};
use comity_console::parse::whole;
use comity_console::{Failure, machine};
use comity_os::cores;
use comity_policy::Policy;

use crate::backend::{Backend, PolicyList, backends, default_workers, workers_range};
use crate::choices;
use crate::corun::schedule::{self, Measurements, Plan};
use crate::corun::{self, Grouping};
use crate::descendants;

use costs::Costs;
use foretell::{Foretold, Run};
use programs::Program;
use report::PredictReport;
use twin::Twin;

/// The schema of the JSON report of `comity-lab predict`.
const SCHEMA: &str = "comity-predict/1";

const EXAMPLES: &str = "Examples:
  comity-lab predict cg:class=W mm --policy abp,bws,comity --workers 8
  comity-lab predict mi ep --group separate --policy dws --measure
  comity-lab record sor --out sor.graph
  comity-lab predict sor.graph sor.graph --cost refill=20000 --json sor.json

A PROGRAM is one of:
  - a kernel: NAME or NAME:key=value,… (see `comity-lab kernel --list`). It is
    recorded first: five runs with recording and five without;
  - FILE.graph: a recording that `comity-lab record` wrote.
With --measure, all programs must be kernels.

The simulated host has this machine's cores, sockets, hardware threads and timer
ticks. It uses the version of the simulated Linux that has the same scheduling
rules as this machine's kernel. The report lists the differences.

As in `comity-lab corun`, each program runs alone, then all programs run
together repeatedly. Between two rounds, a kernel checks its result. The check
uses a core and is not part of the round's time. `comity-lab corun --help` and
docs/guide/src/measures.md define the measures.

Each of the --starts simulated runs has its own seed. Its number of counted
rounds is a third of --rounds, as in one block of a co-run. Equal recordings,
seed and options give equal numbers.

Costs are in nanoseconds. Their names are those of a scenario's machine.costs
(lab/scenarios/README.md), and `join`: the cost of a join that is not stolen.
docs/results/predict.md lists the sources of the defaults and the accuracy of
the predictions.

Exit codes: 0: success; 1: a run failed or gave a wrong result; 2: invalid
command line.";

/// Predict the slowdown of each of several programs on this machine, from recordings, without running the programs
/// together
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Programs, at least two: kernels, or recordings
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
    /// Comity's policies to compare, for example abp,bws:sleep_threshold=128; see `comity policies` [default:
    /// COMITY_POLICY, or comity]
    #[arg(long, value_name = "P,…", value_parser = str::parse::<PolicyList>)]
    policy: Vec<PolicyList>,
    /// Number of workers of each program, 1 to 1024 [default: COMITY_NUM_THREADS, RAYON_NUM_THREADS, or the usable
    /// cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Number of counted rounds of each program in a co-run, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 12, value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,
    /// Number of simulated runs, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = whole::<u32>(1..=1_000))]
    starts: u32,
    /// Seed of the first run; each further run uses the next number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Sessions of the programs. With autogroup, each session is a task group
    #[arg(long, value_enum, value_name = "GROUPING", default_value = "same")]
    group: Grouping,
    /// Costs on the simulated host, in nanoseconds
    #[arg(long, value_name = "NAME=NS,…", default_value = "", hide_default_value = true, value_parser = Costs::parse)]
    cost: Costs,
    /// Also run the co-runs, and print measured and predicted numbers side by side
    #[arg(long)]
    measure: bool,
    /// Maximum time of one round under --measure, and of the preparation of a program, in seconds, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = 600, value_parser = whole::<u32>(1..=1_000_000))]
    timeout: u32,
    /// Also write JSON (schema comity-predict/1) to this file. `-` prints the JSON instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // All checks of the command line come first, as in a co-run.
    let programs: Vec<Program> =
        arguments.programs.iter().map(|text| Program::parse(text)).collect::<Result<_, _>>()?;
    check(&programs, arguments.measure)?;
    let policies = policies(&arguments.policy)?;
    let workers = arguments.workers.map_or_else(default_workers, Ok)?;
    let json = arguments.json.as_deref().map(|path| ResultFile::check(path, "--json")).transpose()?;
    let twin = Twin::of_this_machine(arguments.group)?;
    // The warning of `task_grouping` is printed before the predictions, which take a minute.
    let task_grouping = corun::task_grouping(arguments.group);
    choices::tell(&format!("predict {}", arguments.programs.join(" + ")));
    policies.iter().for_each(|policy| choices::tell_policy(&Backend::Comity(*policy), !arguments.policy.is_empty()));
    choices::tell_workers(workers, arguments.workers.is_some());
    let recorded = programs.iter().map(Program::recorded).collect::<Result<Vec<_>, _>>()?;
    let run = |policy: &Policy| Run {
        twin: &twin,
        costs: arguments.cost,
        programs: &recorded,
        policy: *policy,
        workers: workers.into(),
        rounds: schedule::blocks(arguments.rounds as usize).into_iter().max().unwrap_or(1),
        starts: arguments.starts,
        seed: arguments.seed,
    };
    let foretold: Vec<Foretold> =
        policies.iter().map(|policy| run(policy).foretell()).collect::<Result<_, String>>().map_err(Failure::Run)?;
    let measured = match arguments.measure {
        true => Some(measure(&programs, &policies, workers, arguments)?),
        false => None,
    };
    let report = PredictReport {
        schema: SCHEMA,
        machine: machine::describe(Some(task_grouping.to_owned())),
        versions: machine::versions(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        twin: &twin,
        costs: arguments.cost,
        workers,
        rounds: arguments.rounds,
        starts: arguments.starts,
        seed: arguments.seed,
        programs: recorded.iter().map(report::program).collect(),
        coruns: report::coruns(&policies, &recorded, &foretold, measured.as_deref()),
    };
    match &json {
        Some(ResultFile::Standard) => return output::print(&output::to_json(&report)),
        Some(file) => file.write(&output::to_json(&report))?,
        None => {}
    }
    output::print(&table::render(&report))
}

fn check(programs: &[Program], is_measured: bool) -> Result<(), Failure> {
    if programs.len() < 2 {
        let what = "a co-run needs at least two programs. Give a program twice to run it together with itself";
        return Err(Failure::Usage(what.into()));
    }
    match programs.iter().find(|program| program.kernel().is_none()) {
        Some(recording) if is_measured => Err(Failure::Usage(format!(
            "{recording} is a recording, which --measure cannot run. Give the kernel, or leave out --measure"
        ))),
        _ => Ok(()),
    }
}

/// Returns each policy once. Returns the default policy if the command line has no policy.
fn policies(lists: &[PolicyList]) -> Result<Vec<Policy>, Failure> {
    let policies: Vec<Policy> = backends(lists, &[])?.iter().filter_map(Backend::policy).collect();
    policies.iter().for_each(|policy| choices::tell_simulated(*policy));
    Ok(policies)
}

/// Measures the co-runs as `corun` does.
fn measure(
    programs: &[Program],
    policies: &[Policy],
    workers: u16,
    arguments: &Arguments,
) -> Result<Vec<crate::corun::report::Corun>, Failure> {
    let plan = Plan {
        programs: programs.iter().filter_map(|program| program.kernel().cloned()).collect(),
        backends: policies.iter().copied().map(Backend::Comity).collect(),
        workers,
        rounds: arguments.rounds as usize,
        lead_in: 0,
        grouping: arguments.group,
        timeout: Duration::from_secs(arguments.timeout.into()),
        one_core: cores::allowed().first().map_or(0, |core| core.id),
    };
    let measurements = Measurements::empty(&plan);
    descendants::look_after()?;
    schedule::measure(&plan, &measurements, None)?;
    descendants::finish(|| corun::outcome(&plan, &measurements))
}
