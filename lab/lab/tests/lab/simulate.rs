//! Tests `comity-lab simulate`: the examples, the errors for invalid files, and that results do not depend on threads
//! and shards.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::{json, lab};

fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_example_runs() {
    let folder = fs::read_dir(scenario("")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let examples: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    assert_eq!(examples.len(), 12, "{examples:?}");
    for example in examples {
        let report = json(lab().args(["simulate", &scenario(&example), "--json", "--check-every", "50"]));
        assert_eq!(report["schema"], "comity-simulate/1");
        let runs = report["runs"].as_array().unwrap();
        assert_eq!(runs.len() as u64, report["scenario"]["runs"].as_u64().unwrap(), "{example}");
        assert!(runs.iter().all(|run| run["utilization"].as_f64().unwrap() > 0.3), "{example}");
    }
}

/// Tests a recorded program. Its recording is found in the folder of the scenario, whatever the current folder.
#[test]
fn a_recorded_program_runs_again_and_again_beside_a_loop() {
    let report = json(lab().args(["simulate", &scenario("recorded.toml"), "--json"]));
    let [cg, endless] = report["runs"][0]["programs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let ends: Vec<u64> = cg["executions"].as_array().unwrap().iter().map(|end| end.as_u64().unwrap()).collect();
    assert!(ends.len() > 1 && ends.is_sorted() && cg["ended"].is_null(), "{cg}");
    assert!(endless["executions"].is_null() && endless["cycles"]["work"].as_u64().unwrap() > 0, "{endless}");
    let output = lab().args(["simulate", &scenario("recorded.toml")]).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("executions"));
}

#[test]
fn a_recording_without_end_takes_little_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("endless.toml");
    let text = fs::read_to_string(scenario("recorded.toml")).unwrap();
    fs::write(&path, text.replace("cg.graph", "/dev/zero")).unwrap();
    // The limit is in KiB of virtual memory. It includes the stacks of threads, which use little real memory.
    let limited = "ulimit -v 2000000; exec \"$0\" simulate \"$1\"";
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", limited, env!("CARGO_BIN_EXE_comity-lab")]).arg(&path).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("/dev/zero': it has a line of more than 16777216 bytes"), "{errors}");
}

#[test]
fn a_scenario_with_a_bad_recording_is_refused_with_a_sentence() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("recorded.toml");
    fs::copy(scenario("recorded.toml"), &path).unwrap();
    let refused = || {
        let output = lab().args(["simulate", path.to_str().unwrap()]).assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused().contains("file of program 'cg': recording 'cg.graph': No such file"), "{}", refused());
    let fine = fs::read_to_string(scenario("cg.graph")).unwrap();
    for (text, part) in [
        (fine[..fine.len() / 2].to_owned(), "it was cut short"),
        (fine.replacen("\"version\":1", "\"version\":3", 1), "it has version 3"),
        ("[[programs]]\n".to_owned(), "it is not a recording"),
    ] {
        fs::write(folder.path().join("cg.graph"), text).unwrap();
        assert!(refused().contains(part), "{}", refused());
    }
    fs::write(folder.path().join("cg.graph"), fine).unwrap();
    let wrong = fs::read_to_string(&path).unwrap().replace("width = 5", "width = 0.2");
    fs::write(&path, wrong).unwrap();
    assert!(refused().contains("scale of program 'cg': width = 0.2; a graph can only be widened"), "{}", refused());
}

/// Tests that a file of runs with one recording is refused for another recording of the same name.
#[test]
fn a_filed_run_is_of_its_recording() {
    let folder = TempDir::new().unwrap();
    let (path, graph, out) =
        (folder.path().join("a.toml"), folder.path().join("cg.graph"), folder.path().join("results"));
    fs::copy(scenario("recorded.toml"), &path).unwrap();
    let simulate = || {
        lab().args(["simulate", path.to_str().unwrap(), "--out", out.to_str().unwrap()]).assert().get_output().clone()
    };
    fs::copy(scenario("cg.graph"), &graph).unwrap();
    assert!(simulate().status.success());
    lab().args(["record", "cg", "--rounds", "1", "--out", graph.to_str().unwrap()]).assert().success();
    let again = simulate();
    assert!(!again.status.success(), "{again:?}");
}

#[test]
fn a_simulated_kernel_accelerates_nothing_and_that_is_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sleep.toml");
    let run = |policy: &str| {
        let text = fs::read_to_string(scenario("sleep.toml")).unwrap().replace("\"comity\"", policy);
        fs::write(&path, text.replace("runs = 5", "runs = 1")).unwrap();
        let output = lab().args(["simulate", path.to_str().unwrap()]).assert().success().get_output().clone();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [of_bws, nothing] = run("\"bws\"");
    assert!(!nothing.contains("accelerates"), "{nothing}");
    for policy in ["robinhood", "robinhood-u", "robinhood-s"] {
        let [table, line] = run(&format!("\"{policy}\""));
        assert!(line.contains("the simulated kernel cannot accelerate"), "{line}");
        if policy == "robinhood-s" {
            assert_eq!(table, of_bws, "refused by every hypervisor, it is bws");
        }
    }
}

#[test]
fn a_death_is_told_and_the_other_program_goes_on() {
    let report = json(lab().args(["simulate", &scenario("faults.toml"), "--json"]));
    for run in report["runs"].as_array().unwrap() {
        let [lives, dies] = run["programs"].as_array().unwrap().as_slice() else { panic!("{run}") };
        assert_eq!((&dies["died"], &dies["ended"]), (&20_000.into(), &serde_json::Value::Null));
        assert!(lives["ended"].as_u64().unwrap() > 20_000 && lives["died"].is_null(), "{run}");
    }
}

#[test]
fn cores_that_idle_beside_work_are_told() {
    let said = |policy: &str| {
        let text = fs::read_to_string(scenario("sleep.toml")).unwrap().replace("\"comity\"", policy);
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("sleep.toml");
        fs::write(&path, text.replace("runs = 5", "runs = 1")).unwrap();
        let path = path.to_str().unwrap();
        let table = lab().args(["simulate", path]).output().unwrap().stdout;
        let idle = json(lab().args(["simulate", path, "--json"]))["runs"][0]["idle_beside_work"].as_u64().unwrap();
        let table = String::from_utf8(table).unwrap();
        assert!(table.contains("cores used"), "{table}");
        let (_, line) = table.split_once("Cores idled for ").unwrap_or_else(|| panic!("{table}"));
        let (told, _) = line.split_once(" while a thread or a task waited for a core.").unwrap();
        let (number, unit) = told.split_once(' ').unwrap();
        let nanoseconds =
            [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)].iter().find(|(name, _)| *name == unit).unwrap().1;
        let told = number.parse::<f64>().unwrap() * nanoseconds;
        assert!((told - idle as f64).abs() <= 0.01 * idle as f64, "{table}");
        idle
    };
    // Under `dws`, whose shares depend on the number of awake workers, half of the machine is idle.
    assert!(said("\"comity\"") * 5 < said("\"dws\""));
}

#[test]
fn the_threads_and_the_shards_do_not_show() {
    let said = |words: &[&str]| lab().args(["simulate", &scenario("two-programs.toml")]).args(words).output().unwrap();
    let one = said(&["--json", "--workers", "1"]).stdout;
    assert!(!one.is_empty() && said(&["--json", "--workers", "2"]).stdout == one);
    let folders = [(); 2].map(|()| TempDir::new().unwrap());
    let [first, second] = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    for (out, shard) in [(first, "1/2"), (second, "2/2")] {
        assert!(said(&["--out", out, "--shard", shard]).stdout.starts_with(b"The runs of shard"));
    }
    assert!(said(&["--json", "--merge", first, "--merge", second]).stdout == one);
}

#[test]
fn a_wrong_file_is_answered_with_the_line_and_what_was_expected() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("wrong.toml");
    let right = fs::read_to_string(scenario("faults.toml")).unwrap();
    for (from, to, parts) in [
        ("width = 256", "widht = 256", &["line 14", "unknown field `widht`", "`width`"][..]),
        ("processors = 128", "processors = \"many\"", &["expected u32"]),
        ("kind = \"death\"", "kind = \"sleep\"", &["unknown variant `sleep`", "`death`"]),
        ("program = \"dies\"", "program = \"missing\"", &["a fault kills the program 'missing'"]),
        ("policy = \"a-steal\"", "policy = \"bws\"", &["the thieves of bws sleep", "Write machine.model = \"host\""]),
        ("[machine]", "[machine]\ncosts = { steal = 1 }", &["machine.costs: only a host supports it"]),
        ("[machine]", "[machine]\ntable = false", &["machine.table: only a host supports it"]),
        (
            "[machine]",
            "[machine]\nmodel = \"host\"\nallot = \"eq\"",
            &["machine.quantum and machine.allot have no effect on a host"],
        ),
    ] {
        fs::write(&path, right.replacen(from, to, 1)).unwrap();
        let refused = lab().args(["simulate", path.to_str().unwrap()]).assert().code(2);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
    }
    lab().args(["simulate", "no/such.toml"]).assert().code(2);
}

#[test]
fn what_thieves_said_is_recorded_and_held_again() {
    let folder = TempDir::new().unwrap();
    let record = folder.path().join("thieves.jsonl");
    let path = record.to_str().unwrap();
    let host = scenario("host.toml");
    let report = json(lab().args(["simulate", &host, "--record", path, "--json"]));
    assert_eq!(report["runs"].as_array().unwrap().len(), 1);
    assert_eq!(report["runs"][0], json(lab().args(["simulate", &host, "--json"]))["runs"][0]);
    let held = lab().args(["simulate", "--replay", path]).assert().success();
    assert!(String::from_utf8_lossy(&held.get_output().stdout).contains(" turns; all answers are as recorded"));

    // An existing file is not overwritten, and an invalid line is reported with its number.
    let lines = fs::read_to_string(&record).unwrap();
    lab().args(["simulate", &host, "--record", path]).assert().code(1);
    assert_eq!(fs::read_to_string(&record).unwrap(), lines);
    for (wrong, code, part) in [
        (lines.replacen("\"policy\":\"abp\"", "\"policy\":\"bws\"", 1), 1, "answers"),
        (lines.replacen("\"line\":\"turn\"", "\"line\":\"turm\"", 1), 2, "line 2: unknown variant"),
    ] {
        fs::write(&record, wrong).unwrap();
        let refused = lab().args(["simulate", "--replay", path]).assert().code(code);
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains(part), "{errors}");
    }
    lab().args(["simulate", &host, "--record", "no/such/folder"]).assert().code(1);
    let other = folder.path().join("other.jsonl");
    lab().args(["simulate", &scenario("server.toml"), "--record", other.to_str().unwrap()]).assert().code(2);
    assert!(!other.exists());
}
