//! Tests the `comity-lab` command as users see it: its output, its exit codes, and that it leaves no process behind.

mod bad_input;
mod bench;
#[path = "../../../../crates/cli/tests/harness/command.rs"]
mod command;
mod corun;
mod interrupted;
mod kernel;
mod loudness;
mod processes;
mod record;
mod report;
mod reproduce;
mod simulate;
mod sweep;
mod variations;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use assert_cmd::Command;
use command::{json, send, wait_until};
use tempfile::TempDir;

/// Returns the command `comity-lab`, to which the caller adds arguments. It fails after ten minutes: a command that
/// takes so long hangs.
fn lab() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("comity-lab");
    command.timeout(Duration::from_secs(600));
    command
}

/// The beginning of a shell script that answers the first line with a list, as `rayon-programs serve` does.
const FAKE_LIST: &str = r#"read -r line; echo '{"programs":["sort"]}'; "#;

/// Makes an executable shell script.
fn executable(folder: &TempDir, name: &str, script: &str) -> PathBuf {
    let [text, path] = [format!("{name}.text"), name.to_owned()].map(|name| folder.path().join(name));
    std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes the file. If this process wrote it, a child that another test forks meanwhile could have
    // it open for writing, and execve(2) would fail.
    let installed = std::process::Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
    assert!(installed.unwrap().success());
    path
}

/// Runs the command with these words, and sends it `signal` after line `lines` of its standard error. Returns how it
/// ended and its output.
fn ended_at_a_line(lines: usize, signal: &str, words: &[&str]) -> Interrupted {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut first = Vec::new();
    for _ in 0..lines {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ended after {first:?}");
        first.push(line);
    }
    send(signal, child.id());
    let output = child.wait_with_output().unwrap();
    let mut last = String::new();
    errors.read_to_string(&mut last).unwrap();
    Interrupted {
        signal: output.status.signal(),
        printed: String::from_utf8(output.stdout).unwrap(),
        last: last.lines().last().unwrap_or_default().to_owned(),
    }
}

/// The end of a command that a signal ended, and its output.
struct Interrupted {
    signal: Option<i32>,
    /// The text on standard output.
    printed: String,
    /// The last line of standard error.
    last: String,
}
