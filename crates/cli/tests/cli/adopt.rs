//! Tests of `comity adopt`: which processes it takes in, and that they are free afterwards.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::run::{BURN, Running, children, coordinator, cores, is_empty, mask, place, run, state};
use crate::set::is_set;
use crate::{comity_at, send, table_at, wait_until};

/// Starts a program that is not a member of a table.
fn start(words: &[&str]) -> Running {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    Running { child: command.spawn().unwrap() }
}

fn adopt(table: &Path, words: &[&str]) -> Output {
    comity_at(table).arg("adopt").args(words).output().unwrap()
}

/// Adopts, and returns what `comity adopt` printed.
#[track_caller]
fn adopted(table: &Path, words: &[&str]) -> String {
    let output = adopt(table, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Expects a notice that the process shares cores already.
#[track_caller]
fn shares_already(table: &Path, process: &str, why: &str) {
    let output = adopt(table, &[process]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty() && errors.contains(why), "{errors}");
}

#[track_caller]
fn refused(table: &Path, words: &[&str], why: &str) {
    let output = adopt(table, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains(why), "{errors}");
}

fn programs(table: &Path) -> Vec<Value> {
    table_at(table)["programs"].as_array().unwrap().clone()
}

#[test]
fn what_a_process_has_started_shares_cores_until_it_is_released() {
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let plain = start(&["sh", "-c", BURN]);
    let id = plain.id().to_string();
    wait_until("it has started two processes", || children(plain.id()).len() == 2);
    let told = adopted(&table, &["--label", "old", "--weight", "50", &id]);
    assert_eq!(told, format!("#0 old (process {id}) shares cores, with 2 processes that it has started.\n"));
    wait_until("it obeys requests", || plain.entry(&table).is_some());
    let entry = plain.entry(&table).unwrap();
    assert_eq!((&entry["name"], &entry["weight"]), (&"old".into(), &50.into()));
    assert!(entry["command"].as_str().unwrap().starts_with("sh -c while"), "{entry}");
    shares_already(&table, &id, "is a member of the table already");
    let [one, _] = children(plain.id())[..] else { panic!("two processes") };
    shares_already(&table, &one.to_string(), "is a part of #0 old");
    is_set(&table, &[&one.to_string(), "--weight", "100"]);
    let are = |wanted: bool| children(plain.id()).into_iter().all(|id| (mask(id) == free) == wanted);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    if cores() == 2 {
        wait_until("its processes are confined", || are(false));
    }
    assert_eq!(adopted(&table, &["--release", "old"]), format!("#0 old (process {id}): released.\n"));
    assert!(plain.entry(&table).is_none() && are(true) && children(plain.id()).len() == 2);
    wait_until("the other is in the table", || other.entry(&table).is_some());
    refused(&table, &["--release", &other.id().to_string()], "was not adopted");
    refused(&table, &["--release", &id], "is not a member of the core table");
    adopted(&table, &[&id]);
    if cores() == 2 {
        wait_until("its processes are confined again", || are(false));
    }
    send("KILL", coordinator(plain.id()).unwrap());
    wait_until("they are free although the coordinator is gone", || are(true));
}

#[test]
fn the_membership_ends_with_the_process() {
    let (_folder, table) = place();
    let mut plain = start(&["cat"]);
    assert_eq!(adopted(&table, &[&plain.id().to_string()]), format!("#0 cat (process {}) shares cores.\n", plain.id()));
    drop(plain.child.stdin.take());
    wait_until("it has left the table", || is_empty(&table));
}

/// The parent of the process has ended. It is in the process group of the first process, as a job's processes are.
#[test]
fn a_process_without_its_parent_belongs_to_its_group() {
    let (folder, table) = place();
    let file = folder.path().join("begun");
    let script = "(sleep 1000 &); (setsid sleep 1000 & echo $! >$0); exec sleep 1000";
    let plain = start(&["sh", "-c", script, file.to_str().unwrap()]);
    let other = || fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    wait_until("all have begun", || {
        let is_sleep = |id: u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n");
        is_sleep(plain.id()) && other().is_some_and(is_sleep)
    });
    let told = adopted(&table, &[&plain.id().to_string()]);
    send("KILL", other().unwrap());
    assert_eq!(told, format!("#0 sleep (process {}) shares cores, with 1 process that it has started.\n", plain.id()));
}

#[test]
fn members_inside_stay_members_and_later_commands_are_a_part() {
    let (folder, table) = place();
    let (errors, said) = (folder.path().join("errors"), folder.path().join("said"));
    let script = "$0 run --label inner sh -c 'sleep 1000 & wait' & read line; \
                  $0 run --cores 1 sh -c 'echo $COMITY_TABLE >$0; sleep 1000' $2 2>$1";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_comity")]).args([&errors, &said]).env("COMITY_TABLE", &table);
    command.env("XDG_CONFIG_HOME", crate::NO_CONFIG).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let mut plain = Running { child: command.spawn().unwrap() };
    let named = |name: &str| {
        let mut programs = programs(&table).into_iter();
        let found = programs.find(|program| program["name"] == name && program["obeys"] == true)?;
        Some(found["pid"].as_u64().unwrap() as u32)
    };
    wait_until("the command inside is a member", || named("inner").is_some_and(|id| children(id).len() == 1));
    let told = adopted(&table, &["--label", "outer", &plain.id().to_string()]);
    let [first, left_out] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(first.ends_with(&format!("outer (process {}) shares cores.", plain.id())), "{told}");
    assert!(left_out.starts_with("Left out: #") && left_out.contains("inner (process "), "{told}");
    let child = children(named("inner").unwrap())[0];
    assert!(is_set(&table, &[&child.to_string(), "--weight", "70"]).contains(" inner (process "));
    shares_already(&table, &child.to_string(), "is a part of #0 inner");
    plain.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let read = |file: &Path| fs::read_to_string(file).unwrap_or_default();
    wait_until("the later command has begun", || read(&said) == "off\n");
    let errors = read(&errors);
    assert!(errors.starts_with("comity: this is inside an adopted command and shares the cores"), "{errors}");
    // A command that has begun after it would join the table after it.
    let other = Running::start(&table, &["sleep", "1000"]);
    wait_until("the other is a member", || other.entry(&table).is_some());
    assert_eq!(programs(&table).len(), 3);
    is_set(&table, &["outer", "--pause", "10m"]);
    wait_until("it is paused", || state(plain.id()) == Some('T'));
    assert!(state(child) != Some('T'));
    is_set(&table, &["outer", "--resume"]);
}

#[test]
fn a_command_inside_that_is_released_belongs_to_the_outer_one() {
    let (_folder, table) = place();
    let outer = start(&["sh", "-c", "sleep 1000 & wait"]);
    wait_until("it has begun", || children(outer.id()).len() == 1);
    let inner = children(outer.id())[0].to_string();
    adopted(&table, &["--label", "inner", &inner]);
    assert!(adopted(&table, &["--label", "outer", &outer.id().to_string()]).contains("Left out: #0 inner"));
    send("STOP", coordinator(inner.parse().unwrap()).unwrap());
    adopted(&table, &["--release", "inner"]);
    shares_already(&table, &inner, "is a part of #1 outer");
    is_set(&table, &["outer", "--pause", "10m"]);
    wait_until("both are paused", || [outer.id(), inner.parse().unwrap()].iter().all(|id| state(*id) == Some('T')));
}

#[test]
fn a_process_has_one_coordinator() {
    let (_folder, table) = place();
    let plain = start(&["sleep", "1000"]);
    let id = plain.id().to_string();
    let adopt = || comity_at(&table).args(["adopt", &id]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let calls: Vec<_> = std::iter::repeat_with(adopt).take(4).collect();
    let outputs = calls.into_iter().map(|call| call.wait_with_output().unwrap());
    let adopted = outputs.filter(|output| output.status.success() && !output.stdout.is_empty()).count();
    assert_eq!((adopted, programs(&table).len()), (1, 1));
    refused(&table, &[&coordinator(plain.id()).unwrap().to_string()], "is a coordinator of Comity");
    let (_folder, elsewhere) = place();
    refused(&elsewhere, &[&id], "which uses another table");
}

/// The process is in a session of its own, and its parent has ended. The coordinator knows it from before.
#[test]
fn a_coordinator_that_is_killed_leaves_no_orphan_stopped() {
    let (folder, table) = place();
    let [file, end] = ["begun", "end"].map(|name| folder.path().join(name));
    let script = "(setsid sh -c 'echo $$ >$0; sleep 1000' $0 & until [ -e $1 ]; do sleep 0.02; done) & exec sleep 1000";
    let plain = start(&["sh", "-c", script, file.to_str().unwrap(), end.to_str().unwrap()]);
    let orphan = || fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    wait_until("it has begun", || orphan().is_some());
    let orphan = orphan().unwrap();
    adopted(&table, &["--label", "killed", &plain.id().to_string()]);
    let parent = children(plain.id());
    fs::write(end, "").unwrap();
    wait_until("its parent has ended", || parent.iter().all(|id| matches!(state(*id), None | Some('Z'))));
    is_set(&table, &["killed", "--pause", "10m"]);
    let all = |wanted: bool| [plain.id(), orphan].iter().all(|id| (state(*id) == Some('T')) == wanted);
    wait_until("it is paused", || all(true));
    send("KILL", coordinator(plain.id()).unwrap());
    wait_until("it continues", || all(false));
    send("KILL", orphan);
}

#[test]
fn builds_inside_get_the_jobserver_of_the_adopted_command() {
    let (folder, table) = place();
    let said = ["fifo", "pipe", "off"].map(|name| folder.path().join(name));
    let script = "read line; show='echo \"$MAKEFLAGS\"; ls -l /proc/self/fd'; $0 -q run --jobserver fifo sh -c \"$show\" >$1; \
                  $0 -q run --jobserver pipe sh -c \"$show\" >$2; $0 -q run --no-jobserver sh -c \"$show\" >$3; sleep 1000";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_comity")]).args(&said).env("COMITY_TABLE", &table);
    command.env("XDG_CONFIG_HOME", crate::NO_CONFIG).env_remove("MAKEFLAGS").stdin(Stdio::piped()).process_group(0);
    let mut plain = Running { child: command.spawn().unwrap() };
    adopted(&table, &["--label", "session", &plain.id().to_string()]);
    plain.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let read = |nth: usize| fs::read_to_string(&said[nth]).unwrap_or_default();
    let is_sleep = |id: u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n");
    wait_until("all have run", || children(plain.id()).into_iter().any(is_sleep));
    let fifo = read(0).lines().next().unwrap().split_once("--jobserver-auth=fifo:").expect("a FIFO").1.to_owned();
    assert!(fifo.contains("comity-jobs-") && Path::new(&fifo).exists());
    let text = read(1);
    let (flags, files) = text.split_once('\n').unwrap();
    let (first, second) = flags.split_once("--jobserver-auth=").unwrap().1.split_once(',').unwrap();
    for number in [first, second] {
        assert!(files.lines().any(|line| line.ends_with(&format!(" {number} -> {fifo}"))), "{files}");
    }
    assert!(read(2).starts_with('\n'), "{}", read(2));
    adopted(&table, &["--release", "session"]);
    assert!(!Path::new(&fifo).exists());
}

/// A process that has become a command of its own meanwhile: its environment has another mark.
#[test]
fn a_process_that_becomes_another_command_is_given_up() {
    let (folder, table) = place();
    let end = folder.path().join("end");
    let script = "(until [ -e $0 ]; do sleep 0.02; done; exec env COMITY_RUN=1-1 sleep 1000) & wait";
    let plain = start(&["sh", "-c", script, end.to_str().unwrap()]);
    wait_until("it has begun", || children(plain.id()).len() == 1);
    let child = children(plain.id())[0];
    adopted(&table, &["--label", "outer", &plain.id().to_string()]);
    fs::write(end, "").unwrap();
    wait_until("it is another program", || {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
            && fs::read_to_string(format!("/proc/{child}/environ")).is_ok_and(|all| all.contains("COMITY_RUN=1-1"))
    });
    is_set(&table, &["outer", "--pause", "10m"]);
    wait_until("the others are paused", || state(plain.id()) == Some('T'));
    assert_eq!(state(child), Some('S'));
}

#[test]
fn a_process_that_cannot_be_adopted_is_said_why() {
    let (_folder, table) = place();
    refused(&table, &["1"], "process 1 is the parent of all orphans");
    refused(&table, &["4194305"], "process 4194305 cannot be found");
    let mut ended = start(&["true"]);
    wait_until("it has ended", || state(ended.id()) == Some('Z'));
    refused(&table, &[&ended.id().to_string()], "cannot be found");
    ended.child.wait().unwrap();
    let elsewhere = place();
    let command = Running::start(&elsewhere.1, &["sleep", "1000"]);
    wait_until("it has begun", || command.entry(&elsewhere.1).is_some());
    refused(&table, &[&command.id().to_string()], "which uses another table");
    // A file is no folder, so no table can be made in it.
    let plain = elsewhere.0.path().join("file");
    fs::write(&plain, "").unwrap();
    let other = start(&["sleep", "1000"]);
    refused(&plain.join("table"), &[&other.id().to_string()], "file/table'");
    if rustix::process::geteuid().is_root() {
        let other = Running { child: Command::new("sleep").arg("1000").uid(65534).process_group(0).spawn().unwrap() };
        refused(&table, &[&other.id().to_string()], "belongs to another user (65534)");
    }
    refused(Path::new("off"), &["4711"], "COMITY_TABLE is off");
    for words in [&["x"][..], &["#3"], &["0"], &[], &["--release", "--cores", "1", "1"]] {
        assert_eq!(adopt(&table, words).status.code(), Some(2), "{words:?}");
    }
    assert!(run(&table, &["true"]).status.success() && is_empty(&table));
}
