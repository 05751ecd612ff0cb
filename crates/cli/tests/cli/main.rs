//! The `comity` command as a user meets it: what it prints, how it exits, and that it leaves no process behind.

mod cores;
mod loudness;
mod rayon;
mod run;
mod run_report;
mod set;
mod table;
mod top;
mod verbs;

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::Command;

/// The command, ready for arguments. After ten minutes it is taken to hang; that is no bound on its speed.
fn comity() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("comity");
    command.timeout(Duration::from_secs(600));
    command
}

/// The command with a core table of the test's own.
fn comity_at(table: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_comity"));
    command.env("COMITY_TABLE", table);
    for variable in ["COMITY", "COMITY_POLICY", "COMITY_WEIGHT"] {
        command.env_remove(variable);
    }
    command
}

/// What `comity table --json` says of it.
#[track_caller]
fn table_at(table: &Path) -> serde_json::Value {
    json(comity().env("COMITY_TABLE", table).args(["table", "--json"]))
}

/// Looks again and again, for very long: other tests want the cores too.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(600), "{what} did not come true");
        sleep(Duration::from_millis(10));
    }
}

/// `kill` is a word of the shell everywhere.
fn send(signal: &str, process: u32) {
    assert!(
        std::process::Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).status().unwrap().success()
    );
}

/// Standard output of a run that succeeds, as JSON.
#[track_caller]
fn json(command: &mut Command) -> serde_json::Value {
    let output = command.assert().success().get_output().clone();
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}
