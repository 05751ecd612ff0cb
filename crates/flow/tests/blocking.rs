//! Tests of blocking calls: few threads run them while the pool continues. Also tests of their results, their panics,
//! and the exit of their process.
#![cfg(not(loom))]

#[path = "../../runtime/tests/harness/child.rs"]
mod child;
#[path = "../../runtime/tests/harness/fib.rs"]
mod fib;
#[path = "../../runtime/tests/harness/forked.rs"]
mod forked;
mod harness;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_flow::{JoinSet, Task, block_on, set_max_blocking_threads, spawn_blocking, spawn_blocking_in, spawn_in};
use comity_os::cpu_clock::ThreadId;
use comity_table::{Location, Snapshot};
use fib::fib;
use harness::{Alive, PATIENCE, eventually};

/// The maximum number of blocking threads, for all tests of this process.
const MOST: usize = 16;

fn pool(workers: usize) -> ThreadPool {
    static BOUNDED: Once = Once::new();
    BOUNDED.call_once(|| set_max_blocking_threads(MOST));
    ThreadPoolBuilder::new().num_threads(workers).build().unwrap()
}

fn blocking_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.trim() == "comity-blocking").count()
}

/// Waits until at most `most` blocking threads exist. A thread that received no more calls may still be exiting.
fn few_threads(most: usize) {
    eventually("there are no more threads", || blocking_threads() <= most);
}

/// The control of a call that reports its begin, and ends when the last clone of this value is dropped.
struct Held {
    begun: mpsc::Receiver<()>,
    _end: mpsc::Sender<()>,
}

/// Starts a call that blocks and then runs `after`.
fn hold<R: Send + 'static>(pool: &ThreadPool, after: impl FnOnce() -> R + Send + 'static) -> (Task<R>, Held) {
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let task = spawn_blocking_in(pool, move || {
        let _ = begin.send(());
        let _ = ended.recv();
        after()
    });
    (task, Held { begun, _end: end })
}

#[test]
fn ten_thousand_calls_finish_on_few_threads_while_a_computation_goes_on() {
    let pool = pool(2);
    let rounds = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| {
            pool.install(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(fib(10), 55);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        let mut calls = JoinSet::new();
        for nth in 0..10_000_u64 {
            let (rounds, running, most) = (Arc::clone(&rounds), Arc::clone(&running), Arc::clone(&most));
            calls.spawn_blocking(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The first calls, and some later ones, block until the workers have made progress.
                if nth % 100 < 32 {
                    let before = rounds.load(Ordering::Relaxed);
                    while rounds.load(Ordering::Relaxed) < before + 2 {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
                running.fetch_sub(1, Ordering::SeqCst);
                nth
            });
        }
        assert_eq!(calls.len(), 10_000);
        few_threads(MOST);
        let results = block_on(calls.join_all());
        stop.store(true, Ordering::Relaxed);
        assert_eq!((results.len(), results.iter().sum::<u64>()), (10_000, 49_995_000));
    });
    assert!((1..=MOST).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    few_threads(MOST);
    pool.shutdown();
}

#[test]
fn a_panic_goes_on_where_the_call_is_awaited_or_to_the_pools_handler() {
    let (panicked, panics) = mpsc::channel();
    let pool = {
        drop(pool(1));
        let builder = ThreadPoolBuilder::new().num_threads(1);
        builder
            .panic_handler(move |payload| panicked.send(*payload.downcast::<&str>().unwrap()).unwrap())
            .build()
            .unwrap()
    };
    let task = spawn_blocking_in(&pool, || -> u32 { panic!("awaited") });
    let payload = catch_unwind(AssertUnwindSafe(|| block_on(task))).expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"awaited"));

    spawn_blocking_in(&pool, || panic!("detached")).detach();
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("detached"));
    let task = spawn_blocking_in(&pool, || panic!("ended before"));
    eventually("it has ended", || task.is_finished());
    drop(task);
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("ended before"));
    let (task, held) = hold(&pool, || panic!("dropped meanwhile"));
    held.begun.recv_timeout(PATIENCE).unwrap();
    drop(task);
    drop(held);
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("dropped meanwhile"));
    // A task makes the call, and the task's worker continues to run other tasks.
    let task = spawn_in(&pool, async { spawn_blocking(|| 40).await + spawn_blocking(|| 2).await });
    assert_eq!(block_on(task), 42);
    pool.shutdown();
    assert!(panics.try_recv().is_err());
}

#[test]
fn a_call_is_cancelled_until_it_has_begun_and_not_after() {
    let pool = pool(1);
    // Keep every blocking thread busy with a call.
    let mut held: Vec<_> = (0..MOST).map(|nth| hold(&pool, move || nth)).collect();
    held.iter().for_each(|(_, held)| held.begun.recv_timeout(PATIENCE).unwrap());
    let alive = Arc::new(AtomicUsize::new(0));
    let guarded = || {
        let guard = Alive::new(&alive);
        spawn_blocking_in(&pool, move || drop(guard))
    };
    drop(guarded());
    assert_eq!(alive.load(Ordering::SeqCst), 0, "what has not begun is dropped with its handle");
    let task = guarded();
    assert!(!task.is_finished());
    assert_eq!(block_on(task.cancel()), None);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    guarded().detach();
    assert_eq!(alive.load(Ordering::SeqCst), 1);

    // A call that has begun continues without its handle. A call that is cancelled after its begin returns its result.
    let (dropped, first) = held.pop().unwrap();
    drop(dropped);
    let (cancelled, second) = held.pop().unwrap();
    drop((first, second));
    assert_eq!(block_on(cancelled.cancel()), Some(MOST - 2));
    let (ended, went_on) = mpsc::channel();
    let (task, last) = hold(&pool, move || ended.send(()).unwrap());
    last.begun.recv_timeout(PATIENCE).unwrap();
    drop(task);
    drop(last);
    assert_eq!(went_on.recv_timeout(PATIENCE), Ok(()));
    eventually("the detached one has run, too", || alive.load(Ordering::SeqCst) == 0);
    for (nth, (task, held)) in held.into_iter().enumerate() {
        drop(held);
        assert_eq!(block_on(task), nth);
    }
    pool.shutdown();
}

#[test]
fn a_pool_ends_after_its_calls() {
    let pool = pool(1);
    let ended = Arc::new(AtomicBool::new(false));
    let at_the_end = Arc::clone(&ended);
    let (task, held) = hold(&pool, move || {
        thread::sleep(Duration::from_millis(5));
        at_the_end.store(true, Ordering::SeqCst);
    });
    held.begun.recv_timeout(PATIENCE).unwrap();
    task.detach();
    let ending = thread::spawn(move || pool.shutdown());
    thread::sleep(Duration::from_millis(20));
    assert!(!ending.is_finished());
    drop(held);
    ending.join().unwrap();
    assert!(ended.load(Ordering::SeqCst));
}

/// Runs this test program as a child process in `role`, and checks that it succeeds.
fn play(role: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child::command(role);
    command.env("COMITY_TABLE", folder.path().join("table")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{role} has not ended within {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{role}: {}", child::stderr(&output));
}

#[test]
fn a_process_ends_without_its_calls() {
    play("ends");
}

#[test]
#[cfg_attr(comity_portable, ignore = "no fork is heard of")]
fn a_forked_child_has_threads_of_its_own() {
    play("forks");
}

#[test]
#[cfg_attr(comity_portable, ignore = "it needs a table")]
fn the_processor_time_of_calls_counts_as_the_programs() {
    play("counts");
}

#[test]
#[ignore = "a role that other tests have played"]
fn child() {
    let Some(role) = child::role() else { return };
    match role.as_str() {
        "ends" => {
            set_max_blocking_threads(1);
            let begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&begun);
            let for_ever = move || {
                begins.store(true, Ordering::SeqCst);
                loop {
                    thread::park();
                }
            };
            spawn_blocking(for_ever).detach();
            eventually("it has begun", || begun.load(Ordering::SeqCst));
            // The second call never begins.
            spawn_blocking(|| std::process::abort()).detach();
        }
        "forks" => {
            set_max_blocking_threads(2);
            assert_eq!(block_on(spawn_blocking(|| 1)), 1);
            for _ in 0..20 {
                let works = || {
                    let calls: Vec<_> = (0..10).map(|nth| spawn_blocking(move || nth)).collect();
                    let sum = calls.into_iter().map(block_on).sum::<u64>();
                    few_threads(2);
                    sum == 45
                };
                assert!(forked::in_a_fork(works));
                assert!(works());
            }
        }
        "counts" => {
            let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let stops = Arc::clone(&stop);
            // The worker always has a task, so the program's coordinator thread keeps reading the core table. The
            // worker itself hardly uses a core.
            let waiting = spawn_in(&pool, async move {
                while !stops.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
                ThreadId::current().cpu_time().unwrap()
            });
            let used = block_on(spawn_blocking_in(&pool, || {
                let me = ThreadId::current();
                while me.cpu_time().unwrap() < Duration::from_millis(300) {
                    std::hint::black_box((0..10_000).fold(0_u64, |sum, n| sum ^ n));
                }
                me.cpu_time().unwrap()
            }));
            let location = Location::from_environment().unwrap();
            let published = || {
                let table = Snapshot::take(&location).unwrap()?;
                table.programs.iter().find(|program| program.pid == std::process::id())?.cpu
            };
            eventually("the table has the time of the call", || published().is_some_and(|cpu| cpu >= used));
            stop.store(true, Ordering::Relaxed);
            let workers = block_on(waiting);
            assert!(workers < used / 2, "{workers:?} of the worker beside {used:?}");
            pool.shutdown();
        }
        other => panic!("no role is called {other}"),
    }
}
