//! Tests of `comity cores`: it prints one number, according to the mask, the quota and the table. It refuses bad
//! input. If the table cannot be used, it prints a number and a warning.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use comity_os::cores;

use crate::table::member;
use crate::{comity, comity_at, json, send, wait_until};

#[test]
fn alone_it_prints_all_usable_cores_and_beside_a_member_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let usable = cores::usable().get();
    let number = |words: &[&str]| {
        let output =
            comity().env("COMITY_TABLE", &path).arg("cores").args(words).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(number(&[]), format!("{usable}\n"));
    let mut child = member(&path);
    // The member has weight 250 and one worker, so its desire is 1.
    let look = || json(comity().env("COMITY_TABLE", &path).args(["cores", "--json", "--weight", "250"]));
    let report = look();
    assert_eq!((&report["schema"], &report["programs"]), (&"comity-cores/1".into(), &1.into()));
    assert_eq!((&report["usable"], &report["weight"]), (&usable.into(), &250.into()));
    // While the member's coordinator looks late, the member counts as stopped, and the share is larger.
    let left = report["allowed_cores"].as_f64().unwrap() - 1.0;
    let share = if left > 0.0 { left.min(usable as f64) } else { 0.5 };
    wait_until("it gets what the member leaves", || {
        let report = look();
        (report["share"].as_f64().unwrap() - share).abs() < 0.01 && report["cores"] == share.ceil() as u64
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(number(&[]), format!("{usable}\n"), "the dead count for nothing");
}

#[test]
fn watched_it_prints_each_new_number_as_long_as_it_has_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut watch = comity_at(&path).args(["cores", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    // If `--watch` prints too few lines, it is killed, so that the test fails instead of hanging.
    let pid = watch.id();
    let (_over, test) = mpsc::channel::<()>();
    thread::spawn(move || {
        if test.recv_timeout(Duration::from_secs(600)) == Err(RecvTimeoutError::Timeout) {
            send("KILL", pid);
        }
    });
    let mut lines = BufReader::new(watch.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    assert_eq!(lines.next().unwrap()["programs"], 0);
    let mut child = member(&path);
    lines.find(|report| report["programs"] == 1).expect("it goes on until it is told");
    child.kill().unwrap();
    child.wait().unwrap();
    lines.find(|report| report["programs"] == 0).expect("it goes on until it is told");
    drop(lines);
    // A member joins, so that `--watch` writes its next line into a pipe without a reader.
    let mut child = member(&path);
    assert!(watch.wait().unwrap().success());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_mask_counts_and_a_table_that_is_none_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    fs::write(&path, "dear diary, ".repeat(50)).unwrap();
    let output = comity().env("COMITY_TABLE", &path).arg("cores").assert().success().get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", cores::usable()));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("is not a core table") && errors.ends_with("computed without the table.\n"), "{errors}");
    let binary = env!("CARGO_BIN_EXE_comity");
    let one = cores::allowed()[0].id.to_string();
    match Command::new("taskset").args(["-c", &one, binary, "cores"]).env("COMITY_TABLE", "off").output() {
        Ok(output) => assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\n"),
        Err(error) => println!("skipped in part: taskset: {error}"),
    }
}

#[test]
fn bad_input_is_refused() {
    for words in [
        &["--weight", "0"][..],
        &["--weight", "10001"],
        &["--weight", "-1"],
        &["--weight", "heavy"],
        &["--weight"],
        &["--weight", "1.5"],
        &["--weight", ""],
        &["--weight", "99999999999999999999"],
        &["--wacth"],
        &["--watch=yes"],
        &["--json=1"],
        &["-w"],
        &["4"],
        &["--cores"],
        &["--json", "--json"],
        &["--watch", "--watch"],
        &["--weight", "1", "--weight", "2"],
        &["all"],
        &["--", " "],
    ] {
        let output = comity().arg("cores").args(words).assert().code(2).get_output().clone();
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"error: "), "{words:?}");
    }
    for weight in ["0", "ten", "10001"] {
        let output = comity().arg("cores").env("COMITY_WEIGHT", weight).assert().code(2).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(&format!("COMITY_WEIGHT={weight} is not a whole number from 1 to 10000")), "{errors}");
    }
}
