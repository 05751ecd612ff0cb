//! What a measurement depends on, told to whoever asks with `-v`.

use comity_console::choices::{cores, table, variable};
use comity_console::loudness::{detail, hint};
use comity_os::cores::allowed;
use comity_policy::Policy;

use crate::backend::Backend;

/// That of a measurement called `what`.
pub fn tell(what: &str) {
    detail(|| format!("{what}\n{}\n{}", table(), cores()));
}

/// That of a measurement whose programs have a core table of their own.
pub fn tell_apart(what: &str) {
    detail(|| format!("{what}\ncore table: one of the programs' own\n{}", cores()));
}

/// A backend, and who chose it.
pub fn tell_policy(backend: &Backend, is_asked_for: bool) {
    let who = match (backend, is_asked_for) {
        (Backend::Comity(_), false) => variable(&["COMITY", "COMITY_POLICY"], "the default"),
        _ => "the command line".to_owned(),
    };
    detail(|| format!("policy: {backend} ({who})"));
    if let Some(cannot) = backend.policy().and_then(cannot) {
        hint(cannot);
    }
}

/// A number of workers, and who chose it.
pub fn tell_workers(workers: u16, is_asked_for: bool) {
    let who = match is_asked_for {
        true => "the command line".to_owned(),
        false => {
            let variables = ["COMITY_NUM_THREADS", "RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];
            variable(&variables, "the usable cores")
        }
    };
    detail(|| format!("workers: {workers} ({who})"));
}

/// What a policy that accelerates cannot do on this machine.
fn cannot(policy: Policy) -> Option<String> {
    let accelerates = policy.row().accelerates?;
    let cores = allowed();
    let one_node = cores.windows(2).all(|pair| pair[0].node == pair[1].node);
    Some(match (accelerates.threads, accelerates.across_nodes) {
        (false, _) => format!("{policy}: no hypervisor takes part here, so no virtual CPU is accelerated: as bws"),
        (true, _) if cores.len() == 1 => {
            format!("{policy}: there is one core, so no thread is moved; it is yielded to. No hypervisor takes part")
        }
        (true, true) if one_node => {
            format!("{policy}: there is one NUMA node, so it does as robinhood does. No hypervisor takes part")
        }
        (true, _) => format!("{policy}: no hypervisor takes part here, so threads are accelerated, and no virtual CPU"),
    })
}

/// What the simulated machines do not do for a policy that accelerates.
pub fn tell_simulated(policy: Policy) {
    if policy.row().accelerates.is_some() {
        hint(format!(
            "{policy}: the simulated kernel accelerates nothing, and no hypervisor takes part: all is refused"
        ));
    }
}
