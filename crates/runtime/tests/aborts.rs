//! Panics that no caller could receive: the process aborts with a message. Each test uses a separate process.
#![cfg(not(loom))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use comity::{Policy, ThreadPoolBuilder};
use watchdog::Watchdog;

const SIGABRT: i32 = 6;

/// Plays `role` under every policy, and passes the child's output to `check`.
fn play(test: &'static str, role: &str, workers: usize, check: impl Fn(&Output, &str)) {
    let watchdog = Watchdog::start(test);
    for policy in Policy::all() {
        watchdog.step(format!("{role} under {policy}"));
        let mut command = child::command(role);
        command.env("COMITY_POLICY", policy.to_string()).env("COMITY_NUM_THREADS", workers.to_string());
        let output = child::run(command);
        check(&output, &child::stderr(&output));
    }
}

fn assert_aborts(test: &'static str, role: &str, sentence: &str) {
    for workers in [1, 2] {
        play(test, role, workers, |output, stderr| {
            assert_eq!(output.status.signal(), Some(SIGABRT), "{:?}: {stderr}", output.status);
            assert!(stderr.contains(sentence), "{stderr}");
            assert!(stderr.contains("planned"), "the panic itself is told too: {stderr}");
        });
    }
}

#[test]
fn a_panic_in_a_spawned_task_aborts_where_the_pool_has_no_panic_handler() {
    assert_aborts(
        "a_panic_in_a_spawned_task_aborts_where_the_pool_has_no_panic_handler",
        "spawn",
        "comity: a detached task panicked, and the pool has no panic handler. The program aborts.",
    );
}

#[test]
fn a_panic_handler_that_panics_aborts() {
    assert_aborts(
        "a_panic_handler_that_panics_aborts",
        "panic handler",
        "comity: the pool's panic handler panicked. The program aborts.",
    );
}

#[test]
fn a_start_handler_that_panics_aborts() {
    assert_aborts(
        "a_start_handler_that_panics_aborts",
        "start handler",
        "comity: a pool's start handler panicked. The program aborts.",
    );
}

#[test]
fn an_exit_handler_that_panics_aborts() {
    assert_aborts(
        "an_exit_handler_that_panics_aborts",
        "exit handler",
        "comity: a pool's exit handler panicked. The program aborts.",
    );
}

/// Checks a payload that panics when the scope drops it: a scope drops all payloads but the first. Even if the
/// process then aborts, the scope must not end before its tasks, because they borrow data that the caller then frees.
#[test]
fn a_payload_that_panics_when_dropped_does_not_end_a_scope_early() {
    const TEST: &str = "a_payload_that_panics_when_dropped_does_not_end_a_scope_early";
    for role in ["bomb in the body", "bomb in a task"] {
        play(TEST, role, 4, |output, stderr| {
            assert!(!stderr.contains(ENDED_EARLY), "{role}: {stderr}");
            assert!(!stderr.contains("This is a bug in Comity"), "{role}: {stderr}");
            let status = output.status;
            assert!(status.success() || status.signal() == Some(SIGABRT), "{role}: {status:?}: {stderr}");
        });
    }
}

const ENDED_EARLY: &str = "the scope ended before its tasks";

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics when it is dropped");
    }
}

/// Panics with a payload that panics when it is dropped (a bomb), in the body or in a third task. By then, one task
/// has panicked and another still runs.
fn scope_with_a_bomb(in_body: bool) {
    let pool = ThreadPoolBuilder::new().build().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            let begun = Arc::new(AtomicUsize::new(0));
            let (first, second) = (Arc::clone(&begun), Arc::clone(&begun));
            scope.spawn(move |_| {
                first.fetch_add(1, Ordering::Release);
                panic!("the first panic");
            });
            scope.spawn(move |_| {
                second.fetch_add(1, Ordering::Release);
                // The loop takes much longer than unwinding. If the scope has not ended by then, it waits for this
                // task.
                for _ in 0..100 {
                    sleep(Duration::from_millis(1));
                    if seen.load(Ordering::Acquire) {
                        // The scope's memory has been freed. A return from this task would write into it.
                        eprintln!("{ENDED_EARLY}");
                        std::process::exit(1);
                    }
                }
            });
            while begun.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            // The sleep gives the scope time to record the first panic, which no flag shows. Before that, the scope
            // would keep the bomb as its first panic.
            sleep(Duration::from_millis(20));
            if in_body {
                panic_any(Bomb);
            }
            scope.spawn(|_| panic_any(Bomb));
        })
    }));
    ended.store(true, Ordering::Release);
    // The outcome may hold the bomb.
    std::mem::forget(outcome);
    pool.shutdown();
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let watchdog = Watchdog::start("child");
    watchdog.step(&role);
    let builder = ThreadPoolBuilder::new();
    let pool = match role.as_str() {
        "spawn" => builder.build(),
        "panic handler" => builder.panic_handler(|_| panic!("planned, in the handler")).build(),
        "start handler" => builder.start_handler(|_| panic!("planned")).build(),
        "exit handler" => builder.exit_handler(|_| panic!("planned")).build(),
        "bomb in the body" => return scope_with_a_bomb(true),
        "bomb in a task" => return scope_with_a_bomb(false),
        other => panic!("no role is called '{other}'"),
    };
    let pool = pool.unwrap();
    if !role.ends_with("t handler") {
        pool.spawn(|| panic!("planned"));
    }
    pool.shutdown();
}
