//! Tasks that wait for each other, each on a separate worker. They must get the workers that they need, both with
//! idle cores and while another program runs.
#![cfg(not(loom))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_os::cpu_clock;
use comity_table::{Location, Snapshot};
use fib::fib;
use watchdog::Watchdog;

/// The ways in which tasks wait at a barrier.
const WAYS: [&str; 3] = ["block", "spin", "yield"];

/// Runs `tasks` tasks that wait for each other, on a pool with a worker for each.
fn meet(pool: &ThreadPool, tasks: usize, way: &str) {
    let (barrier, here) = (Barrier::new(tasks), AtomicUsize::new(0));
    let wait = || {
        if way == "block" {
            barrier.wait();
            return;
        }
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < tasks {
            if way == "spin" { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    pool.install(|| comity::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| wait()))));
}

/// The number of times that the coordinator's thread has waited so far.
fn looks() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read =
        |name: &str, task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
    let coordinators = tasks.filter_map(Result::ok).filter(|task| read("comm", task).starts_with("comity-share"));
    let waits = coordinators.map(|task| {
        let status = read("status", &task);
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |number| number.trim().parse::<u64>().unwrap())
    });
    waits.sum()
}

/// A table that no other test uses.
struct Table(PathBuf);

impl Table {
    fn new(name: &str) -> Table {
        let path = std::env::temp_dir().join(format!("comity-waiting-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Table(path)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A process that computes until it is dropped.
struct Neighbour(Child);

impl Neighbour {
    /// Starts the process, and waits until it holds cores in the table.
    fn start(table: &Table) -> Neighbour {
        let mut command = child::command("compute");
        command.env("COMITY_TABLE", &table.0).stdin(Stdio::piped()).stdout(Stdio::null());
        let neighbour = Neighbour(command.spawn().unwrap());
        let holds = || {
            let snapshot = Snapshot::take(&Location::At(table.0.clone())).unwrap();
            snapshot.is_some_and(|table| table.programs.iter().any(|program| !program.held.is_empty()))
        };
        while !holds() {
            std::thread::sleep(Duration::from_millis(2));
        }
        neighbour
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `role`, and returns the number that it prints.
fn number(role: &str, policy: &str, table: &Table) -> u64 {
    let mut command = child::command(role);
    command.env("COMITY_TABLE", &table.0).env("COMITY_POLICY", policy);
    let output = child::run(command);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{role}: {said}\n{}", child::stderr(&output));
    let number = said.lines().find_map(|line| line.strip_prefix("number ")?.parse().ok());
    number.unwrap_or_else(|| panic!("{role} says no number: {said}"))
}

/// Guards against an earlier fault: only one worker was woken in each quantum, which is a fifth of a second here.
#[test]
#[cfg_attr(comity_portable, ignore = "only Linux tells whether a worker waits in a system call")]
fn alone_no_task_waits_for_the_coordinator() {
    let watchdog = Watchdog::start("alone_no_task_waits_for_the_coordinator");
    for way in WAYS {
        watchdog.step(way);
        let table = Table::new(&format!("alone-{way}"));
        let looks = number(&format!("meet-{way}"), "comity:quantum_us=200000", &table);
        assert!(looks < 20, "{way}: the coordinator came by {looks} times while tasks met 20 times");
    }
}

/// Guards against an earlier fault: each worker whose task spun or yielded used a second of processor time before
/// another worker was woken.
#[test]
#[cfg_attr(comity_portable, ignore = "it needs a table")]
fn beside_another_program_those_that_wait_by_looking_are_soon_joined() {
    let watchdog = Watchdog::start("beside_another_program_those_that_wait_by_looking_are_soon_joined");
    for way in ["spin", "yield"] {
        watchdog.step(way);
        let table = Table::new(&format!("beside-{way}"));
        let _neighbour = Neighbour::start(&table);
        let used_ms = number(&format!("late-{way}"), "comity", &table);
        assert!(used_ms < 3_000, "{way}: eight tasks took {used_ms} ms of processor time to meet");
    }
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let build = |workers: usize| ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    match role.split_once('-') {
        None => {
            let end = child::end();
            build(2).install(|| {
                while !end.load(Ordering::Relaxed) {
                    assert_eq!(fib(24), 46_368)
                }
            });
        }
        Some(("meet", way)) => {
            let pool = build(8);
            // After this, the program is in the table.
            while looks() < 2 {
                assert_eq!(pool.install(|| fib(20)), 6_765);
            }
            let before = looks();
            (0..20).for_each(|_| meet(&pool, 8, way));
            println!("\nnumber {}", looks() - before);
        }
        Some((_, way)) => {
            let pool = build(8);
            let location = Location::from_environment().unwrap();
            let holds = || {
                let table = Snapshot::take(&location).unwrap().unwrap();
                table.programs.iter().any(|program| program.pid == std::process::id() && !program.held.is_empty())
            };
            // After this, the program has its share, and the workers for it.
            while !holds() {
                assert_eq!(pool.install(|| fib(24)), 46_368);
            }
            let used = || cpu_clock::of_process(std::process::id()).unwrap();
            let before = used();
            meet(&pool, 8, way);
            println!("\nnumber {}", (used() - before).as_millis());
        }
    }
}
