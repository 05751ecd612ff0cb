//! `comity-lab corun`: what sharing the machine costs each of several programs.
//!
//! As in BWS (Ding et al., EuroSys 2012, section 5.1): each program runs alone, then all run together, over and over so
//! that their executions overlap fully. Here each also runs alone with one worker on one core, which gives the bound
//! that a weighted speedup should be read against.

mod measures;
mod pairs;
mod program;
mod report;
mod schedule;
mod stage;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use comity_console::output::{self, ResultFile};
use comity_console::{Failure, machine};
use comity_os::{cores, task_group};

use crate::contestant::{BackendName, PolicyList, contestants, workers_range};
use crate::json::{Corun, CorunReport};
use crate::{descendants, kernel};

use pairs::Pairs;
use program::Program;
use report::Baseline;
use schedule::Plan;

/// The most programs of a co-run.
const MAX_PROGRAMS: usize = 64;

const EXAMPLES: &str = "A PROGRAM is
  - a kernel, NAME or NAME:key=value,… (see `comity-lab kernel --list`);
  - any other text with a space or a slash: a command for /bin/sh. Each
    execution is one round, must end with 0, and finds the number of workers in
    COMITY_NUM_THREADS and RAYON_NUM_THREADS, and a policy in COMITY_POLICY.
    Its output is thrown away; its last words on standard error are shown if it
    fails.

Measures, per contestant (a policy, or a backend without policies):
  alone T_s, together T_c    mean seconds over the rounds
  one core T_1               mean seconds alone, one worker, pinned to one core
  slowdown                   (T_c - T_s) / T_s
  unfairness                 largest slowdown - smallest slowdown
  unfairness of cpu          largest (cores used / cores due) - smallest; used:
                             processor time / T_c; due: an equal share, but no
                             more than is used alone; what one does not use is
                             shared among the others
  response time T            mean seconds together over all rounds, uncounted
                             ones included (overlapped_s in JSON)
  slow-down ratio T/B        T over the baseline's seconds alone, B = T_b
  D                          largest slow-down ratio - smallest slow-down ratio
  weighted speedup           sum of T_b / T_c, T_b the baseline's seconds alone
  work W                     mean processor seconds alone, one worker, pinned
                             to one core
  bound                      programs / s, s = sum of (W / T_b) / cores, 1 at
                             least: nothing wasted, all slowed alike
  efficiency                 weighted speedup / bound
  cv                         coefficient of variation of T_c: standard
                             deviation / mean
  switches per second        sum of (voluntary + involuntary context switches
                             of a counted round) / T_c

Without uncounted rounds, and with each contestant's own baseline, T/B is 1 +
slowdown, and D is the unfairness. They differ where a short program goes on
beside a long one: T is of all that it did there, T_c of its counted rounds
only. With --pairs the report ends with means and worst cases over all pairs, a
line per contestant.

The rounds are divided into up to three blocks. Each block runs every
contestant: each program alone, alone on one core, then all together; so a
machine that drifts treats all contestants alike. When the programs run
together, one that has had its rounds goes on, uncounted, until all have. A
kernel runs once uncounted when its process starts. What is still running when
a co-run ends is asked to end (SIGTERM), and killed a second later.

Examples:
  comity-lab corun mergesort cg --policy abp,bws --backend rayon
  comity-lab corun cg:class=W mm mi --policy bws:sleep_threshold=128,comity \\
      --workers 8 --group separate
  comity-lab corun cg:class=W mm mi ep:class=S --pairs --policy abp,bws \\
      --backend rayon --json pairs.json
  comity-lab corun cg mm mi --pairs=all --policy bws,comity
  comity-lab corun cg './my-solver --size 100' --rounds 6 --timeout 60 \\
      --json result.json

Exit codes: 0 success; 1 a program failed, hung or gave a wrong result; 2 the
command line is at fault.";

/// Run programs alone and together; print what sharing the machine cost each of them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Two programs or more (with --pairs=all one is enough): kernels, or commands in quotes
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
    /// Policies of Comity to compare, as in abp,bws:sleep_threshold=128; see `comity policies` [default: comity]
    #[arg(long, value_name = "P,…", value_parser = str::parse::<PolicyList>)]
    policy: Vec<PolicyList>,
    /// Other backends to compare, beside --policy where that is given or `comity` is listed
    #[arg(long, value_enum, value_name = "B,…", value_delimiter = ',')]
    backend: Vec<BackendName>,
    /// Co-run every pair of the programs, one pair after the other, instead of all together; without WHICH: distinct
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "distinct")]
    pairs: Option<Pairs>,
    /// Workers of each program, 1 to 1024 (serial always has one) [default: the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Counted rounds of each program, alone and together, 1 to 10000
    #[arg(long, value_name = "R", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Whether each program gets a session, and with autogroup a task group, of its own
    #[arg(long, value_enum, value_name = "GROUPING", default_value = "same")]
    group: Grouping,
    /// The contestant whose time alone is T_b and B, as abp in the BWS paper; `own`: each one's own
    #[arg(long, value_name = "NAME", default_value = "own")]
    baseline: String,
    /// Seconds that one round, or preparing a program, may take, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    timeout: u32,
    /// Also write JSON (schema comity-corun/1) to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Which task groups the programs are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// All programs stay in the session of this command, as if started from one shell
    Same,
    /// Each program has its own session, as if started from its own terminal
    Separate,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Everything that can be wrong with the command line comes first: nothing has run and no file has changed.
    let programs = programs(&arguments.programs, arguments.pairs)?;
    let contestants = contestants(&arguments.policy, &arguments.backend)?;
    let baseline = Baseline::choose(&arguments.baseline, &contestants)?;
    let file = arguments.json.as_deref().map(|path| ResultFile::check(path, "--json")).transpose()?;
    let plan = |programs| Plan {
        programs,
        contestants: contestants.clone(),
        workers: arguments.workers.unwrap_or_else(kernel::default_workers),
        rounds: arguments.rounds as usize,
        grouping: arguments.group,
        timeout: Duration::from_secs(arguments.timeout.into()),
        one_core: cores::allowed().first().map_or(0, |core| core.id),
    };
    let plans: Vec<Plan> = match arguments.pairs {
        Some(pairs) => pairs.of(&programs).into_iter().map(plan).collect(),
        None => vec![plan(programs)],
    };
    let task_grouping = task_grouping(arguments.group);

    descendants::look_after()?;
    let samples = plans.iter().map(schedule::measure).collect::<Result<Vec<_>, _>>()?;
    let measured = || plans.iter().zip(&samples);
    let coruns: Vec<Corun> =
        measured().flat_map(|(plan, samples)| report::coruns(plan, samples, baseline, cores::usable().get())).collect();
    let report = CorunReport {
        schema: "comity-corun/1",
        machine: machine::describe(Some(task_grouping.to_owned())),
        versions: machine::versions(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        baseline: baseline.name(&contestants),
        rounds: arguments.rounds as usize,
        blocks: schedule::blocks(arguments.rounds as usize).len(),
        over_pairs: if arguments.pairs.is_some() { pairs::over(&coruns) } else { Vec::new() },
        coruns,
    };
    if file != Some(ResultFile::Standard) {
        output::print(&table::render(&report))?;
    }
    if let Some(file) = file {
        file.write(&output::to_json(&report))?;
    }
    measured().try_for_each(|(plan, samples)| wrong_result(plan, samples))
}

fn programs(texts: &[String], pairs: Option<Pairs>) -> Result<Vec<Program>, Failure> {
    let programs: Vec<Program> = texts.iter().map(|text| Program::parse(text)).collect::<Result<_, _>>()?;
    match programs.len() {
        1 if pairs != Some(Pairs::All) => Err(Failure::Usage(format!(
            "a co-run needs at least two programs; {} is the only one (--pairs=all runs it beside itself)",
            programs[0]
        ))),
        many if many > MAX_PROGRAMS => {
            Err(Failure::Usage(format!("{many} programs are too many; a co-run takes 2 to {MAX_PROGRAMS}")))
        }
        _ => Ok(programs),
    }
}

fn task_grouping(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::Same => "same",
        Grouping::Separate if task_group::autogroup_enabled() => "separate",
        Grouping::Separate => {
            eprintln!("warning: autogroup is off, so separate sessions still share one task group");
            "separate-without-autogroup"
        }
    }
}

fn wrong_result(plan: &Plan, samples: &[Vec<schedule::Samples>]) -> Result<(), Failure> {
    for (contestant, samples) in plan.contestants.iter().zip(samples) {
        for (program, samples) in plan.programs.iter().zip(samples) {
            if let Some(detail) = &samples.wrong {
                return Err(Failure::Run(format!("{program} gave a wrong result under {contestant}: {detail}")));
            }
        }
    }
    Ok(())
}
