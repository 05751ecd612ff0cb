//! Tests co-runs of real programs: reports are complete and their numbers are consistent.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;

use crate::{json, lab, send};

const SMALL: [&str; 5] = ["corun", "fib:n=20", "nqueens:n=7", "--workers", "2"];

#[track_caller]
fn assert_close(found: &Value, expected: f64) {
    let found = found.as_f64().expect("a number");
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key} is a number in {object}"))
}

fn mean(times: &Value) -> f64 {
    let times: Vec<f64> = times.as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    mean_of(&times)
}

/// Checks every measure against its formula over other fields of the report.
#[track_caller]
fn assert_consistent(report: &Value) {
    assert_eq!(report["schema"], "comity-corun/1");
    let cores = number(&report["machine"], "cores");
    for corun in report["coruns"].as_array().unwrap() {
        let programs = corun["programs"].as_array().unwrap();
        let (mut slowdowns, mut ratios, mut parts, mut due) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
        let (mut weighted_speedup, mut shares, mut switches_per_s) = (0.0, 0.0, 0.0);
        for program in programs {
            let (solo, together) = (number(program, "solo_s"), number(program, "corun_s"));
            assert_close(&program["solo_s"], mean(&program["times"]["solo_s"]));
            assert_close(&program["corun_s"], mean(&program["times"]["corun_s"]));
            assert_close(&program["one_core_s"], mean(&program["times"]["one_core_s"]));
            assert_close(&program["slowdown"], (together - solo) / solo);
            let ratio = number(program, "overlapped_s") / number(program, "baseline_s");
            assert_close(&program["slowdown_ratio"], ratio);
            if program["uncounted_rounds"] == 0 {
                assert_close(&program["overlapped_s"], together);
            }
            assert_eq!(program["verified"], true);
            assert_eq!(program["rounds"], report["rounds"]);
            slowdowns.push(number(program, "slowdown"));
            ratios.push(ratio);
            switches_per_s +=
                (number(program, "voluntary_switches") + number(program, "involuntary_switches")) / together;
            weighted_speedup += number(program, "baseline_s") / together;
            shares += number(program, "work_s") / number(program, "baseline_s");
            assert_close(&program["cores_used"], number(program, "cpu_s") / together);
            assert!(number(program, "cores_due") <= number(program, "solo_cpu_s") / solo + 1e-9, "{program}");
            due += number(program, "cores_due");
            parts.push(number(program, "cores_used") / number(program, "cores_due"));
        }
        assert_close(&corun["unfairness"], largest(&slowdowns) - smallest(&slowdowns));
        assert_close(&corun["slowdown_ratio_difference"], largest(&ratios) - smallest(&ratios));
        assert_close(&corun["switches_per_s"], switches_per_s);
        assert_close(&corun["weighted_speedup"], weighted_speedup);
        assert!(due <= cores + 1e-9, "{corun}");
        assert_close(&corun["cpu_unfairness"], largest(&parts) - smallest(&parts));
        assert_close(&corun["bound"], programs.len() as f64 / (shares / cores).max(1.0));
        assert_close(&corun["efficiency"], weighted_speedup / number(corun, "bound"));
    }
    for over in report["over_pairs"].as_array().unwrap() {
        assert_over_pairs(over, report["coruns"].as_array().unwrap());
    }
}

/// Checks the summary over all pairs against the reports of the pairs.
#[track_caller]
fn assert_over_pairs(over: &Value, coruns: &[Value]) {
    let own: Vec<&Value> = coruns.iter().filter(|corun| corun["policy"] == over["policy"]).collect();
    assert_eq!(over["pairs"], own.len());
    let pairs = |key: &str| -> Vec<f64> { own.iter().map(|corun| number(corun, key)).collect() };
    let programs = |key: &str| -> Vec<f64> {
        let programs = own.iter().flat_map(|corun| corun["programs"].as_array().unwrap());
        programs.map(|program| number(program, key)).collect()
    };
    for (key, worst) in [
        ("unfairness", largest as fn(&[f64]) -> f64),
        ("slowdown_ratio_difference", largest),
        ("cpu_unfairness", largest),
        ("efficiency", smallest),
    ] {
        assert_close(&over[key]["mean"], mean_of(&pairs(key)));
        assert_close(&over[key]["worst"], worst(&pairs(key)));
    }
    assert_close(&over["cv"]["mean"], mean_of(&programs("cv")));
    assert_close(&over["cv"]["worst"], largest(&programs("cv")));
    assert_close(&over["weighted_speedup_mean"], mean_of(&pairs("weighted_speedup")));
    assert_close(&over["switches_per_s_mean"], mean_of(&pairs("switches_per_s")));
    let ratios = programs("slowdown_ratio");
    let root = ratios.iter().product::<f64>().powf(1.0 / ratios.len() as f64);
    assert_close(&over["slowdown_ratio_geometric_mean"], root);
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max)
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Runs a command with a file for its JSON, and checks that the JSON is consistent. Returns the output and the
/// report.
fn filed(command: &mut Command) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let output = command.arg("--json").arg(&file).assert().success().get_output().clone();
    let report = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_consistent(&report);
    (output, report)
}

#[test]
fn policies_and_rayon_are_reported_side_by_side() {
    let policies = "abp,bws:sleep_threshold=128,comity";
    let (output, report) =
        filed(lab().args(SMALL).args(["--policy", policies, "--backend", "rayon", "--rounds", "4", "--full"]));
    let table = String::from_utf8(output.stdout).unwrap();
    for words in ["abp", "bws:sleep_threshold=128", "rayon", "fib:n=20", "efficiency", "Task grouping: same"] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
    // Without a terminal there is a line for each block and backend instead of a bar.
    let progress = String::from_utf8(output.stderr).unwrap();
    assert_eq!(progress.lines().count(), 12, "{progress}");
    assert!(progress.lines().last().unwrap().starts_with("96 of 96 rounds: "), "{progress}");

    let coruns = report["coruns"].as_array().unwrap();
    let backends: Vec<_> = coruns.iter().map(|corun| (corun["policy"].as_str(), corun["backend"].as_str())).collect();
    assert_eq!(
        backends,
        [
            (Some("abp"), Some("comity")),
            (Some("bws:sleep_threshold=128"), Some("comity")),
            (Some("comity"), Some("comity")),
            (Some("rayon"), Some("rayon")),
        ]
    );
    assert_eq!(report["machine"]["task_grouping"], "same");
    assert_eq!(report["machine"]["os_tier"], 0);
    assert_eq!((report["baseline"].as_str(), report["blocks"].as_u64()), (Some("own"), Some(3)));
    assert_eq!(report["command"][1], "corun");
    for corun in coruns {
        assert_eq!(corun["workers"], 2);
        for program in corun["programs"].as_array().unwrap() {
            assert_eq!(program["kind"], "kernel");
            for counter in [&program["steal_attempts"], &program["accelerations"], &program["refused"]["running"]] {
                assert_eq!(counter.is_number(), corun["backend"] == "comity");
            }
            assert!(number(program, "cpu_s") > 0.0);
            assert!(program["cv"].is_number() && program["solo_cv"].is_number());
        }
    }
}

/// Returns the programs of each co-run, in the report's order.
fn together(report: &Value) -> Vec<(&str, String)> {
    let name = |corun: &Value| {
        let programs = corun["programs"].as_array().unwrap();
        programs.iter().map(|program| program["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let coruns = report["coruns"].as_array().unwrap();
    coruns.iter().map(|corun| (corun["policy"].as_str().unwrap(), name(corun))).collect()
}

#[test]
fn pairs_are_distinct_unless_all_are_asked_for() {
    let programs = ["corun", "fib:n=15", "nqueens:n=5", "fib:n=16", "--workers", "2", "--rounds", "2", "--json", "-"];
    let distinct = ["fib:n=15 nqueens:n=5", "fib:n=15 fib:n=16", "nqueens:n=5 fib:n=16"];
    for flag in ["--pairs", "--pairs=distinct"] {
        let report = json(lab().args(programs).arg(flag));
        assert_consistent(&report);
        assert_eq!(together(&report), distinct.map(|pair| ("comity", pair.to_owned())), "{flag}");
        assert_eq!(report["over_pairs"].as_array().unwrap().len(), 1, "{flag}");
    }
    // A program may follow `--pairs`, which takes a value only after an equals sign.
    let report = json(lab().args(["corun", "--pairs", "fib:n=15", "fib:n=16", "--rounds", "2", "--json", "-"]));
    assert_eq!(together(&report).len(), 1);
}

#[test]
fn all_pairs_have_each_program_beside_itself_and_end_with_a_summary() {
    let programs = ["corun", "fib:n=15", "nqueens:n=5", "--pairs=all", "--policy", "abp,bws", "--workers", "2"];
    let (output, report) = filed(lab().args(programs).args(["--rounds", "2", "--full"]));
    let pairs = ["fib:n=15 fib:n=15", "fib:n=15 nqueens:n=5", "nqueens:n=5 nqueens:n=5"];
    let expected: Vec<_> =
        pairs.iter().flat_map(|pair| ["abp", "bws"].map(|policy| (policy, (*pair).to_owned()))).collect();
    assert_eq!(together(&report), expected);
    let over: Vec<_> = report["over_pairs"].as_array().unwrap().iter().map(|over| over["policy"].as_str()).collect();
    assert_eq!(over, [Some("abp"), Some("bws")]);
    let table = String::from_utf8(output.stdout).unwrap();
    let (_, last) = table.split_once("Over 3 pairs:").unwrap_or_else(|| panic!("no summary in\n{table}"));
    for words in ["T/B", "D ", "mean (worst)", "switches", "abp", "bws", "2 workers each", "All results are correct."] {
        assert!(last.contains(words), "{words} is not in\n{last}");
    }
}

#[test]
fn one_program_is_enough_where_it_runs_beside_itself() {
    let report = json(lab().args(["corun", "fib:n=15", "--pairs=all", "--rounds", "1", "--json", "-"]));
    assert_eq!(together(&report), [("comity", "fib:n=15 fib:n=15".to_owned())]);
    assert!(report["over_pairs"][0]["cv"].is_null(), "one round has no variation");
}

#[test]
fn what_runs_on_uncounted_is_in_the_response_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    // In its third execution, the first one together, the second program waits until the first program has run more
    // rounds. The two executions before are alone and on one core.
    let first = format!("echo >> {}", file("a"));
    let second = format!(
        "echo >> {b}; test $(wc -l < {b}) -lt 3 || until test $(wc -l < {a}) -gt 9; do sleep 0.01; done",
        a = file("a"),
        b = file("b")
    );
    let report = json(lab().args(["corun", &first, &second, "--rounds", "1", "--json", "-"]));
    assert_consistent(&report);
    assert_eq!(report["over_pairs"], Value::Array(Vec::new()), "no pairs, no summary");
    let program = &report["coruns"][0]["programs"][0];
    assert!(number(program, "uncounted_rounds") >= 1.0, "{program}");
    assert_ne!(program["overlapped_s"], program["corun_s"]);
}

#[test]
fn in_its_lead_in_each_program_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, ended) = (folder.path().join("begun"), folder.path().join("ended"));
    let program =
        |name: &str| format!("echo {name} >> {}; sleep 0.01; echo {name} >> {}", begun.display(), ended.display());
    let run = ["--rounds", "1", "--lead-in", "3", "--json", "-"];
    let report = json(lab().arg("corun").args([program("a"), program("b")]).args(run));
    assert_eq!(report["lead_in"], 3);
    let lines = |file| std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    // Each program runs one round alone and one round on one core. Then each program runs its lead-in (uncounted
    // rounds alone), and then both run together.
    let alone = ["a", "a", "b", "b", "a", "a", "a", "b", "b", "b"];
    assert_eq!([&lines(begun)[..10], &lines(ended)[..10]], [alone; 2]);
}

#[test]
fn a_named_baseline_gives_all_backends_the_same_base() {
    let report =
        json(lab().args(SMALL).args(["--policy", "abp,bws", "--baseline", "abp", "--rounds", "2", "--json", "-"]));
    assert_consistent(&report);
    assert_eq!(report["baseline"], "abp");
    let programs = |corun: usize| report["coruns"][corun]["programs"].as_array().unwrap();
    for (abp, bws) in programs(0).iter().zip(programs(1)) {
        assert_eq!(abp["baseline_s"], abp["solo_s"]);
        assert_eq!(bws["baseline_s"], abp["solo_s"]);
    }
}

#[test]
fn rayon_or_one_thread_runs_alone_and_for_a_single_round() {
    let report = json(lab().args(SMALL).args(["--backend", "serial,rayon", "--rounds", "1", "--json", "-"]));
    assert_consistent(&report);
    let coruns = report["coruns"].as_array().unwrap();
    assert_eq!(coruns.len(), 2);
    assert_eq!((&coruns[0]["backend"], &coruns[0]["workers"]), (&"serial".into(), &1.into()));
    assert!(coruns[0]["programs"][0]["cv"].is_null(), "one round has no variation");
}

#[test]
fn a_command_runs_beside_a_kernel_and_finds_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!(
        "echo $COMITY_POLICY $COMITY_NUM_THREADS $RAYON_NUM_THREADS \
         $(grep Cpus_allowed_list /proc/self/status | grep -c '[,-]') >> {}; head -c 99999 /dev/zero; sleep 0.01",
        log.display()
    );
    let report = json(lab().args([
        "corun",
        "fib:n=15",
        &command,
        "--policy",
        "abp",
        "--backend",
        "rayon",
        "--workers",
        "3",
        "--rounds",
        "4",
        "--json",
        "-",
    ]));
    assert_consistent(&report);
    let program = &report["coruns"][0]["programs"][1];
    assert_eq!((&program["kind"], &program["name"]), (&"command".into(), &command.into()));
    assert!(number(program, "solo_s") >= 0.01 && program["steals"].is_null());
    assert!(number(program, "voluntary_switches") >= 1.0, "a sleep is a voluntary switch");
    let log = fs::read_to_string(log).unwrap();
    let several = usize::from(number(&report["machine"], "allowed_cores") > 1.0);
    for line in [format!("abp 3 3 {several}"), "abp 1 1 0".into(), format!("3 3 {several}"), "1 1 0".into()] {
        assert!(log.lines().any(|found| found == line), "{line} is not in\n{log}");
    }
}

#[test]
fn programs_have_sessions_of_their_own_only_where_asked_for() {
    let session = |stat: &str| stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
    let own = session(&fs::read_to_string("/proc/self/stat").unwrap());
    for (group, expected) in [("same", "same"), ("separate", "separate")] {
        let folder = tempfile::tempdir().unwrap();
        let command = |name: &str| format!("cat /proc/self/stat >> {}", folder.path().join(name).display());
        let programs = [command("a"), command("b")];
        let report = json(lab().arg("corun").args(&programs).args(["--rounds", "2", "--group", group, "--json", "-"]));
        assert_consistent(&report);
        let grouping = report["machine"]["task_grouping"].as_str().unwrap();
        assert!(grouping.starts_with(expected), "{grouping}");
        for name in ["a", "b"] {
            for line in fs::read_to_string(folder.path().join(name)).unwrap().lines() {
                assert_eq!(session(line) == own, group == "same", "{group}: {line}");
            }
        }
    }
}

#[test]
fn a_failing_command_is_quoted_with_its_last_words() {
    for command in
        ["echo much; echo lost >&2; echo the disk is full >&2; exit 3", "echo the disk is full >&2; kill -9 $$"]
    {
        let output = lab().args(["corun", "fib:n=20", command, "--rounds", "2"]).assert().code(1).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.starts_with(&format!("error: '{command}' failed: ")), "{errors}");
        assert!(errors.contains("\n  the disk is full"), "{errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    }
}

#[test]
fn a_command_that_fails_only_in_company_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    // There are three executions: one round alone, one on one core, and one together.
    let command = format!("echo >> {0}/n; test $(wc -l < {0}/n) -lt 3", folder.path().display());
    let output = lab().args(["corun", &command, "sleep 0.01", "--rounds", "1"]).assert().code(1).get_output().clone();
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed: exit status: 1"));
}

#[test]
fn the_first_lines_are_in_words_and_the_table_has_eight_columns() {
    let run = ["--policy", "bws", "--backend", "rayon", "--rounds", "2"];
    let output = lab().args(SMALL).args(run).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("fib:n=20 and ") && lines[0].contains(" together on "), "{text}");
    for (line, backend) in lines[1..3].iter().zip(["bws:", "rayon:"]) {
        assert!(line.starts_with(backend) && line.contains("; difference ") && line.ends_with(" wasted."), "{text}");
    }
    assert!(lines[3].starts_with("1: as fast as alone") && lines[4].is_empty(), "{text}");
    assert!(lines[..4].iter().all(|line| line.chars().count() <= 80), "{text}");
    let header = lines.iter().find(|line| line.contains("backend")).unwrap();
    assert_eq!(header.split(['│', '┆']).filter(|cell| !cell.trim().is_empty()).count(), 8, "{text}");
    assert!(text.contains(" ms ") || text.contains(" µs "), "{text}");

    let output = lab().args(SMALL).args(run).arg("--pairs").assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1 pair of programs, ") && text.contains(" in the worst pair; "), "{text}");
}

#[test]
fn csv_and_picture_say_the_same_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv, drawn, again] = ["r.json", "r.csv", "r.svg", "again.svg"].map(|name| folder.path().join(name));
    let run = ["--backend", "comity,rayon", "--rounds", "2"];
    lab()
        .args(SMALL)
        .args(run)
        .arg("--json")
        .arg(&json)
        .arg("--csv")
        .arg(&csv)
        .arg("--plot")
        .arg(&drawn)
        .assert()
        .success();
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let text = fs::read_to_string(csv).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let programs =
        report["coruns"].as_array().unwrap().iter().flat_map(|corun| {
            corun["programs"].as_array().unwrap().iter().map(move |program| (&corun["policy"], program))
        });
    for ((policy, program), row) in programs.zip(rows.by_ref()) {
        assert_eq!(row[column("policy")], policy.as_str().unwrap());
        assert_eq!(row[column("program")], program["name"].as_str().unwrap());
        assert_close(&program["slowdown"], row[column("slowdown")].parse().unwrap());
    }
    assert_eq!(text.lines().count(), 5);

    let picture = fs::read_to_string(&drawn).unwrap();
    for words in ["comity", "rayon", "fib + ", "2 workers each"] {
        assert!(picture.contains(words), "{words} is not in\n{picture}");
    }
    // The picture has four points, for two programs under two backends, and the legend has a point for each backend.
    assert_eq!(picture.matches("<circle").count(), 6);
    lab().arg("plot").arg(&json).arg("--out").arg(&again).assert().success();
    assert_eq!(fs::read_to_string(again).unwrap(), picture);
}

#[test]
fn what_the_environment_chooses_counts_where_the_command_line_is_silent() {
    let run = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = lab();
        json(command.envs(variables.iter().copied()).args(words))
    };
    let chosen = [("COMITY_POLICY", "bws"), ("COMITY_NUM_THREADS", "3")];
    let kernel = run(&chosen, &["kernel", "fib:n=15", "--json"]);
    assert_eq!((kernel["policy"].as_str(), kernel["workers"].as_u64()), (Some("bws"), Some(3)));
    let kernel = run(&chosen, &["kernel", "fib:n=15", "--json", "--policy", "abp", "--workers", "2"]);
    assert_eq!((kernel["policy"].as_str(), kernel["workers"].as_u64()), (Some("abp"), Some(2)));
    let kernel = run(&[("COMITY", "off")], &["kernel", "fib:n=15", "--json"]);
    assert_eq!(kernel["policy"], "plain");
    let corun = run(&chosen, &["corun", "fib:n=15", "fib:n=16", "--rounds", "1", "--json", "-"]);
    let first = &corun["coruns"][0];
    assert_eq!((first["policy"].as_str(), first["workers"].as_u64()), (Some("bws"), Some(3)));
}

#[test]
fn a_signal_has_it_tell_and_file_what_has_been_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (file, count) = (folder.path().join("result.json"), folder.path().join("count"));
    // The first block has three executions: alone, on one core, together. A later execution hangs.
    let hangs = format!("echo >>{0}; [ $(wc -l <{0}) -lt 4 ] || sleep 600", count.display());
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["corun", "fib:n=10", &hangs, "--policy", "abp", "--rounds", "2", "--workers", "2", "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.starts_with("6 of 12 rounds: abp, block 1 of 2, "), "{line}");
    send("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    let mut last = String::new();
    progress.read_to_string(&mut last).unwrap();
    assert!(last.starts_with("interrupted after ") && last.lines().count() == 1, "{last}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("PARTIAL, the command was interrupted: fib:n=10 and "), "{table}");
    let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(report["partial"], true);
    assert_eq!(together(&report), [("abp", format!("fib:n=10 {hangs}"))]);
}
