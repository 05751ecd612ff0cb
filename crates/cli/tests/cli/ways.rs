//! Tests of `comity run`: which commands it leaves to the operating system, and that no parent sees a stop.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, WaitOptions};

use crate::run::{BURN, Running, children, cores, mask, place};
use crate::set::{is_set, state};
use crate::{comity_at, send, wait_until};

/// The variable that names the role of this test program when a test starts it as a command.
const ROLE: &str = "COMITY_TEST_ROLE";

#[test]
#[ignore = "a command of the other tests"]
fn child() {
    match std::env::var(ROLE).as_deref() {
        Ok("team") => thread::scope(|scope| {
            scope.spawn(|| while std::hint::black_box(true) {});
            while std::hint::black_box(true) {}
        }),
        Ok("wait for stops") => wait_for_stops(),
        Ok("first process") => be_the_first_process(),
        _ => {}
    }
}

/// Returns `comity run WORDS` with this test program, in `role`, as the command.
fn play(table: &Path, role: &str, words: &[&str]) -> Command {
    let mut command = comity_at(table);
    command.arg("run").args(words).arg(std::env::current_exe().unwrap());
    command.args(["ways::child", "--exact", "--ignored", "--nocapture", "--quiet"]).env(ROLE, role);
    command.process_group(0);
    command
}

fn start(mut command: Command) -> Running {
    Running { child: command.stdout(Stdio::null()).spawn().unwrap() }
}

/// Returns the way of a command, as the table has it.
fn way(running: &Running, table: &Path) -> String {
    running.entry(table).map_or(String::new(), |entry| entry["way"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn threads_that_may_wait_for_each_other_keep_all_cores() {
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let _neighbours = [Running::start(&table, &["sh", "-c", BURN]), Running::start(&table, &["sh", "-c", BURN])];
    let team = start(play(&table, "team", &[]));
    wait_until("it is seen to be a team", || way(&team, &table) == "team");
    for _ in 0..50 {
        assert_eq!((mask(team.id()), state(team.id()) == Some('T')), (free.clone(), false));
        thread::sleep(std::time::Duration::from_millis(10));
    }
    let entry = team.entry(&table).unwrap();
    assert_eq!((entry["desire"].as_u64(), entry["held"].as_array().unwrap().len()), (Some(0), 0), "{entry}");
}

#[test]
fn a_limit_binds_more_threads_than_it_allows_and_no_fewer() {
    if cores() < 2 {
        println!("skipped: this takes two cores");
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let one = Running::start(&table, &["--cores", "1", "sh", "-c", "while :; do :; done"]);
    let two = Running::start(&table, &["--cores", "1", "sh", "-c", BURN]);
    let bound = || children(two.id()).into_iter().map(mask).collect::<Vec<_>>();
    wait_until("two threads are on one core", || bound().len() == 2 && bound()[0] == bound()[1] && bound()[0] != free);
    wait_until("the other takes part", || one.entry(&table).is_some());
    assert_eq!(mask(one.id()), free, "it counts all cores");
}

#[test]
fn what_the_user_has_said_with_nice_counts_unless_a_weight_is_given() {
    let (_folder, table) = place();
    let nice = |words: &[&str]| {
        let mut command = Command::new("nice");
        command.args(["-n", "19", env!("CARGO_BIN_EXE_comity"), "run"]).args(words).args(["sh", "-c", BURN]);
        command.env("COMITY_TABLE", &table).env_remove("COMITY_WEIGHT").process_group(0);
        start(command)
    };
    let _neighbour = Running::start(&table, &["sh", "-c", BURN]);
    let [quiet, loud] = [nice(&[]), nice(&["--weight", "50"])];
    wait_until("the nice one is left to the system", || way(&quiet, &table) == "nice");
    assert_eq!(quiet.entry(&table).unwrap()["weight"], 1);
    wait_until("the other has a part by its weight", || way(&loud, &table) == "cores");
    assert_eq!(loud.entry(&table).unwrap()["weight"], 50);
    let later = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("it takes part", || later.entry(&table).is_some_and(|entry| entry["weight"] == 100));
    for process in [vec![later.id()], children(later.id())].concat() {
        let words = ["-n", "19", "-p", &process.to_string()];
        assert!(Command::new("renice").args(words).stdout(Stdio::null()).status().unwrap().success());
    }
    wait_until("renice is followed", || {
        way(&later, &table) == "nice" && later.entry(&table).is_some_and(|entry| entry["weight"] == 1)
    });
}

#[test]
fn a_small_weight_lowers_a_command_beside_all_others() {
    let (_folder, table) = place();
    for (words, nice) in [(&["--weight", "10"][..], "10\n"), (&["--weight", "300"], "0\n"), (&[], "0\n")] {
        for report in [&[][..], &["--report=/dev/null"]] {
            let output = comity_at(&table).arg("run").args(words).args(report).arg("nice").output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), nice, "{words:?} {report:?}");
        }
    }
}

#[test]
fn as_many_threads_for_each_are_left_to_the_system() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let all = [(); 3].map(|()| Running::start(&table, &["sh", "-c", "while :; do :; done"]));
    wait_until("no one holds a core", || all.iter().all(|running| way(running, &table) == "even"));
    let crowd = "while :; do :; done & ".repeat(8);
    let _crowd = Running::start(&table, &["sh", "-c", &format!("{crowd} wait")]);
    wait_until("beside a crowd each has a part", || all.iter().all(|running| way(running, &table) == "cores"));
}

/// Starts a shell that computes, and prints each change of its state that `waitpid` reports.
fn wait_for_stops() {
    let mut child =
        Command::new("sh").args(["-c", "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done; exit 7"]).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let status = loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::UNTRACED | WaitOptions::CONTINUED).unwrap() {
            Some((_, status)) if status.stopped() => println!("it was stopped"),
            Some((_, status)) if status.continued() => println!("it goes on"),
            Some((_, status)) => break status,
            None => {}
        }
    };
    println!("it ended with {:?}", status.exit_status());
    // It has ended, and nothing is left to wait for.
    let _waited = child.wait();
}

/// Starts two commands with many threads and large weights, so that a third command is out of turn most of the time.
fn crowd(table: &Path) -> [Running; 2] {
    let crowd = format!("{} wait", "while :; do :; done & ".repeat(4));
    [(); 2].map(|()| Running::start(table, &["--weight", "300", "sh", "-c", &crowd]))
}

#[test]
fn a_parent_that_waits_for_stops_sees_none() {
    let (_folder, table) = place();
    let _crowd = crowd(&table);
    let output = play(&table, "wait for stops", &["--weight", "100"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("it ended with Some(7)"), "{text}");
    assert!(!text.contains("stopped") && !text.contains("goes on"), "{text}");
}

#[test]
fn what_is_traced_is_never_stopped_and_what_nobody_watches_is() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let _crowd = crowd(&table);
    let plain = Running::start(&table, &["--weight", "100", "sh", "-c", BURN]);
    let is_stopped = || children(plain.id()).into_iter().any(|child| state(child) == Some('T'));
    wait_until("its children are stopped out of turn", is_stopped);
    wait_until("they continue in its turn", || !is_stopped());
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no strace");
        return;
    }
    let traced = Running::start(&table, &["--weight", "100", "strace", "-f", "-o", "/dev/null", "sh", "-c", BURN]);
    wait_until("all of it is there", || children(traced.id()).into_iter().any(|child| children(child).len() == 2));
    for _ in 0..100 {
        let all = [vec![traced.id()], children(traced.id())].concat();
        assert!(all.iter().all(|id| state(*id) != Some('T')));
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn what_the_user_does_to_a_paused_command_has_its_effect() {
    let (_folder, table) = place();
    let pause = |running: &Running| {
        wait_until("it takes part", || running.entry(&table).is_some());
        is_set(&table, &[&running.id().to_string(), "--pause", "1h"]);
        wait_until("it is stopped", || state(running.id()) == Some('T'));
    };
    let stopped = Running::start(&table, &["sh", "-c", "while :; do :; done"]);
    pause(&stopped);
    send("STOP", stopped.id());
    is_set(&table, &[&stopped.id().to_string(), "--resume"]);
    wait_until("the table hears of it", || stopped.entry(&table).is_some_and(|entry| entry["paused_s"].is_null()));
    for _ in 0..50 {
        assert_eq!(state(stopped.id()), Some('T'), "the user has stopped it");
        thread::sleep(std::time::Duration::from_millis(10));
    }
    send("CONT", stopped.id());
    wait_until("it goes on when the user says so", || state(stopped.id()) != Some('T'));
    let mut ended = Running::start(&table, &["sh", "-c", "while :; do :; done"]);
    pause(&ended);
    send("TERM", ended.id());
    assert_eq!(ended.child.wait().unwrap().signal(), Some(15));
}

/// Runs `unshare WORDS`. Returns `None` if this process may not make a PID namespace.
fn in_a_namespace(words: &[&str], table: &Path) -> Option<Output> {
    let unshare = |words: &[&str]| {
        Command::new("unshare").args(words).env("COMITY_TABLE", table).env(ROLE, "first process").output()
    };
    let may = unshare(&["-rpf", "--mount-proc", "true"]).is_ok_and(|output| output.status.success());
    if !may {
        println!("skipped: this takes unshare(1), and the right to make a PID namespace");
        return None;
    }
    Some(unshare(words).unwrap())
}

#[test]
fn where_processes_have_other_numbers_nothing_is_touched_and_the_cause_is_said() {
    let (_folder, table) = place();
    let words = ["-rpf", env!("CARGO_BIN_EXE_comity"), "run", "sh", "-c", "echo ran; exit 7"];
    let Some(output) = in_a_namespace(&words, &table) else { return };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"ran\n"[..]), "{errors}");
    assert!(errors.contains("/proc is that of another PID namespace") && errors.lines().count() == 1, "{errors}");
}

/// Plays the first process of a container, which waits only for its own children, and counts zombies.
fn be_the_first_process() {
    let comity = env!("CARGO_BIN_EXE_comity");
    for _ in 0..5 {
        let run = |child: std::io::Result<Child>| child.unwrap().wait().unwrap();
        let status = run(Command::new(comity).args(["run", "sh", "-c", "sleep 0.05; exit 3"]).spawn());
        assert_eq!(status.code(), Some(3));
    }
    let stats =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    println!("{} zombies", stats.filter(|stat| stat.contains(") Z ")).count());
}

#[test]
fn a_container_whose_first_process_waits_for_no_orphans_has_no_zombies() {
    let (_folder, table) = place();
    let program = std::env::current_exe().unwrap();
    let words = ["-rpf", "--mount-proc", program.to_str().unwrap()];
    let words = [&words[..], &["ways::child", "--exact", "--ignored", "--nocapture", "--quiet"]].concat();
    let Some(output) = in_a_namespace(&words, &table) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("0 zombies"), "{text}");
}
