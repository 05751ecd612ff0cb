//! Tests `comity-lab predict`: its predictions, that the same recordings give the same predictions, and its errors.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::bad_input::refused;
use crate::{json, lab};

fn recording() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios/cg.graph").to_str().unwrap().to_owned()
}

fn foretold(more: &[&str]) -> Value {
    let recording = recording();
    let few = ["--rounds", "3", "--starts", "2", "--workers", "2", "--json", "-"];
    json(lab().args(["predict", &recording, &recording]).args(few).args(more))
}

#[test]
fn recordings_foretell_the_same_each_time() {
    let report = foretold(&["--policy", "abp,bws", "--seed", "7"]);
    assert_eq!(report["schema"], "comity-predict/1");
    assert_eq!(report["twin"]["cores"], report["machine"]["allowed_cores"]);
    let coruns = report["coruns"].as_array().unwrap();
    let policies: Vec<&str> = coruns.iter().map(|corun| corun["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["abp", "bws"]);
    for corun in coruns {
        let programs = corun["programs"].as_array().unwrap();
        assert_eq!(programs.len(), 2);
        for program in programs {
            let number = |pointer: &str| program.pointer(pointer).unwrap().as_f64().unwrap();
            let (solo, together) = (number("/solo_s/foretold"), number("/corun_s/foretold"));
            assert!((number("/slowdown/foretold") - (together / solo - 1.0)).abs() < 1e-9, "{program}");
            assert!(number("/range/0") <= number("/range/1"), "{program}");
            assert!(program["slowdown"]["measured"].is_null() && program["slowdown"]["error"].is_null(), "{program}");
        }
    }
    let again = foretold(&["--policy", "abp,bws", "--seed", "7"]);
    assert_eq!(report["coruns"], again["coruns"]);
    assert_ne!(report["coruns"], foretold(&["--policy", "abp,bws", "--seed", "8"])["coruns"]);
    assert_ne!(report["coruns"], foretold(&["--policy", "abp,bws", "--seed", "7", "--cost", "steal=90000"])["coruns"]);
}

#[test]
fn a_kernel_is_recorded_foretold_and_measured() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("foretold.json");
    let words = ["predict", "mi:n=100", "nqueens:n=8", "--rounds", "2", "--starts", "1", "--measure"];
    let output = lab().args(words).args(["--json", file.to_str().unwrap()]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["predicted", "measured", "weighted speedup", "Simulated: Linux ", "ticks per second"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let corun = &report["coruns"][0];
    for number in ["unfairness", "weighted_speedup"] {
        assert!(corun[number]["foretold"].is_f64() && corun[number]["measured"].is_f64(), "{corun}");
    }
    let program = &corun["programs"][0];
    let time = |key: &str| program["corun_s"][key].as_f64().unwrap();
    assert!((program["corun_s"]["error"].as_f64().unwrap() - (time("foretold") / time("measured") - 1.0)).abs() < 1e-9);
    assert!(report["programs"].as_array().unwrap().iter().all(|program| program["check_s"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_recording_without_a_check_is_said_to_have_none() {
    let recording = recording();
    let words = ["predict", &recording, &recording, "--rounds", "1", "--starts", "1", "--group", "same"];
    let output = lab().args(words).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("between two rounds is not known") && text.contains("one task group"), "{text}");
}

#[test]
fn what_cannot_be_foretold_is_refused() {
    let recording = recording();
    refused(&["predict", "fib:n=10", "fibonacci"], "no kernel is called 'fibonacci'. Choose one of fib, ");
    refused(&["predict", "fib:n=10"], "a co-run needs at least two programs");
    refused(
        &["predict", "fib:n=10", "sleep 1"],
        "'sleep 1' is a command. Build it after `comity rayon enable --record`",
    );
    refused(&["predict", "fib:n=10", "loop"], "loop cannot be recorded");
    refused(&["predict", "fib:n=10", "nowhere.graph"], "recording 'nowhere.graph': No such file");
    refused(&["predict", "fib:n=10", &recording, "--measure"], "is a recording, which --measure cannot run");
    refused(&["predict", "fib:n=10", "fib:n=10", "--policy", "cilk"], "no policy is called 'cilk'");
    refused(&["predict", "fib:n=10", "fib:n=10", "--cost", "coffee=3"], "unknown field `coffee`");
    refused(&["predict", "fib:n=10", "fib:n=10", "--workers", "0"], "invalid value '0'");
}
