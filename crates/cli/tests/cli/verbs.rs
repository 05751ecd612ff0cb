//! Tests of the verbs that run no command.

use std::path::Path;
use std::process::{Command, Stdio};

use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity, cores};
use serde_json::Value;

use crate::command::{assert_completions_and_man_pages_have, assert_every_help_says_what_verbs_do_in_80_columns};
use crate::{comity, json};

#[path = "../../../runtime/tests/harness/filter.rs"]
mod filter;

#[test]
fn the_functions_of_a_shell_run_its_tools_as_commands() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let mut search = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    search.insert(0, Path::new(env!("CARGO_BIN_EXE_comity")).parent().unwrap().to_owned());
    let search = std::env::join_paths(search).unwrap();
    for (shell, load) in [
        ("bash", "eval \"$(comity shell-init bash env ls)\""),
        ("zsh", "eval \"$(comity shell-init zsh env ls)\""),
        ("fish", "comity shell-init fish env ls | source"),
    ] {
        // Within a command, the tool runs alone: the last line has the mark that the script sets.
        let mark = if shell == "fish" { "set -x COMITY_RUN own" } else { "export COMITY_RUN=own" };
        let script = format!("{load}; env; {mark}; env");
        let ran = std::process::Command::new(shell)
            .args(["-c", &script])
            .env("PATH", &search)
            .env("COMITY_TABLE", &table)
            .env_remove("COMITY_RUN")
            .env("XDG_CONFIG_HOME", folder.path())
            .output();
        let Ok(output) = ran else {
            println!("skipped in part: there is no {shell}");
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let marks: Vec<&str> = text.lines().filter(|line| line.starts_with("COMITY_RUN=")).collect();
        assert!(output.status.success() && marks.len() == 2 && marks[0] != marks[1], "{shell}: {output:?}");
        assert_eq!(marks[1], "COMITY_RUN=own", "{shell}");
        assert!(output.stderr.is_empty(), "{shell}: {output:?}");
    }
    for tool in ["a b", "/bin/ls", "$(id)", "", "comity"] {
        comity().args(["shell-init", "bash", tool]).assert().code(2);
    }
}

#[test]
fn the_policies_are_listed() {
    let policies = json(comity().args(["policies", "--json"]));
    assert_eq!(policies["schema"], "comity-policies/1");
    let names: Vec<_> = policies["policies"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names[0], "comity");
    assert!(names.contains(&"bws".into()));
    let output = comity().arg("policies").assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("comity (default)"));
}

/// Returns the doctor's JSON output and its exit code with these variables.
fn examine(variables: &[(&str, &str)]) -> (Value, i32) {
    let mut command = comity();
    for name in [
        "COMITY",
        "COMITY_TABLE",
        "COMITY_POLICY",
        "COMITY_NUM_THREADS",
        "COMITY_WEIGHT",
        "COMITY_CORES",
        "COMITY_WATCH",
        "COMITY_TRACE",
    ] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).args(["doctor", "--json"]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn the_doctor_says_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let (report, code) = examine(&[("COMITY_TABLE", table.to_str().unwrap())]);
    assert_eq!(report["schema"], "comity-doctor/1");
    assert!(report["machine"]["cores"].as_u64().unwrap() >= 1);
    for service in ["membarrier", "thread_cpu_clock", "autogroup"] {
        assert!(report["capabilities"][service].is_boolean(), "{service}");
    }
    // On a busy machine a check may be slow, so its verdict may be `costs`.
    let verdicts = ["ok", "costs"];
    assert_eq!(verdicts[usize::try_from(code).unwrap()], report["verdict"]);
    for check in report["checks"].as_array().unwrap() {
        assert!(verdicts.iter().any(|verdict| check["verdict"] == *verdict), "{check}");
        assert_eq!(check["change"].is_null(), check["verdict"] == "ok", "{check}");
    }
    let output = comity().env("COMITY_TABLE", &table).arg("doctor").output().unwrap();
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{output:?}");
    assert!(!table.exists(), "it changes nothing");
    let text = String::from_utf8(output.stdout).unwrap();
    for what in [
        "processor",
        "usable",
        "quota",
        "steal time",
        "os tier",
        "membarrier",
        "wake-up",
        "time slice",
        "preemption",
        "acceleration",
    ] {
        assert!(text.contains(what), "{what} is not in\n{text}");
    }
}

#[test]
fn the_doctor_tells_what_costs_from_what_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let not_a_table = folder.path().join("notes");
    std::fs::write(&not_a_table, "milk, bread").unwrap();
    let nowhere = folder.path().join("none/table");
    let cases = [
        ("COMITY_TABLE", "off", "core table", "costs", "is off"),
        ("COMITY_TABLE", not_a_table.to_str().unwrap(), "core table", "bad", "notes"),
        ("COMITY_TABLE", nowhere.to_str().unwrap(), "core table", "bad", "cannot be created"),
        ("COMITY", "off", "environment", "costs", "COMITY=off"),
        ("COMITY", "of", "environment", "bad", "neither on nor off"),
        ("COMITY_POLICY", "cilk", "environment", "bad", "no policy is called 'cilk'"),
        ("COMITY_NUM_THREADS", "65536", "environment", "bad", "from 1 to 65535"),
        ("COMITY_CORES", "0", "environment", "bad", "from 1 to 1024"),
        ("COMITY_WEIGHT", "heavy", "environment", "bad", "COMITY_WEIGHT=heavy"),
        ("COMITY_WATCH", "0.01", "environment", "bad", "(minimum 0.1)"),
        ("COMITY_TRACE", "/dev/null", "environment", "bad", "COMITY_TRACE=/dev/null: this is not a regular file"),
        ("COMITY_TRACE", not_a_table.to_str().unwrap(), "environment", "bad", "this file exists and is not a trace"),
        ("COMITY_TRACE", nowhere.to_str().unwrap(), "environment", "bad", "its folder does not exist"),
    ];
    // Each doctor watches the machine for a second, so all of them run at the same time.
    std::thread::scope(|scope| {
        for (name, value, check_name, verdict, part) in cases {
            scope.spawn(move || {
                let (report, code) = examine(&[(name, value)]);
                let check = check(&report, check_name);
                assert_eq!(check["verdict"], verdict, "{name}={value}: {check}");
                assert!(check["found"].as_str().unwrap().contains(part), "{name}={value}: {check}");
                assert!(check["change"].is_string(), "{name}={value}: {check}");
                assert_eq!(code, if verdict == "bad" { 2 } else { 1 }, "{name}={value}");
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&not_a_table).unwrap(), "milk, bread");
}

/// Returns the doctor's check of acceleration. `change` runs first, in the thread that starts the doctor, and limits
/// what the doctor may do.
fn acceleration(change: impl FnOnce() + Send) -> Value {
    std::thread::scope(|scope| {
        let examined = scope.spawn(|| {
            change();
            check(&examine(&[("COMITY_TABLE", "off")]).0, "acceleration").clone()
        });
        examined.join().unwrap()
    })
}

#[test]
fn the_doctor_tries_whether_a_thread_may_be_pulled_to_another_core() {
    let said = acceleration(|| {
        let first = CoreSet::from_iter(cores::allowed().first().map(|core| core.id));
        assert!(affinity::confine(ThreadId::current(), first));
    });
    assert!(said["verdict"] == "ok" && said["found"].as_str().unwrap().starts_with("one core"), "{said}");
    if cores::allowed().len() < 2 {
        println!("skipped: the rest takes two cores");
        return;
    }
    let said = acceleration(|| ());
    assert!(said["verdict"] == "ok" && said["found"].as_str().unwrap().contains("may be pulled"), "{said}");
    for error in [libc::EPERM, 0] {
        let filter = filter::refusing(libc::SYS_sched_setaffinity, error);
        let said = acceleration(|| seccompiler::apply_filter(&filter).unwrap());
        assert!(said["verdict"] == "costs" && said["found"].as_str().unwrap().starts_with("refused"), "{said}");
        assert!(said["meaning"].as_str().unwrap().contains("yields"), "{said}");
        assert!(said["change"].as_str().unwrap().contains("sched_setaffinity"), "{said}");
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

#[test]
fn every_help_says_what_verbs_do_in_80_columns() {
    assert_every_help_says_what_verbs_do_in_80_columns(comity, 9);
}

#[test]
fn completions_and_man_pages_know_every_verb() {
    assert_completions_and_man_pages_have(comity, "comity", ["cores", "watch"]);
}

#[test]
fn a_misspelt_verb_has_a_suggestion() {
    for (word, verb) in [("rnu", "run"), ("rn", "run"), ("tpo", "top"), ("tabel", "table"), ("polices", "policies")] {
        let output = comity().arg(word).assert().code(2).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("similar") && errors.contains(&format!("'{verb}'")), "{word}: {errors}");
    }
}
