//! Prints, with `-v`, the settings that a measurement depends on: the core table, the cores, the policy and the
//! number of workers.

use comity_console::choices::{cores, table, variable};
use comity_console::loudness::{detail, hint};
use comity_os::cores::allowed;
use comity_policy::Policy;
use comity_policy::definition::{Accelerates, Pull};

use crate::backend::Backend;

/// Prints the core table and the cores for a measurement called `what`.
pub fn tell(what: &str) {
    detail(|| format!("{what}\n{}\n{}", table(), cores()));
}

/// Prints the cores for a measurement called `what`, whose programs have their own core table.
pub fn tell_apart(what: &str) {
    detail(|| format!("{what}\ncore table: a table for these programs only\n{}", cores()));
}

/// Prints a backend, and the setting that chose it.
pub fn tell_policy(backend: &Backend, is_asked_for: bool) {
    let source = match (backend, is_asked_for) {
        (Backend::Comity(_), false) => variable(&["COMITY", "COMITY_POLICY"], "the default"),
        _ => "the command line".to_owned(),
    };
    detail(|| format!("policy: {backend} ({source})"));
    if let Some(cannot) = backend.policy().and_then(cannot) {
        hint(cannot);
    }
}

/// Prints a number of workers, and the setting that chose it.
pub fn tell_workers(workers: u16, is_asked_for: bool) {
    let source = match is_asked_for {
        true => "the command line".to_owned(),
        false => {
            let variables = ["COMITY_NUM_THREADS", "RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];
            variable(&variables, "the usable cores")
        }
    };
    detail(|| format!("workers: {workers} ({source})"));
}

/// Describes the accelerations that a policy requests and that this machine does not support.
fn cannot(policy: Policy) -> Option<String> {
    let yields_to = || policy.yield_to().map(|pull| Accelerates { threads: Some(pull), vcpus: false });
    let Accelerates { threads, vcpus } = policy.accelerates().or_else(yields_to)?;
    let cores = allowed();
    let one_node = cores.windows(2).all(|pair| pair[0].node == pair[1].node);
    let moves = match threads {
        None => "as bws",
        Some(_) if cores.len() == 1 => "there is one core, so threads are not moved; the thief yields to the candidate",
        Some(Pull { across_nodes: true, .. }) if one_node && vcpus => {
            "there is one NUMA node, so it behaves as robinhood"
        }
        Some(_) => "threads are accelerated",
    };
    let hypervisor = if vcpus { "there is no hypervisor here, so no virtual CPU is accelerated; " } else { "" };
    (vcpus || cores.len() == 1).then(|| format!("{policy}: {hypervisor}{moves}"))
}

/// Warns that the simulated machines refuse all accelerations, if the policy accelerates.
pub fn tell_simulated(policy: Policy) {
    if policy.accelerates().is_some() {
        hint(format!(
            "{policy}: the simulated kernel cannot accelerate, and there is no hypervisor: every acceleration is \
             refused"
        ));
    }
}
