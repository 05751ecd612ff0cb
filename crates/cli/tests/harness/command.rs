//! Helpers that the tests of `comity` and of `comity-lab` share.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::Command;

/// Waits until `holds` returns true. Panics after a very long time, because other tests need the cores too.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(600), "{what} did not come true");
        sleep(Duration::from_millis(10));
    }
}

/// Sends a signal with `kill` of the shell, because a program `kill` may not be installed.
pub fn send(signal: &str, process: u32) {
    assert!(
        std::process::Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).status().unwrap().success()
    );
}

/// Returns the standard output of a run that succeeds, as JSON.
#[track_caller]
pub fn json(command: &mut Command) -> serde_json::Value {
    let output = command.assert().success().get_output().clone();
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// Checks the help of a command and of its more than `least` verbs: each verb has a description, and no line has more
/// than 80 columns.
pub fn assert_every_help_says_what_verbs_do_in_80_columns(command: fn() -> Command, least: usize) {
    let mut left = vec![Vec::new()];
    let mut seen = 0;
    while let Some(words) = left.pop() {
        let output = command().args(&words).arg("--help").assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
        seen += 1;
        let verbs = text.split_once("\nCommands:\n").map_or("", |(_, after)| after.split("\n\n").next().unwrap());
        // The line of a verb is indented by two columns, and the continuation of a description by more columns.
        let names = verbs.lines().filter(|line| !line.starts_with("   ")).filter_map(|line| {
            let (name, what) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            assert!(!what.is_empty(), "{words:?}: nothing is said of '{name}'");
            (!name.is_empty()).then_some(name)
        });
        left.extend(names.filter(|name| *name != "help").map(|name| [words.clone(), vec![name.to_owned()]].concat()));
    }
    assert!(seen > least, "only {seen} helps were found");
}

/// Checks that completions and man pages of a command contain a verb and one of its options.
pub fn assert_completions_and_man_pages_have(command: fn() -> Command, name: &str, [verb, option]: [&str; 2]) {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = command().args(["completions", shell]).assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!([verb, option].iter().all(|word| text.contains(word)), "{shell}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("new/man1");
    command().arg("man").arg(&pages).assert().success();
    let page = |name: &str| pages.join(format!("{name}.1"));
    for (page, word) in [(page(name), verb), (page(&format!("{name}-{verb}")), option)] {
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.replace("\\-", "-").contains(word), "{word} is not in {}:\n{text}", page.display());
    }
    let nowhere: &Path = &page(name).join("below");
    command().arg("man").arg(nowhere).assert().code(2);
    command().args(["completions", "tcsh"]).assert().code(2);
}
