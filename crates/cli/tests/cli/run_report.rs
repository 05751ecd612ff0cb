//! Tests of `comity run --report`: the command ends as without `--report`, and the report is correct and is written.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{BURN, Running, children, cores, is_empty, mask, place, run};
use crate::{comity_at, send, wait_until};

/// A script that uses enough processor time for a look of the coordinator. This holds on a busy machine too.
const WORK: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";

fn report(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the report is JSON")
}

fn seconds(report: &Value, field: &str) -> f64 {
    report[field].as_f64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

#[test]
fn the_command_ends_as_it_would_and_standard_output_is_its_own() {
    let (folder, table) = place();
    let output = run(&table, &["--report", "sh", "-c", &format!("{WORK}; echo out; exit 7")]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"out\n"[..]));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("comity run: sh: ") && told.contains(", exit code 7\n"), "{told}");
    for line in ["processor time", "switches", "cores used", "cores held", "held, lent", "waited", "alone"] {
        assert!(told.lines().any(|told| told.starts_with(&format!("  {line} "))), "{line}: {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    assert!(told.contains(", an estimate"), "{told}");

    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("USR1", 10)] {
        let file = folder.path().join("end.json");
        let file_option = format!("--report={}", file.display());
        let output = run(&table, &[&file_option, "sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(number), "{name}");
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b""[..], &b""[..]));
        let report = report(&file);
        assert_eq!((&report["exit_code"], &report["signal"]), (&Value::Null, &Value::from(number)));
    }
    wait_until("all have left the table", || is_empty(&table));
}

#[test]
fn a_file_is_json_or_text_by_its_name_and_replaced_whole() {
    let (folder, table) = place();
    let [json, text] = ["a b.json", "report"].map(|name| folder.path().join(name));
    for file in [&json, &text] {
        fs::write(file, "the one before").unwrap();
        let output = run(&table, &[&format!("--report={}", file.display()), "sh", "-c", WORK]);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    }
    assert!(fs::read_to_string(&text).unwrap().starts_with("comity run: sh: "));
    let report = report(&json);
    assert_eq!(report["schema"], "comity-run/1");
    assert_eq!((&report["name"], &report["exit_code"], &report["weight"]), (&"sh".into(), &0.into(), &100.into()));
    assert!(seconds(&report, "cpu_s") > 0.0 && seconds(&report, "cpu_s") <= seconds(&report, "wall_s") * 1.1);
    let shared = &report["shared"];
    let timeline = shared["timeline"].as_array().unwrap();
    let sum = |field: &str| timeline.iter().map(|part| seconds(part, "seconds") * seconds(part, field)).sum::<f64>();
    let length: f64 = timeline.iter().map(|part| seconds(part, "seconds")).sum();
    assert!(length > 0.0 && length <= seconds(&report, "wall_s"), "{report}");
    assert!(sum("used_cores") > 0.0 && sum("used_cores") <= seconds(&report, "cpu_s") * 1.1, "{report}");
    assert!((sum("held_cores") - seconds(shared, "held_core_s")).abs() < 1e-3, "{report}");
    assert!(seconds(shared, "alone_estimate_s") <= seconds(&report, "wall_s"), "{report}");
    assert!(["claimed", "taken_back", "released", "lost"].iter().all(|count| shared[*count].is_u64()), "{report}");
}

#[test]
fn what_cannot_be_reported_is_said_before_anything_runs() {
    let (folder, table) = place();
    let (ran, existing) = (folder.path().join("ran"), folder.path().join("existing.json"));
    fs::write(&existing, "the one before").unwrap();
    let missing = folder.path().join("missing/report.json");
    let under_a_file = existing.join("report");
    let touch = ran.to_str().unwrap();
    for (file, why) in [
        ("-".as_ref(), "standard output belongs to the command. Use --report for standard error"),
        (missing.as_path(), "its folder does not exist. Choose another file for --report"),
        (folder.path(), "it is a directory"),
        (under_a_file.as_path(), "Choose another file for --report"),
        ("".as_ref(), "a value is required for '--report[=<FILE>]'"),
    ] {
        let output = run(&table, &[&format!("--report={}", file.display()), "touch", touch]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && errors.contains(why), "{}: {errors}", file.display());
        assert!(!ran.exists() && !errors.contains("panicked"), "{errors}");
    }
    for (words, code) in [(&["no-such-program"][..], 127), (&["--", existing.to_str().unwrap()][..], 126)] {
        let option = format!("--report={}", existing.display());
        let output = run(&table, &[&[option.as_str()][..], words].concat());
        assert_eq!(output.status.code(), Some(code));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot run"));
        assert_eq!(fs::read_to_string(&existing).unwrap(), "the one before");
    }
    // Without the equals sign, `comity` takes the file's name for the command.
    let output = run(&table, &["--report", touch, "x"]);
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_report_without_its_folder_is_said_on_standard_error() {
    let (folder, table) = place();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let option = format!("--report={}", gone.join("report.json").display());
    let output = run(&table, &[&option, "sh", "-c", &format!("rm -r '{}'; exit 3", gone.display())]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && errors.starts_with("comity: cannot write"), "{errors}");
    let (_why, report) = errors.split_once('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(report).unwrap()["exit_code"], 3);
}

#[test]
fn a_command_that_takes_no_part_is_reported_all_the_same() {
    let (folder, table) = place();
    let file = folder.path().join("report.json");
    let option = format!("--report={}", file.display());
    for name in ["off", folder.path().join("missing/table").to_str().unwrap()] {
        let mut command = comity_at(&table);
        command.env("COMITY_TABLE", name).args(["run", &option, "sh", "-c", &format!("{WORK}; exit 4")]);
        assert_eq!(command.output().unwrap().status.code(), Some(4), "{name}");
        let report = report(&file);
        assert_eq!((&report["shared"], &report["exit_code"]), (&Value::Null, &4.into()));
        assert!(seconds(&report, "cpu_s") > 0.0);
    }
}

#[test]
fn signals_come_once_and_what_is_ignored_stays_so() {
    let (folder, table) = place();
    let [ready, count] = ["ready", "count"].map(|name| folder.path().join(name));
    let traps: String =
        ["TERM", "USR1"].map(|name| format!("trap 'echo {name} >> {}' {name}; ", count.display())).concat();
    let script = format!("{traps}trap 'exit 5' USR2; : > {}; while :; do sleep 0.05; done", ready.display());
    // A shell that ignores SIGINT starts programs that ignore it too.
    let ignoring = format!("trap '' INT; exec \"$0\" run --report sh -c \"{script}\"");
    let mut child = Command::new("sh")
        .args(["-c", &ignoring, env!("CARGO_BIN_EXE_comity")])
        .env("COMITY_TABLE", &table)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is there", || ready.exists());
    let mut all = String::new();
    // SIGHUP is left out, because the tests may run under nohup(1), and then programs ignore it.
    for name in ["TERM", "INT", "QUIT", "USR1"] {
        send(name, child.id());
        if !matches!(name, "INT" | "QUIT") {
            all.push_str(&format!("{name}\n"));
            wait_until("it has the signal", || fs::read_to_string(&count).is_ok_and(|text| text == all));
        }
    }
    send("USR2", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(fs::read_to_string(&count).unwrap(), all);
    wait_until("it has left the table", || is_empty(&table));
}

#[test]
fn a_kill_leaves_a_command_that_runs_on_unconfined() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (folder, table) = place();
    let (pid, free) = (folder.path().join("pid"), mask(std::process::id()));
    let script = format!("echo $$ > {0}.part; mv {0}.part {0}; {BURN}", pid.display());
    let mut running = Running::start(&table, &["--report", "sh", "-c", &script]);
    let _other = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("the command is there", || pid.exists());
    let command: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let are = |wanted: bool| {
        let children = children(command);
        children.len() == 2 && children.iter().all(|id| (mask(*id) == free) == wanted)
    };
    wait_until("it is confined", || are(false));
    send("KILL", running.id());
    assert_eq!(running.child.wait().unwrap().signal(), Some(9));
    wait_until("it is free although its coordinator is gone", || are(true));
}

#[test]
fn beside_another_it_waits_and_the_estimate_is_below_its_time() {
    if cores() < 2 {
        println!("skipped: a command that may use one core only says nothing of two");
        return;
    }
    let (folder, table) = place();
    let file = folder.path().join("report.json");
    let neighbour =
        Running::start(&table, &["sh", "-c", &format!("{}wait", "while :; do :; done & ".repeat(2 * cores()))]);
    wait_until("the neighbour takes part", || {
        neighbour.entry(&table).is_some_and(|entry| entry["held"].as_array().unwrap().len() == cores())
    });
    // The work has one process per core, so that the command would use all cores if it ran alone.
    let work = "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done & ".repeat(cores());
    let option = format!("--report={}", file.display());
    let output = run(&table, &[&option, "sh", "-c", &format!("{work} wait")]);
    assert!(output.status.success());
    drop(neighbour);
    let report = report(&file);
    let shared = &report["shared"];
    assert!(seconds(shared, "waited_s") > 0.0, "{report}");
    assert!(seconds(shared, "alone_estimate_s") < 0.9 * seconds(&report, "wall_s"), "{report}");
}
