//! The verbs that run one kernel or list them.

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

/// What there is to accelerate, and what not, in one line; and what came of it.
#[test]
fn a_policy_says_what_it_cannot_accelerate_here() {
    for (policy, part) in [
        ("robinhood", "robinhood: "),
        ("robinhood-u", "no hypervisor takes part"),
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
    // A thief of bws pulls a preempted peer that it yields to, so on a busy machine only the plain yield moves no thread.
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
fn every_help_fits_80_columns() {
    let mut left = vec![Vec::new()];
    let mut seen = 0;
    while let Some(words) = left.pop() {
        let output = lab().args(&words).arg("--help").assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
        seen += 1;
        let verbs = text.split_once("\nCommands:\n").map_or("", |(_, after)| after.split("\n\n").next().unwrap());
        // A verb's name is indented by two; what continues its line, by more.
        let names =
            verbs.lines().filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        left.extend(names.filter(|name| *name != "help").map(|name| [words.clone(), vec![name.to_owned()]].concat()));
    }
    assert!(seen > 15, "only {seen} helps were found");
}

#[test]
fn completions_and_man_pages_know_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = lab().args(["completions", shell]).assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(["corun", "pairs"].iter().all(|word| text.contains(word)), "{shell}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("new/man1");
    lab().arg("man").arg(&pages).assert().success();
    for (page, word) in [("comity-lab.1", "corun"), ("comity-lab-corun.1", "pairs")] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.replace("\\-", "-").contains(word), "{word} is not in {page}:\n{text}");
    }
    let nowhere = pages.join("comity-lab.1").join("below");
    lab().arg("man").arg(nowhere).assert().code(2);
    lab().args(["completions", "tcsh"]).assert().code(2);
}
