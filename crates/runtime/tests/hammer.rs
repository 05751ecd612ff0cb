//! A stress test: calls every function of a pool repeatedly under every policy, and runs joins with a thief that
//! never sleeps. Most results are in plain memory, so they are right only if the runtime orders the memory accesses
//! of its workers.
//!
//! `COMITY_HAMMER_SECS` is the total time in seconds, and `COMITY_HAMMER_JOINS` the number of joins. For long runs:
//! `COMITY_HAMMER_SECS=600 COMITY_HAMMER_JOINS=1000000000 cargo test --release -p comity --test hammer`.
//!
//! `checks/tsan.sh` runs the first test under ThreadSanitizer, with `--cfg tsan`. The standard library is not
//! instrumented there, so ThreadSanitizer does not see the ordering of channels and condition variables. Therefore
//! the main thread does not use them: it polls a counter.
#![cfg(not(loom))]

#[path = "harness/quicksort.rs"]
mod quicksort;

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use comity::executor::{Resume, Runnable};
use comity::{Policy, Scope, ThreadPool, ThreadPoolBuilder, Worker, WorkerCounters};
use quicksort::quicksort;

const WORKERS: usize = 4;

/// The maximum time of one program. It is long, because it must tell a hang from a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Returns the number that an environment variable asks for.
fn asked_for(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number, not {text:?}")),
        Err(_) => default,
    }
}

fn pool(policy: Policy, workers: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts")
}

/// Waits until `condition` is true.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Two pools: each program runs in the home pool, and can call into the other pool.
struct Pools {
    home: ThreadPool,
    other: ThreadPool,
}

type Program = fn(&Pools);

const PROGRAMS: &[(&str, Program)] = &[
    ("joins without a cutoff", |_| assert_eq!(joins_of_fib(17), 2583)),
    ("joins that sort", |_| sorts()),
    ("joins that the deque grows under", |_| assert_eq!(deep(3000), 3000)),
    ("joins with long halves", |_| long_halves()),
    ("scopes", |_| scopes()),
    ("spawned tasks", |_| spawned_tasks()),
    ("work that is resumed", |_| rounds_of_a_parcel()),
    ("broadcasts", broadcasts),
    ("calls between two pools", calls_between_pools),
    ("panics", |_| panics()),
    ("short pools", short_pools),
];

#[test]
fn every_program_gives_the_right_answer_under_every_policy() {
    let secs = asked_for("COMITY_HAMMER_SECS", 4);
    let placed = ["comity:place=last", "bws:place=last"].map(|policy| policy.parse().expect("a policy"));
    let policies: Vec<Policy> = Policy::all().chain(placed).collect();
    let slice = Duration::from_secs(secs) / policies.len() as u32;
    for (nth, policy) in policies.iter().enumerate() {
        let other = pool(policies[(nth + 1) % policies.len()], 2);
        let pools = Arc::new(Pools { home: pool(*policy, WORKERS), other });
        let (began, mut runs) = (Instant::now(), 0);
        // Every program runs at least once, even on a slow machine.
        while runs < PROGRAMS.len() || began.elapsed() < slice {
            let (name, program) = PROGRAMS[runs % PROGRAMS.len()];
            run(&format!("{name} under {policy}"), &pools, program);
            runs += 1;
        }
        let Ok(pools) = Arc::try_unwrap(pools) else { panic!("a task that has ended keeps nothing") };
        let total = WorkerCounters::total(&pools.home.counters());
        println!("{policy}: {runs} programs in {:.1?}; {} steals", began.elapsed(), total.steals);
        pools.home.shutdown();
        pools.other.shutdown();
    }
}

/// Runs a program in the home pool and waits for it. A program that fails panics in a detached task, which aborts the
/// process.
fn run(what: &str, pools: &Arc<Pools>, program: Program) {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let before = DONE.load(Ordering::Relaxed);
    let at_work = Arc::clone(pools);
    pools.home.spawn(move || {
        program(&at_work);
        drop(at_work);
        DONE.fetch_add(1, Ordering::Release);
    });
    wait_until(what, || DONE.load(Ordering::Acquire) > before);
}

/// Returns the number of joins in the computation of the `n`th Fibonacci number without a cutoff, `fib(n + 1) - 1`.
fn joins_of_fib(n: u32) -> u64 {
    if n < 2 {
        return 0;
    }
    let (a, b) = comity::join(|| joins_of_fib(n - 1), || joins_of_fib(n - 2));
    a + b + 1
}

/// Returns the same number as [`joins_of_fib`], with the worker passed along.
fn joins_of_fib_on(worker: &Worker, n: u32) -> u64 {
    if n < 2 {
        return 0;
    }
    let (a, b) =
        worker.join(move |worker| joins_of_fib_on(worker, n - 1), move |worker| joins_of_fib_on(worker, n - 2));
    a + b + 1
}

fn sorts() {
    // The numbers do not repeat, and are in no order.
    let mut values: Vec<u64> = (1..=3000).map(|n| n * 7919 % 20_011).collect();
    let mut expected = values.clone();
    expected.sort_unstable();
    quicksort(&mut values);
    assert!(values == expected, "unsorted");
}

/// Runs `joins` nested joins.
fn deep(joins: u64) -> u64 {
    if joins == 0 {
        return 0;
    }
    let (inner, own) = comity::join(|| deep(joins - 1), || black_box(1));
    inner + own
}

/// Computes without a push, so that a thief that wants a private task must raid the deque.
fn work_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn long_halves() {
    fn halves(cells: &mut [u64]) {
        match cells {
            [] => {}
            [cell] => {
                work_for(Duration::from_micros(150));
                *cell += 1;
            }
            [cell, rest @ ..] => {
                let right = || {
                    work_for(Duration::from_micros(30));
                    *cell += 1;
                };
                comity::join(|| halves(rest), right);
            }
        }
    }
    let mut cells = [0; 6];
    for round in 1..=4 {
        halves(&mut cells);
        assert_eq!(cells, [round; 6]);
    }
}

fn scopes() {
    fn fill<'scope>(scope: &Scope<'scope>, from: u64, cells: &'scope mut [u64]) {
        if let [cell] = cells {
            *cell = from;
            return;
        }
        let middle = cells.len() / 2;
        let (left, right) = cells.split_at_mut(middle);
        scope.spawn(move |scope| fill(scope, from, left));
        scope.spawn(move |scope| fill(scope, from + middle as u64, right));
    }
    let mut cells = vec![0; 300];
    comity::scope(|scope| fill(scope, 1, &mut cells));
    assert!(cells.into_iter().eq(1..=300), "a cell was not filled");
}

fn spawned_tasks() {
    let (sum, left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(100)));
    for task in 0..50 {
        let (sum, left, numbers) = (Arc::clone(&sum), Arc::clone(&left), vec![task; 10]);
        comity::spawn(move || {
            let numbers: Vec<u64> = numbers.into_iter().map(|n| n + 1).collect();
            let (inner_sum, inner_left) = (Arc::clone(&sum), Arc::clone(&left));
            comity::spawn(move || {
                inner_sum.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
                inner_left.fetch_sub(1, Ordering::Release);
            });
            sum.fetch_add(1, Ordering::Relaxed);
            left.fetch_sub(1, Ordering::Release);
        });
    }
    // Other workers take the tasks: this worker does not serve its pool.
    wait_until("spawned tasks", || left.load(Ordering::Acquire) == 0);
    assert_eq!(sum.load(Ordering::Relaxed), 10 * (1..=50).sum::<u64>() + 50);
}

/// A station of a ring in which a parcel goes around. The accesses to the parcel are ordered only because each
/// station unblocks the next station.
struct Station {
    stations: Arc<OnceLock<Vec<Weak<Runnable<Station>>>>>,
    nth: usize,
    parcel: AtomicPtr<Vec<usize>>,
    left: Arc<AtomicUsize>,
}

impl Resume for Station {
    fn resume(this: &Arc<Runnable<Station>>) {
        let parcel = this.parcel.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: there is one parcel, and the previous station has stored its pointer here.
        let mut parcel = unsafe { Box::from_raw(parcel) };
        parcel.push(this.nth);
        if parcel.len() == 500 {
            let stations = this.stations.get().expect("set before the first begins").len();
            assert!(parcel.iter().enumerate().all(|(hop, nth)| *nth == hop % stations), "the parcel went astray");
            this.left.fetch_sub(1, Ordering::Release);
            return;
        }
        let stations = this.stations.get().expect("as above");
        let next = stations[parcel.len() % stations.len()].upgrade().expect("they live until the parcel is at its end");
        next.parcel.store(Box::into_raw(parcel), Ordering::Relaxed);
        next.schedule();
    }

    fn wake(&self) -> bool {
        true
    }
}

fn rounds_of_a_parcel() {
    let left = Arc::new(AtomicUsize::new(3));
    let rings: Vec<Vec<Arc<Runnable<Station>>>> = (0..3)
        .map(|_| {
            let stations = Arc::new(OnceLock::new());
            let station = |nth| Station {
                stations: Arc::clone(&stations),
                nth,
                parcel: AtomicPtr::new(std::ptr::null_mut()),
                left: Arc::clone(&left),
            };
            let ring: Vec<_> = (0..7).map(|nth| Runnable::new(station(nth))).collect();
            assert!(stations.set(ring.iter().map(Arc::downgrade).collect()).is_ok());
            ring[0].parcel.store(Box::into_raw(Box::default()), Ordering::Relaxed);
            Arc::clone(&ring[0]).schedule();
            ring
        })
        .collect();
    wait_until("work that is resumed", || left.load(Ordering::Acquire) == 0);
    drop(rings);
}

fn broadcasts(pools: &Pools) {
    let numbers: Vec<usize> = (0..WORKERS).map(|n| 100 * n).collect();
    let check = |calls: Vec<Vec<usize>>| {
        assert!(calls.into_iter().enumerate().all(|(index, call)| call == [index, numbers[index]]));
    };
    for _ in 0..3 {
        check(comity::broadcast(|context| vec![context.index(), numbers[context.index()]]));
        check(pools.other.broadcast(|context| vec![context.index(), numbers[context.index()]]));
    }
}

fn calls_between_pools(pools: &Pools) {
    for _ in 0..5 {
        let there_and_back = || {
            let there = pools.other.install(|| {
                let (a, b) = comity::join(|| pools.home.install(|| joins_of_fib(9)), || vec![joins_of_fib(9)]);
                [vec![a], b].concat()
            });
            assert_eq!(there, [54, 54]);
        };
        comity::join(there_and_back, there_and_back);
    }
}

fn panics() {
    struct Planned(Vec<u64>);
    /// Panics without the message that `panic!` prints.
    fn fail(with: u64) {
        joins_of_fib(6);
        resume_unwind(Box::new(Planned(vec![with; 3])));
    }
    fn caught<R>(what: impl FnOnce() -> R) -> Vec<u64> {
        let Err(payload) = catch_unwind(AssertUnwindSafe(what)) else { panic!("it should have panicked") };
        payload.downcast::<Planned>().expect("the planned panic").0
    }
    for _ in 0..5 {
        let mut cells = [0; 2];
        let [left, right] = &mut cells;
        let right = || comity::join(|| *right = joins_of_fib(8), || fail(1));
        assert_eq!(caught(|| comity::join(|| *left = joins_of_fib(8), right)), [1; 3]);
        assert_eq!(cells, [33, 33]);
        assert_eq!(caught(|| comity::join(|| fail(2), || joins_of_fib(8))), [2; 3]);
        assert_eq!(caught(|| comity::join(|| fail(3), || fail(4))), [3; 3]);
        let others = AtomicBool::new(false);
        let scoped = caught(|| {
            comity::scope(|scope| {
                scope.spawn(|_| fail(5));
                scope.spawn(|_| others.store(true, Ordering::Relaxed));
            });
        });
        assert_eq!(scoped, [5; 3]);
        assert!(others.into_inner(), "a task beside one that panicked has run");
    }
}

/// Runs pools that end right after their start, with and without a thread that waits for the end.
fn short_pools(pools: &Pools) {
    for round in 0..4 {
        let ran = Arc::new(AtomicUsize::new(0));
        let short = pool(pools.home.policy(), 3);
        for _ in 0..4 {
            let ran = Arc::clone(&ran);
            short.spawn(move || {
                joins_of_fib(8);
                ran.fetch_add(1, Ordering::Release);
            });
        }
        if round % 2 == 0 {
            short.shutdown()
        } else {
            drop(short)
        }
        wait_until("the tasks of a pool that ends", || ran.load(Ordering::Acquire) == 4);
    }
}

/// Uses a policy whose thieves never sleep, so that they request tasks all the time. The trees are small, so that
/// thieves steal parts of them.
#[test]
fn joins_are_right_beside_a_thief_that_steals_as_often_as_it_can() {
    let joins = asked_for("COMITY_HAMMER_JOINS", 10_000_000);
    let began = Instant::now();
    let pool = pool("abp".parse().expect("a known policy"), 2);
    let trees = [(10, 88), (14, 609), (18, 4180), (12, 232), (16, 1596)];
    let mut done = 0;
    let steals = || WorkerCounters::total(&pool.counters()).steals;
    // On a busy machine, the thief may get no core while the joins run.
    while done < joins || steals() == 0 {
        assert!(done < joins || began.elapsed() < Duration::from_secs(120), "there was no thief");
        // The number of joins of one call. The call takes a fraction of a second.
        let some = joins.saturating_sub(done).clamp(1_000_000, 5_000_000);
        done += pool.install(|| {
            comity::on_worker(|worker| {
                let mut done = 0;
                for (n, expected) in trees.into_iter().cycle() {
                    let counted = joins_of_fib_on(worker, n);
                    assert_eq!(counted, expected, "the joins of fib({n})");
                    done += counted;
                    if done >= some {
                        return done;
                    }
                }
                unreachable!("it goes on for ever")
            })
        });
    }
    println!("{done} joins in {:.1?}; {} steals", began.elapsed(), steals());
    pool.shutdown();
}
