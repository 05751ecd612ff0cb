//! Tests of Kahn process networks: equal streams on every pool, deadlocks, panics, early ends, and no leaks.
#![cfg(not(loom))]

mod harness;
#[path = "networks/random.rs"]
mod random;

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use async_io::Timer;
use comity::{ThreadPool, ThreadPoolBuilder};
use comity_flow::{Deadlock, Failure, Network, Receiver, Sender, Wait, block_on, spawn_in};
use futures::FutureExt;
use futures::future::{Either, select};
use harness::{Alive, PATIENCE, eventually};

fn pool(workers: usize, policy: &str) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(workers).policy(policy.parse().unwrap()).build().unwrap()
}

fn on_some_pools(test: impl Fn(&ThreadPool)) {
    for (workers, policy) in [(1, "comity"), (2, "comity"), (2, "plain"), (4, "ws-last"), (4, "comity")] {
        let pool = pool(workers, policy);
        test(&pool);
        pool.shutdown();
    }
}

/// Runs the network, and fails the test if the network hangs.
fn run(pool: &ThreadPool, network: Network) -> Result<(), Failure> {
    block_on(async {
        match select(pin!(network.run_in(pool)), Timer::after(PATIENCE)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => panic!("the network hangs"),
        }
    })
}

fn deadlock(pool: &ThreadPool, network: Network) -> Deadlock {
    match run(pool, network) {
        Err(Failure::Deadlocked(deadlock)) => deadlock,
        Err(failure) => panic!("{failure}"),
        Ok(()) => panic!("the network is done"),
    }
}

/// A value that takes 3 ms to drop.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(3));
    }
}

/// Adds a process that sends numbers without end.
fn count(network: &mut Network, output: Sender<u64>) {
    network.process("count", output, |mut output| async move {
        for number in 0.. {
            output.send(number).await;
        }
    });
}

/// Adds a process that reads its input to the end.
fn drain<T: Send + 'static>(network: &mut Network, name: &str, input: Receiver<T>) {
    network.process(name, input, |mut input| async move { while input.recv().await.is_some() {} });
}

/// Adds a process 'left' and a process 'right'. Each reads from the other process before it writes to it: a deadlock.
fn two_readers(network: &mut Network) {
    let (to_right, from_left) = network.channel("to right", 1);
    let (to_left, from_right) = network.channel("to left", 1);
    network.process("left", (from_right, to_right), |(mut input, mut output)| async move {
        let value: u8 = input.recv().await.unwrap();
        output.send(value).await;
    });
    network.process("right", (from_left, to_left), |(mut input, mut output)| async move {
        let value: u8 = input.recv().await.unwrap();
        output.send(value).await;
    });
}

fn two_readers_wait() -> Vec<Wait> {
    let wait = |process: &str, channel: &str, other: &str| Wait {
        process: process.into(),
        channel: channel.into(),
        full: None,
        other: other.into(),
    };
    vec![wait("left", "to left", "right"), wait("right", "to right", "left")]
}

/// Returns a network in which 'writer' sends two values to the channel 'first' and then one value to 'second', while
/// 'reader' reads 'second' before 'first'.
fn crosswise(capacity: usize) -> Network {
    let mut network = Network::new();
    let (first, first_input) = network.channel("first", capacity);
    let (second, second_input) = network.channel("second", 1);
    network.process("writer", (first, second), |(mut first, mut second)| async move {
        first.send(1).await;
        first.send(2).await;
        second.send(3).await;
    });
    network.process("reader", (first_input, second_input), |(mut first, mut second)| async move {
        assert_eq!(second.recv().await, Some(3));
        assert_eq!((first.recv().await, first.recv().await), (Some(1), Some(2)));
    });
    network
}

#[test]
fn processes_that_all_read_are_a_deadlock() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        two_readers(&mut network);
        let deadlock = deadlock(pool, network);
        assert_eq!(deadlock.cycle(), two_readers_wait());
        assert!(!deadlock.is_artificial());
        assert_eq!(
            Failure::Deadlocked(deadlock).to_string(),
            "deadlock: 'left' waits for 'right' to write to the empty channel 'to left'; \
             'right' waits for 'left' to write to the empty channel 'to right'"
        );
    });
}

#[test]
fn a_channel_that_is_too_small_is_named() {
    on_some_pools(|pool| {
        let deadlock = deadlock(pool, crosswise(1));
        assert!(deadlock.is_artificial());
        let full: Vec<_> = deadlock.cycle().iter().filter_map(|wait| Some((&wait.channel[..], wait.full?))).collect();
        assert_eq!(full, [("first", 1)]);
        assert_eq!(
            deadlock.to_string(),
            "deadlock: 'writer' waits for 'reader' to read from the channel 'first', which is full with 1; \
             'reader' waits for 'writer' to write to the empty channel 'second'. \
             It is artificial: give 'first' a larger capacity"
        );
        run(pool, crosswise(2)).unwrap();
    });
}

#[test]
fn a_process_that_waits_for_itself_is_a_deadlock() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        let (output, input) = network.channel::<u8>("loop", 1);
        network.process("alone", (output, input), |(output, mut input)| async move {
            input.recv().await;
            drop(output);
        });
        assert_eq!(
            deadlock(pool, network).to_string(),
            "deadlock: 'alone' waits for 'alone' to write to the empty channel 'loop'"
        );
        let mut network = Network::new();
        let (output, input) = network.channel("loop", 2);
        network.process("alone", (output, input), |(mut output, mut input)| async move {
            for number in 0..3 {
                output.send(number).await;
            }
            input.recv().await;
        });
        assert_eq!(
            deadlock(pool, network).to_string(),
            "deadlock: 'alone' waits for 'alone' to read from the channel 'loop', which is full with 2. \
             It is artificial: give 'loop' a larger capacity"
        );
    });
}

#[test]
fn a_deadlock_is_found_beside_processes_that_go_on_and_without_those_that_wait_for_it() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        let (numbers, input) = network.channel("numbers", 2);
        count(&mut network, numbers);
        drain(&mut network, "drain", input);
        // 'waits for it' waits for a process outside of the cycle, and 'outside' waits for no process of the network.
        let (results, input) = network.channel::<u8>("results", 1);
        drain(&mut network, "waits for it", input);
        network.process("outside", (), |()| std::future::pending());
        two_readers(&mut network);
        network.process("writes later", results, |mut results| async move {
            Timer::after(PATIENCE).await;
            results.send(0).await;
        });
        assert_eq!(deadlock(pool, network).cycle(), two_readers_wait());
    });
}

#[test]
fn waiting_for_the_outside_is_no_deadlock() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        let (mut question, questions) = network.channel("questions", 1);
        let (answers, mut answer) = network.channel("answers", 1);
        let (inner, inner_input) = network.channel("inner", 1);
        network.process("reads", (questions, inner), |(mut questions, mut inner)| async move {
            while let Some(question) = questions.recv().await {
                inner.send(question).await;
            }
        });
        network.process("answers", (inner_input, answers), |(mut input, mut answers)| async move {
            // This process also waits for a timer, which is no process of the network.
            Timer::after(Duration::from_millis(20)).await;
            while let Some(question) = input.recv().await {
                answers.send(question + 1).await;
                answers.send(question + 2).await;
            }
        });
        let outside = spawn_in(pool, async move {
            // For several deadlock checks, the network waits for a question; then, for several checks, for a reader.
            Timer::after(Duration::from_millis(40)).await;
            question.send(40).await;
            Timer::after(Duration::from_millis(40)).await;
            let answers = [answer.recv().await, answer.recv().await];
            drop(question);
            (answers, answer.recv().await)
        });
        run(pool, network).unwrap();
        assert_eq!(block_on(outside), ([Some(41), Some(42)], None));
    });
}

/// Returns a network in which the process 'break' panics. The processes that read from it and write to it panic if they
/// see a closed channel.
fn breaks(alive: &Arc<AtomicUsize>, nth: usize) -> Network {
    let mut network = Network::new();
    let (numbers, input) = network.channel("numbers", 1 + nth % 3);
    let (broken, rest) = network.channel::<(u64, Alive)>("broken", 1 + nth % 2);
    let (sums, output) = network.channel::<(u64, Alive)>("sums", 1);
    let (echo, echoed) = network.channel("echo", 1);
    let guard = Alive::new(alive);
    let letters = Arc::clone(alive);
    network.process("count", (numbers, echo), |(mut numbers, mut echo)| async move {
        let _guard = guard;
        for number in 0.. {
            numbers.send(number).await;
            echo.send(()).await;
        }
    });
    let guard = Alive::new(alive);
    let breaks_at = nth as u64 % 5;
    network.process("break", (input, broken, echoed), move |ends| async move {
        // Dropped after the channel ends, so that the other processes can see closed channels before the panic is
        // reported.
        let _slow = nth.is_multiple_of(10).then_some(Slow);
        let (mut input, mut output, mut echo) = ends;
        let _guard = guard;
        loop {
            let number: u64 = input.recv().await.unwrap();
            echo.recv().await.unwrap();
            if number == breaks_at && nth.is_multiple_of(2) {
                comity::join(|| (), || panic!("at {number}"));
            }
            assert!(number != breaks_at, "at {number}");
            output.send((number, Alive::new(&letters))).await;
        }
    });
    let guard = Alive::new(alive);
    network.process("sum", (rest, sums), |(mut input, mut sums)| async move {
        let _guard = guard;
        loop {
            let letter = input.recv().await.unwrap();
            sums.send(letter).await;
        }
    });
    let guard = Alive::new(alive);
    network.process("show", output, |mut output| async move {
        let _guard = guard;
        loop {
            output.recv().await.unwrap();
        }
    });
    network
}

/// `COMITY_PANICS` sets the number of repetitions.
#[test]
fn a_panic_is_reported_with_its_process_and_leaves_nothing() {
    let repetitions: usize = std::env::var("COMITY_PANICS").map_or(300, |repetitions| repetitions.parse().unwrap());
    for workers in [1, 2, 4] {
        let pool = pool(workers, "comity");
        for nth in 0..repetitions {
            let alive = Arc::new(AtomicUsize::new(0));
            let outcome = run(&pool, breaks(&alive, nth));
            assert_eq!(alive.load(Ordering::SeqCst), 0, "something is left of the network");
            let Err(Failure::Panicked(panic)) = outcome else { panic!("it is no panic: {outcome:?}") };
            assert_eq!(panic.to_string(), format!("process 'break' panicked: at {}", nth % 5));
            assert_eq!(panic.process(), "break");
            let payload = panic.into_payload();
            assert_eq!(payload.downcast_ref::<String>(), Some(&format!("at {}", nth % 5)));
        }
        pool.shutdown();
    }
}

#[test]
fn a_panic_without_a_text_is_reported_too() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        network.process("odd", (), |()| async { std::panic::panic_any(7_u8) });
        assert_eq!(run(pool, network).unwrap_err().to_string(), "process 'odd' panicked");
    });
}

/// Tests a hand-written future, which owns its channel ends until after its panic.
#[test]
fn a_panic_is_reported_before_the_ends_that_outlive_it_are_dropped() {
    for workers in [2, 4] {
        let pool = pool(workers, "comity");
        for _ in 0..20 {
            let mut network = Network::new();
            let (output, input) = network.channel::<u8>("broken", 1);
            let (more, more_input) = network.channel("more", 1);
            network.process("break", (output, more_input), |ports| {
                let owned = (ports, Slow);
                poll_fn(move |_| {
                    let _ = &owned;
                    panic!("at once")
                })
            });
            network.process("read", input, |mut input| async move {
                input.recv().await.unwrap();
            });
            count(&mut network, more);
            assert_eq!(run(&pool, network).unwrap_err().to_string(), "process 'break' panicked: at once");
        }
        pool.shutdown();
    }
}

/// Tests a process that catches its own panic: the panic drops a channel end, and the reader must see a normal end of
/// stream. The process then waits for the reader's answer.
#[test]
fn a_process_that_catches_its_own_panic_goes_on() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        let (numbers, input) = network.channel("numbers", 1);
        let (sums, sum) = network.channel("sums", 1);
        let answered = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&answered);
        network.process("try", (numbers, sum), |(mut numbers, mut sum)| async move {
            let attempt = async move {
                numbers.send(1).await;
                numbers.send(2).await;
                panic!("caught");
            };
            assert!(AssertUnwindSafe(attempt).catch_unwind().await.is_err());
            assert_eq!(sum.recv().await, Some(3));
            note.store(true, Ordering::SeqCst);
        });
        network.process("sum", (input, sums), |(mut input, mut sums)| async move {
            let mut sum = 0;
            while let Some(number) = input.recv().await {
                sum += number;
            }
            sums.send(sum).await;
        });
        run(pool, network).unwrap();
        assert!(answered.load(Ordering::SeqCst));
    });
}

/// Returns a network that sends counted values through three processes without end. The last process sets `noted` if
/// its input stream ends.
fn endless(alive: &Arc<AtomicUsize>, noted: &Arc<AtomicBool>) -> Network {
    let mut network = Network::new();
    let (letters, input) = network.channel("letters", 4);
    let (passed, output) = network.channel::<Alive>("passed", 4);
    let guard = Alive::new(alive);
    let count = Arc::clone(alive);
    network.process("write", letters, |mut letters| async move {
        let _guard = guard;
        loop {
            letters.send(Alive::new(&count)).await;
        }
    });
    let guard = Alive::new(alive);
    network.process("pass", (input, passed), |(mut input, mut passed)| async move {
        let _guard = guard;
        while let Some(letter) = input.recv().await {
            passed.send(letter).await;
        }
    });
    let guard = Alive::new(alive);
    let note = Arc::clone(noted);
    network.process("sink", output, |mut output| async move {
        let _guard = guard;
        while output.recv().await.is_some() {}
        note.store(true, Ordering::SeqCst);
    });
    network
}

#[test]
fn a_run_that_is_dropped_frees_everything_and_ends_no_stream() {
    on_some_pools(|pool| {
        for nth in 0..20 {
            let alive = Arc::new(AtomicUsize::new(0));
            let noted = Arc::new(AtomicBool::new(false));
            let network = endless(&alive, &noted);
            if nth % 2 == 0 {
                // Run from outside of the pool.
                let some_time = Timer::after(Duration::from_micros(300 * nth));
                block_on(async { drop(select(pin!(network.run_in(pool)), some_time).await) });
            } else {
                // Run in a task of the pool.
                let task = spawn_in(pool, network.run());
                thread::sleep(Duration::from_micros(300 * nth));
                drop(task);
            }
            eventually("everything is freed", || alive.load(Ordering::SeqCst) == 0);
            assert!(!noted.load(Ordering::SeqCst), "the sink took its neighbour's drop for the end of its stream");
        }
    });
}

#[test]
fn a_failure_elsewhere_frees_everything_and_ends_no_stream() {
    on_some_pools(|pool| {
        for nth in 0..20 {
            let alive = Arc::new(AtomicUsize::new(0));
            let noted = Arc::new(AtomicBool::new(false));
            let mut network = endless(&alive, &noted);
            if nth % 4 == 0 {
                two_readers(&mut network);
            } else {
                network.process("break", (), move |()| async move {
                    Timer::after(Duration::from_micros(50 * nth)).await;
                    panic!("elsewhere");
                });
            }
            run(pool, network).unwrap_err();
            assert_eq!(alive.load(Ordering::SeqCst), 0);
            assert!(!noted.load(Ordering::SeqCst), "the sink took its neighbour's end for the end of its stream");
        }
    });
}

#[test]
fn a_network_that_does_not_run_frees_everything_at_once() {
    let (alive, noted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    drop(endless(&alive, &noted));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Drop a future that was never polled.
    drop(endless(&alive, &noted).run());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Dropping the network closes the channels that connect it with its environment, after the values already sent.
    let mut network = Network::new();
    let (mut output, mut input) = network.channel("link", 2);
    block_on(output.send(Alive::new(&alive)));
    let (inside, mut outside) = network.channel::<u8>("from inside", 1);
    network.process("never", (inside, output), |ports| async move { drop(ports) });
    drop(network);
    assert_eq!(block_on(outside.recv()), None);
    assert!(block_on(input.recv()).is_some());
    assert!(block_on(input.recv()).is_none());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_sent_to_a_reader_that_has_ended_is_lost() {
    on_some_pools(|pool| {
        let alive = Arc::new(AtomicUsize::new(0));
        let mut network = Network::new();
        let (letters, input) = network.channel("letters", 2);
        let (heads, mut head) = network.channel("heads", 4);
        let count = Arc::clone(&alive);
        network.process("write", letters, |mut letters| async move {
            for number in 0..1000 {
                letters.send((number, Alive::new(&count))).await;
            }
        });
        network.process("read three", (input, heads), |(mut input, mut heads)| async move {
            for _ in 0..3 {
                heads.send(input.recv().await.unwrap().0).await;
            }
        });
        run(pool, network).unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        let heads: Vec<_> = std::iter::from_fn(|| block_on(head.recv())).collect();
        assert_eq!(heads, [0, 1, 2]);
    });
}

#[test]
fn a_network_is_driven_from_outside() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        let (mut numbers, input) = network.channel("numbers", 3);
        let (squares, mut output) = network.channel("squares", 3);
        network.process("square", (input, squares), |(mut input, mut squares)| async move {
            while let Some(number) = input.recv().await {
                squares.send(number * number).await;
            }
        });
        let running = spawn_in(pool, network.run());
        // A thread that is no worker drives the network.
        block_on(async {
            for number in 0..1000_u64 {
                numbers.send(number).await;
                assert_eq!(output.recv().await, Some(number * number));
            }
            drop(numbers);
            assert_eq!(output.recv().await, None);
            running.await.unwrap();
        });
    });
}

#[test]
fn a_network_without_processes_is_done() {
    on_some_pools(|pool| run(pool, Network::new()).unwrap());
}

#[test]
#[should_panic(expected = "channel 'narrow' has a capacity of 0. The minimum is 1")]
fn a_channel_without_room_is_refused() {
    Network::new().channel::<u8>("narrow", 0);
}

#[test]
fn ten_thousand_processes_run_and_are_freed() {
    const PROCESSES: u64 = 10_000;
    on_some_pools(|pool| {
        let alive = Arc::new(AtomicUsize::new(0));
        let mut network = Network::new();
        let (mut first, mut last) = network.channel("first", 2);
        for nth in 0..PROCESSES {
            let guard = Alive::new(&alive);
            let (output, next) = network.channel(format!("after {nth}"), 1);
            network.process(format!("{nth}"), (last, output), |(mut input, mut output)| async move {
                let _guard = guard;
                while let Some(number) = input.recv().await {
                    output.send(number + 1).await;
                }
            });
            last = next;
        }
        let ends = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&ends);
        network.process("last", last, |mut last| async move {
            while let Some(number) = last.recv().await {
                note.lock().unwrap().push(number);
            }
        });
        let feed = spawn_in(pool, async move {
            for number in 0..5 {
                first.send(number).await;
            }
        });
        run(pool, network).unwrap();
        block_on(feed);
        assert_eq!(*ends.lock().unwrap(), (0..5).map(|number| number + PROCESSES).collect::<Vec<u64>>());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

/// Tests that no deadlock is reported while a reader waits whose writer has dropped its end.
#[test]
fn no_process_waits_for_an_end_that_is_dropped() {
    let pool = pool(1, "comity");
    let mut network = Network::new();
    let (to_reader, from_writer) = network.channel::<u32>("there", 1);
    let (to_writer, from_reader) = network.channel::<u32>("back", 1);
    let (to_heavy, load) = network.channel::<u32>("load", 1);
    network.process("heavy", load, |mut load| async move {
        load.recv().await;
        // The sleep is longer than the time to the next deadlock checks.
        thread::sleep(Duration::from_millis(200));
    });
    network.process(
        "writer",
        (to_reader, from_reader, to_heavy),
        |(to_reader, mut from_reader, mut to_heavy)| async move {
            Timer::after(Duration::from_millis(20)).await;
            drop(to_reader);
            to_heavy.send(1).await;
            assert_eq!(from_reader.recv().await, Some(7));
        },
    );
    network.process("reader", (from_writer, to_writer), |(mut from_writer, mut to_writer)| async move {
        assert_eq!(from_writer.recv().await, None);
        to_writer.send(7).await;
    });
    run(&pool, network).unwrap();
    pool.shutdown();
}

#[test]
fn a_channel_may_link_two_networks() {
    let pool = pool(2, "comity");
    let (mut one, mut other) = (Network::new(), Network::new());
    let (numbers, input) = one.channel::<u32>("link", 1);
    one.process("writer", numbers, |mut numbers| async move {
        for number in 0..3 {
            numbers.send(number).await;
        }
    });
    for idle in ["first", "second"] {
        other.process(idle, (), |()| async {});
    }
    other.process("reader", input, |mut input| async move {
        let mut sum = 0;
        while let Some(number) = input.recv().await {
            Timer::after(Duration::from_millis(15)).await;
            sum += number;
        }
        assert_eq!(sum, 3);
    });
    let both = block_on(async { futures::join!(one.run_in(&pool), other.run_in(&pool)) });
    assert!(matches!(both, (Ok(()), Ok(()))), "{both:?}");
    pool.shutdown();
}

/// A value that panics when it is dropped.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("sore");
    }
}

#[test]
fn the_first_panic_is_the_one_that_is_reported() {
    on_some_pools(|pool| {
        let mut network = Network::new();
        network.process("first", (), |()| async {
            Timer::after(Duration::from_millis(5)).await;
            panic!("the first");
        });
        network.process("sore", (), |()| async {
            let _sore = PanicsWhenDropped;
            std::future::pending::<()>().await;
        });
        assert_eq!(run(pool, network).unwrap_err().to_string(), "process 'first' panicked: the first");
    });
}

#[test]
fn a_panic_that_a_dropped_run_has_not_heard_of_goes_to_the_pool() {
    let (panicked, panics) = std::sync::mpsc::channel();
    let handler =
        move |payload: Box<dyn std::any::Any + Send>| panicked.send(*payload.downcast::<&str>().unwrap()).unwrap();
    let pool = ThreadPoolBuilder::new().num_threads(1).panic_handler(handler).build().unwrap();
    let mut network = Network::new();
    // The process must end after `run` was polled: otherwise the result of `run` would report the panic.
    let polled = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicBool::new(false));
    let (was_polled, ends) = (Arc::clone(&polled), Arc::clone(&ended));
    network.process("lonely", (), |()| async move {
        eventually("the run was polled", || was_polled.load(Ordering::SeqCst));
        ends.store(true, Ordering::SeqCst);
        panic!("heard by no run");
    });
    {
        let mut run = pin!(network.run_in(&pool));
        assert!(run.as_mut().now_or_never().is_none());
        polled.store(true, Ordering::SeqCst);
        eventually("it runs", || ended.load(Ordering::SeqCst));
    }
    assert_eq!(panics.recv_timeout(PATIENCE), Ok("heard by no run"));
    pool.shutdown();
}
