//! The `comity-lab` command as a user meets it: what it prints, how it exits, and that it leaves no process behind.

mod bad_input;
mod bench;
mod corun;
mod kernel;
mod processes;
mod reproduce;
mod simulate;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use tempfile::TempDir;

/// The command, ready for arguments. After ten minutes it is taken to hang; that is no bound on its speed.
fn lab() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("comity-lab");
    command.timeout(Duration::from_secs(600));
    command
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

/// The beginning of a shell script that answers the first line as `rayon-programs serve` does, with a list.
const FAKE_LIST: &str = r#"read -r line; echo '{"programs":["sort"]}'; "#;

/// A shell script that can be executed.
fn executable(folder: &TempDir, name: &str, script: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}
