//! Tests of the jobserver that `comity run` offers: the tokens follow the share, none is lost, and other jobservers are
//! respected.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::{ioctl_fionread, read};

use crate::run::{Running, coordinator, cores, place, run, waits};
use crate::set::is_set;
use crate::{comity_at, send, wait_until};

/// A command that has one job until it is killed.
const ONE_JOB: [&str; 5] = ["--jobserver", "fifo", "sh", "-c", "while :; do sleep 1; done"];

/// Returns the path of the FIFO in a command's environment.
fn fifo_of(process: u32) -> PathBuf {
    let flags = || {
        let environment = fs::read_to_string(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split('\0').find_map(|entry| entry.strip_prefix("MAKEFLAGS=").map(str::to_owned))
    };
    wait_until("the command has begun", || flags().is_some_and(|flags| flags.contains("fifo:")));
    fifo_in(&flags().unwrap())
}

fn fifo_in(flags: &str) -> PathBuf {
    flags.split_once("--jobserver-auth=fifo:").expect("a FIFO").1.split_whitespace().next().unwrap().into()
}

fn open_fifo(path: &Path) -> File {
    open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap().into()
}

fn free(fifo: &File) -> usize {
    ioctl_fionread(fifo).unwrap() as usize
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_tokens_follow_the_share_and_the_limit() {
    let (_folder, table) = place();
    let command = Running::start(&table, &ONE_JOB);
    let fifo = open_fifo(&fifo_of(command.id()));
    wait_until("it takes part", || command.entry(&table).is_some());
    wait_until("alone, it may use all cores", || free(&fifo) == cores() - 1);
    is_set(&table, &[&command.id().to_string(), "--cores", "1"]);
    wait_until("it may use one core", || free(&fifo) == 0);
    is_set(&table, &[&command.id().to_string(), "--cores", "auto"]);
    wait_until("it may use all cores again", || free(&fifo) == cores() - 1);
    if cores() > 1 {
        let burn = "for core in $(seq $0); do while :; do :; done & done; wait";
        let neighbour = Running::start(&table, &["sh", "-c", burn, &cores().to_string()]);
        wait_until("it has its share", || free(&fifo) < cores() - 1);
        drop(neighbour);
        wait_until("it is alone", || free(&fifo) == cores() - 1);
    }
}

/// The client takes a token again right after it has returned it, as make does while it has jobs to start.
#[test]
fn a_running_build_gives_up_a_job_when_the_share_falls() {
    if cores() < 2 {
        println!("skipped: one core has no token");
        return;
    }
    let (_folder, table) = place();
    let command = Running::start(&table, &ONE_JOB);
    let fifo = open_fifo(&fifo_of(command.id()));
    wait_until("it may use all cores", || free(&fifo) == cores() - 1);
    let (taken, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let client = {
        let (fifo, taken, ends) = (fifo.try_clone().unwrap(), Arc::clone(&taken), Arc::clone(&ends));
        thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                let mut token = [0];
                if read(&fifo, &mut token).is_ok_and(|read| read == 1) {
                    taken.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    (&fifo).write_all(&token).unwrap();
                }
            }
        })
    };
    wait_until("the client has jobs", || taken.load(Ordering::SeqCst) > 3);
    is_set(&table, &[&command.id().to_string(), "--cores", "1"]);
    let mut before = (0, 0);
    wait_until("the client gets no token any more", || {
        let now = taken.load(Ordering::SeqCst);
        before = (now, if now == before.0 { before.1 + 1 } else { 0 });
        before.1 == 30
    });
    is_set(&table, &[&command.id().to_string(), "--cores", "auto"]);
    wait_until("the client has jobs again", || taken.load(Ordering::SeqCst) > before.0);
    ends.store(true, Ordering::SeqCst);
    client.join().unwrap();
}

/// An agent closes the pipe for the programs that it starts. Their `comity run` opens it again.
#[test]
fn a_pipe_that_a_program_has_closed_is_opened_again_by_the_inner_command() {
    let (folder, table) = place();
    let [closes, said] = ["closes", "said"].map(|name| folder.path().join(name));
    // The streams are no pipes.
    let script = r#"exec </dev/null >$1 2>&1
        auth=${MAKEFLAGS##*=}; eval "exec ${auth%,*}<&- ${auth#*,}>&-"
        readlink /proc/self/fd/${auth%,*} /proc/self/fd/${auth#*,} || echo closed
        $0 -q run bash -c 'auth=${MAKEFLAGS##*=}; readlink /proc/self/fd/${auth%,*} /proc/self/fd/${auth#*,}'"#;
    fs::write(&closes, script).unwrap();
    // The outer shell keeps the pipe.
    let outer = r#"bash -c "$(cat $0)" $1 $2; true"#;
    let words = ["--jobserver", "pipe", "sh", "-c", outer, closes.to_str().unwrap(), env!("CARGO_BIN_EXE_comity")];
    assert!(run(&table, &[&words[..], &[said.to_str().unwrap()]].concat()).status.success());
    let said = fs::read_to_string(&said).unwrap();
    let [before, read, write] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(before == "closed" && read == write && read.starts_with("pipe:"), "{said}");
}

#[test]
fn tokens_of_clients_that_are_gone_are_replaced() {
    if cores() < 2 {
        println!("skipped: one core has no token");
        return;
    }
    let (folder, table) = place();
    let file = folder.path().join("report.json");
    // Processes that have nothing to do with a build, as an agent has.
    let idle = "sleep 1000 & sleep 1000 & wait";
    let words = ["--jobserver", "fifo", &format!("--report={}", file.display()), "sh", "-c", idle];
    let mut command = Running::start(&table, &words);
    let child = || {
        let is_command = |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sh\n");
        crate::run::children(command.id()).into_iter().find(is_command)
    };
    wait_until("it has begun", || child().is_some());
    let child = child().unwrap();
    wait_until("its processes run", || crate::run::children(child).len() == 2);
    let fifo = open_fifo(&fifo_of(child));
    // Here `comity run` is the coordinator. It must see the processes while no token is in use.
    let looks = waits(command.id());
    wait_until("it has all tokens", || free(&fifo) == cores() - 1 && waits(command.id()) > looks + 20);
    let mut tokens = vec![0; cores() - 1];
    assert_eq!(read(&fifo, &mut tokens).unwrap(), cores() - 1);
    wait_until("it has all tokens again", || free(&fifo) == cores() - 1);
    // A client that returns such a token after all, and one that writes too many.
    rustix::io::write(&fifo, &tokens).unwrap();
    rustix::io::write(&fifo, b"bytes that are no tokens").unwrap();
    wait_until("there are not too many", || free(&fifo) == cores() - 1);
    send("TERM", child);
    assert!(!command.child.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((&report["jobs"]["most"], &report["jobs"]["replaced"]), (&cores().into(), &(cores() - 1).into()));
}

#[test]
fn a_fifo_that_is_removed_is_made_again() {
    let (_folder, table) = place();
    let command = Running::start(&table, &ONE_JOB);
    let path = fifo_of(command.id());
    let before = open_fifo(&path);
    wait_until("it has its tokens", || free(&before) == cores() - 1);
    fs::remove_file(&path).unwrap();
    wait_until("there is a new one", || path.exists());
    let after = open_fifo(&path);
    wait_until("it has the tokens", || free(&after) == cores() - 1 && free(&before) == 0);
    drop(command);
    wait_until("it is gone with the command", || !path.exists());
}

#[test]
fn a_token_remains_if_the_coordinator_is_killed() {
    let (_folder, table) = place();
    let command = Running::start(&table, &ONE_JOB);
    let path = fifo_of(command.id());
    let fifo = open_fifo(&path);
    wait_until("it has its tokens", || command.entry(&table).is_some() && free(&fifo) == cores() - 1);
    is_set(&table, &[&command.id().to_string(), "--cores", "1"]);
    wait_until("it has none", || free(&fifo) == 0);
    send("KILL", coordinator(command.id()).unwrap());
    wait_until("it has one", || free(&fifo) == 1);
    drop(command);
    wait_until("the FIFO is gone with the command", || !path.exists());
}

#[test]
fn a_command_has_all_tokens_if_its_coordinator_is_ended() {
    let (_folder, table) = place();
    let command = Running::start(&table, &ONE_JOB);
    let path = fifo_of(command.id());
    let fifo = open_fifo(&path);
    wait_until("it takes part", || command.entry(&table).is_some());
    is_set(&table, &[&command.id().to_string(), "--cores", "1"]);
    wait_until("it follows", || {
        command.entry(&table).is_some_and(|entry| entry["asked_cores"] == 1) && free(&fifo) == 0
    });
    send("TERM", coordinator(command.id()).unwrap());
    wait_until("no client waits for a FIFO that no process has open", || !path.exists());
    assert_eq!(free(&fifo), cores() - 1);
}

#[test]
fn a_command_finds_the_jobserver_unless_it_has_one() {
    let (folder, table) = place();
    let flags = |words: &[&str], inherited: Option<&str>| {
        let mut command = comity_at(&table);
        command.arg("run").args(words).args(["sh", "-c", "echo \"$MAKEFLAGS\""]);
        match inherited {
            Some(flags) => command.env("MAKEFLAGS", flags),
            None => command.env_remove("MAKEFLAGS"),
        };
        text(&command.env_remove("CARGO_MAKEFLAGS").output().unwrap())
    };
    let offered = flags(&["--jobserver", "fifo"], Some("k --no-print-directory -- V=1"));
    let path = fifo_in(&offered);
    let expected = format!("k --no-print-directory -j{} --jobserver-auth=fifo:{} -- V=1\n", cores(), path.display());
    assert_eq!(offered, expected);
    wait_until("the FIFO is gone with the command", || !path.exists());
    assert_eq!(flags(&["--no-jobserver"], None), "\n");
    // A jobserver that works is respected, and one that is gone is said to be gone.
    let other = folder.path().join("other");
    let auth = format!("-j3 --jobserver-auth=fifo:{}", other.display());
    assert!(flags(&[], Some(&auth)).contains("The command gets another jobserver"));
    mknodat(CWD, &other, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let left = flags(&[], Some(&auth));
    assert!(left.contains("no process has the jobserver") && left.contains("The command gets another"), "{left}");
    let _server = open_fifo(&other);
    assert_eq!(flags(&[], Some(&auth)), format!("{auth}\n"));
    let gone = flags(&["--jobserver", "fifo"], Some("--jobserver-auth=98,99"));
    assert!(gone.contains("The command gets another jobserver") && gone.contains("fifo:"), "{gone}");
}

#[test]
fn an_inherited_pipe_has_two_descriptors() {
    let (_folder, table) = place();
    let script = "echo $MAKEFLAGS; for end in ${MAKEFLAGS##*=}; do ls -l /proc/$$/fd; done";
    let said = text(&run(&table, &["--jobserver", "pipe", "sh", "-c", script]));
    let auth = said.split_once("--jobserver-auth=").unwrap().1.lines().next().unwrap();
    for end in auth.split(',') {
        assert!(said.lines().any(|line| line.contains(&format!(" {end} -> pipe:["))), "{said}");
    }
}

#[test]
fn a_limit_of_makeflags_stays() {
    let (_folder, table) = place();
    let mut command = comity_at(&table);
    command.arg("run").args(ONE_JOB).env("MAKEFLAGS", "-j1").process_group(0);
    let command = Running { child: command.spawn().unwrap() };
    let path = fifo_of(command.id());
    wait_until("it takes part", || command.entry(&table).is_some());
    let looks = waits(coordinator(command.id()).unwrap());
    wait_until("its coordinator has looked", || waits(coordinator(command.id()).unwrap()) > looks + 10);
    assert_eq!(free(&open_fifo(&path)), 0);
}

#[test]
fn only_the_jobserver_is_added() {
    let (_folder, table) = place();
    let lines = |words: &[&str]| {
        let script = "env; ls /proc/self/fd";
        let output =
            comity_at(&table).arg("run").args(words).args(["sh", "-c", script]).env_remove("MAKEFLAGS").output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("COMITY_RUN"));
        lines.map(|line| line.split_once(" --").map_or(line, |(before, _)| before).to_owned()).collect::<HashSet<_>>()
    };
    let added = |style: &str| {
        let mut added: Vec<_> = (&lines(&["--jobserver", style]) - &lines(&["--no-jobserver"])).into_iter().collect();
        added.sort();
        added
    };
    let flags = format!("MAKEFLAGS=-j{}", cores());
    assert_eq!(added("pipe"), ["100", "101", &flags]);
    assert_eq!(added("fifo"), ["100", &flags]);
}

#[test]
fn a_client_without_the_pipe_is_reported() {
    let (folder, table) = place();
    let (make, seen) = (folder.path().join("make"), folder.path().join("seen"));
    fs::copy("/bin/sleep", &make).unwrap();
    // Python closes all descriptors of the programs that it starts.
    let script = "import subprocess, sys; sys.exit(subprocess.call([sys.argv[1], '1000']))";
    let report = format!("--report={}", seen.display());
    let words = ["--jobserver", "pipe", &report, "python3", "-c", script, make.to_str().unwrap()];
    let mut command = Running::start(&table, &words);
    let client = || {
        let all = crate::run::children(command.id()).into_iter().flat_map(crate::run::children);
        all.into_iter().find(|id| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "make\n"))
    };
    wait_until("the client runs, or there is no python3", || client().is_some() || seen.exists());
    let Some(client) = client() else {
        println!("skipped: there is no python3");
        return;
    };
    // The coordinator, which is `comity run` itself here, looks for clients every second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let looks = waits(command.id());
    wait_until("it has looked again", || waits(command.id()) > looks + 20);
    send("KILL", client);
    command.child.wait().unwrap();
    let said = fs::read_to_string(&seen).unwrap();
    assert!(said.contains("make did not find the pipe"), "{said}");
}

#[test]
fn make_runs_several_jobs_without_j() {
    let make = Command::new("make").arg("--version").output();
    if cores() < 2 || !make.is_ok_and(|make| make.stdout.starts_with(b"GNU Make ")) {
        println!("skipped: this takes two cores and GNU make");
        return;
    }
    let (folder, table) = place();
    // Each of two jobs waits for the other.
    let rules = "all: a b\na:\n\ttouch is-a; until [ -e is-b ]; do sleep 0.01; done\n\
                 b:\n\ttouch is-b; until [ -e is-a ]; do sleep 0.01; done\n";
    fs::write(folder.path().join("Makefile"), rules).unwrap();
    let folder = folder.path().to_str().unwrap();
    let output = run(&table, &["make", "-C", folder]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    // A number of jobs that the user gives stays in force, without a warning.
    fs::remove_file(format!("{folder}/is-a")).unwrap();
    let output = run(&table, &["make", "-C", folder, "-j2"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
}
