//! Tests of `comity set`: the requests, the users that may send them, and that programs follow them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use comity_table::{Location, Member, Profile};
use serde_json::Value;

use crate::run::{Running, children, is_empty, place};
use crate::table::member;
use crate::{comity, comity_at, send, table_at, wait_until};

/// The number of an unprivileged user, who need not have a name.
const OTHER: u32 = 54_321;

/// Runs `comity set` with these words. Returns the exit code, standard output and standard error.
fn set(table: &Path, words: &[&str]) -> (i32, String, String) {
    let output = comity_at(table).arg("set").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[track_caller]
pub fn is_set(table: &Path, words: &[&str]) -> String {
    let (code, said, errors) = set(table, words);
    assert!(code == 0 && errors.is_empty(), "{words:?}: {code} {said}{errors}");
    said
}

#[track_caller]
fn refused(table: &Path, words: &[&str], parts: &[&str]) {
    let (code, said, errors) = set(table, words);
    assert!(code == 1 && said.is_empty() && errors.starts_with("error: "), "{words:?}: {code} {said}{errors}");
    assert!(parts.iter().all(|part| errors.contains(part)), "{parts:?} are not in {errors}");
}

fn entry(table: &Path, process: u32) -> Option<Value> {
    let report = table_at(table);
    report["programs"].as_array().unwrap().iter().find(|program| program["pid"] == process).cloned()
}

#[track_caller]
fn wait_for(table: &Path, process: u32, what: &str, holds: impl Fn(&Value) -> bool) {
    wait_until(what, || entry(table, process).is_some_and(|entry| holds(&entry)));
}

/// Returns the state of a process in the kernel's notation: R, S, T …
pub fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns a member of the table for this process. It accepts requests if `obeys` is true.
fn party(table: &Path, obeys: bool) -> Member {
    let profile = Profile {
        program: 7,
        name: "party".to_owned(),
        policy: "test".to_owned(),
        weight: 100,
        workers: 1,
        may_use: [0].into_iter().collect(),
        lend_after: Duration::ZERO,
    };
    let member = Member::join(&Location::At(table.to_owned()), &profile).unwrap();
    if obeys {
        member.requests();
    }
    member
}

#[test]
fn a_pool_counts_as_it_is_asked_to_and_then_as_it_says_itself() {
    let (_folder, table) = place();
    let mut child = member(&table);
    let process = child.id().to_string();
    let said = is_set(&table, &[&process, "--weight", "300", "--cores", "1"]);
    assert!(said.starts_with("#0 ") && said.contains("weight 300, until") && said.contains("1 core at most"), "{said}");
    wait_for(&table, child.id(), "it counts so much", |entry| entry["weight"] == 300 && entry["asked_cores"] == 1);
    let report = crate::json(comity().env("COMITY_TABLE", &table).args(["set", "#0", "--weight", "own", "--json"]));
    assert_eq!(
        (&report["schema"], &report["slot"], &report["weight"]),
        (&"comity-set/1".into(), &0.into(), &"own".into())
    );
    wait_for(&table, child.id(), "it counts as it says itself", |entry| entry["weight"] == 250);
    is_set(&table, &["#0", "--pause", "10m", "--cores", "auto"]);
    wait_for(&table, child.id(), "it says so", |entry| {
        entry["life"] == "living" && entry["held"] == Value::Array(vec![])
    });
    assert!(entry(&table, child.id()).unwrap()["paused_s"].as_f64().is_some_and(|left| left > 0.0 && left <= 600.0));
    let shown = comity().env("COMITY_TABLE", &table).args(["top", "--once", "--interval-ms", "50"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(" paused"), "{shown:?}");
    assert!(is_set(&table, &["#0", "--resume"]).contains(": resumed."));
    wait_for(&table, child.id(), "it says so", |entry| entry["paused_s"].is_null());
    child.kill().unwrap();
    child.wait().unwrap();
    refused(&table, &["#0", "--resume"], &["is dead"]);
}

#[test]
fn commands_are_set_by_their_label() {
    let (_folder, table) = place();
    let words = ["--label", "agent-1", "sh", "-c", "exec sleep 1000"];
    let [first, second] = [Running::start(&table, &words), Running::start(&table, &words)];
    let other = Running::start(&table, &["--label", "other", "sleep", "1000"]);
    for running in [&first, &second, &other] {
        wait_for(&table, running.id(), "it takes part", |entry| entry["obeys"] == true);
    }
    let folder = std::env::current_dir().unwrap();
    wait_for(&table, first.id(), "it is described", |entry| entry["command"] == "sleep 1000");
    let described = entry(&table, first.id()).unwrap();
    assert_eq!((&described["name"], &described["folder"]), (&"agent-1".into(), &folder.to_str().unwrap().into()));
    is_set(&table, &["other", "--weight", "300"]);
    refused(&table, &["agent-1", "--weight", "50"], &["several programs have the name", "--all-labelled agent-1"]);
    refused(&table, &["agent-2", "--weight", "50"], &["no program has the name 'agent-2'", "other"]);
    let said = is_set(&table, &["--all-labelled", "agent-1", "--weight", "50"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    for (running, weight) in [(&first, 50), (&second, 50), (&other, 300)] {
        wait_for(&table, running.id(), "it has the weight", |entry| entry["weight"] == weight);
    }
    refused(&table, &["--all-labelled", "agent-2", "--resume"], &["no program has the name 'agent-2'"]);
}

#[test]
fn a_command_counts_uses_fewer_cores_rests_and_goes_on() {
    let (_folder, table) = place();
    let running = Running::start(&table, &["--weight", "50", "sh", "-c", crate::run::BURN]);
    let process = running.id();
    wait_for(&table, process, "it takes part", |entry| entry["obeys"] == true && entry["desire"].as_u64() > Some(0));
    let number = process.to_string();
    is_set(&table, &[&number, "--weight", "900", "--cores", "1"]);
    wait_for(&table, process, "it does", |entry| entry["weight"] == 900 && entry["desire"].as_u64() <= Some(1));
    is_set(&table, &[&number, "--weight", "own", "--cores", "auto"]);
    wait_for(&table, process, "it counts as before", |entry| entry["weight"] == 50);

    let all = || children(process).into_iter().chain([process]).collect::<Vec<u32>>();
    wait_until("it has a child", || all().len() > 1);
    for child in children(process) {
        // Any process stands for the whole command.
        assert!(is_set(&table, &[&child.to_string(), "--resume"]).contains(&format!("(process {process})")));
    }
    let rests = || all().len() == 3 && all().iter().all(|process| state(*process) == Some('T'));
    let goes_on = || all().iter().all(|process| state(*process).is_some_and(|state| state != 'T'));
    is_set(&table, &[&number, "--pause", "2h"]);
    wait_until("all of it is stopped", rests);
    wait_for(&table, process, "it holds nothing", |entry| {
        entry["held"] == Value::Array(vec![]) && entry["desire"] == 0
    });
    is_set(&table, &[&number, "--resume"]);
    wait_until("all of it goes on", goes_on);
    // The pause ends after its time.
    is_set(&table, &[&number, "--pause", "1s"]);
    wait_until("it rests, and its time runs out", || entry(&table, process).unwrap()["paused_s"].is_null());
    wait_until("all of it goes on by itself", goes_on);
    is_set(&table, &[&number, "--pause", "2h"]);
    wait_until("all of it is stopped", rests);
    send("TERM", crate::run::coordinator(process).unwrap());
    wait_until("all of it goes on without its coordinator", goes_on);
    drop(running);
    wait_until("it has left", || is_empty(&table));

    let running = Running::start(&table, &["sh", "-c", crate::run::BURN]);
    let process = running.id();
    wait_for(&table, process, "it takes part", |entry| entry["obeys"] == true);
    is_set(&table, &[&process.to_string(), "--pause", "2h"]);
    wait_until("it is stopped", || state(process) == Some('T'));
    send("KILL", crate::run::coordinator(process).unwrap());
    wait_until("its companion has it go on", || state(process).is_some_and(|state| state != 'T'));
}

#[test]
fn the_program_that_is_meant_must_be_clear_and_must_obey() {
    let (_folder, table) = place();
    let me = std::process::id().to_string();
    refused(&table, &["#0", "--resume"], &["no program has slot #0", "No program is using the table"]);
    let one = party(&table, true);
    refused(&table, &["#5", "--resume"], &["no program has slot #5", "Programs in the table: #0 party"]);
    refused(&table, &["1", "--resume"], &["process 1 is not a member of the core table", "comity run"]);
    refused(&table, &["4000000000", "--resume"], &["process 4000000000 cannot be found"]);
    let older = party(&table, false);
    refused(&table, &[&me, "--weight", "7"], &["several slots", "#0 party", "#1 party"]);
    refused(&table, &["#1", "--weight", "7"], &["#1 party", "older Comity"]);
    is_set(&table, &["#0", "--weight", "7"]);
    assert_eq!((one.requests().weight, older.requests().weight), (Some(7), None));
    let (code, _, errors) = set(Path::new("off"), &["#0", "--resume"]);
    assert!(code == 1 && errors.contains("COMITY_TABLE is off"), "{errors}");
}

/// Tests a table that another user may write to, because it belongs to a group: the user cannot set root's programs.
#[test]
fn another_user_is_refused_and_root_is_not() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play two users");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), None, Some(OTHER)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o2770)).unwrap();
    let table = folder.path().join("table");
    let of_root = party(&table, true);
    // `bin` has a copy of `comity` that every user may run.
    let bin = tempfile::tempdir().unwrap();
    fs::set_permissions(bin.path(), Permissions::from_mode(0o755)).unwrap();
    let comity = bin.path().join("comity");
    // Another process writes the file. If this process wrote it, a child that another test forks meanwhile could have
    // it open for writing, and execve(2) would fail.
    assert!(
        Command::new("cp")
            .args([env!("CARGO_BIN_EXE_comity").as_ref(), comity.as_os_str()])
            .status()
            .unwrap()
            .success()
    );
    let as_other = |words: &[&str]| {
        let mut command = Command::new(&comity);
        command.env("COMITY_TABLE", &table).args(words).uid(OTHER).gid(OTHER).current_dir("/");
        command
    };
    let output = as_other(&["set", "#0", "--weight", "7"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("belongs to another user (0)"), "{errors}");
    assert_eq!(of_root.requests().weight, None);
    // The member stands for a process that does not exist, so its user is unknown.
    of_root.stand_for(4_000_000_000);
    let output = as_other(&["set", "#0", "--weight", "7"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("has an unknown user"), "{errors}");
    assert_eq!(of_root.requests().weight, None);
    is_set(&table, &["#0", "--weight", "8"]);
    assert_eq!(of_root.requests().weight, Some(8));
    // The other user may set its own program.
    let mut own = as_other(&["run", "sleep", "600"]).spawn().unwrap();
    wait_for(&table, own.id(), "it takes part", |entry| entry["obeys"] == true);
    let process = own.id().to_string();
    assert!(as_other(&["set", &process, "--weight", "9"]).status().unwrap().success());
    wait_for(&table, own.id(), "it obeys", |entry| entry["weight"] == 9);
    own.kill().unwrap();
    own.wait().unwrap();
}

#[test]
fn root_sees_and_sets_the_programs_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play two users");
        return;
    }
    // The number of a user that no other test uses.
    let user = 3_000_000 + std::process::id();
    let folder = format!("/dev/shm/comity-{user}");
    let bin = tempfile::tempdir().unwrap();
    fs::set_permissions(bin.path(), Permissions::from_mode(0o755)).unwrap();
    let program = bin.path().join("comity");
    // Another process writes the copy, as in the test above.
    let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_comity").as_ref(), program.as_os_str()]).status();
    assert!(copied.unwrap().success());
    let mut run = Command::new(&program);
    run.args(["run", "sleep", "600"]).uid(user).gid(user).current_dir("/").env_remove("COMITY_TABLE");
    let mut running = run.spawn().unwrap();
    let process = running.id().to_string();
    let table = Path::new(&folder).join("layout-2");
    wait_for(&table, running.id(), "it takes part", |entry| entry["obeys"] == true);
    // Without COMITY_TABLE, `comity set` uses the table of the user who owns the process.
    let mut set = comity();
    let set = set.env_remove("COMITY_TABLE").args(["set", &process, "--weight", "9"]).output().unwrap();
    wait_for(&table, running.id(), "it obeys", |entry| entry["weight"] == 9);
    running.kill().unwrap();
    running.wait().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
}

/// Tests that a request is either the old one or the new one when `comity set` is killed at any moment.
#[test]
fn a_killed_setter_leaves_nothing() {
    let (_folder, table) = place();
    let member = party(&table, true);
    let mut seen = [0u32; 3];
    for nth in 0..60u64 {
        let pause = if nth % 2 == 0 { "1h" } else { "2h" };
        let words = ["set", "#0", "--weight", "300", "--cores", "2", "--pause", pause];
        let mut setter = comity_at(&table).args(words).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(nth * 150));
        let _ended = setter.kill();
        setter.wait().unwrap();
        let asked = member.requests();
        assert!([None, Some(300)].contains(&asked.weight) && [None, Some(2)].contains(&asked.cores), "{asked:?}");
        let hours = asked.paused_until.map(|until| until.saturating_sub(comity_os::clock::now_ns()) / 1_000_000);
        assert!(hours.is_none_or(|left| left <= 7_200_000), "{asked:?}");
        seen[usize::from(asked.weight.is_some()) + usize::from(asked.paused_until.is_some())] += 1;
        // After a kill, all requests can be reset, as if none had been sent.
        is_set(&table, &["#0", "--weight", "own", "--cores", "auto", "--resume"]);
        assert_eq!(member.requests(), comity_table::Requests::default());
    }
    println!("setters that had asked for nothing, some and all: {seen:?}");
    assert!(table_at(&table)["programs"].as_array().unwrap().len() == 1);
}

#[test]
fn bad_input_is_refused_and_nothing_is_asked() {
    let (_folder, table) = place();
    let member = party(&table, true);
    for (words, part) in [
        (&[][..], "required"),
        (&["#0"], "required"),
        (&["#0", "--weight", "0"], "from 1 to 10000, or own"),
        (&["#0", "--weight", "10001"], "from 1 to 10000, or own"),
        (&["#0", "--weight", "heavy"], "from 1 to 10000, or own"),
        (&["#0", "--cores", "0"], "from 1 to 1024, or auto"),
        (&["#0", "--cores", "1025"], "from 1 to 1024, or auto"),
        (&["#0", "--pause", "10"], "a time with its unit"),
        (&["#0", "--pause", "25h"], "24h at most"),
        (&["#0", "--pause", "-1m"], ""),
        (&["#0", "--pause", "1m", "--resume"], "cannot be used with"),
        (&["0", "--resume"], "a process number, a name, or #"),
        (&["#", "--resume"], "a process number, a name, or #"),
        (&["a\nb", "--resume"], "a process number, a name, or #"),
        (&["--resume"], "required"),
        (&["#0", "--all-labelled", "make", "--resume"], "cannot be used with"),
        (&["#0", "--wait", "3"], "unexpected argument"),
    ] {
        let (code, said, errors) = set(&table, words);
        assert!(code == 2 && said.is_empty() && errors.contains(part), "{words:?}: {code} {errors}");
    }
    assert_eq!(member.requests(), comity_table::Requests::default());
}

#[test]
fn a_value_that_is_no_number_or_no_time_is_said_with_what_would_be_one() {
    let table = Path::new("off");
    for (words, part) in [
        (&["--weight", "1.5"][..], "give a whole number from 1 to 10000, or own"),
        (&["--weight", "-1"], "give a whole number from 1 to 10000, or own"),
        (&["--cores", "-1"], "give a whole number from 1 to 1024, or auto"),
        (&["--pause", "-5m"], "give a time with its unit"),
        (&["--pause", "-5"], "give a time with its unit"),
    ] {
        let (code, _, errors) = set(table, &[&["1"], words].concat());
        assert!(code == 2 && errors.contains(part) && !errors.contains("-- -"), "{words:?}: {errors}");
    }
}
