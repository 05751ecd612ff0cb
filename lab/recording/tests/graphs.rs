//! Tests of the graph that each way of forking makes. A recorded run must return the same results as a pool with one
//! thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use comity_graph::{About, Graph, Step, TaskId};
use comity_recording::{
    Costs, ThreadPool, ThreadPoolBuilder, broadcast, current_num_threads, current_thread_index, in_place_scope, join,
    join_context, record, scope, scope_fifo, spawn, yield_now,
};

/// Runs a join that returns nothing.
fn both(a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
    let ((), ()) = join(a, b);
}

/// Records `body` and keeps every task. Returns its result and its graph.
fn recorded<R>(body: impl FnOnce() -> R) -> (R, Graph) {
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let (result, graph) = record(0, nothing, About::default(), body);
    (result, graph.unwrap())
}

/// Draws a graph: a dot for each stretch, parentheses around each fork, and a bar between two children of a fork.
fn shape(graph: &Graph) -> String {
    fn of(graph: &Graph, task: TaskId, text: &mut String) {
        for step in &graph.tasks()[task as usize].0 {
            match step {
                Step::Run(_) => text.push('.'),
                Step::Fork(children) => {
                    text.push('(');
                    for (nth, child) in children.iter().enumerate() {
                        text.push_str(if nth == 0 { "" } else { "|" });
                        of(graph, *child, text);
                    }
                    text.push(')');
                }
                Step::Repeat { task, times } => (0..*times).for_each(|_| of(graph, *task, text)),
            }
        }
    }
    let mut text = String::new();
    of(graph, graph.root(), &mut text);
    // Draw one dot for two stretches without a fork between them. A repetition at the start of a task causes them: the
    // task begins with an empty stretch, and so does the repeated task.
    text.replace("..", ".")
}

#[track_caller]
fn assert_shape(wanted: &str, body: impl FnOnce()) {
    let ((), graph) = recorded(body);
    assert_eq!(shape(&graph), wanted);
}

/// Builds a pool that claims to have this number of threads.
fn pool(threads: usize) -> ThreadPool {
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    builder.build_with(|worker| worker.spawn(thread::Builder::new()).map(drop)).unwrap()
}

/// Computes for `us` microseconds of processor time.
fn compute(us: u64) {
    let mut watch = comity_os::stopwatch::Stopwatch::start();
    let began = watch.now();
    while watch.now() - began < us * 1_000 {
        std::hint::spin_loop();
    }
}

#[test]
fn a_join_has_two_children() {
    assert_shape(".(.|.).", || both(|| (), || ()));
    assert_shape(".(.(.|.).|.).(.|.).", || {
        join(|| join(|| (), || ()), || ());
        both(|| (), || ());
    });
}

#[test]
fn a_scope_begins_to_fork_where_its_body_spawns() {
    assert_shape(".", || scope(|_| ()));
    assert_shape(".(.|.|.).", || {
        scope(|scope| {
            scope.spawn(|_| ());
            scope.spawn(|_| ());
        });
    });
    // The graph keeps the order of the body: work before the first spawn is before the fork of the spawned tasks.
    assert_shape(".(.|.).(.(.|.).|.).", || {
        scope(|scope| {
            both(|| (), || ());
            scope.spawn(|_| ());
            both(|| (), || ());
        });
    });
}

#[test]
fn what_spawns_in_a_scope_is_followed_by_what_it_spawns() {
    let order = Mutex::new(Vec::new());
    let note = |what| order.lock().unwrap().push(what);
    assert_shape(".(.|.|.(.|.|.).).", || {
        scope(|scope| {
            scope.spawn(|scope| {
                note(3);
                scope.spawn(|_| note(5));
                scope.spawn(|_| note(4));
            });
            scope.spawn(|_| note(2));
            note(1);
        });
    });
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4, 5]);
    order.lock().unwrap().clear();
    scope_fifo(|scope| (0..5).for_each(|nth| scope.spawn_fifo(move |_| note(nth))));
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn what_a_join_in_a_scope_spawns_comes_after_the_body() {
    assert_shape(".(.|.).(.|.).", || {
        scope(|scope| both(|| scope.spawn(|_| ()), || scope.spawn(|_| ())));
    });
}

#[test]
fn a_scope_in_place_stays_here_and_its_tasks_go_to_the_pool() {
    let pool = pool(3);
    let here = thread::current().id();
    assert_shape(".(.|.|.(.|.).).", || {
        pool.in_place_scope(|scope| {
            scope.spawn(|_| both(|| assert_eq!(current_num_threads(), 3), || ()));
            scope.spawn(|_| assert_eq!((thread::current().id() == here, current_thread_index()), (false, Some(0))));
            assert_eq!((thread::current().id(), current_thread_index()), (here, None));
        });
    });
    assert_shape(".(.|.).", || in_place_scope(|scope| scope.spawn(|_| assert!(current_thread_index().is_some()))));
}

#[test]
fn a_chain_of_spawns_is_as_deep_as_it_likes() {
    fn chain(scope: &comity_recording::Scope<'_>, left: u32) {
        if left > 0 {
            scope.spawn(move |scope| chain(scope, left - 1));
        }
    }
    let ((), graph) = recorded(|| scope(|scope| chain(scope, 200_000)));
    assert_eq!(graph.count_tasks(), 1 + 2 * 200_000);
}

#[test]
fn many_short_tasks_are_counted_and_not_kept() {
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let ((), graph) = record(100_000_000_000, nothing, About::default(), || {
        for _ in 0..2_000 {
            scope(|scope| (0..1_000).for_each(|_| scope.spawn(|_| ())));
        }
    });
    let graph = graph.unwrap();
    assert_eq!((graph.count_tasks(), graph.merged_joins()), (1, 2_000_000));
}

#[test]
fn a_run_goes_to_other_pools_and_comes_back() {
    let (one, two) = (pool(2), pool(5));
    let ((), graph) = recorded(|| {
        compute(2_000);
        one.install(|| {
            compute(2_000);
            let threads = two.install(|| {
                let (left, _) = join(
                    || {
                        compute(2_000);
                        current_num_threads()
                    },
                    || one.install(|| assert_eq!(current_num_threads(), 2)),
                );
                left
            });
            assert_eq!((threads, current_num_threads()), (5, 2));
        });
        compute(2_000);
    });
    assert_eq!(shape(&graph), ".(.|.).");
    let found = graph.measure(0);
    // The work of all four computations is in the graph.
    assert!(found.work >= 6_500_000 && found.work - found.span < 1_000_000, "{found:?}");
}

#[test]
fn what_is_quiet_stays_so_on_another_pool() {
    let (one, two) = (pool(2), pool(2));
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let ((), graph) = record(100_000_000, nothing, About::default(), || {
        one.install(|| {
            for _ in 0..600_000 {
                both(|| (), || ());
            }
            // This fork is quiet because all forks before it were short.
            both(|| two.install(|| both(|| compute(20_000), || ())), || ());
        });
    });
    let graph = graph.unwrap();
    assert_eq!((graph.count_tasks(), graph.merged_joins()), (1, 600_002));
    assert!(graph.measure(0).work > 19_000_000, "{:?}", graph.measure(0));
}

#[test]
fn a_quiet_scope_counts_as_many_joins_as_one_that_is_measured() {
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let scopes = || {
        for count in [0, 1, 5] {
            scope(|scope| {
                (0..count).for_each(|_| {
                    scope.spawn(move |scope| (0..count).for_each(|_| scope.spawn(|_| both(|| (), || ()))));
                });
            });
        }
    };
    // A fork with n children counts n − 1 joins.
    let measured = shape(&recorded(|| both(scopes, scopes)).1);
    let joins = measured.matches('|').count() as u64;
    let ((), graph) = record(100_000_000, nothing, About::default(), || {
        pool(2).install(|| {
            (0..600_000).for_each(|_| both(|| (), || ()));
            both(scopes, scopes);
        });
    });
    assert_eq!((graph.as_ref().unwrap().count_tasks(), graph.unwrap().merged_joins()), (1, 600_000 + joins));
    assert_eq!(joins, 1 + 2 * ((1 + 1 + 1) + (5 + 25 + 25)));
}

#[test]
fn a_program_divides_its_work_as_for_the_threads_that_it_asked_for() {
    let pool = pool(7);
    assert_eq!((pool.current_num_threads(), pool.current_thread_index()), (7, None));
    pool.install(|| {
        assert_eq!((current_num_threads(), current_thread_index()), (7, Some(0)));
        let (left, right) = join_context(|a| a.migrated(), |b| b.migrated());
        assert!(!left && !right);
    });
    // Called from outside of any pool, both halves move to a worker.
    assert_eq!(join_context(|a| a.migrated(), |b| b.migrated()), (true, true));
}

#[test]
fn a_broadcast_has_a_child_for_each_thread_that_the_pool_would_have() {
    let pool = pool(3);
    let (indices, graph) = recorded(|| pool.broadcast(|context| (context.index(), current_thread_index())));
    assert_eq!(indices, [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    assert_eq!(shape(&graph), ".(.|.|.).");
    let calls = Mutex::new(0);
    assert_shape(".(.|.|.|.).", || {
        pool.scope(|scope| scope.spawn_broadcast(|_, context| *calls.lock().unwrap() += context.num_threads()));
    });
    assert_eq!(*calls.lock().unwrap(), 9);
    assert_eq!(broadcast(|_| ()).len(), current_num_threads());
}

#[test]
fn a_detached_task_is_not_in_the_run_that_it_interrupts() {
    let pool = pool(2);
    let ((), graph) = recorded(|| {
        pool.install(|| {
            spawn(|| {
                both(|| (), || ());
                compute(50_000);
            });
            while yield_now() == Some(comity_recording::Yield::Executed) {}
            both(|| (), || ());
        });
    });
    assert_eq!(shape(&graph), ".(.|.).");
    assert!(graph.measure(0).work < 40_000_000, "{:?}", graph.measure(0));
}

#[test]
fn the_first_panic_comes_out_after_all_has_ended() {
    let ended = Mutex::new(Vec::new());
    let end = |what: &'static str| ended.lock().unwrap().push(what);
    let caught = |body: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
        *payload.downcast::<&str>().unwrap()
    };
    let panics = |what: &'static str| std::panic::resume_unwind(Box::new(what));
    let ((), graph) = recorded(|| {
        assert_eq!(caught(&|| both(|| panics("left"), || end("right"))), "left");
        assert_eq!(caught(&|| both(|| panics("left"), || panics("right"))), "left");
        assert_eq!(caught(&|| both(|| end("left"), || panics("right"))), "right");
        let scoped = caught(&|| {
            scope(|scope| {
                scope.spawn(|_| end("task"));
                scope.spawn(|_| panics("task"));
                panics("body");
            });
        });
        assert_eq!(scoped, "body");
        assert_eq!(
            caught(&|| drop(broadcast(|context| if context.index() == 0 {
                panics("call")
            }))),
            "call"
        );
        // The graph is still correct after panics.
        both(|| (), || ());
    });
    assert_eq!(*ended.lock().unwrap(), ["right", "left", "task"]);
    let calls = ["."; 1_024][..current_num_threads()].join("|");
    assert_eq!(shape(&graph), format!(".(.|.).(.|.).(.|.).(.|.|.).({calls}).(.|.)."));
}

#[test]
fn a_thread_that_becomes_a_worker_has_another_beside_it() {
    thread::spawn(|| {
        let builder = ThreadPoolBuilder::new().num_threads(4).use_current_thread();
        let pool = builder.build_with(|worker| worker.spawn(thread::Builder::new()).map(drop)).unwrap();
        assert_eq!((pool.current_num_threads(), current_thread_index()), (4, Some(0)));
        assert_shape(".(.|.).", || both(|| (), || ()));
        let (sender, receiver) = std::sync::mpsc::channel();
        pool.spawn(move || sender.send(current_num_threads()).unwrap());
        assert_eq!(receiver.recv(), Ok(4));
    })
    .join()
    .unwrap();
}
