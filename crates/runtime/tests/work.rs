//! The results of join, scope, spawn, broadcast, for_range and map_reduce, under every policy.
#![cfg(not(loom))]

#[path = "harness/grid.rs"]
mod grid;
#[path = "harness/quicksort.rs"]
mod quicksort;
#[path = "harness/refused.rs"]
mod refused;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use comity::{Scope, ThreadPool, ThreadPoolBuilder, current_thread_index};
use grid::on_every_pool;
use quicksort::quicksort;

const WORKERS: &[usize] = &[1, 2, 3, 8];

fn sum(numbers: &[u64]) -> u64 {
    if numbers.len() <= 3 {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (left, right) = comity::join(|| sum(left), || sum(right));
    left + right
}

#[test]
fn join_sums_and_sorts() {
    let numbers: Vec<u64> = (1..=20_000).collect();
    // The numbers do not repeat, and are in no order.
    let shuffled: Vec<u64> = numbers.iter().map(|n| n * 7919 % 20_011).collect();
    let mut expected = shuffled.clone();
    expected.sort_unstable();
    on_every_pool("join_sums_and_sorts", WORKERS, |pool| {
        assert_eq!(pool.install(|| sum(&numbers)), 200_010_000);
        let mut values = shuffled.clone();
        pool.install(|| quicksort(&mut values));
        assert!(values == expected);
        // Results that own memory are moved out of both halves.
        let (a, b) = pool.join(|| values.iter().map(u64::to_string).collect::<Vec<_>>(), || vec![vec![7u8; 3]; 2]);
        assert_eq!((a.len(), b), (20_000, vec![vec![7; 3]; 2]));
    });
}

/// Grows a tree of spawns, with `breadth` tasks at each of `depth` levels.
fn grow<'scope>(scope: &Scope<'scope>, depth: u32, breadth: u64, ran: &'scope AtomicU64) {
    ran.fetch_add(1, Ordering::Relaxed);
    if depth > 0 {
        for _ in 0..breadth {
            scope.spawn(move |scope| grow(scope, depth - 1, breadth, ran));
        }
    }
}

#[test]
fn scope_waits_for_descendants_of_every_depth() {
    on_every_pool("scope_waits_for_descendants_of_every_depth", WORKERS, |pool| {
        for (depth, breadth, tasks) in [(6, 4, 5461), (2000, 1, 2001), (1, 3000, 3001)] {
            let ran = AtomicU64::new(0);
            let returned = pool.scope(|scope| {
                grow(scope, depth, breadth, &ran);
                "the body's result"
            });
            assert_eq!((ran.load(Ordering::Relaxed), returned), (tasks, "the body's result"));
        }
        // Scopes run within tasks of scopes, and joins within those scopes.
        let total = AtomicU64::new(0);
        pool.scope(|outer| {
            for _ in 0..10 {
                outer.spawn(|_| {
                    comity::scope(|inner| {
                        for _ in 0..10 {
                            inner.spawn(|_| {
                                let (a, b) = comity::join(|| 1, || 2);
                                total.fetch_add(a + b, Ordering::Relaxed);
                            });
                        }
                    });
                    total.fetch_add(1000, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(total.into_inner(), 10_300);
    });
}

#[test]
fn foreign_threads_spawn_into_a_scope_and_into_the_pool() {
    on_every_pool("foreign_threads_spawn_into_a_scope_and_into_the_pool", WORKERS, |pool| {
        let ran = AtomicU64::new(0);
        let count = |scope: &Scope<'_>| {
            assert!(pool.current_thread_index().is_some());
            let _ = scope;
            ran.fetch_add(1, Ordering::Relaxed);
        };
        pool.scope(|scope| {
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| {
                        for _ in 0..100 {
                            scope.spawn(|scope| {
                                scope.spawn(count);
                                count(scope);
                            });
                        }
                    });
                }
            });
        });
        assert_eq!(ran.load(Ordering::Relaxed), 600);

        let (sender, receiver) = channel();
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let sender = sender.clone();
                threads.spawn(move || {
                    for nth in 0..100 {
                        let sender = sender.clone();
                        pool.spawn(move || {
                            let answer = sender.clone();
                            comity::spawn(move || answer.send((thread, nth, current_thread_index())).unwrap());
                            sender.send((thread, nth, current_thread_index())).unwrap();
                        });
                    }
                });
            }
        });
        drop(sender);
        let mut answers: Vec<_> = receiver.iter().collect();
        assert!(answers.iter().all(|(_, _, index)| index.is_some()));
        answers.sort_unstable();
        let mut tasks: Vec<_> = answers.into_iter().map(|(thread, nth, _)| (thread, nth)).collect();
        assert_eq!(tasks.len(), 600);
        tasks.dedup();
        assert_eq!(tasks.len(), 300);
    });
}

/// Broadcasts once and checks that each worker was called once, as itself.
fn assert_reaches_all_workers(pool: &ThreadPool) {
    let calls: Vec<_> = (0..pool.current_num_threads()).map(|_| AtomicUsize::new(0)).collect();
    let answers = pool.broadcast(|context| {
        assert_eq!(pool.current_thread_index(), Some(context.index()));
        assert_eq!(context.num_threads(), calls.len());
        calls[context.index()].fetch_add(1, Ordering::Relaxed);
        format!("worker {}", context.index())
    });
    assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1), "{calls:?}");
    assert!(answers.iter().enumerate().all(|(index, answer)| *answer == format!("worker {index}")), "{answers:?}");
}

#[test]
fn broadcast_reaches_every_worker_once_from_anywhere() {
    on_every_pool("broadcast_reaches_every_worker_once_from_anywhere", WORKERS, |pool| {
        let other = ThreadPoolBuilder::new().num_threads(2).policy(pool.policy()).build().unwrap();
        for _ in 0..20 {
            assert_reaches_all_workers(pool);
            pool.install(|| assert_reaches_all_workers(pool));
            other.install(|| assert_reaches_all_workers(pool));
            other.join(|| assert_reaches_all_workers(pool), || assert_reaches_all_workers(pool));
        }
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| (0..20).for_each(|_| assert_reaches_all_workers(pool)));
            }
        });
        // Every worker broadcasts from within a broadcast. Each worker must answer the other broadcasts while it
        // waits.
        pool.broadcast(|_| assert_reaches_all_workers(pool));
        other.shutdown();
    });
}

#[test]
fn broadcast_overtakes_the_tasks_of_busy_workers() {
    on_every_pool("broadcast_overtakes_the_tasks_of_busy_workers", WORKERS, |pool| {
        let others = pool.current_num_threads() - 1;
        let calls = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                pool.install(|| {
                    sender.send(()).unwrap();
                    // The worker is busy until all other workers have answered.
                    while calls.load(Ordering::Acquire) < others {
                        std::thread::yield_now();
                    }
                });
            });
            receiver.recv().unwrap();
            let order = pool.broadcast(|_| calls.fetch_add(1, Ordering::AcqRel));
            assert_eq!(order.len(), others + 1);
        });
        assert_eq!(calls.into_inner(), others + 1);
    });
}

#[test]
fn for_range_covers_each_index_once_in_parts_of_at_most_the_grain() {
    on_every_pool("for_range_covers_each_index_once_in_parts_of_at_most_the_grain", WORKERS, |pool| {
        for (range, grain) in [(0..1000, 1), (5..1003, 7), (0..64, 64), (0..65, 64), (3..9, usize::MAX), (41..42, 1)] {
            let parts = Mutex::new(Vec::new());
            pool.install(|| comity::for_range(range.clone(), grain, |part| parts.lock().unwrap().push(part)));
            let mut parts = parts.into_inner().unwrap();
            assert!(parts.iter().all(|part| (1..=grain).contains(&part.len())), "{range:?} by {grain}: {parts:?}");
            parts.sort_unstable_by_key(|part| part.start);
            let covered: Vec<_> = parts.iter().cloned().flatten().collect();
            assert!(covered.iter().copied().eq(range.clone()), "{range:?} by {grain}: {parts:?}");
        }
        for empty in [0..0, 7..7, usize::MAX..usize::MAX, std::ops::Range { start: 9, end: 2 }] {
            pool.install(|| comity::for_range(empty, 1, |part| panic!("{part:?} of an empty range")));
        }
    });
}

/// Concatenates the parts: this operation is associative, and not commutative.
#[test]
fn map_reduce_keeps_the_order_and_maps_the_blocks_of_for_range() {
    on_every_pool("map_reduce_keeps_the_order_and_maps_the_blocks_of_for_range", WORKERS, |pool| {
        for (range, grain) in [(0..1000, 1), (5..1003, 7), (0..64, 64), (0..65, 64), (3..9, usize::MAX), (41..42, 1)] {
            let append = |mut left: Vec<_>, mut right: Vec<_>| {
                left.append(&mut right);
                left
            };
            let parts = pool.install(|| comity::map_reduce(range.clone(), grain, |part| vec![part], append));
            let starts = range.clone().step_by(grain);
            let expected = starts.map(|start| start..range.end.min(start.saturating_add(grain)));
            assert_eq!(parts, Some(expected.collect()), "{range:?} by {grain}");
        }
        for empty in [0..0, 7..7, usize::MAX..usize::MAX, std::ops::Range { start: 9, end: 2 }] {
            let map = |part| -> u8 { panic!("{part:?} of an empty range") };
            assert_eq!(pool.install(|| comity::map_reduce(empty, 1, map, |_, _| panic!("nothing to combine"))), None);
        }
    });
    // The call comes from outside of any pool.
    assert_eq!(comity::map_reduce(0..1000, 10, |part| part.sum::<usize>(), |left, right| left + right), Some(499_500));
}

/// Runs loops that are so short that thieves often sleep and are woken.
#[test]
fn short_loops_follow_each_other() {
    on_every_pool("short_loops_follow_each_other", &[2, 8], |pool| {
        let sum = AtomicU64::new(0);
        pool.install(|| {
            for _ in 0..30_000 {
                comity::for_range(0..8, 1, |part| {
                    sum.fetch_add(
                        (0..200).fold(part.start as u64, |n, i| std::hint::black_box(n ^ i ^ i)),
                        Ordering::Relaxed,
                    );
                });
            }
        });
        assert_eq!(sum.into_inner(), 30_000 * 28);
    });
}

#[test]
fn a_grain_of_zero_panics_even_over_nothing() {
    for range in [0..10, 0..0] {
        let payload = catch_unwind(|| comity::for_range(range, 0, |_| ())).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the grain is 0. The minimum is 1");
    }
}

/// Repeats all tests without `membarrier`, where a push cannot rely on a barrier of another thread.
#[test]
fn all_of_this_holds_without_membarrier() {
    refused::again_without_membarrier();
}
