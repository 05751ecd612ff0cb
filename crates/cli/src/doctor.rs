//! The verb `comity doctor`: reports what this machine and its kernel offer, the cost of what is missing, and what to
//! change.

mod checks;
mod measure;

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use comity_console::machine::{Machine, Versions};
use comity_console::{Failure, machine, output};
use comity_os::{Capabilities, cores};
use serde::Serialize;

const HELP: &str = "Each check has a verdict:
  ok     no problem
  costs  programs work, but something is lost; the check prints what to change
         (COMITY_TABLE=off has this verdict, too)
  bad    programs that are started here cannot share cores, or do not start

The command takes two seconds. It also measures a wake-up and a time slice.

Exit codes: 0: all checks are ok; 1: a verdict is costs, or standard output
cannot be written; 2: a verdict is bad, or invalid command line.";

/// Check this machine: what it offers, what a missing feature costs, and what to change
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Print JSON (schema comity-doctor/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb. The exit code is the number of the worst verdict.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let checks = checks::all();
    let verdict = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
    let report = DoctorReport {
        schema: "comity-doctor/1",
        verdict,
        machine: machine::describe(None),
        versions: machine::versions(),
        cores: cores::allowed()
            .iter()
            .map(|core| DoctorCore { id: core.id, package: core.package, node: core.node })
            .collect(),
        capabilities: Capabilities::detect().into(),
        checks,
    };
    output::print(&if arguments.json { output::to_json(&report) } else { in_words(&report) })?;
    Ok(ExitCode::from(verdict as u8))
}

fn in_words(report: &DoctorReport) -> String {
    let DoctorReport { machine, versions, cores, checks, .. } = report;
    let mut text = String::new();
    for (what, found) in [
        ("processor", machine.cpu.clone()),
        ("kernel", machine.kernel.clone()),
        ("packages", count(cores.iter().map(|core| core.package))),
        ("numa nodes", count(cores.iter().map(|core| core.node))),
        ("os tier", format!("{} (0: only calls that every process may use)", machine.os_tier)),
        ("versions", format!("comity {}, rayon {}, {}", versions.comity, versions.rayon, versions.rustc)),
    ] {
        let _ = writeln!(text, "{:7}{what:<13}{found}", "");
    }
    text.push('\n');
    for DoctorCheck { name, verdict, found, meaning, change } in checks {
        let _ = writeln!(text, "{:<7}{name:<13}{found}", verdict.name());
        for more in [Some(meaning), change.as_ref()].into_iter().flatten() {
            let _ = writeln!(text, "{:20}{more}", "");
        }
    }
    text
}

fn count(numbers: impl Iterator<Item = usize>) -> String {
    numbers.collect::<std::collections::BTreeSet<usize>>().len().to_string()
}

/// The JSON schema `comity-doctor/1`: this machine and the results of all checks.
#[derive(Debug, Serialize)]
struct DoctorReport {
    /// The name of the schema, `comity-doctor/1`.
    schema: &'static str,
    /// The worst verdict of all checks.
    verdict: Verdict,
    /// The machine.
    machine: Machine,
    /// The versions of the programs that made the report.
    versions: Versions,
    /// The cores that the affinity mask allows.
    cores: Vec<DoctorCore>,
    /// The services that the kernel offers.
    capabilities: DoctorCapabilities,
    /// The checks.
    checks: Vec<DoctorCheck>,
}

/// The verdict of a check. The number is an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No problem.
    Ok = 0,
    /// Programs work, but something is lost.
    Costs = 1,
    /// Programs do not share cores, or do not start.
    Bad = 2,
}

impl Verdict {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Costs => "costs",
            Verdict::Bad => "bad",
        }
    }
}

/// A check and its result.
#[derive(Debug, Serialize)]
pub struct DoctorCheck {
    /// The name of the check.
    pub name: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The state that the check found.
    pub found: String,
    /// The consequence of this state.
    pub meaning: String,
    /// The recommended change. `null` if no change is needed.
    pub change: Option<String>,
}

/// A core.
#[derive(Debug, Serialize)]
struct DoctorCore {
    /// The kernel's number of the core.
    id: usize,
    /// The physical package.
    package: usize,
    /// The NUMA node.
    node: usize,
}

/// The services of the kernel: see [`Capabilities`].
#[derive(Debug, Serialize)]
struct DoctorCapabilities {
    /// True if a sleeper can make every push visible.
    membarrier: bool,
    /// True if a peer's run status can be read.
    thread_cpu_clock: bool,
    /// True if each session is a task group.
    autogroup: bool,
}

impl From<Capabilities> for DoctorCapabilities {
    fn from(found: Capabilities) -> DoctorCapabilities {
        DoctorCapabilities {
            membarrier: found.membarrier,
            thread_cpu_clock: found.thread_cpu_clock,
            autogroup: found.autogroup,
        }
    }
}
