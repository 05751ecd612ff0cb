//! The verbs that run one thing or nothing.

use std::process::{Command, Stdio};

use crate::{comity, json};

#[test]
fn a_kernel_is_verified_on_every_backend() {
    for backend in
        [&["--backend", "serial"][..], &["--backend", "rayon"], &["--policy", "abp"], &["--policy", "comity"]]
    {
        let report = json(comity().args(["kernel", "fib:n=20", "--rounds", "3", "--json"]).args(backend));
        assert_eq!(report["schema"], "comity-kernel/1");
        assert_eq!(report["verified"], true);
        assert_eq!(report["policy"], backend[1]);
        let rounds = report["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 3);
        for round in rounds {
            assert!(round["seconds"].as_f64().unwrap() > 0.0 && round["verified"] == true);
            assert_eq!(round["detail"], "fib(20) = 6765, expected 6765");
            assert_eq!(round["counters"].is_object(), report["backend"] == "comity");
        }
    }
}

#[test]
fn a_kernel_in_words() {
    let output = comity().args(["kernel", "fib:n=20", "--workers", "3"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("fib:n=20 on comity (policy comity), 3 workers\nround 1: "), "{text}");
    assert!(text.contains("verified: fib(20) = 6765") && text.contains("steals "), "{text}");
}

#[test]
fn the_catalogs_are_listed() {
    let policies = json(comity().args(["policies", "--json"]));
    assert_eq!(policies["schema"], "comity-policies/1");
    let names: Vec<_> = policies["policies"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names[0], "comity");
    assert!(names.contains(&"bws".into()));
    let kernels = json(comity().args(["kernel", "--list", "--json"]));
    assert_eq!(kernels["kernels"][0]["name"], "fib");
    for (words, part) in [(&["policies"][..], "comity (default)"), (&["kernel", "--list"], "n=32: ")] {
        let output = comity().args(words).assert().success().get_output().clone();
        assert!(String::from_utf8(output.stdout).unwrap().contains(part));
    }
}

#[test]
fn the_doctor_says_what_was_found() {
    let report = json(comity().args(["doctor", "--json"]));
    assert_eq!(report["schema"], "comity-doctor/1");
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    for service in ["membarrier", "thread_cpu_clock", "autogroup"] {
        assert!(report["capabilities"][service].is_boolean(), "{service}");
    }
    let output = comity().arg("doctor").assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for what in ["processor", "usable", "quota", "os tier", "membarrier", "autogroup"] {
        assert!(text.contains(what), "{what} is not in\n{text}");
    }
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_comity"))
        .arg("policies")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
