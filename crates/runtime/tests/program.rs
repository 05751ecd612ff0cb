//! All pools of a process are one program: one place in the table and one coordinator, begun when there is something to share.
#![cfg(not(loom))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_table::{CoreSet, Location, Member, Profile, SLOTS, Snapshot};
use watchdog::Watchdog;

const IS_FULL: &str = "is full";

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = comity::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn places(location: &Location) -> usize {
    Snapshot::take(location).unwrap().map_or(0, |table| table.programs.len())
}

fn coordinators() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("comity-share")).count()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn build() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// Each role is played in a process of its own, with a table of its own, beside `members`, who leave once it has found the table full.
/// Returns what it said.
fn play(role: &str, members: usize) -> String {
    let watchdog = Watchdog::start("a process with many pools");
    watchdog.step(role);
    let path: PathBuf = std::env::temp_dir().join(format!("comity-program-{role}-{}", std::process::id()));
    let location = Location::At(path.clone());
    let members: Vec<Member> = (0..members).map(|_| join(&location)).collect();
    let mut child =
        child::command(role).env("COMITY_TABLE", &path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !members.is_empty() && !said.contains(IS_FULL) {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{role} ended: {said}");
    }
    drop(members);
    stderr.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    let _ = std::fs::remove_file(&path);
    assert!(status.success(), "{role}: {said}");
    said
}

fn join(location: &Location) -> Member {
    let profile = Profile {
        program: 1,
        name: "test".to_owned(),
        policy: "test".to_owned(),
        weight: 1,
        workers: 1,
        may_use: CoreSet::EMPTY,
        lend_after: Duration::ZERO,
    };
    Member::join(location, &profile).unwrap()
}

#[test]
fn pools_without_work_have_no_coordinator_and_no_place() {
    assert_eq!(play("idle", 0), "");
}

#[test]
fn pools_with_work_have_one_coordinator_and_one_place() {
    assert_eq!(play("busy", 0), "");
}

#[test]
fn who_finds_the_table_full_takes_part_once_there_is_room() {
    assert!(play("full", SLOTS).contains(IS_FULL));
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let location = Location::from_environment().unwrap();
    match role.as_str() {
        "idle" => {
            let pools: Vec<ThreadPool> = (0..SLOTS).map(|_| build()).collect();
            assert_eq!((coordinators(), places(&location)), (0, 0));
            pools.into_iter().for_each(ThreadPool::shutdown);
        }
        "busy" => {
            let end = AtomicBool::new(false);
            let pools: Vec<ThreadPool> = (0..6).map(|_| build()).collect();
            std::thread::scope(|scope| {
                for pool in &pools {
                    scope.spawn(|| {
                        pool.install(|| {
                            while !end.load(Ordering::Relaxed) {
                                assert_eq!(fib(18), 2584)
                            }
                        })
                    });
                }
                wait_until("the program is in the table", || places(&location) == 1);
                let holds = || {
                    let table = Snapshot::take(&location).unwrap().unwrap();
                    table.programs.iter().any(|program| !program.held.is_empty())
                };
                wait_until("it holds cores", holds);
                assert_eq!((coordinators(), places(&location)), (1, 1));
                end.store(true, Ordering::Relaxed);
            });
            pools.into_iter().for_each(ThreadPool::shutdown);
            assert_eq!((coordinators(), places(&location)), (0, 0), "the last pool's end is the program's");
            // Another pool is another program.
            let pool = build();
            assert_eq!(pool.install(|| fib(18)), 2584);
            pool.shutdown();
            assert_eq!(coordinators(), 0);
        }
        "full" => {
            let end = AtomicBool::new(false);
            let pool = build();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pool.install(|| {
                        while !end.load(Ordering::Relaxed) {
                            assert_eq!(fib(18), 2584)
                        }
                    })
                });
                wait_until("it is in the table, alone", || places(&location) == 1);
                end.store(true, Ordering::Relaxed);
            });
            pool.shutdown();
        }
        other => panic!("{other}"),
    }
}
