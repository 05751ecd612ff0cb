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
use crate::corun::schedule::{self, Plan, Record};
use crate::corun::{self, Grouping};
use crate::descendants;

use costs::Costs;
use foretell::{Foretold, Run};
use programs::Program;
use report::PredictReport;
use twin::Twin;

/// The schema of the JSON report.
const SCHEMA: &str = "comity-predict/1";

const EXAMPLES: &str = "A PROGRAM is
  - a kernel, NAME or NAME:key=value,… (see `comity-lab kernel --list`), which
    is recorded first, five times beside five runs that are not;
  - FILE.graph, a recording that `comity-lab record` wrote. With --measure all
    programs must be kernels.

The simulated host has this machine's cores, sockets and hardware threads, its
timer ticks, and of the kernels that are modelled the one with the same rules;
where something differs from this machine the report says so. Rounds are those
of `comity-lab corun`: each program alone, then all together, over and over.
Between two rounds a kernel checks its result, which is not in its time and uses
a core. What is printed is defined there and in docs/guide/src/measures.md. Each
of --starts simulated runs has a seed of its own and counts as many rounds as a
block of a co-run, a third of --rounds. The same recordings, seed and options
give the same numbers.

Costs are nanoseconds, those of a scenario's machine.costs (lab/scenarios/README.md)
and `join`, what a join costs that is not stolen; docs/results/predict.md says
where the defaults are from, and how near what is foretold came.

Examples:
  comity-lab predict cg:class=W mm --policy abp,bws,comity --workers 8
  comity-lab predict mi ep --group separate --policy dws --measure
  comity-lab record sor --out sor.graph
  comity-lab predict sor.graph sor.graph --cost refill=20000 --json sor.json

Exit codes: 0 success; 1 a run failed or gave a wrong result; 2 the command line
is at fault.";

/// Foretell what sharing this machine would cost each of several programs, from recordings, without running them
/// together
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Two programs or more: kernels, or recordings
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
    /// Policies of Comity to compare, as in abp,bws:sleep_threshold=128; see `comity policies` [default:
    /// COMITY_POLICY, or comity]
    #[arg(long, value_name = "P,…", value_parser = str::parse::<PolicyList>)]
    policy: Vec<PolicyList>,
    /// Workers of each program, 1 to 1024 [default: COMITY_NUM_THREADS, RAYON_NUM_THREADS, or the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Counted rounds of each program in a co-run, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 12, value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,
    /// Simulated runs, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = whole::<u32>(1..=1_000))]
    starts: u32,
    /// Of the first run; each next has the next
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Whether each program gets a session, and with autogroup a task group, of its own
    #[arg(long, value_enum, value_name = "GROUPING", default_value = "same")]
    group: Grouping,
    /// What things cost on the simulated host, in nanoseconds
    #[arg(long, value_name = "NAME=NS,…", default_value = "", hide_default_value = true, value_parser = Costs::parse)]
    cost: Costs,
    /// Run the co-runs too, and print what is measured beside what was foretold
    #[arg(long)]
    measure: bool,
    /// With --measure: seconds that one round, or preparing a program, may take, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = 600, value_parser = whole::<u32>(1..=1_000_000))]
    timeout: u32,
    /// Also write JSON (schema comity-predict/1) to this file; `-` prints it instead of the table
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
    // This warning comes before the minute of work that it is about.
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
        let what = "a co-run needs at least two programs; name one twice to have it beside itself";
        return Err(Failure::Usage(what.into()));
    }
    match programs.iter().find(|program| program.kernel().is_none()) {
        Some(recording) if is_measured => Err(Failure::Usage(format!(
            "{recording} is a recording, which --measure cannot run; name the kernel, or leave out --measure"
        ))),
        _ => Ok(()),
    }
}

/// Returns each policy once, or the default one if the command line has none.
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
    let record = Record::empty(&plan);
    descendants::look_after()?;
    schedule::measure(&plan, &record, None)?;
    descendants::finish(|| corun::outcome(&plan, &record))
}
