//! All pools of a process with one policy are one program, with one entry in the table and one coordinator. The
//! program joins the table after a pool has worked for a while.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/member.rs"]
mod member;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use comity::{Refusal, ThreadPool, ThreadPoolBuilder, WorkerCounters};
use comity_os::{cores, cpu_clock};
use comity_table::{Location, Member, SLOTS, Snapshot};
use fib::fib;
use member::join;
use wait::wait_until;
use watchdog::Watchdog;

const IS_FULL: &str = "is full";

fn places(location: &Location) -> usize {
    Snapshot::take(location).unwrap().map_or(0, |table| table.programs.len())
}

fn coordinators() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("comity-share")).count()
}

fn build() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// Plays a role in a separate process with a separate table, which also has `members`. They leave the table once the
/// process has found it full. Returns what the process printed.
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

#[test]
fn pools_without_work_have_no_coordinator_and_no_place() {
    assert_eq!(play("idle", 0), "");
}

#[test]
fn pools_with_work_have_one_coordinator_and_one_place() {
    assert_eq!(play("busy", 0), "");
}

#[test]
fn a_program_that_finds_the_table_full_takes_part_once_there_is_room() {
    assert!(play("full", SLOTS).contains(IS_FULL));
}

#[test]
fn what_thieves_did_stays_in_the_table_when_their_pool_ends() {
    assert_eq!(play("thieves", 0), "");
}

#[test]
fn members_of_one_process_publish_its_processor_time_once() {
    assert_eq!(play("members", 0), "");
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
            // Another pool begins another program.
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
        "thieves" => thieves(&location),
        "members" => members(&location),
        other => panic!("{other}"),
    }
}

/// Ends the tasks when it is dropped, also after a failed assertion: otherwise the scope would wait for them for
/// ever.
struct Ends<'a>(&'a [AtomicBool]);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|goes_on| goes_on.store(false, Ordering::Relaxed));
    }
}

/// Runs two pools of one program. One pool steals and ends. The other pool has only one worker, which has no victim.
fn thieves(location: &Location) {
    if cores::usable().get() < 2 {
        println!("skipped: this takes two cores");
        return;
    }
    let build = |workers| {
        let policy = "comity:accelerate=pull".parse().unwrap();
        ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap()
    };
    let most = Cell::new(0);
    let program = || {
        let mut programs = Snapshot::take(location).unwrap().map_or(Vec::new(), |table| table.programs);
        assert!(programs.len() <= 1, "{programs:?}");
        programs.pop()
    };
    let published = || {
        let done = program()?.thieves?;
        assert!(done.steals >= most.replace(done.steals), "{done:?}");
        Some(done)
    };
    let (begun, begins) = mpsc::channel();
    let go_on = [true, true].map(AtomicBool::new);
    let [steals_on, works_on] = &go_on;
    std::thread::scope(|scope| {
        let _ends = Ends(&go_on);
        let (stealing, working) = (build(2), build(1));
        let steals = scope.spawn(|| {
            stealing.install(|| {
                while steals_on.load(Ordering::Relaxed) {
                    assert_eq!(fib(18), 2584);
                }
            });
            let done = WorkerCounters::total(&stealing.counters());
            stealing.shutdown();
            done
        });
        wait_until("the table shows steals", || published().is_some_and(|done| done.steals > 0));
        // A pool joins the program at its first task. So the program does not end when the other pool does.
        working.install(|| ());
        let works = scope.spawn(|| {
            working.install(|| {
                begun.send(()).unwrap();
                while works_on.load(Ordering::Relaxed) {
                    assert_eq!(fib(18), 2584);
                }
            });
            working.shutdown();
        });
        begins.recv().unwrap();
        steals_on.store(false, Ordering::Relaxed);
        let done = steals.join().unwrap();
        // The next look sums up the counts after the pool has ended. The look after it shows that all counts have
        // been published.
        for _ in 0..2 {
            let cpu = || program().and_then(|program| program.cpu);
            let before = cpu();
            wait_until("the coordinator looks", || published().is_some() && cpu() != before);
        }
        let shown = published().unwrap();
        assert_eq!(shown.steals, done.steals);
        assert!(shown.accelerations >= done.accelerations);
        for (refusal, (reason, refused)) in Refusal::ALL.iter().copied().zip(shown.by_reason()) {
            assert_eq!(refusal.name(), reason);
            assert!(refused >= done.refusals.of(refusal), "{reason}: {shown:?}, {done:?}");
        }
        works_on.store(false, Ordering::Relaxed);
        works.join().unwrap();
    });
}

/// Runs pools under two policies. They are two programs in the table, like the pools of two copies of this crate.
fn members(location: &Location) {
    let pools = ["comity", "comity:lend_us=400"]
        .map(|policy| ThreadPoolBuilder::new().num_threads(2).policy(policy.parse().unwrap()).build().unwrap());
    let go_on = [AtomicBool::new(true)];
    std::thread::scope(|scope| {
        let _ends = Ends(&go_on);
        for pool in &pools {
            scope.spawn(|| {
                pool.install(|| {
                    while go_on[0].load(Ordering::Relaxed) {
                        assert_eq!(fib(18), 2584);
                    }
                })
            });
        }
        // A program includes the time of the other program's workers until the other program has published it.
        let is_published_once = || {
            let programs = Snapshot::take(location).unwrap().map_or(Vec::new(), |table| table.programs);
            let used: Vec<Duration> = programs.iter().filter_map(|program| program.cpu).collect();
            let all = cpu_clock::of_process(std::process::id()).unwrap();
            used.len() == 2 && used.iter().all(|used| *used * 8 >= all) && used.iter().sum::<Duration>() <= all
        };
        wait_until("each member publishes a part of the processor time", is_published_once);
    });
    pools.into_iter().for_each(ThreadPool::shutdown);
}
