//! `COMITY_WATCH`: a pool that stands still reports which threads wait where. A pool that makes progress prints
//! nothing.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use comity::{Policy, ThreadPoolBuilder};
use watchdog::Watchdog;

/// Returns a command for a process with a watch of a fifth of a second.
fn watched(role: &str, policy: Policy) -> std::process::Command {
    let mut command = child::command(role);
    command.env("COMITY_POLICY", policy.to_string()).env("COMITY_NUM_THREADS", "2").env("COMITY_WATCH", "0.2");
    command
}

/// Runs `role` under `policy` to its end, and returns what it printed to standard error.
fn said(role: &str, policy: Policy) -> String {
    let output = child::run(watched(role, policy));
    assert!(output.status.success(), "{role} under {policy}: {:?}\n{}", output.status, child::stderr(&output));
    child::stderr(&output)
}

/// Runs `role`, which ends some periods after this test has closed its input. Returns the lines that it printed up to
/// `last` and until its end.
fn told(role: &str, policy: Policy, last: &str) -> String {
    let mut command = watched(role, policy);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut report = String::new();
    while !report.contains(last) {
        let read = lines.read_line(&mut report).unwrap();
        assert!(read > 0, "{role} under {policy} ended before it said {last}: {report}");
    }
    // Closes the process's input. The process waits for that before it ends.
    drop(child.stdin.take());
    lines.read_to_string(&mut report).unwrap();
    assert!(child.wait().unwrap().success(), "{role} under {policy}: {report}");
    report
}

#[test]
fn a_deadlock_is_told_with_the_threads_that_wait_and_where() {
    let watchdog = Watchdog::start("a_deadlock_is_told_with_the_threads_that_wait_and_where");
    for policy in Policy::all() {
        watchdog.step(policy.to_string());
        let report = told("lock across a join", policy, "takes_the_lock");
        assert_eq!(report.matches("a pool of 2 workers has made no progress for ").count(), 1, "{report}");
        assert!(report.contains("is blocked in a task, on top of a waiting frame"), "{report}");
        assert!(report.contains("takes_the_lock"), "{report}");
    }
    let report = told("a worker waits for a queued task", Policy::default(), "waits_for_a_message");
    assert!(report.contains("queued tasks: 1\n") && report.contains("waits_for_a_message"), "{report}");
}

#[test]
fn a_pool_that_works_waits_or_has_nothing_to_do_says_nothing() {
    let watchdog = Watchdog::start("a_pool_that_works_waits_or_has_nothing_to_do_says_nothing");
    for role in ["compute", "idle", "sleep in a task", "many short sleeps"] {
        watchdog.step(role);
        assert_eq!(said(role, Policy::default()), "", "{role}");
    }
}

#[test]
fn a_period_that_is_none_is_refused() {
    for period in ["0", "-1", "soon", "0.01", "NaN", "1e99"] {
        let mut command = child::command("build");
        command.env("COMITY_WATCH", period);
        let output = child::run(command);
        let sentence = format!("COMITY_WATCH={period} is not a number of seconds (minimum 0.1)");
        assert!(child::stderr(&output).contains(&sentence), "{}", child::stderr(&output));
    }
}

#[inline(never)]
fn takes_the_lock(lock: &Mutex<u32>) {
    *lock.lock().unwrap() += 1;
    black_box(());
}

#[inline(never)]
fn waits_for_a_message(message: std::sync::mpsc::Receiver<()>) {
    let _ = message.recv();
    black_box(());
}

/// Ends this process some periods after the test has read its report. The process stands still, so it cannot end in
/// the usual way.
fn end_when_told() {
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        sleep(Duration::from_secs(1));
        std::process::exit(0);
    });
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let long = Duration::from_millis(1000);
    let pool = ThreadPoolBuilder::new().build().unwrap_or_else(|error| panic!("{error}"));
    match role.as_str() {
        "build" => {}
        // Worker A holds the lock and waits for the right half of a join, which worker B runs. Meanwhile A takes a
        // task that it has spawned, and that task requests the same lock.
        "lock across a join" => {
            end_when_told();
            let (lock, asks) = (&Mutex::new(0), &AtomicBool::new(false));
            pool.scope(|scope| {
                let held = lock.lock().unwrap();
                let (begun, has_begun) = channel();
                comity::join(
                    move || {
                        has_begun.recv().unwrap();
                        for _ in 0..2 {
                            scope.spawn(move |_| {
                                asks.store(true, Ordering::Release);
                                takes_the_lock(lock);
                            });
                        }
                    },
                    move || {
                        begun.send(()).unwrap();
                        while !asks.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    },
                );
                drop(held);
            });
        }
        "a worker waits for a queued task" => {
            end_when_told();
            let (answers, messages): (Vec<_>, Vec<_>) = (0..2).map(|_| channel()).unzip();
            // Both workers are busy until the third task is queued, so when the pool stands still, a task is queued.
            static IS_QUEUED: AtomicBool = AtomicBool::new(false);
            let has_begun = channel();
            for message in messages {
                let begins = has_begun.0.clone();
                pool.spawn(move || {
                    begins.send(()).unwrap();
                    while !IS_QUEUED.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    waits_for_a_message(message);
                });
            }
            (0..2).for_each(|_| has_begun.1.recv().unwrap());
            pool.spawn(move || answers.iter().for_each(|answer| answer.send(()).unwrap()));
            IS_QUEUED.store(true, Ordering::Release);
            loop {
                std::thread::park();
            }
        }
        "compute" => {
            let began = Instant::now();
            pool.scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|_| while began.elapsed() < long {});
                }
            });
        }
        "idle" => sleep(long),
        "sleep in a task" => pool.install(|| sleep(long)),
        "many short sleeps" => pool.scope(|scope| {
            for _ in 0..60 {
                scope.spawn(|_| sleep(Duration::from_millis(50)));
            }
        }),
        other => panic!("no role {other}"),
    }
}
