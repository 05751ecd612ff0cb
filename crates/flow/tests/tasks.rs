//! Tests of futures as tasks, under every policy: results, panics, cancellation, wake-ups from every thread, and
//! concurrent joins.
#![cfg(not(loom))]

#[path = "../../runtime/tests/harness/fib.rs"]
mod fib;
mod harness;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{block_on, spawn, spawn_in};
use fib::fib;
use futures::future::join_all;
use futures::{FutureExt, SinkExt, StreamExt};
use harness::{Alive, PATIENCE, eventually};

fn pool(workers: usize, policy: Policy) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().unwrap()
}

/// Runs `test` with 1, 2 and 4 workers, under every policy and every value of its parameter `place`.
fn everywhere(test: impl Fn(&ThreadPool, &str)) {
    for row in comity_policies() {
        for workers in [1, 2, 4] {
            let pool = pool(workers, row.parse().unwrap());
            test(&pool, &format!("{row} with {workers} workers"));
            pool.shutdown();
        }
    }
}

fn comity_policies() -> Vec<String> {
    let names = ["comity", "plain", "abp", "bws", "bws-busy-wakes", "wsgi", "dws", "a-steal", "ws-last"];
    let places = ["current", "last", "last-if-up"];
    names.iter().flat_map(|name| places.map(|place| format!("{name}:place={place}"))).collect()
}

#[test]
fn results_come_back_from_tasks_that_wait_for_tasks() {
    fn sum(from: u64, to: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        async move {
            if to - from < 4 {
                return (from..to).sum();
            }
            let middle = from.midpoint(to);
            let (left, right) = (spawn(sum(from, middle)), spawn(sum(middle, to)));
            left.await + right.await
        }
        .boxed()
    }
    everywhere(|pool, name| assert_eq!(block_on(spawn_in(pool, sum(0, 1000))), 499_500, "{name}"));
}

/// The left half of each join waits for a message of its right half. On one worker, only the waiting worker can run
/// the right half.
#[test]
fn waits_nest_deeper_than_a_worker_lays_jobs_on_its_stack() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let (sender, receiver) = futures::channel::oneshot::channel();
        let wait = || block_on(receiver).unwrap();
        let (levels, ()) = comity::join(wait, move || sender.send(nest(depth - 1) + 1).unwrap());
        levels
    }
    for policy in Policy::all() {
        for workers in [1, 2, 4] {
            let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).stack_size(256 << 20);
            let pool = pool.build().unwrap();
            let (ended, end) = mpsc::channel();
            thread::spawn(move || {
                for depth in [60, 64, 65, 200, 1000, 5000] {
                    assert_eq!(pool.install(|| nest(depth)), depth);
                }
                pool.shutdown();
                ended.send(()).unwrap();
            });
            assert_eq!(end.recv_timeout(PATIENCE), Ok(()), "{policy} with {workers} workers");
        }
    }
}

#[test]
fn tasks_join_and_joins_run_beside_tasks() {
    everywhere(|pool, name| {
        let tasks: Vec<_> = (0..20)
            .map(|nth| {
                spawn_in(pool, async move {
                    let (mut sender, mut receiver) = futures::channel::mpsc::channel(1);
                    let inner = spawn(async move { sender.send(fib(10 + nth % 5)).await.unwrap() });
                    let (left, right) = comity::join(|| fib(12), || fib(11));
                    inner.await;
                    left + right + receiver.next().await.unwrap()
                })
            })
            .collect();
        let outside = pool.install(|| fib(15));
        let sums = block_on(join_all(tasks));
        let expected: Vec<u64> = (0..20).map(|nth| 144 + 89 + [55, 89, 144, 233, 377][nth % 5]).collect();
        assert_eq!((outside, sums), (610, expected), "{name}");
    });
}

/// Tests that a job from outside of the pool runs, including its `join`, while endless tasks keep every worker busy.
#[test]
fn neither_a_join_nor_another_task_is_starved_by_tasks() {
    for place in ["current", "last", "last-if-up"] {
        for workers in [1, 2] {
            let pool = pool(workers, format!("comity:place={place}").parse().unwrap());
            let stop = Arc::new(AtomicBool::new(false));
            // Two tasks of a pair wake each other forever, so the newest task of a worker always belongs to a pair.
            let mut pairs = Vec::new();
            for _ in 0..2 * workers {
                let (to_left, from_right) = async_channel::bounded::<()>(1);
                let (to_right, from_left) = async_channel::bounded::<()>(1);
                for (sender, receiver) in [(to_left, from_left), (to_right, from_right)] {
                    let stop = Arc::clone(&stop);
                    pairs.push(spawn_in(&pool, async move {
                        while !stop.load(Ordering::Relaxed) {
                            if sender.send(()).await.is_err() || receiver.recv().await.is_err() {
                                break;
                            }
                        }
                    }));
                }
            }
            let (done, installed) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| done.send(pool.install(|| comity::join(|| 1, || 2))).unwrap());
                assert_eq!(installed.recv_timeout(PATIENCE), Ok((1, 2)), "place={place}, {workers} workers");
            });
            // Test new tasks, tasks that a thread outside of any pool wakes, and tasks that yield.
            for way in 0..3 {
                let (done, ran) = mpsc::channel();
                let task = async move {
                    match way {
                        0 => {}
                        1 => drop(async_io::Timer::after(Duration::from_millis(1)).await),
                        _ => give_way().await,
                    }
                    done.send(()).unwrap();
                };
                spawn_in(&pool, task).detach();
                assert_eq!(ran.recv_timeout(PATIENCE), Ok(()), "way {way}, place={place}, {workers} workers");
            }
            stop.store(true, Ordering::Relaxed);
            drop(pairs);
            pool.shutdown();
        }
    }
}

/// Tests that another worker takes a task whose last worker runs a long job, although all other workers always have
/// tasks of their own.
#[test]
fn a_task_does_not_wait_for_a_last_worker_that_is_busy_for_long() {
    let pool = pool(2, "ws-last".parse().unwrap());
    let others = Arc::new(AtomicUsize::new(0));
    let polls = Arc::clone(&others);
    let (wake, woken) = async_channel::bounded::<()>(1);
    let (ready, is_ready) = mpsc::channel();
    let (go_on, long) = mpsc::channel::<()>();
    let (done, went_on) = mpsc::channel();
    // The task first runs and waits on the worker `last`. This worker will run the long job.
    spawn_in(&pool, async move {
        let wait = spawn(async move {
            ready.send(comity::current_thread_index().unwrap()).unwrap();
            woken.recv().await.unwrap();
            done.send((comity::current_thread_index().unwrap(), polls.load(Ordering::Relaxed))).unwrap();
        });
        wait.detach();
    })
    .detach();
    let last = is_ready.recv_timeout(PATIENCE).unwrap();
    // Run a job on each worker. Only the job on the worker `last` is long.
    let (began, beginnings) = mpsc::channel();
    let long = Arc::new(Mutex::new(long));
    pool.spawn_broadcast(move |context| {
        began.send(()).unwrap();
        if context.index() == last {
            let _ = long.lock().unwrap().recv();
        }
    });
    beginnings.recv_timeout(PATIENCE).unwrap();
    beginnings.recv_timeout(PATIENCE).unwrap();
    // Keep the other worker busy: a task yields again and again.
    let stop = Arc::new(AtomicBool::new(false));
    let endless = {
        let (stop, polls) = (Arc::clone(&stop), Arc::clone(&others));
        spawn_in(&pool, async move {
            while !stop.load(Ordering::Relaxed) {
                polls.fetch_add(1, Ordering::Relaxed);
                give_way().await;
            }
        })
    };
    let waker = spawn_in(&pool, async move {
        let before = others.load(Ordering::Relaxed);
        wake.send(()).await.unwrap();
        before
    });
    let went_on = went_on.recv_timeout(PATIENCE);
    let (on, polls) = went_on.expect("the task is taken from where its last worker never comes to it");
    assert_ne!(on, last);
    stop.store(true, Ordering::Relaxed);
    go_on.send(()).unwrap();
    block_on(async {
        endless.await;
        let waited = polls - waker.await;
        println!("it was taken after {waited} tasks of the other worker");
        // After each 4 * 61 jobs, a worker checks the queue of one other worker, in turn. It takes the task at the
        // second check of the same worker.
        assert!(waited <= 4 * 61 * 4, "{waited}");
    });
    pool.shutdown();
}

async fn give_way() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_panic_goes_on_where_the_task_is_awaited() {
    everywhere(|pool, name| {
        let task = spawn_in(pool, async { panic!("lost its way") });
        let outcome = catch_unwind(AssertUnwindSafe(|| block_on(task)));
        let payload = outcome.expect_err("it panicked");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"lost its way"), "{name}");
    });
}

#[test]
fn a_panic_that_no_task_awaits_goes_to_the_pools_handler() {
    let (panicked, panics) = mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .panic_handler(move |payload| panicked.send(*payload.downcast::<&str>().unwrap()).unwrap())
        .build()
        .unwrap();
    spawn_in(&pool, async { panic!("detached") }).detach();
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("detached"));
    // Drop a handle after the panic.
    let task = spawn_in(&pool, async { panic!("ended before") });
    eventually("it has ended", || task.is_finished());
    drop(task);
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("ended before"));
    // Drop a future that panics in its destructor.
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let sore = PanicsWhenDropped;
    drop(spawn_in(&pool, async move {
        std::future::pending::<()>().await;
        drop(sore);
    }));
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("dropped"));
    pool.shutdown();
}

#[test]
fn a_dropped_handle_cancels_and_a_detached_one_does_not() {
    everywhere(|pool, name| {
        let alive = Arc::new(AtomicUsize::new(0));
        let waits = |guard: Alive| async move {
            std::future::pending::<()>().await;
            drop(guard);
        };
        let waiting: Vec<_> = (0..10).map(|_| spawn_in(pool, waits(Alive::new(&alive)))).collect();
        drop(waiting);
        eventually(&format!("all futures are dropped under {name}"), || alive.load(Ordering::SeqCst) == 0);

        let task = spawn_in(pool, waits(Alive::new(&alive)));
        assert_eq!(block_on(task.cancel()), None, "{name}");
        assert_eq!(alive.load(Ordering::SeqCst), 0, "{name}: its future is dropped before `cancel` is ready");

        let task = spawn_in(pool, async { 7 });
        eventually("it has ended", || task.is_finished());
        assert_eq!(block_on(task.cancel()), Some(7), "{name}");

        let (done, ran) = mpsc::channel();
        spawn_in(pool, async move {
            async_io::Timer::after(Duration::from_millis(1)).await;
            done.send(()).unwrap();
        })
        .detach();
        assert_eq!(ran.recv_timeout(PATIENCE), Ok(()), "{name}");
    });
}

/// A future that sends its waker away at each poll, and is ready at the poll with number `last`.
struct GivesAway {
    polls: usize,
    last: usize,
    wakers: mpsc::Sender<Waker>,
}

impl Future for GivesAway {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        self.polls += 1;
        if self.polls == self.last {
            return Poll::Ready(self.polls);
        }
        self.wakers.send(context.waker().clone()).unwrap();
        Poll::Pending
    }
}

#[test]
fn wakers_work_from_any_thread_after_the_end_and_twice() {
    everywhere(|pool, name| {
        let (wakers, given) = mpsc::channel();
        let task = spawn_in(pool, GivesAway { polls: 0, last: 3, wakers });
        let first = given.recv_timeout(PATIENCE).unwrap();
        assert!(given.try_recv().is_err(), "{name}: it is polled only when it is woken");
        first.wake_by_ref();
        let second = given.recv_timeout(PATIENCE).unwrap();
        // Wake from another thread that is no worker.
        thread::spawn(move || second.wake()).join().unwrap();
        assert_eq!(block_on(task), 3, "{name}");
        // Wake the task twice after its end.
        first.wake_by_ref();
        first.wake();

        // If a task is woken often, it is polled at least once more, and never by two workers at once.
        let (wakers, given) = mpsc::channel();
        let task = spawn_in(pool, GivesAway { polls: 0, last: 2, wakers });
        let waker = given.recv_timeout(PATIENCE).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| waker.wake_by_ref()));
            }
        });
        assert_eq!(block_on(task), 2, "{name}");
    });
}

#[test]
fn a_task_that_wakes_itself_is_polled_again_and_others_run_meanwhile() {
    everywhere(|pool, name| {
        let met = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let met = Arc::clone(&met);
                spawn_in(pool, async move {
                    met.fetch_add(1, Ordering::SeqCst);
                    // Each task continues only when all have begun.
                    while met.load(Ordering::SeqCst) < 3 {
                        give_way().await;
                    }
                })
            })
            .collect();
        block_on(join_all(tasks));
        assert_eq!(met.load(Ordering::SeqCst), 3, "{name}");
    });
}

/// `COMITY_ROUND_TRIPS` sets the number of round trips.
#[test]
fn no_wake_up_is_lost_in_many_round_trips() {
    let trips: usize = std::env::var("COMITY_ROUND_TRIPS").map_or(100_000, |trips| trips.parse().unwrap());
    let policies =
        ["comity", "comity:place=last", "comity:place=current", "ws-last", "bws:place=last", "plain", "dws:place=last"];
    let each = trips.div_ceil(policies.len() * 3);
    for policy in policies {
        for workers in [1, 2, 8] {
            let pool = pool(workers, policy.parse().unwrap());
            // Each round trip spawns a task and wakes it. When the task ends, it wakes the future of the trip.
            let trip = async move {
                for nth in 0..each {
                    let (sender, receiver) = futures::channel::oneshot::channel();
                    let task = spawn(async move { receiver.await.unwrap() + 1 });
                    if nth % 2 == 0 {
                        give_way().await;
                    }
                    sender.send(nth).unwrap();
                    assert_eq!(task.await, nth + 1);
                }
            };
            let ended = spawn_in(&pool, trip);
            let (done, in_time) = mpsc::channel();
            spawn_in(&pool, async move {
                ended.await;
                done.send(()).unwrap();
            })
            .detach();
            // PATIENCE × (1 + trips / 10^5).
            let patience = PATIENCE * (1 + each as u32 / 100_000);
            in_time
                .recv_timeout(patience)
                .unwrap_or_else(|_| panic!("a wake-up was lost under {policy}, {workers} workers"));
            pool.shutdown();
        }
    }
}

#[test]
fn timers_sockets_and_channels_of_other_crates_work_unchanged() {
    use async_io::{Async, Timer};
    use futures::{AsyncReadExt, AsyncWriteExt};
    use std::net::{TcpListener, TcpStream};

    let pool = pool(2, Policy::default());
    let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).unwrap();
    let address = listener.get_ref().local_addr().unwrap();
    let server = spawn_in(&pool, async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    });
    let client = spawn_in(&pool, async move {
        let mut stream = Async::<TcpStream>::connect(address).await.unwrap();
        Timer::after(Duration::from_millis(5)).await;
        stream.write_all(b"over the wire").await.unwrap();
    });
    let (sender, receiver) = async_channel::bounded(2);
    let numbers = spawn_in(&pool, async move {
        for number in 0..100 {
            sender.send(number).await.unwrap();
        }
    });
    let sum = spawn_in(&pool, async move { receiver.fold(0, |sum, number| async move { sum + number }).await });
    let all = block_on(async { futures::join!(server, client, numbers, sum) });
    assert_eq!(all, ("over the wire".to_owned(), (), (), 4950));
    pool.shutdown();
}

#[test]
fn a_worker_that_blocks_on_a_future_serves_its_pool() {
    let pool = pool(1, Policy::default());
    let answer = pool.install(|| block_on(async { spawn(async { 40 }).await + spawn(async { 2 }).await }));
    assert_eq!(answer, 42);
    pool.shutdown();
}

/// Tests that a pool runs until its tasks have ended, including a task that waits.
#[test]
fn a_pool_ends_after_its_tasks() {
    let pool = pool(2, Policy::default());
    let (go_on, waits) = async_channel::bounded::<()>(1);
    let (done, ran) = mpsc::channel();
    spawn_in(&pool, async move {
        waits.recv().await.unwrap();
        done.send(()).unwrap();
    })
    .detach();
    let ending = thread::spawn(move || pool.shutdown());
    thread::sleep(Duration::from_millis(20));
    assert!(!ending.is_finished());
    go_on.send_blocking(()).unwrap();
    assert_eq!(ran.recv_timeout(PATIENCE), Ok(()));
    ending.join().unwrap();
}

/// Tests that a worker has a limited number of tasks on its stack, if many tasks block on futures.
#[test]
fn tasks_that_block_their_worker_do_not_pile_up() {
    let pool = pool(1, Policy::default());
    let (depth, deepest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (done, ended) = mpsc::channel();
    let tasks = 1000;
    pool.install(|| {
        for _ in 0..tasks {
            let (depth, deepest, done) = (Arc::clone(&depth), Arc::clone(&deepest), done.clone());
            comity::spawn(move || {
                deepest.fetch_max(depth.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                block_on(async_io::Timer::after(Duration::from_millis(2)));
                depth.fetch_sub(1, Ordering::SeqCst);
                done.send(()).unwrap();
            });
        }
    });
    (0..tasks).for_each(|_| ended.recv_timeout(PATIENCE).unwrap());
    let deepest = deepest.load(Ordering::SeqCst);
    // The limit is 64, plus one for each millisecond that the worker waited without effect.
    assert!(deepest < tasks / 2, "{deepest} at once");
    pool.shutdown();
}

/// Tests a detached task whose last waker is dropped. The task's future is then dropped too, and panics.
#[test]
fn a_task_without_a_waker_may_panic_when_it_is_dropped() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("never woken");
        }
    }
    let (panicked, panics) = mpsc::channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .panic_handler(move |payload| panicked.send(*payload.downcast::<&str>().unwrap()).unwrap())
        .build()
        .unwrap();
    let (wake, woken) = futures::channel::oneshot::channel::<()>();
    spawn_in(&pool, async move {
        let _sore = PanicsWhenDropped;
        let _ = woken.await;
        std::future::pending::<()>().await;
    })
    .detach();
    wake.send(()).unwrap();
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("never woken"));
    // The task no longer keeps the pool running.
    pool.shutdown();
}
