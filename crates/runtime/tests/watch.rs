//! `COMITY_WATCH`: a pool that stands still says who waits where, and one that does not says nothing.
#![cfg(not(loom))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use comity::{Policy, ThreadPoolBuilder};
use watchdog::Watchdog;

/// What `role` wrote to standard error under `policy` with a watch of a fifth of a second.
fn said(role: &str, policy: Policy) -> String {
    let mut command = child::command(role);
    command.env("COMITY_POLICY", policy.to_string()).env("COMITY_NUM_THREADS", "2").env("COMITY_WATCH", "0.2");
    let output = child::run(command);
    assert!(output.status.success(), "{role} under {policy}: {:?}\n{}", output.status, child::stderr(&output));
    child::stderr(&output)
}

#[test]
fn a_deadlock_is_told_with_who_waits_where() {
    let watchdog = Watchdog::start("a_deadlock_is_told_with_who_waits_where");
    for policy in Policy::all() {
        watchdog.step(policy.to_string());
        let report = said("lock across a join", policy);
        assert_eq!(report.matches("a pool of 2 workers has made no progress for ").count(), 1, "{report}");
        assert!(report.contains("is blocked in a task, on top of a frame that waits"), "{report}");
        assert!(report.contains("takes_the_lock"), "{report}");
    }
    let report = said("a worker waits for a queued task", Policy::default());
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
        let sentence = format!("COMITY_WATCH={period} is not a number of seconds, 0.1 or more");
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

/// Ends this process, as it cannot end itself any more.
fn end_soon() {
    std::thread::spawn(move || {
        sleep(Duration::from_millis(1300));
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
        // Worker A waits, with the lock in hand, for the right half, which worker B runs for a while. Meanwhile A takes the
        // task that it spawned, and that asks for the lock.
        "lock across a join" => {
            end_soon();
            let lock = &Mutex::new(0);
            pool.scope(|scope| {
                let held = lock.lock().unwrap();
                let (begun, has_begun) = channel();
                comity::join(
                    move || {
                        has_begun.recv().unwrap();
                        scope.spawn(move |_| takes_the_lock(lock));
                        scope.spawn(move |_| takes_the_lock(lock));
                    },
                    move || {
                        begun.send(()).unwrap();
                        sleep(Duration::from_millis(300));
                    },
                );
                drop(held);
            });
        }
        "a worker waits for a queued task" => {
            end_soon();
            let (answers, messages): (Vec<_>, Vec<_>) = (0..2).map(|_| channel()).unzip();
            for message in messages {
                pool.spawn(|| waits_for_a_message(message));
            }
            pool.spawn(move || answers.iter().for_each(|answer| answer.send(()).unwrap()));
            sleep(Duration::from_secs(10));
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
