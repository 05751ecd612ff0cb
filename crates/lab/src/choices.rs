//! What a measurement depends on, told to whoever asks with `-v`.

use comity_console::choices::{cores, table, variable};
use comity_console::loudness::detail;

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
