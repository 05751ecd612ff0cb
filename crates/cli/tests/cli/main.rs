//! The `comity` command as a user meets it: what it prints, how it exits, and that it leaves no process behind.

mod bad_input;
mod bench;
mod corun;
mod processes;
mod verbs;

use assert_cmd::Command;

/// The command, ready for arguments. It ends within two minutes or the test fails.
fn comity() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("comity");
    command.timeout(std::time::Duration::from_secs(120));
    command
}

/// Standard output of a run that succeeds, as JSON.
#[track_caller]
fn json(command: &mut Command) -> serde_json::Value {
    let output = command.assert().success().get_output().clone();
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}
