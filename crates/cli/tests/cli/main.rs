//! Tests of the `comity` command: its output, its exit codes, and that it leaves no process behind.

mod adopt;
mod attackers;
#[path = "../harness/command.rs"]
mod command;
mod cores;
mod jobserver;
mod loudness;
mod rayon;
mod run;
mod run_report;
mod set;
mod table;
mod top;
mod verbs;
mod ways;

use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use command::{json, send, wait_until};

/// A folder that does not exist, so that the tests read no configuration file of the user.
const NO_CONFIG: &str = "/nonexistent";

/// Returns the command `comity`, to which the caller adds arguments. It fails after ten minutes: a command that takes
/// so long hangs.
fn comity() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("comity");
    command.timeout(Duration::from_secs(600)).env("XDG_CONFIG_HOME", NO_CONFIG);
    command
}

/// Returns the command `comity` with `table` as its core table.
fn comity_at(table: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_comity"));
    command.env("COMITY_TABLE", table).env("XDG_CONFIG_HOME", NO_CONFIG);
    for variable in ["COMITY", "COMITY_LABEL", "COMITY_POLICY", "COMITY_WEIGHT"] {
        command.env_remove(variable);
    }
    command
}

/// Returns the output of `comity table --json` for this table.
#[track_caller]
fn table_at(table: &Path) -> serde_json::Value {
    json(comity().env("COMITY_TABLE", table).args(["table", "--json"]))
}
