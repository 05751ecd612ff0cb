//! The benches run, check what they measure, and report everybody. No figure is looked at.

use serde_json::Value;

use crate::{comity, json};

/// The different values of `key` in the rows, in order of appearance.
fn values<'a>(rows: &'a [Value], key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for row in rows {
        let value = row[key].as_str().unwrap();
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[test]
fn fork_join_has_every_contestant_on_every_program() {
    let report = json(comity().args(["bench", "fork-join", "--quick", "--json"]));
    assert_eq!(report["schema"], "comity-bench-fork-join/1");
    let rows = report["rows"].as_array().unwrap();
    let contestants =
        ["serial", "comity, worker passed", "comity", "rayon", "chili", "bare abp", "rayon again (control)"];
    assert_eq!(values(rows, "contestant"), contestants);
    assert_eq!(
        values(rows, "workload"),
        ["fib", "tree", "nqueens", "loop", "natural", "quicksort", "cg", "coarse", "spine"]
    );
    // Two have no way to run a kernel of the catalog.
    assert_eq!(rows.len(), 2 * (8 * 7 + 5));
    for row in rows {
        assert_eq!(row["verified"], true);
        assert!([1, 2].contains(&row["workers"].as_u64().unwrap()));
        assert!(
            row["seconds"]["median"].as_f64().unwrap() > 0.0 && row["over_serial_of_medians"].as_f64().unwrap() > 0.0
        );
        assert_eq!(row["ns_per_join"].is_number(), row["workload"] == "fib");
    }
}

#[test]
fn fork_join_in_a_table_with_more_workers_than_cores() {
    let words =
        ["bench", "fork-join", "--quick", "--workload", "tree,fib", "--n", "12", "--rounds", "1", "--workers", "5"];
    let output = comity().args(words).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["| fib: ns per join | ", "| tree ", "| chili ", "\n5 workers: ", "; 1 rounds"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("nqueens"), "{text}");
}

#[test]
fn the_phase_loop_has_every_contestant_with_every_gap() {
    let words = ["bench", "loop", "--quick", "--policy", "comity,bws", "--gap-us", "0,100", "--json"];
    let report = json(comity().args(words));
    assert_eq!((&report["schema"], &report["phases"]), (&"comity-bench-loop/1".into(), &20.into()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(values(rows, "contestant"), ["serial", "comity", "bws", "rayon", "bare abp", "rayon again (control)"]);
    let gaps: Vec<_> = rows.iter().map(|row| row["gap_us"].as_u64().unwrap()).collect();
    assert_eq!(gaps, [[0; 6], [100; 6]].concat());
    for row in rows {
        assert_eq!(row["verified"], true);
        assert!(row["over_ideal"]["median"].as_f64().unwrap() > 0.0 && row["cpu_per_s"]["median"].is_number());
    }
    let output = comity().args(["bench", "loop", "--quick", "--rounds", "1"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("| bare abp "));
}

#[test]
fn idle_pools_and_pools_beside_a_task() {
    let words = ["bench", "idle", "--seconds", "1", "--task-seconds", "1", "--threads", "2", "--policy", "comity,bws"];
    let report = json(comity().args(words).arg("--json"));
    assert_eq!(report["schema"], "comity-bench-idle/1");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(values(rows, "contestant"), ["comity", "bws", "rayon"]);
    for row in rows {
        assert_eq!(row["threads"], 2);
        for what in ["idle", "beside_a_task"] {
            assert!(row[what]["cpu_s"].is_number() && row[what]["voluntary_switches"].is_u64(), "{what}: {row}");
        }
    }
    let output = comity().args(&words[..9]).args(["abp"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("| abp "));
}
