//! Tests of sets of tasks, sleeping, timeouts and intervals.
#![cfg(not(loom))]

mod harness;

use std::error::Error;
use std::future::pending;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use comity::ThreadPoolBuilder;
use comity_flow::{
    Deadlock, Elapsed, Failure, JoinSet, Panic, block_on, interval, sleep, sleep_until, spawn, timeout, timeout_at,
};
use harness::{Alive, PATIENCE, eventually};

/// A duration longer than any test.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

async fn holds(guard: Alive) {
    pending::<()>().await;
    drop(guard);
}

#[test]
fn results_come_in_the_order_in_which_tasks_end() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut set = JoinSet::new();
    assert!(set.is_empty());
    assert_eq!(block_on(set.join_next()), None);
    let mut senders = Vec::new();
    for nth in 0..10 {
        let (sender, receiver) = futures::channel::oneshot::channel::<()>();
        senders.push(sender);
        set.spawn_in(&pool, async move {
            receiver.await.unwrap();
            nth
        });
    }
    assert_eq!(set.len(), 10);
    for (nth, sender) in senders.into_iter().enumerate().rev() {
        sender.send(()).unwrap();
        assert_eq!(block_on(set.join_next()), Some(nth));
        assert_eq!(set.len(), nth);
    }
    assert_eq!(block_on(set.join_next()), None);
    // Add a task of each kind, including a task that was spawned outside of the set.
    set.spawn(async { 1 });
    set.spawn_blocking(|| 2);
    set.insert(spawn(async { 3 }));
    let mut all = block_on(set.join_all());
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
    pool.shutdown();
}

#[test]
fn a_set_that_is_dropped_cancels_all_and_one_that_is_detached_none() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    (0..10).for_each(|_| set.spawn(holds(Alive::new(&alive))));
    drop(set);
    eventually("all futures are dropped", || alive.load(Ordering::SeqCst) == 0);

    let mut set = JoinSet::new();
    let (done, ran) = mpsc::channel();
    for _ in 0..10 {
        let done = done.clone();
        set.spawn(async move {
            sleep(Duration::from_millis(1)).await;
            done.send(()).unwrap();
        });
    }
    set.detach_all();
    assert!(set.is_empty());
    drop(set);
    (0..10).for_each(|_| ran.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn what_is_aborted_is_dropped_and_what_has_ended_is_not_lost() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    set.spawn(async { 7 });
    for _ in 0..10 {
        let guard = Alive::new(&alive);
        set.spawn(async move {
            holds(guard).await;
            8
        });
    }
    assert_eq!(block_on(set.join_next()), Some(7));
    set.spawn(async { 9 });
    let ended = spawn(async { 10 });
    eventually("it has ended", || ended.is_finished());
    set.insert(ended);
    set.abort_all();
    let mut left = Vec::new();
    while let Some(result) = block_on(set.join_next()) {
        left.push(result);
    }
    // The task that returns 9 may have ended before it was cancelled.
    assert!(left.contains(&10) && left.iter().all(|result| [9, 10].contains(result)), "{left:?}");
    assert_eq!((alive.load(Ordering::SeqCst), set.len()), (0, 0));

    (0..10).for_each(|_| {
        let guard = Alive::new(&alive);
        set.spawn(async move {
            holds(guard).await;
            8
        });
    });
    block_on(set.shutdown());
    assert_eq!((alive.load(Ordering::SeqCst), set.len()), (0, 0));
}

#[test]
fn a_panic_goes_on_where_the_set_is_waited_for_and_the_others_stay() {
    let mut set = JoinSet::new();
    set.spawn(async { panic!("one of them") });
    set.spawn(async { 5 });
    let (mut results, mut panics) = (0, 0);
    while !set.is_empty() {
        match catch_unwind(AssertUnwindSafe(|| block_on(set.join_next()))) {
            Ok(result) => results += result.unwrap(),
            Err(payload) => {
                assert_eq!(payload.downcast_ref::<&str>(), Some(&"one of them"));
                panics += 1;
            }
        }
    }
    assert_eq!((results, panics), (5, 1));
}

#[test]
fn a_wait_that_is_given_up_loses_no_result() {
    block_on(async {
        let mut set = JoinSet::new();
        let (sender, receiver) = futures::channel::oneshot::channel::<u32>();
        set.spawn(async move { receiver.await.unwrap() });
        assert!(timeout(Duration::from_millis(1), set.join_next()).await.is_err());
        sender.send(3).unwrap();
        assert_eq!(set.join_next().await, Some(3));
    });
}

#[test]
fn a_timeout_elapses_only_beside_what_is_not_ready() {
    block_on(async {
        assert_eq!(timeout(FOR_EVER, async { 1 }).await, Ok(1));
        // A future that is ready when the time is over counts as ready.
        assert_eq!(timeout(Duration::ZERO, async { 2 }).await, Ok(2));
        assert_eq!(timeout_at(Instant::now(), async { 3 }).await, Ok(3));
        assert_eq!(timeout(Duration::MAX, spawn(async { 4 })).await, Ok(4));
        assert!(timeout(Duration::from_millis(1), pending::<()>()).await.is_err());
        assert!(timeout_at(Instant::now() - Duration::from_millis(1), pending::<()>()).await.is_err());
        assert!(timeout(Duration::from_millis(1), sleep(FOR_EVER)).await.is_err());
        assert_eq!(timeout(FOR_EVER, sleep(Duration::from_millis(1))).await, Ok(()));
        // The inner timeout expires, and the outer timeout does not.
        let inner = timeout(Duration::from_millis(1), pending::<()>());
        assert!(matches!(timeout(FOR_EVER, inner).await, Ok(Err(_))));
    });
    // A timeout drops the task's handle, which cancels the task.
    let alive = Arc::new(AtomicUsize::new(0));
    let task = spawn(holds(Alive::new(&alive)));
    assert!(block_on(timeout(Duration::from_millis(1), task)).is_err());
    eventually("its future is dropped", || alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn sleepers_wake_in_their_order_and_ticks_follow_each_other() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let mut set = JoinSet::new();
    // On a busy machine, 5 ms may not order the wake-ups, so each task also waits for the task before it.
    for nth in [2_u32, 0, 1] {
        let order = Arc::clone(&order);
        set.spawn(async move {
            sleep_until(start + nth * Duration::from_millis(5)).await;
            assert!(Instant::now() >= start + nth * Duration::from_millis(5), "never too early");
            while order.lock().unwrap().len() < nth as usize {
                sleep(Duration::from_millis(1)).await;
            }
            order.lock().unwrap().push(nth);
        });
    }
    block_on(set.join_all());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);

    let period = Duration::from_millis(2);
    block_on(async {
        let mut ticks = interval(period);
        let first = ticks.tick().await;
        for nth in 1..5 {
            assert_eq!(ticks.tick().await, first + nth * period);
            assert!(Instant::now() >= first + nth * period, "never too early");
        }
    });
    let zero = catch_unwind(|| interval(Duration::ZERO)).expect_err("it panics");
    assert!(zero.downcast_ref::<&str>().is_some_and(|text| text.contains("period of an interval is 0")));
}

/// Compiles only if the error can be boxed, sent and returned by `?`.
fn is_an_error<E: Error + Send + Sync + 'static>() {}

#[test]
fn errors_can_be_sent_boxed_and_shown() {
    is_an_error::<Elapsed>();
    is_an_error::<Failure>();
    is_an_error::<Panic>();
    is_an_error::<Deadlock>();
    let late = block_on(timeout(Duration::ZERO, pending::<()>())).unwrap_err();
    assert_eq!(late.to_string(), "the timeout elapsed before the future was ready");
    let error = io::Error::from(late);
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(error.get_ref().is_some_and(|inner| inner.is::<Elapsed>()));
}
