//! Tests the verbs that run one kernel or list the kernels.

use crate::command::{assert_completions_and_man_pages_have, assert_every_help_says_what_verbs_do_in_80_columns};
use crate::{json, lab};

#[test]
fn a_kernel_is_verified_on_every_backend() {
    for backend in
        [&["--backend", "serial"][..], &["--backend", "rayon"], &["--policy", "abp"], &["--policy", "comity"]]
    {
        let report = json(lab().args(["kernel", "fib:n=20", "--rounds", "3", "--json"]).args(backend));
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
    let output = lab().args(["kernel", "fib:n=20", "--workers", "3"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("fib:n=20 on comity (policy comity), 3 workers\nround 1: "), "{text}");
    assert!(text.contains("verified: fib(20) = 6765") && text.contains("steals "), "{text}");
}

/// Tests that `-v` prints one line about what a policy cannot accelerate on this machine, and that the counters
/// agree.
#[test]
fn a_policy_says_what_it_cannot_accelerate_here() {
    for (policy, part) in [
        ("robinhood", "robinhood: "),
        ("robinhood-u", "there is no hypervisor"),
        ("robinhood-s", "no virtual CPU is accelerated; as bws"),
    ] {
        let told = |options: &[&str]| {
            let kernel = ["kernel", "fib:n=15", "--workers", "2", "--policy", policy];
            let output = lab().args(kernel).args(options).assert().success().get_output().clone();
            String::from_utf8(output.stderr).unwrap()
        };
        let line = told(&[]);
        assert!(line.contains("ypervisor") && line.lines().count() == 1, "{line}");
        assert!(line.contains(part), "{line}");
        assert_eq!(told(&["-q"]), "");
    }
    // A thief of `bws` yields to a preempted peer by pulling its thread. With `yield_to=plain`, it moves no thread,
    // even on a busy machine.
    let report = json(lab().args(["kernel", "fib:n=15", "--policy", "robinhood-s:yield_to=plain", "--json"]));
    let counters = &report["rounds"][0]["counters"];
    assert_eq!(counters["accelerations"], 0);
    for (reason, count) in counters["refused"].as_object().unwrap() {
        assert!(count == 0 || reason == "no_hypervisor", "{reason}: {count}");
    }
}

#[test]
fn the_kernels_are_listed() {
    let kernels = json(lab().args(["kernel", "--list", "--json"]));
    assert_eq!(kernels["kernels"][0]["name"], "fib");
    let output = lab().args(["kernel", "--list"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("n=32: "));
}

#[test]
fn every_help_says_what_verbs_do_in_80_columns() {
    assert_every_help_says_what_verbs_do_in_80_columns(lab, 15);
}

#[test]
fn completions_and_man_pages_know_every_verb() {
    assert_completions_and_man_pages_have(lab, "comity-lab", ["corun", "pairs"]);
}
