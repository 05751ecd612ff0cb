//! Time slices: a thief that yields has short slices. A task has slices of the usual length, and so do threads and
//! processes that it starts.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::process::{Command, Stdio};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_os::cpu_clock::ThreadId;
use comity_os::{cores, slice};
use watchdog::Watchdog;

/// The slice of a thief under `comity`.
const SHORT: Duration = Duration::from_micros(100);

fn pool(policy: &str) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).policy(policy.parse().unwrap()).build().unwrap()
}

fn mine() -> Option<Duration> {
    slice::of(ThreadId::current())
}

/// Plays `role` in a separate table, if the kernel has a slice for each thread. In a shared table, a program that
/// holds one core has only one awake worker, and no thief that yields.
fn play(role: &str) {
    let skipped = match (mine(), cores::allowed().len()) {
        (None, _) => "threads have no slices of their own here",
        (_, 1) => "it takes two cores",
        _ => "",
    };
    if !skipped.is_empty() {
        println!("SKIPPED: {skipped}");
        return;
    }
    let table = std::env::temp_dir().join(format!("comity-slices-{}-{role}", std::process::id()));
    let mut command = child::command(role);
    command.env("COMITY_TABLE", &table);
    let output = child::run(command);
    let _ = std::fs::remove_file(table);
    assert!(output.status.success(), "{role}: {}", child::stderr(&output));
}

#[test]
fn a_thief_that_yields_has_short_slices_and_a_task_has_not() {
    play("comity");
}

#[test]
fn the_papers_thieves_have_the_slices_of_their_kernel() {
    play("papers");
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let (Some(role), Some(usual)) = (child::role(), mine()) else { return };
    match role.as_str() {
        "comity" => yields(usual),
        "papers" => papers(usual),
        role => panic!("'{role}' is no role"),
    }
}

fn yields(usual: Duration) {
    let watchdog = Watchdog::start("yields");
    let pool = pool("comity");
    let threads = pool.broadcast(|_| ThreadId::current());
    let mut short = [0; 2];
    while short.iter().any(|times| *times < 20) {
        let before = short;
        for (thread, times) in threads.iter().zip(&mut short) {
            *times += u32::from(*times < 20 && slice::of(*thread) == Some(SHORT));
        }
        if short != before {
            watchdog.step(format!("seen with short slices: {short:?}"));
        }
        assert_eq!(pool.broadcast(|_| mine()), [Some(usual); 2]);
        let started = pool.install(|| std::thread::spawn(mine).join().unwrap());
        assert_eq!(started, Some(usual));
        std::thread::sleep(Duration::from_millis(1));
    }
    watchdog.step("another pool");
    // A thread that waits for a pool has the usual slice, and so does a thread that it starts.
    assert_eq!(mine(), Some(usual));
    assert_eq!(self::pool("robinhood").broadcast(|_| mine()), [Some(usual); 2]);
    watchdog.step("a child");
    let child = pool.install(|| Command::new("cat").stdin(Stdio::piped()).spawn());
    let mut child = child.expect("there is a cat");
    assert_eq!(slice::of(ThreadId::from_raw(child.id() as i32)), Some(usual));
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn papers(usual: Duration) {
    let watchdog = Watchdog::start("papers");
    for policy in ["comity:slice_us=0", "abp", "bws", "robinhood", "dws", "a-steal", "ws-last"] {
        let pool = pool(policy);
        let threads = pool.broadcast(|_| ThreadId::current());
        for round in 0..20 {
            watchdog.step(format!("{policy}, round {round}"));
            pool.install(|| ());
            std::thread::sleep(Duration::from_millis(1));
            assert!(threads.iter().all(|thread| slice::of(*thread) == Some(usual)), "{policy}");
        }
    }
}
