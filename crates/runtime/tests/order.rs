//! Fifo scopes and spawns, scopes in place, spawned broadcasts, yields, adopted threads and threads that the program
//! creates, under every policy. The tests of stock rayon-core (`checks/rayon.sh`) check more, under one policy at a
//! time.
#![cfg(not(loom))]

#[path = "harness/grid.rs"]
mod grid;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use comity::{BuildError, ThreadPoolBuilder, Yield};
use grid::{on_every_pool, under_every_policy};

const WORKERS: &[usize] = &[1, 2, 8];

#[test]
fn one_worker_takes_the_newest_or_with_fifo_the_oldest() {
    on_every_pool("one_worker_takes_the_newest_or_with_fifo_the_oldest", &[1], |pool| {
        let order = Mutex::new(Vec::new());
        let note = |n: u32| order.lock().unwrap().push(n);
        let taken = || std::mem::take(&mut *order.lock().unwrap());
        pool.scope(|scope| (0..5).for_each(|n| scope.spawn(move |_| note(n))));
        assert_eq!(taken(), [4, 3, 2, 1, 0]);
        pool.scope_fifo(|scope| (0..5).for_each(|n| scope.spawn_fifo(move |_| note(n))));
        assert_eq!(taken(), [0, 1, 2, 3, 4]);
        pool.install(|| {
            pool.in_place_scope(|scope| (0..5).for_each(|n| scope.spawn(move |_| note(n))));
            assert_eq!(taken(), [4, 3, 2, 1, 0]);
            pool.in_place_scope_fifo(|scope| (0..5).for_each(|n| scope.spawn_fifo(move |_| note(n))));
            assert_eq!(taken(), [0, 1, 2, 3, 4]);
        });
        for fifo in [false, true] {
            let (said, heard) = channel();
            pool.install(move || {
                for n in 0..5 {
                    let said = said.clone();
                    let task = move || said.send(n).unwrap();
                    if fifo { comity::spawn_fifo(task) } else { comity::spawn(task) }
                }
            });
            let expected = if fifo { [0, 1, 2, 3, 4] } else { [4, 3, 2, 1, 0] };
            assert_eq!(heard.iter().collect::<Vec<u32>>(), expected);
        }
    });
}

#[test]
fn breadth_first_takes_the_oldest() {
    under_every_policy("breadth_first_takes_the_oldest", &[1], |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).breadth_first().build().unwrap();
        let order = Mutex::new(Vec::new());
        let order_ref = &order;
        pool.scope(|scope| (0..5).for_each(|n| scope.spawn(move |_| order_ref.lock().unwrap().push(n))));
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4]);
    });
}

/// Checks that every task runs once, wherever it was spawned, and before the scope ends.
#[test]
fn fifo_scopes_and_scopes_in_place_run_every_task_once() {
    on_every_pool("fifo_scopes_and_scopes_in_place_run_every_task_once", WORKERS, |pool| {
        let ran = AtomicUsize::new(0);
        let count = || {
            ran.fetch_add(1, Ordering::Relaxed);
        };
        pool.scope_fifo(|scope| {
            for _ in 0..100 {
                scope.spawn_fifo(|scope| (0..10).for_each(|_| scope.spawn_fifo(|_| count())));
            }
            scope.spawn_broadcast(|scope, _| scope.spawn_fifo(|_| count()));
        });
        assert_eq!(ran.swap(0, Ordering::Relaxed), 1000 + pool.current_num_threads());
        // The body runs on this thread, which is not a worker. So it may block until a task has sent a message.
        let (said, heard) = channel();
        pool.in_place_scope(|scope| {
            scope.spawn(move |_| said.send(comity::current_thread_index()).unwrap());
            assert!(heard.recv().unwrap().is_some());
            assert_eq!(comity::current_thread_index(), None);
            scope.spawn_broadcast(|scope, _| scope.spawn(|_| count()));
        });
        assert_eq!(ran.swap(0, Ordering::Relaxed), pool.current_num_threads());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            pool.in_place_scope_fifo(|scope| {
                (0..100).for_each(|_| scope.spawn_fifo(|_| count()));
                scope.spawn_broadcast(|_, context| assert_ne!(context.index(), 0, "planned"));
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(ran.into_inner(), 100);
    });
}

#[test]
fn a_spawned_broadcast_reaches_every_worker_before_the_pool_ends() {
    under_every_policy("a_spawned_broadcast_reaches_every_worker_before_the_pool_ends", WORKERS, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap();
        let (said, heard) = channel();
        pool.spawn_broadcast(move |context| said.send(context.index()).unwrap());
        drop(pool);
        let mut reached: Vec<usize> = heard.iter().collect();
        reached.sort_unstable();
        assert!(reached.into_iter().eq(0..workers));
    });
}

#[test]
fn a_yield_runs_what_is_queued() {
    assert_eq!((comity::yield_now(), comity::yield_local()), (None, None));
    on_every_pool("a_yield_runs_what_is_queued", &[1], |pool| {
        assert_eq!((pool.yield_now(), pool.current_thread_has_pending_tasks()), (None, None));
        pool.install(|| {
            assert_eq!((comity::yield_now(), comity::yield_local()), (Some(Yield::Idle), Some(Yield::Idle)));
            let (said, heard) = channel();
            for _ in 0..2 {
                let said = said.clone();
                comity::spawn(move || said.send(()).unwrap());
            }
            assert_eq!(pool.current_thread_has_pending_tasks(), Some(true));
            assert_eq!(pool.yield_local(), Some(Yield::Executed));
            assert_eq!(heard.try_iter().count(), 1);
            assert_eq!(comity::yield_now(), Some(Yield::Executed));
            assert_eq!((heard.try_iter().count(), comity::current_thread_has_pending_tasks()), (1, Some(false)));
        });
    });
    // A worker that only yields also runs tasks of other workers, including right halves of joins.
    on_every_pool("a_yield_takes_from_others", &[2], |pool| {
        let ran = AtomicUsize::new(0);
        pool.scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|_| {
                    let until_both = || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        while ran.load(Ordering::SeqCst) < 4 {
                            comity::yield_now();
                        }
                    };
                    comity::join(until_both, until_both);
                });
            }
        });
        assert_eq!(ran.into_inner(), 4);
    });
}

#[test]
fn a_thread_that_was_adopted_is_worker_0() {
    under_every_policy("a_thread_that_was_adopted_is_worker_0", WORKERS, |policy, workers| {
        // A separate thread, because it stays a worker.
        std::thread::spawn(move || {
            let started = std::sync::Arc::new(Mutex::new(Vec::new()));
            let handled = std::sync::Arc::clone(&started);
            let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy).use_current_thread();
            let pool = builder.start_handler(move |index| handled.lock().unwrap().push(index)).build().unwrap();
            assert_eq!((comity::current_thread_index(), pool.current_thread_index()), (Some(0), Some(0)));
            let again = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
            assert!(matches!(again, Err(BuildError::CurrentThreadInPool)));
            let ids = pool.broadcast(|context| (context.index(), std::thread::current().id()));
            assert!(ids.iter().map(|(index, _)| *index).eq(0..workers));
            assert_eq!(ids[0].1, std::thread::current().id());
            let (a, b) = comity::join(|| 1, || 2);
            assert_eq!(a + b, 3);
            let mut handled = started.lock().unwrap().clone();
            handled.sort_unstable();
            assert!(handled.into_iter().eq(1..workers), "the handlers are not for adopted threads");
        })
        .join()
        .unwrap();
    });
}

/// Drops the pool's handle while an adopted thread is in the middle of a scope. Other workers may have taken a batch
/// of the scope's tasks by then. The adopted thread stays a worker.
#[test]
#[cfg_attr(comity_portable, ignore = "it asks Linux for the processor time of its thread")]
fn an_adopted_thread_outlives_its_pool() {
    under_every_policy("an_adopted_thread_outlives_its_pool", &[2, 3], |policy, workers| {
        std::thread::spawn(move || {
            let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy).use_current_thread();
            let pool = builder.build().unwrap();
            let ran = AtomicUsize::new(0);
            comity::scope(|scope| {
                for _ in 0..64 {
                    scope.spawn(|_| {
                        std::thread::sleep(Duration::from_micros(500));
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
                std::thread::sleep(Duration::from_millis(2));
                drop(pool);
            });
            assert_eq!(ran.into_inner(), 64);

            for _ in 0..2 {
                let (said, heard) = channel();
                comity::spawn(move || said.send(()).unwrap());
                assert_eq!(heard.try_iter().count(), 0);
                assert_eq!(comity::yield_now(), Some(Yield::Executed));
                assert_eq!(heard.try_iter().count(), 1);
            }
            assert_eq!(comity::join(|| 1, || 2), (1, 2));

            // The thread waits without using its core.
            let other = ThreadPoolBuilder::new().num_threads(1).policy(policy).build().unwrap();
            let me = comity_os::cpu_clock::ThreadId::current();
            let before = me.cpu_time().unwrap();
            other.install(|| std::thread::sleep(Duration::from_millis(200)));
            let used = me.cpu_time().unwrap() - before;
            let sleeps = ["comity", "plain", "bws-busy-wakes"].contains(&policy.name());
            assert!(!sleeps || used < Duration::from_millis(50), "{policy} used {used:?}");
        })
        .join()
        .unwrap();
    });
}

#[test]
fn an_adopted_thread_may_shut_its_pool_down() {
    std::thread::spawn(|| {
        let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap();
        assert_eq!(comity::join(|| 1, || 2), (1, 2));
        pool.shutdown();
    })
    .join()
    .unwrap();
}

#[test]
fn a_pool_lives_on_threads_of_the_programs_making() {
    under_every_policy("a_pool_lives_on_threads_of_the_programs_making", WORKERS, |policy, workers| {
        std::thread::scope(|scope| {
            let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy).stack_size(1 << 20);
            let pool = builder
                .thread_name(|index| format!("made-{index}"))
                .build_with(|worker| {
                    assert_eq!(worker.name(), Some(format!("made-{}", worker.index()).as_str()));
                    assert_eq!(worker.stack_size(), Some(1 << 20));
                    scope.spawn(|| {
                        worker.run();
                        assert_eq!(comity::current_thread_index(), None, "a worker no longer");
                    });
                    Ok(())
                })
                .unwrap();
            assert_eq!(pool.broadcast(|context| context.num_threads()), vec![workers; workers]);
            drop(pool);
        });
    });
}

#[test]
fn a_thread_that_the_program_does_not_give_is_an_error() {
    let mut started = Vec::new();
    let result = ThreadPoolBuilder::new().num_threads(3).build_with(|worker| {
        if worker.index() == 2 {
            return Err(std::io::Error::other("planned"));
        }
        started.push(std::thread::spawn(|| worker.run()));
        Ok(())
    });
    assert!(matches!(result, Err(BuildError::Spawn { index: 2, num_threads: 3, .. })));
    for thread in started {
        thread.join().unwrap();
    }
}
