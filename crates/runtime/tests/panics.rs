//! Tasks that panic, in every position, under every policy. The panic reaches the caller that the documentation
//! names. All other tasks run, each value is dropped once, and the pool continues to work.
#![cfg(not(loom))]

#[path = "harness/census.rs"]
mod census;
#[path = "harness/grid.rs"]
mod grid;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use census::{Census, Planned, caught, panic_as_planned, silence_planned_panics};
use comity::{ThreadPool, ThreadPoolBuilder};

/// The pool, the items and the counters of one test.
struct Stage<'a> {
    pool: &'a ThreadPool,
    workers: usize,
    census: Census,
    ran: AtomicUsize,
}

impl Stage<'_> {
    /// Returns a task that owns an item and counts its run.
    fn works(&self) -> impl FnOnce() + Send + '_ {
        let item = self.census.item();
        move || {
            let _held = item;
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a task that owns an item, counts its run, and then panics.
    fn panics(&self, name: usize) -> impl FnOnce() + Send + '_ {
        let item = self.census.item();
        move || {
            let _held = item;
            self.ran.fetch_add(1, Ordering::Relaxed);
            panic_as_planned(name, &self.census)
        }
    }

    fn assert_ran(&self, tasks: usize) {
        assert_eq!(self.ran.load(Ordering::Relaxed), tasks, "tasks that ran");
    }
}

/// Runs `check` on every pool. Afterwards all items must be gone, and the pool must work.
fn everywhere(test: &'static str, check: impl Fn(&Stage<'_>)) {
    silence_planned_panics();
    grid::on_every_pool(test, &[1, 2, 8], |pool| {
        let stage =
            Stage { pool, workers: pool.current_num_threads(), census: Census::default(), ran: AtomicUsize::new(0) };
        check(&stage);
        stage.census.assert_each_dropped_once();
        assert_usable(pool);
    });
}

fn assert_usable(pool: &ThreadPool) {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = comity::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    assert_eq!(pool.install(|| fib(12)), 144);
    assert_eq!(pool.broadcast(|context| context.index()), (0..pool.current_num_threads()).collect::<Vec<_>>());
}

fn spin_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_in_the_left_half_of_a_join_comes_out() {
    everywhere("a_panic_in_the_left_half_of_a_join_comes_out", |stage| {
        assert_eq!(caught(|| stage.pool.join(stage.panics(1), stage.works())), 1);
        stage.assert_ran(2);
    });
}

#[test]
fn a_panic_in_the_right_half_of_a_join_comes_out() {
    everywhere("a_panic_in_the_right_half_of_a_join_comes_out", |stage| {
        let left = || {
            stage.works()();
            stage.census.item()
        };
        assert_eq!(caught(|| stage.pool.join(left, stage.panics(2))), 2);
        stage.assert_ran(2);
    });
}

#[test]
fn of_two_panics_in_a_join_the_left_comes_out() {
    everywhere("of_two_panics_in_a_join_the_left_comes_out", |stage| {
        for _ in 0..10 {
            assert_eq!(caught(|| stage.pool.join(stage.panics(1), stage.panics(2))), 1);
        }
        stage.assert_ran(20);
    });
}

#[test]
fn a_panic_in_a_stolen_right_half_comes_out() {
    everywhere("a_panic_in_a_stolen_right_half_comes_out", |stage| {
        if stage.workers == 1 {
            return stage.works()();
        }
        for (left_panics, right_panics) in [(true, false), (false, true), (true, true)] {
            let stolen = AtomicBool::new(false);
            let half = |panics, name| {
                let (work, panic) = (stage.works(), stage.panics(name));
                move || if panics { panic() } else { work() }
            };
            let (left, right) = (half(left_panics, 1), half(right_panics, 2));
            let (stolen, left_ended) = (&stolen, &AtomicBool::new(false));
            // If the left half panics at once, the stolen right half outlives it.
            let outlive = left_panics;
            let left = move || {
                let ended = SetOnDrop(left_ended);
                spin_until(stolen);
                left();
                drop(ended);
            };
            let right = move || {
                stolen.store(true, Ordering::Release);
                if outlive {
                    spin_until(left_ended);
                }
                right();
            };
            assert_eq!(caught(|| stage.pool.join(left, right)), if left_panics { 1 } else { 2 });
        }
        stage.assert_ran(6);
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn nested_joins_run_every_leaf_and_the_leftmost_panic_wins() {
    const LEAVES: usize = 64;
    fn halve(stage: &Stage<'_>, leaves: std::ops::Range<usize>, panics: &dyn Fn(usize) -> bool) {
        if leaves.len() == 1 {
            return if panics(leaves.start) { stage.panics(leaves.start)() } else { stage.works()() };
        }
        let middle = leaves.start + leaves.len() / 2;
        // The answers are computed here, because the trait object is not `Sync` and cannot be used in both halves.
        let answers: Vec<bool> = leaves.clone().map(panics).collect();
        let (start, answer) = (leaves.start, |leaf: usize, start: usize| answers[leaf - start]);
        let half = |leaves| halve(stage, leaves, &|leaf| answer(leaf, start));
        comity::join(|| half(start..middle), || half(middle..leaves.end));
    }
    everywhere("nested_joins_run_every_leaf_and_the_leftmost_panic_wins", |stage| {
        for (round, first) in [0, 1, 31, 32, 50, 63].into_iter().enumerate() {
            let panics = |leaf: usize| leaf >= first && (leaf - first).is_multiple_of(7);
            assert_eq!(caught(|| stage.pool.install(|| halve(stage, 0..LEAVES, &panics))), first);
            stage.assert_ran((round + 1) * LEAVES);
        }
    });
}

#[test]
fn a_panic_in_the_body_of_a_scope_comes_out() {
    everywhere("a_panic_in_the_body_of_a_scope_comes_out", |stage| {
        let name = caught(|| {
            stage.pool.scope(|scope| {
                for _ in 0..20 {
                    let work = stage.works();
                    scope.spawn(|_| work());
                }
                stage.panics(7)();
            })
        });
        assert_eq!(name, 7);
        stage.assert_ran(21);
    });
}

#[test]
fn a_panic_in_a_task_of_a_scope_comes_out_once_the_others_have_ended() {
    everywhere("a_panic_in_a_task_of_a_scope_comes_out_once_the_others_have_ended", |stage| {
        let name = caught(|| {
            stage.pool.scope(|scope| {
                for nth in 0..20 {
                    let (work, panic) = (stage.works(), stage.panics(nth));
                    scope.spawn(move |scope| {
                        let child = stage.works();
                        scope.spawn(|_| child());
                        if nth == 11 { panic() } else { work() }
                    });
                }
                stage.census.item()
            })
        });
        assert_eq!(name, 11);
        stage.assert_ran(40);
    });
}

/// Checks that the scope resumes the first panic. One worker runs the tasks one after the other. With two workers,
/// the body keeps one worker, so the other worker runs both tasks in order.
#[test]
fn of_several_panics_in_a_scope_the_first_comes_out() {
    everywhere("of_several_panics_in_a_scope_the_first_comes_out", |stage| {
        let order = Mutex::new(Vec::new());
        let second_began = AtomicBool::new(false);
        let name = caught(|| {
            stage.pool.scope(|scope| {
                for nth in 0..2 {
                    let (panic, order, second_began) = (stage.panics(nth), &order, &second_began);
                    scope.spawn(move |_| {
                        let mut order = order.lock().unwrap();
                        order.push(nth);
                        second_began.store(order.len() == 2, Ordering::Release);
                        drop(order);
                        panic();
                    });
                }
                if stage.workers == 2 {
                    spin_until(&second_began);
                    stage.panics(2)();
                }
            })
        });
        let order = order.into_inner().unwrap();
        if stage.workers <= 2 {
            assert_eq!(name, order[0]);
        }
        assert!(order.contains(&name));
        stage.assert_ran(2 + usize::from(stage.workers == 2));
    });
}

/// Checks that a scope drops all panics but the first, even if a drop runs tasks that panic in the same scope.
#[test]
fn a_payload_may_use_the_pool_when_it_is_dropped() {
    struct Busybody;
    impl Drop for Busybody {
        fn drop(&mut self) {
            if comity::current_thread_index().is_some() {
                comity::broadcast(|_| ());
            }
        }
    }
    everywhere("a_payload_may_use_the_pool_when_it_is_dropped", |stage| {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            stage.pool.scope(|scope| {
                for _ in 0..4 {
                    let (work, child) = (stage.works(), stage.panics(1));
                    scope.spawn(move |scope| {
                        work();
                        scope.spawn(|_| child());
                        resume_unwind(Box::new(Busybody));
                    });
                }
                stage.panics(2)()
            })
        }));
        let payload = outcome.expect_err("it should have panicked");
        // On one worker, the body's panic is the first.
        assert!(payload.is::<Planned>() || stage.workers > 1);
        stage.assert_ran(9);
    });
}

#[test]
fn a_panic_in_install_comes_out_wherever_it_was_called() {
    everywhere("a_panic_in_install_comes_out_wherever_it_was_called", |stage| {
        let other = ThreadPoolBuilder::new().num_threads(1).policy(stage.pool.policy()).build().unwrap();
        assert_eq!(caught(|| stage.pool.install(stage.panics(1))), 1);
        assert_eq!(caught(|| stage.pool.install(|| stage.pool.install(stage.panics(2)))), 2);
        assert_eq!(caught(|| other.install(|| stage.pool.install(stage.panics(3)))), 3);
        // The panic is caught in the other pool, whose worker continues.
        assert_eq!(other.install(|| caught(|| stage.pool.install(stage.panics(4)))), 4);
        stage.assert_ran(4);
        assert_usable(&other);
        other.shutdown();
    });
}

#[test]
fn a_panic_in_a_broadcast_comes_out_of_one_worker_or_several() {
    everywhere("a_panic_in_a_broadcast_comes_out_of_one_worker_or_several", |stage| {
        let workers = stage.workers;
        let call = |panics: &(dyn Fn(usize) -> bool + Sync)| {
            stage.pool.broadcast(|context| {
                if panics(context.index()) {
                    stage.panics(context.index())()
                } else {
                    stage.works()()
                }
                stage.census.item()
            })
        };
        assert_eq!(caught(|| call(&|index| index == workers - 1)), workers - 1);
        assert_eq!(caught(|| call(&|_| true)), 0);
        assert_eq!(caught(|| call(&|index| index >= workers / 2)), workers / 2);
        assert_eq!(caught(|| stage.pool.install(|| call(&|index| index >= workers / 2))), workers / 2);
        stage.assert_ran(4 * workers);
    });
}

#[test]
fn a_panic_in_the_body_of_for_range_comes_out() {
    everywhere("a_panic_in_the_body_of_for_range_comes_out", |stage| {
        let name = caught(|| {
            stage.pool.install(|| {
                comity::for_range(0..64, 1, |part| {
                    if part.start.is_multiple_of(16) && part.start > 0 {
                        stage.panics(part.start)()
                    } else {
                        stage.works()()
                    }
                });
            });
        });
        assert_eq!(name, 16);
        stage.assert_ran(64);
        // Each panic ends only its own block, also if all blocks panic.
        let name = caught(|| {
            stage.pool.install(|| comity::for_range(0..1_000, 1, |part| stage.panics(part.start)()));
        });
        assert_eq!(name, 0);
        stage.assert_ran(64 + 1_000);
    });
}

#[test]
fn map_reduce_map_and_reduce() {
    everywhere("map_reduce_map_and_reduce", |stage| {
        // Each value of a block and each combination of two values is an item that the census counts.
        let sum = |panics: &(dyn Fn(usize) -> bool + Sync)| {
            let reduce = |_left: (usize, _), right: (usize, _)| {
                if panics(64 + right.0) {
                    panic_as_planned(64 + right.0, &stage.census)
                }
                (right.0, stage.census.item())
            };
            let map = |part: std::ops::Range<usize>| {
                if panics(part.start) {
                    stage.panics(part.start)()
                } else {
                    stage.works()()
                }
                (part.start, stage.census.item())
            };
            stage.pool.install(|| comity::map_reduce(0..64, 1, map, reduce))
        };
        assert_eq!(caught(|| sum(&|name| name < 64 && name.is_multiple_of(16) && name > 0)), 16);
        stage.assert_ran(64);
        assert_eq!(caught(|| sum(&|name| name < 64)), 0);
        stage.assert_ran(2 * 64);
        // The last block is combined once, as the right value. No other combination has this name before that.
        assert_eq!(caught(|| sum(&|name| name == 64 + 63)), 64 + 63);
        stage.assert_ran(3 * 64);
        // If several reductions panic, the resumed panic depends on the order of the combinations.
        let name = caught(|| sum(&|name| name > 64));
        assert!(name > 64, "{name}");
        stage.assert_ran(4 * 64);
        assert_eq!(sum(&|_| false).map(|(last, _)| last), Some(63));
        stage.assert_ran(5 * 64);
    });
}

#[test]
fn spawned_tasks_report_to_the_panic_handler() {
    silence_planned_panics();
    grid::under_every_policy("spawned_tasks_report_to_the_panic_handler", &[1, 2, 8], |policy, workers| {
        static RAN: AtomicUsize = AtomicUsize::new(0);
        static REPORTED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        RAN.store(0, Ordering::Relaxed);
        REPORTED.lock().unwrap().clear();
        let census = Census::default();
        let handler = |payload: Box<dyn std::any::Any + Send>| {
            REPORTED.lock().unwrap().push(payload.downcast::<Planned>().expect("as thrown").name);
        };
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy).panic_handler(handler);
        let pool = builder.build().unwrap();
        for nth in 0..30 {
            let (item, census) = (census.item(), census.clone());
            pool.spawn(move || {
                RAN.fetch_add(1, Ordering::Relaxed);
                let (child_item, child_census) = (census.item(), census.clone());
                comity::spawn(move || {
                    let _held = child_item;
                    RAN.fetch_add(1, Ordering::Relaxed);
                    if nth % 3 == 0 {
                        panic_as_planned(100 + nth, &child_census);
                    }
                });
                let _held = item;
                if nth % 5 == 0 {
                    panic_as_planned(nth, &census);
                }
            });
        }
        assert_usable(&pool);
        pool.shutdown();
        assert_eq!(RAN.load(Ordering::Relaxed), 60, "tasks that ran");
        let mut reported = REPORTED.lock().unwrap().clone();
        reported.sort_unstable();
        let children = (0..30).step_by(3).map(|nth| 100 + nth);
        assert_eq!(reported, (0..30).step_by(5).chain(children).collect::<Vec<_>>());
        census.assert_each_dropped_once();
    });
}
