//! `comity-lab record`: what a recording says, and what a file is answered that is none.

use std::fs;

use tempfile::TempDir;

use crate::{json, lab};

#[test]
fn a_kernel_is_recorded_and_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cg.graph");
    let file = path.to_str().unwrap();
    let report = json(lab().args(["record", "cg", "--workers", "8", "--rounds", "1", "--out", file, "--json"]));
    assert_eq!(report["schema"], "comity-record/1");
    assert_eq!((&report["name"], &report["workers"]), (&"cg".into(), &8.into()));
    let number = |report: &serde_json::Value, key: &str| report[key].as_f64().unwrap();
    assert!(number(&report, "work_s") > number(&report, "span_s") && number(&report, "span_s") > 0.0);
    // Its 25 steps of 15 are kept once.
    assert!(number(&report, "tasks") > 10.0 * number(&report, "kept_tasks"), "{report}");
    let shown = json(lab().args(["record", "--show", file, "--json"]));
    for key in ["work_s", "span_s", "tasks", "leaf_ns", "plain_s"] {
        assert_eq!(report[key], shown[key], "{key}");
    }
    let wider = json(lab().args(["record", "--show", file, "--json", "--scale", "width=2,repeats=3"]));
    assert!(number(&wider, "leaves") > 5.0 * number(&shown, "leaves"), "{wider}");
    let larger = json(lab().args(["record", "--show", file, "--json", "--scale", "cg:class=W"]));
    assert_eq!((&larger["scale"]["width"], &larger["scale"]["phases"]), (&5.0.into(), &1.0.into()), "{larger}");
    assert!(number(&larger, "work_s") > 5.0 * number(&shown, "work_s"), "{larger}");
    let output =
        lab().args(["record", "--show", file, "--scale", "cg:class=W"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("scale = { repeats = 1, phases = 1, width = 5,"), "{text}");
    let output = lab().args(["record", "--show", file]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["cg, for 8 workers", "work T₁", "not recorded", "leaves, p10", "are part of their parents", "% more"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn what_is_no_recording_gets_a_sentence() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.graph");
    let file = path.to_str().unwrap();
    lab().args(["record", "fib:n=12", "--rounds", "1", "--out", file]).assert().success();
    let fine = fs::read_to_string(&path).unwrap();
    let answer = |arguments: &[&str]| {
        let output = lab().args(arguments).assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    for (text, part) in [
        (fine[..fine.len() - 3].to_owned(), "it was cut short"),
        (fine.replace("\"version\":1", "\"version\":9"), "it has version 9"),
        ("not at all".to_owned(), "it is empty, and so no recording"),
        ("[1]\n".to_owned(), "it is no recording"),
    ] {
        fs::write(&path, text).unwrap();
        let said = answer(&["record", "--show", file]);
        assert!(said.contains(part) && said.contains("bad.graph"), "{said}");
    }
    fs::write(&path, fine).unwrap();
    for (scale, part) in [
        ("repeats=2", "nothing recurs in this recording"),
        ("width=0.5", "record a smaller input"),
        ("depth=2", "no factor is called 'depth'"),
        ("width", "'width' is neither of the form factor=N nor a kernel's name"),
        ("phases=2", "nothing is forked in this recording"),
        ("mm:n=100", "a recording of fib cannot be scaled to mm"),
        ("fib:m=3", "fib has no key 'm'"),
    ] {
        let said = answer(&["record", "--show", file, "--scale", scale]);
        assert!(said.contains(part), "{said}");
    }
    assert!(answer(&["record", "--show", "nowhere.graph"]).contains("nowhere.graph"));
    assert!(answer(&["record", "loop", "--out", file]).contains("kind = \"loop\""));
    assert!(answer(&["record", "fib"]).contains("--out"));
}
