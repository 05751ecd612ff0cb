//! Tests that the benches run, check the results of the programs, and report every backend. Measured numbers are not
//! checked, except those of a fake binary.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{FAKE_LIST, executable, json, lab};

/// Returns the distinct values of `key` in the rows, in the order of their first occurrence.
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
fn fork_join_has_every_backend_on_every_program() {
    let report = json(lab().args(["bench", "fork-join", "--quick", "--json"]));
    assert_eq!(report["schema"], "comity-bench-fork-join/1");
    let rows = report["rows"].as_array().unwrap();
    let mut backends = vec!["serial", "comity, worker passed", "comity", "rayon", "bare abp", "rayon again (control)"];
    backends.extend(cfg!(feature = "peers").then_some("chili"));
    assert_eq!(values(rows, "backend"), backends);
    assert_eq!(
        values(rows, "workload"),
        ["fib", "tree", "nqueens", "loop", "natural", "quicksort", "cg", "coarse", "spine"]
    );
    // Eight programs run on seven backends, and the kernel of the catalog on five, because two backends cannot run
    // it.
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
fn fork_join_prints_a_table_also_of_more_workers_than_cores() {
    let words =
        ["bench", "fork-join", "--quick", "--workload", "tree,fib", "--n", "12", "--rounds", "1", "--workers", "5"];
    let output = lab().args(words).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["| fib: ns per join | ", "| tree ", "| chili ", "\n5 workers: ", "; 1 rounds"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("nqueens"), "{text}");
}

#[test]
fn the_phase_loop_has_every_backend_with_every_gap() {
    let words = ["bench", "loop", "--quick", "--policy", "comity,bws", "--gap-us", "0,100", "--json"];
    let report = json(lab().args(words));
    assert_eq!((&report["schema"], &report["phases"]), (&"comity-bench-loop/1".into(), &20.into()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(values(rows, "backend"), ["serial", "comity", "bws", "rayon", "bare abp", "rayon again (control)"]);
    let gaps: Vec<_> = rows.iter().map(|row| row["gap_us"].as_u64().unwrap()).collect();
    assert_eq!(gaps, [[0; 6], [100; 6]].concat());
    for row in rows {
        assert_eq!(row["verified"], true);
        assert!(row["over_ideal"]["median"].as_f64().unwrap() > 0.0 && row["cpu_per_s"]["median"].is_number());
    }
    let output = lab().args(["bench", "loop", "--quick", "--rounds", "1"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("| bare abp "));
}

#[test]
fn idle_has_every_backend_without_work_and_beside_a_task() {
    let words = ["bench", "idle", "--seconds", "1", "--task-seconds", "1", "--threads", "2", "--policy", "comity,bws"];
    let report = json(lab().args(words).arg("--json"));
    assert_eq!(report["schema"], "comity-bench-idle/1");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(values(rows, "backend"), ["comity", "bws", "rayon"]);
    for row in rows {
        assert_eq!(row["threads"], 2);
        for what in ["idle", "beside_a_task"] {
            assert!(row[what]["cpu_s"].is_number() && row[what]["voluntary_switches"].is_u64(), "{what}: {row}");
        }
    }
    let output = lab().args(&words[..9]).args(["abp"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("| abp "));
}

#[test]
fn attempts_to_steal_are_measured_for_both_queues() {
    let words = ["bench", "steal", "--rounds", "2", "--pushes", "1000", "--work", "10"];
    let report = json(lab().args(words).arg("--json"));
    assert_eq!(report["schema"], "comity-bench-steal/1");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(values(rows, "queue")[..2], ["chase-lev", "locked"]);
    for row in rows {
        assert!(row["ns"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let is_alone = row["thieves"] == 0;
        assert_eq!(row["attempts"]["median"] == 0.0, is_alone, "{row}");
        assert_eq!(row["more_ns"].is_null(), is_alone, "{row}");
    }
    let output = lab().args(words).args(["--thieves", "0"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("| locked "));
}

/// A script that answers like `rayon-programs serve`. It reports twice the time under `comity`, and half the time
/// under `bws`.
const FAKE: &str = r#"
[ -z "$COMITY$COMITY_WATCH" ] || exit 3
case "$COMITY_POLICY" in comity) took=0.02;; bws) took=0.005;; *) took=0.01;; esac
while read -r line; do
    case "$line" in
    list) echo '{"programs":["sort","kernel fib"]}' ;;
    odd) echo "{\"program\":\"odd\",\"error\":\"it is odd\"}" ;;
    *) echo "{\"program\":\"$line\",\"seconds\":$took,\"cpu_seconds\":$RAYON_NUM_THREADS}" ;;
    esac
done"#;

/// Returns standard error for a fake binary that cannot be measured. The command must end within a bounded time.
#[track_caller]
fn refused_fake(folder: &TempDir, script: &str) -> String {
    let (good, bad) = (executable(folder, "good", FAKE), executable(folder, "bad", script));
    let start = Instant::now();
    let output = drop_in(&good, &bad).args(["--timeout", "2"]).assert().code(1).get_output().clone();
    assert!(start.elapsed() < Duration::from_secs(600), "{script}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{script}");
    let errors = String::from_utf8(output.stderr).unwrap();
    let at_fault = format!("error: '{}' as comity ", bad.canonicalize().unwrap().display());
    assert!(errors.starts_with(&at_fault), "{script}: {errors}");
    errors
}

fn drop_in(stock: &PathBuf, drop_in: &PathBuf) -> assert_cmd::Command {
    let mut command = lab();
    command.args(["bench", "drop-in", "--rounds", "3", "--stock"]).arg(stock).arg("--drop-in").arg(drop_in);
    command
}

#[test]
fn the_drop_in_is_compared_under_each_policy_with_the_stock_one() {
    let folder = tempfile::tempdir().unwrap();
    let fake = executable(&folder, "fake", FAKE);
    let words = ["--policy", "comity,bws", "--workers", "3", "--json"];
    let report = json(drop_in(&fake, &fake).args(words).env("COMITY_POLICY", "abp").env("COMITY", "off"));
    assert_eq!((&report["schema"], &report["workers"]), (&"comity-bench-drop-in/1".into(), &3.into()));
    let programs = report["programs"].as_array().unwrap();
    assert_eq!(values(programs, "name"), ["sort", "kernel fib"]);
    let backends = ["comity", "bws", "stock again (control)"];
    for program in programs {
        let ratios = program["ratios"].as_array().unwrap();
        assert_eq!(values(ratios, "backend"), backends);
        // The ratios show that the variables have reached the processes: the policy in the drop-ins, and the number
        // of threads in all processes.
        for (ratio, expected) in ratios.iter().zip([2.0, 0.5, 1.0]) {
            assert_eq!((&ratio["time"]["of_medians"], &ratio["cpu"]["median"]), (&expected.into(), &1.0.into()));
        }
        assert_eq!(program["stock_cpu_s"]["median"], 3.0);
    }
    let means = report["geometric_means"].as_array().unwrap();
    assert_eq!(values(means, "backend"), backends);
    assert!((means[0]["time"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    let idle = report["idle"].as_array().unwrap();
    assert_eq!(values(idle, "backend"), [&["stock"], &backends[..]].concat());
}

#[test]
fn drop_in_prints_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let fake = executable(&folder, "fake", FAKE);
    let output = drop_in(&fake, &fake).args(["kernel fib", "--workers", "1"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "1 threads, 3 rounds",
        "| comity: time        | comity: cpu ",
        "| kernel fib     | 10.00    | 1000.00      | 2.000 (2.000–2.000) | 1.000 (1.000–1.000) |",
        "| geometric mean ",
        "stock again (control) 1000.000 ms\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("sort"), "{text}");
}

#[test]
fn a_binary_that_cannot_answer_is_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let dies = refused_fake(&folder, "echo 'no such luck' >&2; exit 7");
    assert!(
        dies.contains("ended unexpectedly: exit status: 7. The end of its standard error:\n  no such luck\n"),
        "{dies}"
    );
    assert!(dies.contains("It must be a binary of crates/rayon-core/programs"), "{dies}");
    let mutters = refused_fake(&folder, "echo hello; exec sleep 60");
    assert!(mutters.contains("wrote to standard output: hello\n"), "{mutters}");
    let hangs = refused_fake(&folder, "exec sleep 60");
    assert!(hangs.contains("took longer than 2 s and was ended. Choose a larger --timeout"), "{hangs}");
    let lists_nothing = refused_fake(&folder, "while read -r line; do echo '{\"programs\":[]}'; done");
    assert!(lists_nothing.contains("when asked for its programs"), "{lists_nothing}");
}

#[test]
fn a_binary_that_stops_to_answer_is_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let after_the_list = |then: &str| refused_fake(&folder, &format!("{FAKE_LIST}read -r line; {then}"));
    let dies = after_the_list("echo 'out of memory' >&2; kill -9 $$");
    assert!(dies.contains("ended unexpectedly: signal: 9"), "{dies}");
    assert!(dies.ends_with("The end of its standard error:\n  out of memory\n"), "{dies}");
    let hangs = after_the_list("exec sleep 60");
    assert!(hangs.contains("took longer than 2 s"), "{hangs}");
    let other = after_the_list(r#"echo '{"program":"bridge","seconds":1,"cpu_seconds":1}'; exec sleep 60"#);
    assert!(other.contains("when asked to run sort"), "{other}");
    let instant = after_the_list(r#"echo '{"program":"sort","seconds":0,"cpu_seconds":1}'; exec sleep 60"#);
    assert!(instant.contains("when asked to run sort"), "{instant}");
    let free = after_the_list(r#"echo '{"program":"sort","seconds":1,"cpu_seconds":0}'; exec sleep 60"#);
    assert!(free.contains("sort used no processor time"), "{free}");
    let wrong = after_the_list(r#"echo '{"program":"sort","error":"element 3 is 4 instead of 5"}'; exec sleep 60"#);
    assert!(wrong.contains("could not run sort: element 3 is 4 instead of 5"), "{wrong}");
}

#[test]
fn a_program_that_the_stock_binary_cannot_run_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let fake = executable(&folder, "fake", FAKE);
    let output = drop_in(&fake, &fake).arg("odd").assert().code(1).get_output().clone();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.ends_with("fake' as stock could not run odd: it is odd\n"), "{errors}");
}

#[test]
fn the_simulator_is_measured_on_machines_of_all_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("cost.svg");
    let report = json(lab().args(["bench", "simulator", "--rounds", "1", "--json", "--svg", svg.to_str().unwrap()]));
    assert_eq!(report["schema"], "comity-bench-simulator/2");
    let sizes = report["sizes"].as_array().unwrap();
    let processors: Vec<u64> = sizes.iter().map(|size| size["processors"].as_u64().unwrap()).collect();
    assert_eq!(processors, [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 8, 64, 256, 1_024, 32, 32, 32, 32]);
    let (alone, pairs) = sizes.split_at(11);
    assert!(alone.iter().all(|size| size["events"].as_u64().unwrap() >= 2_000_000), "{report}");
    assert_eq!(values(pairs, "policy"), ["abp", "bws", "dws", "comity"]);
    assert!(pairs.iter().all(|size| size["seconds_per_second"].as_f64().unwrap() > 0.0), "{report}");
    assert!(sizes[6]["bytes_per_processor"].as_f64().unwrap() > 50.0, "{report}");
    assert!(std::fs::read_to_string(svg).unwrap().contains("nanoseconds per event"));
}

#[test]
fn tasks_that_block_have_every_executor_on_every_workload() {
    let words = ["bench", "blocking", "--quick", "--json", "--workload"];
    let workloads = "scatter-gather,pipeline,fan-in,ring,request-reply";
    let figures = TempDir::new().unwrap();
    let mut command = lab();
    command.args(words).args([workloads, "--policy", "comity,ws-last:place=current", "--workers", "1,3"]);
    let report = json(command.args(["--n", "6", "--w-us", "1,20", "--svg"]).arg(figures.path()));
    assert_eq!(report["schema"], "comity-bench-blocking/1");
    let rows = report["rows"].as_array().unwrap();
    let backends = ["tokio", "tokio again (control)", "smol", "comity", "ws-last:place=current"];
    assert_eq!(values(rows, "backend"), backends);
    assert_eq!(values(rows, "workload"), workloads.split(',').collect::<Vec<_>>());
    assert_eq!(rows.len(), 5 * 2 * 2 * backends.len());
    for row in rows {
        assert!(row["over_ideal"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let is_ours = ["comity", "ws-last:place=current"].map(Value::from).contains(&row["backend"]);
        assert_eq!(row["steal_attempts_per_1000"].is_object(), is_ours, "{row}");
    }
    assert_eq!(figures.path().read_dir().unwrap().count(), 10);
}

#[test]
fn programs_side_by_side_are_measured_with_and_without_a_table() {
    let words = ["bench", "use", "--scenario", "pipe,three,quota", "--seconds", "1", "--rounds", "1", "--json"];
    let report = json(lab().args(words));
    assert_eq!((&report["schema"], &report["rounds"]), (&"comity-bench-use/1".into(), &1.into()));
    let scenarios = report["scenarios"].as_array().unwrap();
    assert_eq!(values(scenarios, "name"), ["quota", "three", "pipe"]);
    let members = [&["fib", "fib"][..], &["fib", "sleepers", "fib"], &["reader", "writer"]];
    for (scenario, expected) in scenarios.iter().zip(members) {
        // The scenario is skipped if the user may not make a control group.
        if scenario["skipped"].is_string() {
            assert_eq!((&scenario["name"], &scenario["measured"]), (&"quota".into(), &Value::Null));
            continue;
        }
        for side in ["table", "off"] {
            let side = &scenario["measured"][side];
            let members = side["members"].as_array().unwrap();
            assert_eq!(values(members, "name").first(), expected.first(), "{side}");
            assert_eq!(members.len(), expected.len());
            assert!(members.iter().all(|member| member["used"]["median"].as_f64().unwrap() > 0.0), "{side}");
            assert!(side["idle"]["median"].is_number(), "{side}");
        }
    }
    let output = lab().args(["bench", "use", "--list"]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nquota-changes\n    fib with a quota"));
}

/// Checks that all policies are measured in both groupings, and that no program has more cores than the machine. Does
/// not compare the policies.
#[test]
fn accelerate_has_every_policy_between_its_bounds_in_both_groupings() {
    let words = [
        "bench",
        "accelerate",
        "--policy",
        "bws:yield_to=plain,bws,robinhood",
        "--rounds",
        "1",
        "--count-ms",
        "100",
        "--json",
    ];
    let report = json(lab().args(words));
    assert_eq!((&report["schema"], &report["rounds"]), (&"comity-bench-accelerate/1".into(), &1.into()));
    let rows = report["rows"].as_array().unwrap();
    let contestants = ["bws:yield_to=plain", "bws", "robinhood", "spinning threads (bound)", "no thieves (bound)"];
    assert_eq!((values(rows, "contestant"), rows.len()), (contestants.to_vec(), 2 * contestants.len()));
    let of = |row: &Value, what: &str| row[what]["median"].as_f64().unwrap();
    for row in rows {
        let (busy, thieves, neighbour) = (of(row, "busy"), of(row, "thieves"), of(row, "neighbour"));
        // Each program is measured by its own clock, so the measurements of the two programs do not cover exactly the
        // same time.
        let cores = 1.01 * report["cores"].as_f64().unwrap();
        assert!(busy <= 1.01 && busy + thieves <= cores && neighbour <= cores, "{row}");
        assert!(busy + thieves + neighbour > 0.0, "{row}");
        let accelerates = row["contestant"] == "robinhood" || row["contestant"] == "bws";
        assert!(accelerates || of(row, "accelerations_per_s") + of(row, "refused_per_s") == 0.0, "{row}");
    }
}

/// Measured numbers are not compared, because they change on a busy machine. Simulated numbers depend only on the
/// machine's ticks and number of processors.
#[test]
fn a_run_queue_is_probed_on_threads_and_simulated() {
    let words = ["bench", "run-queue", "--rounds", "1", "--count-ms", "100", "--tries", "1", "--simulate-s", "2"];
    let report = json(lab().args(words).arg("--json"));
    assert_eq!((&report["schema"], &report["rounds"]), (&"comity-bench-run-queue/1".into(), &1.into()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4 + 2 * 3 + 5 * 3);
    assert_eq!(
        values(rows, "figure"),
        ["slice", "thread that yields", "its program's other", "other program", "late, p50", "late, p90", "late, p99"]
    );
    for row in rows {
        let (measured, simulated) = (row["measured"]["median"].as_f64().unwrap(), row["simulated"].as_f64().unwrap());
        assert!((0.0..=100.0).contains(&row["others"]["median"].as_f64().unwrap()), "{row}");
        match row["unit"].as_str().unwrap() {
            "ms" => assert!(measured > 0.0 && simulated > 0.0, "{row}"),
            "%" => assert!((0.0..=101.0).contains(&measured) && (0.0..=100.0).contains(&simulated), "{row}"),
            _ => assert!(simulated >= 0.0, "{row}"),
        }
    }
    let no_core = lab().args(["bench", "run-queue", "--core", "1023"]).assert().failure().get_output().clone();
    assert!(String::from_utf8(no_core.stderr).unwrap().contains("this command may not use core 1023"));
}
