//! `comity-lab bench use`: measures the processor time of programs that run together, and the time that cores are
//! idle although a program has work.

mod clocks;
mod party;
mod quota;
mod role;
mod scenario;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use comity_console::loudness::hint;
use comity_console::parse::whole;
use comity_console::{Failure, output};
use comity_os::writes::to_file;
use comity_os::{cores, process, task_group};
use serde::Serialize;

use self::party::{Party, Sharing, Used};
use self::quota::Quota;
use self::role::Role;
use self::scenario::{SCENARIOS, Scenario};
use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use super::ratio::Ratio;
use crate::descendants;

const EXAMPLES: &str = "Examples:
  comity-lab bench use
  comity-lab bench use --scenario sleepers,quota --rounds 5 --json
  comity-lab bench use --list

A scenario has programs (members) that run at the same time. At least one member
can use all cores all the time. Each round runs the scenario twice: with a core
table of its own, and with COMITY_TABLE=off. Each run counts --seconds, after
half a second in which all members start.

Measures, in cores (processor seconds per second):
  used                    by each member: all processes of its session, without
                          the coordinator of a `comity run`
  used of what could be   cores that all members use with a table, divided by
                          cores that they use without a table
  idle                    cores that no process used although a member had
                          work, of the cores that this process may use

Other processes on the machine use cores too; those cores are neither a member's
nor idle. Scenarios with a quota need permission to create a control group with
the cpu controller. Without permission, they are skipped.";

/// Measure the processor time of programs that run together, with a core table and without, and the idle time of cores
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Scenarios to measure [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(SCENARIOS.iter().map(|one| one.name)))]
    scenario: Vec<String>,
    /// List the scenarios instead of measuring
    #[arg(long)]
    list: bool,
    /// Time of each measurement, in seconds, 1 to 3600
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = whole::<u64>(1..=3600))]
    seconds: u64,
    /// Number of measurements of each scenario, with and without a table, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = whole::<u32>(1..=1000))]
    rounds: u32,
    /// Print JSON (schema comity-bench-use/1)
    #[arg(long)]
    json: bool,
    /// Be a member that is no other verb
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// Become a member, which lives and dies with this process
    #[arg(long, hide = true, requires = "words")]
    parent: Option<u32>,
    /// The control group to be in
    #[arg(long, hide = true, requires = "words")]
    entrance: Option<PathBuf>,
    /// The member's command and its words
    #[arg(last = true, hide = true, requires = "parent")]
    words: Vec<OsString>,
}

#[derive(Serialize)]
struct Report {
    seconds: u64,
    rounds: u32,
    scenarios: Vec<ScenarioReport>,
}

#[derive(Serialize)]
struct ScenarioReport {
    name: &'static str,
    what: &'static str,
    /// The reason why the scenario was not measured.
    skipped: Option<String>,
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct Measured {
    /// The number of rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    table: Side,
    off: Side,
    /// The processor time with a core table divided by the processor time without a table, per round.
    used_of_what_could_be: Ratio,
}

/// The results with a core table or without a table, in cores.
#[derive(Serialize)]
struct Side {
    members: Vec<MemberReport>,
    used: Quartiles,
    idle: Quartiles,
}

#[derive(Serialize)]
struct MemberReport {
    name: &'static str,
    used: Quartiles,
}

/// The time before each measurement, in which all members start and join the core table.
const BEGIN: Duration = Duration::from_millis(500);

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    if let Some(role) = arguments.role {
        return role.run();
    }
    if let Some(parent) = arguments.parent {
        return become_member(arguments, parent);
    }
    if arguments.list {
        if out.is_some() {
            return Err(Failure::Usage(
                "--list measures nothing, so --out cannot save a result. Leave out one of the two".to_owned(),
            ));
        }
        let lines: Vec<String> =
            SCENARIOS.iter().map(|scenario| format!("{}\n    {}\n", scenario.name, scenario.what)).collect();
        return output::print(&lines.concat());
    }
    descendants::look_after()?;
    let is_chosen = |scenario: &&Scenario| {
        arguments.scenario.is_empty() || arguments.scenario.iter().any(|name| name == scenario.name)
    };
    let scenarios: Vec<&'static Scenario> = SCENARIOS.iter().filter(is_chosen).collect();
    let skipped: Vec<Option<String>> = scenarios.iter().map(|scenario| why_skipped(scenario)).collect();
    let Arguments { seconds, rounds, json, .. } = *arguments;
    let number = |skipped: &Option<String>| if skipped.is_some() { 0 } else { rounds as usize };
    let blocks = scenarios.iter().zip(&skipped);
    let harness = Harness {
        name: "use",
        setting: format!("{seconds} s each"),
        has_own_table: true,
        blocks: blocks
            .map(|(scenario, skipped)| Block { name: scenario.name.to_owned(), rounds: number(skipped) })
            .collect(),
        json,
        out,
    };
    let measure = |turn: harness::Turn| {
        let scenario = SCENARIOS.iter().filter(is_chosen).nth(turn.block).expect("a block is a scenario");
        let table = side_by_side(scenario, Sharing::Table, seconds)?;
        Ok([table, side_by_side(scenario, Sharing::Off, seconds)?])
    };
    let report = move |done: &[Vec<[Used; 2]>]| {
        let all = scenarios.iter().zip(&skipped).zip(done);
        let report =
            |((scenario, skipped), rounds): ((&&'static Scenario, &Option<String>), &Vec<[Used; 2]>)| ScenarioReport {
                name: scenario.name,
                what: scenario.what,
                skipped: skipped.clone(),
                measured: (!rounds.is_empty()).then(|| measured(scenario, rounds)),
            };
        Report { seconds, rounds, scenarios: all.map(report).collect() }
    };
    harness.run(measure, report)
}

/// Sets up the session, the parent-death signal and the control group of this process, then executes the member's
/// command.
fn become_member(arguments: &Arguments, parent: u32) -> Result<(), Failure> {
    let cannot = |what: &str, error: io::Error| Failure::Run(format!("cannot {what}: {error}"));
    task_group::new_session().map_err(|error| cannot("start a session", error))?;
    process::die_with_parent(parent).map_err(|error| cannot("outlive the bench", error))?;
    if let Some(entrance) = &arguments.entrance {
        let own = std::process::id().to_string();
        to_file(entrance, own).map_err(|error| cannot(&format!("write to '{}'", entrance.display()), error))?;
    }
    let [program, words @ ..] = arguments.words.as_slice() else { unreachable!("the parser asks for words") };
    Err(cannot(&format!("start '{}'", program.display()), Command::new(program).args(words).exec()))
}

fn why_skipped(scenario: &Scenario) -> Option<String> {
    let error = scenario.has_quota().then(|| Quota::new(0, 1.0).err()).flatten()?;
    let why = format!("cannot create a control group with a quota: {error}");
    hint(format!("warning: the scenario {} is skipped: {why}", scenario.name));
    Some(why)
}

/// Compares the rounds with a core table and without a table.
fn measured(scenario: &Scenario, rounds: &[[Used; 2]]) -> Measured {
    let sums = |nth: usize| rounds.iter().map(|used| used[nth].by.iter().sum()).collect::<Vec<f64>>();
    let used_of_what_could_be = Ratio::of(&sums(0), &sums(1));
    let side = |nth: usize| side(scenario, &rounds.iter().map(|used| &used[nth]).collect::<Vec<_>>());
    Measured { rounds: rounds.len(), table: side(0), off: side(1), used_of_what_could_be }
}

fn side_by_side(scenario: &Scenario, sharing: Sharing, seconds: u64) -> Result<Used, Failure> {
    let party = Party::start(scenario, sharing, cores::usable().get())?;
    sleep(BEGIN);
    let (start, time) = (Instant::now(), Duration::from_secs(seconds));
    let first = party.look()?;
    for event in scenario.events {
        sleep(time.mul_f64(event.after).saturating_sub(start.elapsed()));
        party.act(event.to, event.act)?;
    }
    sleep(time.saturating_sub(start.elapsed()));
    let used = party.look()?.since(&first);
    party.end()?;
    Ok(used)
}

fn side(scenario: &Scenario, rounds: &[&Used]) -> Side {
    let quartiles =
        |value: &dyn Fn(&Used) -> f64| Quartiles::of(&rounds.iter().copied().map(value).collect::<Vec<f64>>());
    let members = scenario.members.iter().enumerate();
    Side {
        members: members
            .map(|(nth, member)| MemberReport { name: member.program.name(), used: quartiles(&|used| used.by[nth]) })
            .collect(),
        used: quartiles(&|used| used.by.iter().sum()),
        idle: quartiles(&|used| used.idle),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["scenario", "used: table", "used: off", "used of what could be", "idle: table", "idle: off"]);
        for scenario in &self.scenarios {
            let Some(Measured { table: with, off, used_of_what_could_be, .. }) = &scenario.measured else {
                let why = if scenario.skipped.is_some() { "skipped" } else { "not measured" };
                table.add_row([scenario.name, why, why]);
                continue;
            };
            table.add_row([
                scenario.name.to_owned(),
                used(with),
                used(off),
                used_of_what_could_be.to_string(),
                with.idle.told(2),
                off.idle.told(2),
            ]);
        }
        let Report { seconds, rounds, .. } = self;
        let skipped: Vec<String> = self
            .scenarios
            .iter()
            .filter_map(|scenario| Some(format!("{} was skipped: {}\n", scenario.name, scenario.skipped.as_ref()?)))
            .collect();
        format!(
            "{table}\n\nCores, of {}: medians (quartiles) over {rounds} rounds of {seconds} s, alternately with and \
             without a table. Members are\nin the order of `comity-lab bench use --list`. idle: no process used the \
             core, although a member had work.\n{}",
            cores::usable(),
            skipped.concat()
        )
    }
}

/// Formats the cores of each member, and their sum.
fn used(side: &Side) -> String {
    let members: Vec<String> = side.members.iter().map(|member| format!("{:.2}", member.used.median)).collect();
    format!("{} = {}", members.join(" + "), side.used.told(2))
}
