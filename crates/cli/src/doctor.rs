//! `comity doctor`: what this machine and kernel offer, and what is lost where something is missing.

use std::fmt::Write;

use clap::Args;
use comity_console::{Failure, machine, output};
use comity_os::{Capabilities, cores};

use crate::json::{DoctorCore, DoctorReport};

/// Show the cores, the quota and the kernel services that Comity found
#[derive(Args)]
pub struct Arguments {
    /// Print JSON (schema comity-doctor/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let report = DoctorReport {
        schema: "comity-doctor/1",
        machine: machine::describe(None),
        versions: machine::versions(),
        cores: cores::allowed()
            .iter()
            .map(|core| DoctorCore { id: core.id, package: core.package, node: core.node })
            .collect(),
        capabilities: Capabilities::detect().into(),
    };
    output::print(&if arguments.json { output::to_json(&report) } else { in_words(&report) })
}

fn in_words(report: &DoctorReport) -> String {
    let DoctorReport { machine, versions, cores, capabilities, .. } = report;
    let ids: Vec<String> = cores.iter().map(|core| core.id.to_string()).collect();
    let quota = machine.quota_cores.map_or_else(|| "none".to_owned(), |cores| format!("{cores} cores' worth of time"));
    let mut text = String::new();
    for (what, found) in [
        ("processor", machine.cpu.clone()),
        ("kernel", machine.kernel.clone()),
        ("cores", format!("{} usable; the affinity mask allows {}", machine.cores, ids.join(", "))),
        ("packages", count(cores.iter().map(|core| core.package))),
        ("numa nodes", count(cores.iter().map(|core| core.node))),
        ("quota", quota),
        ("os tier", format!("{} (0: nothing but what every process may use)", machine.os_tier)),
    ] {
        let _ = writeln!(text, "{what:<12}{found}");
    }
    for (service, found, with, without) in [
        (
            "membarrier",
            capabilities.membarrier,
            "a worker that goes to sleep sees every new task",
            "sleeping workers look for tasks every millisecond",
        ),
        (
            "cpu clock",
            capabilities.thread_cpu_clock,
            "a worker can tell whether a peer is on a core",
            "a worker whose core was taken away goes unnoticed",
        ),
        (
            "autogroup",
            capabilities.autogroup,
            "each session is a task group; the kernel shares cores between programs",
            "the kernel shares cores between threads; `corun --group separate` changes nothing",
        ),
    ] {
        let (answer, meaning) = if found { ("yes", with) } else { ("no", without) };
        let _ = writeln!(text, "{service:<12}{answer}: {meaning}");
    }
    let _ =
        writeln!(text, "{:<12}comity {}, rayon {}, {}", "versions", versions.comity, versions.rayon, versions.rustc);
    text
}

fn count(numbers: impl Iterator<Item = usize>) -> String {
    numbers.collect::<std::collections::BTreeSet<usize>>().len().to_string()
}
