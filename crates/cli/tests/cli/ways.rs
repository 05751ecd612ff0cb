//! Tests of `comity run`: the commands that it leaves to the operating system, and that no parent sees a stop of its
//! child.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use comity_os::census::Stat;
use comity_os::freezer::can_freeze;
use comity_os::{process, task_group};
use rustix::process::{Pid, WaitOptions};
use serde_json::json;

use crate::run::{BURN, Running, children, coordinator, cores, mask, place};
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

/// Returns the way of a command (cores, turns, or left to the operating system), according to the table.
fn way(running: &Running, table: &Path) -> String {
    running.entry(table).map_or(String::new(), |entry| entry["way"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn threads_that_may_wait_for_each_other_keep_all_cores() {
    let (_folder, table) = place();
    let free = mask(std::process::id());
    // Each neighbour can use only one core. If the commands took turns, a core would be idle in the turns of the
    // neighbours.
    let one = "while :; do :; done";
    let _neighbours = [Running::start(&table, &["sh", "-c", one]), Running::start(&table, &["sh", "-c", one])];
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
fn threads_that_may_wait_for_each_other_take_turns_with_a_neighbour_that_can_use_all_cores() {
    if cores() != 2 || !can_freeze() {
        println!("skipped: this takes two cores, and control groups that this test may make");
        return;
    }
    let (_folder, table) = place();
    let neighbour = Running::start(&table, &["sh", "-c", BURN]);
    let team = start(play(&table, "team", &[]));
    wait_until("they take turns", || way(&team, &table) == "turns");
    let held = |running: &Running| running.entry(&table).map_or(0, |entry| entry["held"].as_array().unwrap().len());
    for [first, second] in [[&team, &neighbour], [&neighbour, &team], [&team, &neighbour]] {
        wait_until("one has all cores", || held(first) == 2 && held(second) == 0);
        assert_ne!(state(team.id()), Some('T'));
    }
    wait_until("it says so", || {
        team.entry(&table).is_some_and(|entry| entry["proposal"] == json!("together") && entry["desire"] == json!(2))
    });
    drop(neighbour);
    wait_until("it is alone, and a team of one process", || way(&team, &table) == "team");
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

/// True if sessions are task groups here. Otherwise prints that a test is skipped.
fn sessions_are_groups() -> bool {
    let are = task_group::is_session(std::process::id());
    if !are {
        println!("skipped: sessions are no task groups here");
    }
    are
}

/// Starts `comity run WORDS` as the first process of a session.
fn start_apart(table: &Path, words: &[&str]) -> Running {
    // setsid(1) does not fork unless its process leads a group, so `comity run` itself begins the session.
    let mut command = Command::new("setsid");
    command.args([env!("CARGO_BIN_EXE_comity"), "run"]).args(words);
    command.env("COMITY_TABLE", table).env_remove("COMITY_WEIGHT");
    start(command)
}

#[test]
fn programs_of_different_sessions_are_left_to_the_kernel() {
    if !sessions_are_groups() {
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let apart = [(); 2].map(|()| start_apart(&table, &["sh", "-c", BURN]));
    let here = Running::start(&table, &["sh", "-c", BURN]);
    let ways_are =
        |is: &dyn Fn(&str) -> bool| [&apart[0], &apart[1], &here].iter().all(|running| is(&way(running, &table)));
    wait_until("all are in groups of their own", || ways_are(&|way| way == "group"));
    let is_free = |running: &Running| mask(running.id()) == free;
    let holds_none = |running: &Running| running.entry(&table).is_some_and(|entry| entry["held"] == json!([]));
    wait_until("no one has a mask or holds a core", || {
        [&apart[0], &apart[1], &here].iter().all(|running| is_free(running) && holds_none(running))
    });
    // Two programs of one session share a group.
    let _second = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("no command is left to the groups", || ways_are(&|way| way != "group"));
}

#[test]
fn a_session_gets_the_nice_value_of_the_weight_of_its_command() {
    if !sessions_are_groups() {
        return;
    }
    let (_folder, table) = place();
    let spin = "while :; do :; done";
    let _usual = start_apart(&table, &["sh", "-c", spin]);
    let light = start_apart(&table, &["--weight", "10", "sh", "-c", spin]);
    let nice_is = |nice| task_group::nice_of(light.id()) == Some(nice);
    wait_until("the session is nice", || nice_is(10));
    wait_until("the groups have the weights of the programs", || way(&light, &table) == "group");
    let stat = Stat::of_process(light.id()).unwrap();
    assert_eq!((stat.nice, stat.session), (0, light.id()), "only the session is nice");
    is_set(&table, &[&light.id().to_string(), "--weight", "100"]);
    wait_until("it is no longer nice", || nice_is(0));
    is_set(&table, &[&light.id().to_string(), "--weight", "1"]);
    wait_until("it is as nice as can be", || nice_is(19));
}

#[test]
fn a_command_can_have_a_session_of_its_own_and_all_of_it_gets_the_signals_of_the_terminal() {
    if process::ignores(rustix::process::Signal::INT.as_raw()) {
        println!("skipped: these tests were started with SIGINT ignored");
        return;
    }
    let (_folder, table) = place();
    // A shell that waits for a program ends by SIGINT only if the program ends by SIGINT.
    let script = "cut -d' ' -f6 /proc/$$/stat; echo $$; sleep 600; sleep 600";
    let mut command = comity_at(&table);
    command.args(["run", "--session", "bash", "-c", script]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let [session, process] = [(); 2].map(|()| lines.next().unwrap().unwrap());
    assert_eq!(session, process);
    wait_until("it sleeps", || !children(process.parse().unwrap()).is_empty());
    send("TSTP", child.id());
    send("INT", child.id());
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

#[test]
fn a_small_weight_counts_in_a_session_from_the_first_instruction_and_without_a_table() {
    if !sessions_are_groups() {
        return;
    }
    let (folder, _table) = place();
    for words in [&["--session"][..], &["--session", "--report=/dev/null"]] {
        let mut command = comity_at(&folder.path().join("none/table"));
        command.args(["run", "--weight", "10"]).args(words).args(["cat", "/proc/self/autogroup"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.trim().ends_with("nice 10"), "{text}");
    }
    let mut command = Command::new("setsid");
    command.args(["-w", env!("CARGO_BIN_EXE_comity"), "run", "--weight", "10", "cat", "/proc/self/autogroup"]);
    let output = command.env("COMITY_TABLE", "off").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().trim().ends_with("nice 10"));
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
    // The child has ended, and no process is left to wait for.
    let _waited = child.wait();
}

/// Starts two commands with many threads and large weights, so that a third command is out of turn most of the time.
pub fn crowd(table: &Path) -> [Running; 2] {
    let crowd = format!("{} wait", "while :; do :; done & ".repeat(4));
    [(); 2].map(|()| Running::start(table, &["--weight", "300", "sh", "-c", &crowd]))
}

/// A control group of version 2 in which no group can be made, so that a command in it cannot be frozen.
struct Childless(PathBuf);

impl Childless {
    /// Makes the group. Returns `None` if this process can make no control groups.
    fn new() -> Option<Childless> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let own = group(std::process::id())?;
        let folder = own.join(format!("without-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        fs::create_dir(&folder).ok()?;
        let group = Childless(folder);
        let forbids = fs::write(group.0.join("cgroup.max.descendants"), "0").is_ok();
        // A group that cannot contain processes is of no use here.
        let takes = || fs::read_to_string(group.0.join("cgroup.type")).is_ok_and(|text| text.trim() == "domain");
        (forbids && takes()).then_some(group)
    }

    /// Starts a command in the group. Without a group, the command starts where this process is.
    fn enter(group: Option<&Childless>, command: Command) -> Command {
        let Some(Childless(folder)) = group else { return command };
        let mut entering = Command::new("sh");
        entering.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(folder).arg(command.get_program());
        entering.args(command.get_args()).process_group(0);
        let set = |(name, value): (&OsStr, Option<&OsStr>)| match value {
            Some(value) => _ = entering.env(name, value),
            None => _ = entering.env_remove(name),
        };
        command.get_envs().for_each(set);
        entering
    }
}

impl Drop for Childless {
    fn drop(&mut self) {
        wait_until("the processes of the group have ended", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// Returns the folder of the control group of version 2 of a process.
pub fn group(process: u32) -> Option<PathBuf> {
    let membership = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let path = membership.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    Some(Path::new(mount).join(path))
}

#[test]
fn a_parent_that_waits_for_stops_sees_none() {
    for group in [None, Childless::new()] {
        let (_folder, table) = place();
        let _crowd = crowd(&table);
        let command = play(&table, "wait for stops", &["--weight", "100"]);
        let output = Childless::enter(group.as_ref(), command).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let inside = group.as_ref().map(|group| &group.0);
        assert!(text.contains("it ended with Some(7)"), "{inside:?}: {text}");
        assert!(!text.contains("stopped") && !text.contains("goes on"), "{inside:?}: {text}");
    }
}

#[test]
fn out_of_turn_a_command_is_frozen_where_it_can_be() {
    if cores() != 2 || !can_freeze() {
        println!("skipped: this takes two cores, and the right to make control groups of version 2");
        return;
    }
    let (_folder, table) = place();
    let _crowd = crowd(&table);
    let words = ["--weight", "100", "timeout", "600", "sh", "-c", BURN];
    let plain = Running::start(&table, &words);
    let own = group(std::process::id()).unwrap();
    wait_until("it has a group of its own", || group(plain.id()).is_some_and(|group| group != own));
    let folder = group(plain.id()).unwrap();
    let is_frozen = || fs::read_to_string(folder.join("cgroup.events")).is_ok_and(|events| events.contains("frozen 1"));
    let all = || descendants(plain.id());
    // On a busy machine the command may be frozen before it has started its processes.
    wait_until("its processes have begun", || all().len() == 3);
    for _ in 0..3 {
        wait_until("it is frozen out of turn", is_frozen);
        let seen: Vec<_> = all().into_iter().map(|id| (group(id), state(id))).collect();
        let is_inside =
            |(group, state): &(Option<PathBuf>, Option<char>)| group.as_ref() == Some(&folder) && *state != Some('T');
        assert!(seen.len() == 3 && seen.iter().all(is_inside), "{seen:?}");
        wait_until("it goes on in its turn", || !is_frozen());
    }
    // If the coordinator is killed, at any time, the companion thaws the command.
    send("KILL", coordinator(plain.id()).unwrap());
    wait_until("it is where it was", || group(plain.id()).is_some_and(|group| group == own) && !folder.exists());
    assert!(all().iter().all(|id| group(*id).as_ref() == Some(&own)));
}

/// Returns the processes that a process has started, directly or through other processes.
fn descendants(process: u32) -> Vec<u32> {
    let mut all = children(process);
    let mut nth = 0;
    while nth < all.len() {
        all.extend(children(all[nth]));
        nth += 1;
    }
    all
}

#[test]
fn what_is_traced_is_never_stopped_and_what_nobody_watches_is() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let group = Childless::new();
    let begin = |words: &[&str]| {
        let mut command = comity_at(&table);
        command.args(["run", "--weight", "100"]).args(words).process_group(0);
        start(Childless::enter(group.as_ref(), command))
    };
    let _crowd = crowd(&table);
    let plain = begin(&["sh", "-c", BURN]);
    let is_stopped = || children(plain.id()).into_iter().any(|child| state(child) == Some('T'));
    wait_until("its children are stopped out of turn", is_stopped);
    wait_until("they continue in its turn", || !is_stopped());
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no strace");
        return;
    }
    let traced = begin(&["strace", "-f", "-o", "/dev/null", "sh", "-c", BURN]);
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
    assert!(errors.contains("/proc belongs to another PID namespace") && errors.lines().count() == 1, "{errors}");
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
    let zombies: Vec<String> = stats.filter(|stat| stat.contains(") Z ")).collect();
    println!("{} zombies: {zombies:?}", zombies.len());
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

#[test]
fn where_proc_is_not_mounted_that_is_the_cause_that_is_said() {
    let (_folder, table) = place();
    let comity = env!("CARGO_BIN_EXE_comity");
    let here = |words: &str| {
        let script = format!("mount -t tmpfs none /proc && exec {comity} {words}");
        Command::new("unshare").args(["-rm", "sh", "-c", &script]).env("COMITY_TABLE", &table).output().unwrap()
    };
    if !here("policies").status.success() {
        println!("skipped: this takes unshare(1), and the right to mount a file system");
        return;
    }
    for words in ["run sh -c 'echo ran; exit 7'", "run --session sh -c 'echo ran; exit 7'"] {
        let output = here(words);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"ran\n"[..]), "{errors}");
        assert!(errors.contains("/proc is not mounted") && errors.lines().count() == 1, "{errors}");
    }
    let text = String::from_utf8(here("doctor").stdout).unwrap();
    assert!(text.contains("processes    /proc is not mounted"), "{text}");
    for check in ["quota", "task group", "turns"] {
        assert!(text.contains(&format!("{check:<13}unknown: /proc is not mounted")), "{check}: {text}");
    }
}
