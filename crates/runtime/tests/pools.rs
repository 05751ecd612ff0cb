//! The life of pools: builder, handlers, drop and shutdown, and pools within pools.
#![cfg(not(loom))]

#[path = "harness/grid.rs"]
mod grid;
#[path = "harness/threads.rs"]
mod threads;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use comity::{
    BuildError, MAX_THREADS, Policy, ThreadPool, ThreadPoolBuilder, current_num_threads, current_thread_index,
};
use wait::wait_until;
use watchdog::Watchdog;

fn names(pool: &ThreadPool) -> Vec<String> {
    pool.broadcast(|_| std::thread::current().name().expect("a worker's thread has a name").to_owned())
}

#[test]
fn threads_are_named_by_their_index() {
    let _watchdog = Watchdog::start("threads_are_named_by_their_index");
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert_eq!(names(&pool), ["comity-0", "comity-1", "comity-2"]);
    let pool = ThreadPoolBuilder::new().num_threads(2).thread_name(|index| format!("mill, wheel {index}")).build();
    assert_eq!(names(&pool.unwrap()), ["mill, wheel 0", "mill, wheel 1"]);
}

/// Crashes if the stack has the default size of 2 MiB.
#[test]
fn the_stack_is_as_large_as_asked_for() {
    #[inline(never)]
    fn fill(depth: usize) -> usize {
        let frame = std::hint::black_box([depth; 1024]);
        if depth == 0 { 0 } else { 1 + fill(depth - 1) + std::hint::black_box(frame)[7] - depth }
    }
    let _watchdog = Watchdog::start("the_stack_is_as_large_as_asked_for");
    let pool = ThreadPoolBuilder::new().num_threads(2).stack_size(64 << 20).build().unwrap();
    assert_eq!(pool.broadcast(|_| fill(4000)), [4000, 4000], "32 MiB of frames");
}

#[test]
fn start_and_exit_handlers_are_called_once_per_worker_first_and_last() {
    const TEST: &str = "start_and_exit_handlers_are_called_once_per_worker_first_and_last";
    grid::under_every_policy(TEST, &[1, 2, 8], |policy, workers| {
        let log: Arc<Vec<Mutex<Vec<&str>>>> = Arc::new((0..workers).map(|_| Mutex::default()).collect());
        let writes = |event: &'static str| {
            let log = Arc::clone(&log);
            move |index: usize| {
                assert_eq!(current_thread_index(), Some(index));
                log[index].lock().unwrap().push(event);
            }
        };
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = builder.start_handler(writes("start")).exit_handler(writes("exit")).build().unwrap();
        let task = writes("task");
        pool.broadcast(|context| task(context.index()));
        pool.shutdown();
        for (index, events) in log.iter().enumerate() {
            assert_eq!(*events.lock().unwrap(), ["start", "task", "exit"], "worker {index}");
        }
    });
}

#[test]
fn too_many_workers_are_refused() {
    let error = ThreadPoolBuilder::new().num_threads(MAX_THREADS + 1).build().unwrap_err();
    assert!(matches!(error, BuildError::TooManyThreads(65_536)), "{error:?}");
    assert_eq!(error.to_string(), "a pool cannot have 65536 workers. Choose 1 to 65535");
    let error = ThreadPoolBuilder::new().num_threads(usize::MAX).build().unwrap_err();
    assert!(matches!(error, BuildError::TooManyThreads(usize::MAX)), "{error:?}");
}

#[test]
fn a_thread_that_the_system_does_not_give_is_an_error() {
    let _watchdog = Watchdog::start("a_thread_that_the_system_does_not_give_is_an_error");
    let error = ThreadPoolBuilder::new().num_threads(3).stack_size(1 << 60).build().unwrap_err();
    assert!(matches!(error, BuildError::Spawn { index: 0, num_threads: 3, .. }), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
    assert!(error.to_string().starts_with("could not start the thread of worker 0 of 3: "), "{error}");
}

#[test]
fn a_thread_name_that_panics_leaves_no_thread_behind() {
    let _watchdog = Watchdog::start("a_thread_name_that_panics_leaves_no_thread_behind");
    // The handler owns a reference to the token, and every thread of the pool keeps the handler alive.
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let name = |index| if index == 3 { panic!("no name for worker 3") } else { format!("unnamed-{index}") };
    let builder = ThreadPoolBuilder::new().num_threads(4).thread_name(name).start_handler(move |_| {
        assert!(Arc::strong_count(&held) > 1);
    });
    assert!(catch_unwind(AssertUnwindSafe(|| builder.build())).is_err());
    wait_until("the workers that have started end", || Arc::strong_count(&token) == 1);
}

#[test]
fn drop_ends_all_threads() {
    grid::under_every_policy("drop_ends_all_threads", &[1, 2, 8], |policy, workers| {
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = builder.thread_name(|index| format!("dropped-{index}")).build().unwrap();
        assert_eq!(pool.broadcast(|context| context.index()).len(), workers);
        assert_eq!(threads::named("dropped-").len(), workers);
        drop(pool);
        wait_until("the threads of a dropped pool end", || threads::named("dropped-").is_empty());
    });
}

/// Spawns tasks that spawn further tasks. The caller drops the pool's handle meanwhile.
fn spawn_a_tree(spawn: &dyn Fn(Box<dyn FnOnce() + Send>), ran: &Arc<AtomicUsize>) {
    for _ in 0..20 {
        let ran = Arc::clone(ran);
        spawn(Box::new(move || {
            for _ in 0..10 {
                let ran = Arc::clone(&ran);
                comity::spawn(move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            ran.fetch_add(1, Ordering::Relaxed);
        }));
    }
}

const TASKS_OF_A_TREE: usize = 220;

#[test]
fn shutdown_waits_for_spawned_tasks_and_exit_handlers() {
    const TEST: &str = "shutdown_waits_for_spawned_tasks_and_exit_handlers";
    grid::under_every_policy(TEST, &[1, 2, 8], |policy, workers| {
        let (ran, exited) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let exits = Arc::clone(&exited);
        let on_exit = move |_| {
            exits.fetch_add(1, Ordering::Relaxed);
        };
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = builder.exit_handler(on_exit).build().unwrap();
        spawn_a_tree(&|task| pool.spawn(task), &ran);
        pool.shutdown();
        assert_eq!(ran.load(Ordering::Relaxed), TASKS_OF_A_TREE);
        assert_eq!(exited.load(Ordering::Relaxed), workers);
    });
}

#[test]
fn tasks_spawned_before_the_drop_all_run() {
    grid::under_every_policy("tasks_spawned_before_the_drop_all_run", &[1, 2, 8], |policy, workers| {
        let ran = Arc::new(AtomicUsize::new(0));
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = builder.thread_name(|index| format!("outlives-{index}")).build().unwrap();
        pool.broadcast(|_| ());
        spawn_a_tree(&|task| pool.spawn(task), &ran);
        drop(pool);
        wait_until("spawned tasks run after the drop", || ran.load(Ordering::Relaxed) == TASKS_OF_A_TREE);
        wait_until("the threads of a dropped pool end", || threads::named("outlives-").is_empty());
    });
}

#[test]
fn a_pool_dropped_last_by_its_own_worker_ends() {
    grid::under_every_policy("a_pool_dropped_last_by_its_own_worker_ends", &[1, 2, 8], |policy, workers| {
        let ran = Arc::new(AtomicUsize::new(0));
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = Arc::new(builder.thread_name(|index| format!("inner-{index}")).build().unwrap());
        pool.broadcast(|_| ());
        let (go, gate) = channel();
        let (inner, ran_inner) = (Arc::clone(&pool), Arc::clone(&ran));
        pool.spawn(move || {
            gate.recv().expect("the outer handle is dropped first");
            let inner = Arc::into_inner(inner).expect("the outer handle is gone");
            spawn_a_tree(&|task| inner.spawn(task), &ran_inner);
            assert!(inner.current_thread_index().is_some());
            drop(inner);
            // A pool whose handle was dropped still runs the joins of its task.
            let (a, b) = comity::join(|| 20, || 22);
            assert_eq!((a + b, comity::broadcast(|_| 1).len()), (42, current_num_threads()));
            spawn_a_tree(&|task| comity::spawn(task), &ran_inner);
        });
        drop(pool);
        go.send(()).unwrap();
        wait_until("the threads of a pool dropped by its worker end", || threads::named("inner-").is_empty());
        assert_eq!(ran.load(Ordering::Relaxed), 2 * TASKS_OF_A_TREE);
    });
}

#[test]
fn a_worker_cannot_shut_its_own_pool_down() {
    let _watchdog = Watchdog::start("a_worker_cannot_shut_its_own_pool_down");
    let pool = ThreadPoolBuilder::new().num_threads(2).thread_name(|index| format!("stuck-{index}")).build().unwrap();
    let pool = Arc::new(pool);
    pool.broadcast(|_| ());
    let (inner, (sender, receiver), (go, gate)) = (Arc::clone(&pool), channel(), channel());
    pool.spawn(move || {
        gate.recv().expect("the outer handle is dropped first");
        let inner = Arc::into_inner(inner).expect("the outer handle is gone");
        let outcome = catch_unwind(AssertUnwindSafe(|| inner.shutdown()));
        sender.send(outcome.unwrap_err().downcast::<&str>().map(|sentence| *sentence)).unwrap();
    });
    drop(pool);
    go.send(()).unwrap();
    let sentence = receiver.recv().unwrap().unwrap();
    assert_eq!(sentence, "a worker cannot shut down its own pool. Call `shutdown` on another thread");
    wait_until("the pool ends all the same", || threads::named("stuck-").is_empty());
}

/// Installs each half of each level into the other pool, whose workers may wait for tasks in this pool.
fn descend(here: &ThreadPool, there: &ThreadPool, depth: u32) -> u64 {
    assert!(here.current_thread_index().is_some() && there.current_thread_index().is_none());
    if depth == 0 {
        return 1;
    }
    let (a, b) = comity::join(
        || there.install(|| descend(there, here, depth - 1)),
        || there.install(|| descend(there, here, depth - 1)),
    );
    a + b
}

#[test]
fn pools_that_install_into_each_other_do_not_deadlock() {
    let watchdog = Watchdog::start("pools_that_install_into_each_other_do_not_deadlock");
    let policies: Vec<Policy> = Policy::all().collect();
    for (nth, policy) in policies.iter().enumerate() {
        // The policy is combined with itself, and with the next policy of the catalog.
        for other in [*policy, policies[(nth + 1) % policies.len()]] {
            for (workers, others) in [(1, 1), (2, 1), (2, 3)] {
                watchdog.step(format!("{policy} with {workers} and {other} with {others} workers"));
                let one = ThreadPoolBuilder::new().num_threads(workers).policy(*policy).build().unwrap();
                let two = ThreadPoolBuilder::new().num_threads(others).policy(other).build().unwrap();
                std::thread::scope(|threads| {
                    threads.spawn(|| assert_eq!(one.install(|| descend(&one, &two, 8)), 256));
                    threads.spawn(|| assert_eq!(two.install(|| descend(&two, &one, 8)), 256));
                });
                one.shutdown();
                two.shutdown();
            }
        }
    }
}

#[test]
fn the_innermost_pool_is_the_current_one() {
    let _watchdog = Watchdog::start("the_innermost_pool_is_the_current_one");
    let pool = |workers| ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    let (outer, inner) = (pool(2), pool(5));
    assert_eq!(current_thread_index(), None);
    assert_eq!((outer.current_thread_index(), outer.current_num_threads()), (None, 2));
    outer.install(|| {
        assert_eq!(current_num_threads(), 2);
        let index = current_thread_index().expect("a worker has an index");
        assert!(index < 2);
        assert_eq!(inner.current_thread_index(), None);
        inner.install(|| {
            assert_eq!(current_num_threads(), 5);
            assert_eq!(outer.current_thread_index(), None);
            assert_eq!(inner.current_thread_index(), current_thread_index());
            assert!(current_thread_index().is_some_and(|index| index < 5));
        });
        assert_eq!((current_thread_index(), outer.current_thread_index()), (Some(index), Some(index)));
    });
    assert_eq!(outer.broadcast(|_| current_thread_index()), [Some(0), Some(1)]);
}

#[test]
fn a_pool_is_moved_and_used_by_many_threads() {
    grid::on_every_pool("a_pool_is_moved_and_used_by_many_threads", &[1, 3], |pool| {
        let done = AtomicUsize::new(0);
        let quit = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for nth in 0..50 {
                        assert_eq!(pool.install(|| nth + 1), nth + 1);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    quit.store(true, Ordering::Relaxed);
                });
            }
        });
        assert!(quit.load(Ordering::Relaxed));
        assert_eq!(done.load(Ordering::Relaxed), 200);
    });
}
