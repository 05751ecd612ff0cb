//! Time slices: a thief that yields has short ones, and neither a task nor what it starts does.
#![cfg(not(loom))]

#[path = "harness/watchdog.rs"]
mod watchdog;

use std::process::{Command, Stdio};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_os::cpu_clock::ThreadId;
use comity_os::slice;
use watchdog::Watchdog;

/// `comity`'s.
const SHORT: Duration = Duration::from_micros(100);

fn pool(policy: &str) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).policy(policy.parse().unwrap()).build().unwrap()
}

fn mine() -> Option<Duration> {
    slice::of(ThreadId::current())
}

/// That of threads here. None, which is said, if they cannot have their own.
fn usual() -> Option<Duration> {
    let usual = mine().filter(|usual| !usual.is_zero());
    if usual.is_none() {
        println!("SKIPPED: the slice of a thread is {:?}", mine());
    }
    usual
}

#[test]
fn a_thief_that_yields_has_short_slices_and_a_task_has_not() {
    let Some(usual) = usual() else { return };
    let watchdog = Watchdog::start("a_thief_that_yields_has_short_slices_and_a_task_has_not");
    let pool = pool("comity");
    let threads = pool.broadcast(|_| ThreadId::current());
    let mut short = [0; 2];
    while short.iter().any(|times| *times < 20) {
        for (thread, times) in threads.iter().zip(&mut short) {
            *times += u32::from(slice::of(*thread) == Some(SHORT));
        }
        watchdog.step(format!("seen with short slices: {short:?}"));
        assert_eq!(pool.broadcast(|_| mine()), [Some(usual); 2]);
        let started = pool.install(|| std::thread::spawn(mine).join().unwrap());
        assert_eq!(started, Some(usual));
        std::thread::sleep(Duration::from_millis(1));
    }
    watchdog.step("a child");
    let child = pool.install(|| Command::new("cat").stdin(Stdio::piped()).spawn());
    let mut child = child.expect("there is a cat");
    assert_eq!(slice::of(ThreadId::from_raw(child.id() as i32)), Some(usual));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn the_papers_thieves_have_the_slices_of_their_kernel() {
    let Some(usual) = usual() else { return };
    let watchdog = Watchdog::start("the_papers_thieves_have_the_slices_of_their_kernel");
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
