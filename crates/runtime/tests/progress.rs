//! A worker that is busy for long does not stop other workers: some worker finds each task that waits. The counters
//! show the number of steals.
//!
//! The tasks here wait for each other by spinning, which a program should not do. If no worker takes a task, the test
//! hangs, and the watchdog makes the test fail. If another program of the same table computes all the time, `dws`
//! needs minutes: a task for which other tasks spin gets a worker only after a hundred looks of the coordinator
//! (Claim 3 in the README of `comity-protocol`). So each of these tests has a separate process and core table.
#![cfg(not(loom))]

#[path = "harness/grid.rs"]
mod grid;
#[path = "harness/own_table.rs"]
mod own_table;
#[path = "harness/refused.rs"]
mod refused;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use comity::{Policy, ThreadPool, ThreadPoolBuilder, WorkerCounters};
use grid::{under_every_policy, under_policies, wakes_all_workers};
use own_table::in_own_table;

/// Calls `check` under every policy that lets all workers spin at the same time. For the other policies, see
/// `workers_without_a_core_come_when_needed`.
fn on_every_pool(test: &'static str, workers: &[usize], check: impl Fn(&ThreadPool)) {
    under_each(test, workers, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
        check(&pool);
        pool.shutdown();
    });
}

/// Calls `check` like [`on_every_pool`], but `check` creates the pools.
fn under_each(test: &'static str, workers: &[usize], check: impl Fn(Policy, usize)) {
    in_own_table(test, || under_policies(test, workers, wakes_all_workers, check));
}

/// The number of repetitions. One run is not enough: a missing wake-up does not show if a worker happens to look for
/// tasks.
const ROUNDS: usize = 30;

/// Spins without ever yielding the core.
fn hold_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

/// Waits before every tenth round, so that all thieves fall asleep.
fn rest(round: usize) {
    if round.is_multiple_of(10) {
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn the_right_half_of_a_long_join_is_stolen() {
    on_every_pool("the_right_half_of_a_long_join_is_stolen", &[2, 8], |pool| {
        for round in 0..ROUNDS {
            rest(round);
            let other_ran = AtomicBool::new(false);
            let long = || {
                hold_until(&other_ran);
                comity::current_thread_index()
            };
            let other = || {
                other_ran.store(true, Ordering::Release);
                comity::current_thread_index()
            };
            let (long, other) = pool.join(long, other);
            assert_ne!(long, other);
        }
        let total = WorkerCounters::total(&pool.counters());
        assert_eq!(total.steals, ROUNDS as u64, "nothing else could be stolen");
    });
}

/// Runs two long leaves at any place of a tree of cheap joins. Each leaf keeps its worker until both leaves run. The
/// owner of the joins runs one leaf and pushes no more, so a thief must find the other leaf without that.
#[test]
fn two_long_leaves_run_at_once_wherever_they_lie() {
    fn descend(depth: u32, first: u32, leaf: &(dyn Fn(u32) + Sync)) {
        if depth == 0 {
            return leaf(first);
        }
        let half = 1 << (depth - 1);
        comity::join(|| descend(depth - 1, first, leaf), || descend(depth - 1, first + half, leaf));
    }
    on_every_pool("two_long_leaves_run_at_once_wherever_they_lie", &[2, 8], |pool| {
        for depth in 1..=5 {
            for nth in 0..6 {
                rest(nth);
                let leaves = 1u32 << depth;
                let (one, other) = (nth as u32 * 7 % leaves, (nth as u32 * 13 + 1) % leaves);
                let begun = AtomicUsize::new(0);
                let leaf = |nth: u32| {
                    if nth == one || nth == other {
                        begun.fetch_add(1, Ordering::AcqRel);
                        while one != other && begun.load(Ordering::Acquire) < 2 {
                            std::hint::spin_loop();
                        }
                    }
                };
                pool.install(|| descend(depth, 0, &leaf));
                assert!(begun.into_inner() > 0);
            }
        }
    });
}

/// Checks a long task that pushes only after the other workers have fallen asleep.
#[test]
fn a_task_pushed_late_in_a_long_one_is_stolen() {
    on_every_pool("a_task_pushed_late_in_a_long_one_is_stolen", &[2, 8], |pool| {
        pool.install(|| {
            for _ in 0..4 {
                let busy_since = Instant::now();
                while busy_since.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                let other_ran = AtomicBool::new(false);
                comity::join(|| hold_until(&other_ran), || other_ran.store(true, Ordering::Release));
            }
        });
    });
}

#[test]
fn a_scope_task_may_wait_for_one_that_it_spawned() {
    on_every_pool("a_scope_task_may_wait_for_one_that_it_spawned", &[2, 8], |pool| {
        for round in 0..ROUNDS {
            rest(round);
            let child_ran = AtomicBool::new(false);
            pool.scope(|scope| {
                scope.spawn(|scope| {
                    scope.spawn(|_| child_ran.store(true, Ordering::Release));
                    while !child_ran.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                });
            });
        }
    });
}

/// Runs one task for each worker. No task ends before all have begun, so no worker may stay asleep.
#[test]
fn all_workers_come_together() {
    on_every_pool("all_workers_come_together", &[2, 3, 8], |pool| {
        let workers = pool.current_num_threads();
        for round in 0..ROUNDS {
            rest(round);
            let (begun, spawned) = (&AtomicUsize::new(0), &Arc::new(AtomicUsize::new(0)));
            let meet = move |begun: &AtomicUsize| {
                begun.fetch_add(1, Ordering::AcqRel);
                while begun.load(Ordering::Acquire) < workers {
                    std::thread::yield_now();
                }
            };
            // The tasks come from within the pool, from the queue of one worker.
            pool.scope(|scope| (0..workers).for_each(|_| scope.spawn(move |_| meet(begun))));
            // The tasks are the blocks of a loop, while another task runs.
            let in_blocks = AtomicUsize::new(0);
            pool.join(|| comity::for_range(0..workers, 1, |_| meet(&in_blocks)), || ());
            // The tasks come from outside, through the injector.
            for _ in 0..workers {
                let spawned = Arc::clone(spawned);
                pool.spawn(move || meet(&spawned));
            }
            while spawned.load(Ordering::Acquire) < workers {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_task_from_outside_is_found_beside_a_long_one() {
    on_every_pool("a_task_from_outside_is_found_beside_a_long_one", &[2, 8], |pool| {
        for round in 0..ROUNDS {
            let (began, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (begins, quit) = (Arc::clone(&began), Arc::clone(&ran));
            pool.spawn(move || {
                begins.store(true, Ordering::Release);
                hold_until(&quit);
            });
            while !began.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            rest(round);
            pool.spawn(move || ran.store(true, Ordering::Release));
        }
    });
}

/// Runs two tasks that need two workers at the same time.
fn meet() {
    let other_ran = AtomicBool::new(false);
    comity::join(|| hold_until(&other_ran), || other_ran.store(true, Ordering::Release));
}

/// Checks a worker that gets a broadcast before it has ever looked for tasks. Other workers must take the task that
/// the broadcast pushes.
#[test]
fn a_broadcast_that_awaits_a_new_worker_is_shared_like_other_work() {
    const TEST: &str = "a_broadcast_that_awaits_a_new_worker_is_shared_like_other_work";
    under_each(TEST, &[2, 8], |policy, workers| {
        for _ in 0..ROUNDS {
            let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap();
            pool.broadcast(|context| {
                if context.index() == 0 {
                    meet()
                }
            });
            pool.shutdown();
        }
    });
}

#[test]
fn a_start_handlers_task_is_shared_like_other_work() {
    under_each("a_start_handlers_task_is_shared_like_other_work", &[2, 8], |policy, workers| {
        for _ in 0..ROUNDS {
            let (sender, receiver) = channel();
            let on_start = move |index| {
                let sender = sender.clone();
                if index == 0 {
                    comity::spawn(move || {
                        meet();
                        sender.send(()).unwrap();
                    });
                }
            };
            let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy).start_handler(on_start);
            let pool = builder.build().unwrap();
            receiver.recv().unwrap();
            pool.shutdown();
        }
    });
}

/// Runs more workers than cores: a task must begin even if another worker blocks, or spins for long.
#[test]
fn workers_without_a_core_come_when_needed() {
    const TEST: &str = "workers_without_a_core_come_when_needed";
    let shares_cores = |policy: &Policy| policy.shares_cores();
    let workers = comity_os::cores::usable().get() + 1;
    under_policies(TEST, &[workers], shares_cores, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
        let all = Barrier::new(workers);
        for _ in 0..3 {
            pool.scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| _ = all.wait())));
        }
        let begun = AtomicUsize::new(0);
        let meet = |_: &comity::Scope<'_>| {
            begun.fetch_add(1, Ordering::AcqRel);
            while begun.load(Ordering::Acquire) < workers {
                std::hint::spin_loop();
            }
        };
        pool.scope(|scope| (0..workers).for_each(|_| scope.spawn(meet)));
        pool.shutdown();
    });
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = comity::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn counters_add_up() {
    under_every_policy("counters_add_up", &[1, 2, 8], |policy, workers| {
        let built = Instant::now();
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap();
        let mut last = pool.counters();
        assert_eq!(last.len(), workers);
        for round in 0..20 {
            rest(round);
            assert_eq!(pool.install(|| fib(14)), 377);
            pool.broadcast(|_| ());
            let now = pool.counters();
            let age = built.elapsed();
            for (before, now) in last.iter().zip(&now) {
                assert!(now.steals <= now.steal_attempts, "{now:?}");
                let pairs = [
                    (before.steal_attempts, now.steal_attempts),
                    (before.steals, now.steals),
                    (before.yields, now.yields),
                    (before.sleeps, now.sleeps),
                    (before.wakeups, now.wakeups),
                ];
                assert!(pairs.iter().all(|(before, now)| before <= now), "{before:?} before {now:?}");
                assert!(before.busy <= now.busy && before.thief <= now.thief && before.asleep <= now.asleep);
                assert!(now.busy + now.thief + now.asleep <= age, "{now:?} within {age:?}");
                assert_eq!(now.since(before).steals, now.steals - before.steals);
            }
            last = now;
        }
        if workers == 1 {
            assert_eq!((last[0].steal_attempts, last[0].steals), (0, 0), "there is no worker to steal from");
        }
        // A spell (a time without a task) is counted when it ends. A broadcast ends the spell of a sleeping worker. On a
        // busy machine a worker starts late, and the time before its start is in no counter.
        let covered = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            pool.broadcast(|_| ());
            let age = built.elapsed();
            pool.counters().iter().all(|worker| 2 * (worker.busy + worker.thief + worker.asleep) >= age)
        });
        assert!(covered, "half of some worker's age is in no counter: {:?} of {:?}", pool.counters(), built.elapsed());
        pool.shutdown();
    });
}

/// Repeats all tests without `membarrier`, where a push cannot rely on a barrier of another thread.
#[test]
#[cfg_attr(comity_portable, ignore = "of Linux")]
fn all_of_this_holds_without_membarrier() {
    refused::again_without_membarrier();
}
