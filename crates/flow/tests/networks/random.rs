//! Random networks, compared with a sequential computation. A process is a function from streams to streams, so the
//! streams of a network can be computed one after the other, without channels.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use comity::{Policy, ThreadPool};
use comity_flow::{Failure, Network, Receiver, Sender, Task, block_on, spawn_in};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::{pool, run};

/// The next process of a random network. It reads from receivers without an owner, and adds receivers without an owner.
#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    inputs: [Index; 2],
    capacities: [usize; 3],
}

#[derive(Clone, Debug)]
enum Kind {
    /// Sends this many numbers.
    Source(u64),
    Map(u64),
    /// Ends after this many values.
    Take(usize),
    /// Sends this many zeros first.
    Delay(usize),
    /// Combines the nth values of both inputs, until one input has ended.
    Zip,
    /// Alternates between the inputs, and then sends the rest of the longer one.
    Alternate,
    /// Sends the smaller of the two next values, and then reads the next value from the same input.
    Merge,
    /// Replaces each odd value of the first input by a value of the second, until the second has ended.
    Choose,
    /// Alternates between the outputs.
    Deal,
    /// Chooses the output by the value.
    Sort,
    Copy,
    /// A cycle of two processes, whose channels initially contain this many zeros.
    Feedback(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        3 => (0..24u64).prop_map(Kind::Source),
        2 => any::<u64>().prop_map(Kind::Map),
        1 => (0..10usize).prop_map(Kind::Take),
        1 => (0..10usize).prop_map(Kind::Delay),
        1 => Just(Kind::Zip),
        2 => Just(Kind::Alternate),
        1 => Just(Kind::Merge),
        1 => Just(Kind::Choose),
        2 => Just(Kind::Deal),
        2 => Just(Kind::Sort),
        1 => Just(Kind::Copy),
        2 => (1..4usize).prop_map(Kind::Feedback),
    ];
    let step = (kind, any::<[Index; 2]>(), [1..=8usize, 1..=8, 1..=8]);
    let step = step.prop_map(|(kind, inputs, capacities)| Step { kind, inputs, capacities });
    proptest::collection::vec(step, 1..16)
}

fn mix(left: u64, right: u64) -> u64 {
    left.wrapping_mul(31).wrapping_add(right)
}

/// A network that is being built, and the expected stream of each receiver that no process owns yet.
struct Building {
    network: Network,
    open: Vec<(Receiver<u64>, Vec<u64>)>,
    channels: usize,
    scale: usize,
}

impl Building {
    fn new(steps: &[Step], scale: usize) -> Building {
        let mut building = Building { network: Network::new(), open: Vec::new(), channels: 0, scale };
        steps.iter().for_each(|step| building.add(step));
        building
    }

    fn channel(&mut self, capacity: usize) -> (Sender<u64>, Receiver<u64>) {
        self.channels += 1;
        self.network.channel(format!("{}", self.channels), capacity * self.scale)
    }

    fn input(&mut self, index: Index) -> (Receiver<u64>, Vec<u64>) {
        if self.open.is_empty() {
            self.add(&Step { kind: Kind::Source(12), inputs: [index; 2], capacities: [2; 3] });
        }
        let at = index.index(self.open.len());
        self.open.swap_remove(at)
    }

    fn add(&mut self, Step { kind, inputs, capacities }: &Step) {
        let name = format!("{} {kind:?}", self.channels);
        match *kind {
            Kind::Source(length) => {
                let (output, open) = self.channel(capacities[0]);
                self.network.process(name, output, |mut output| async move {
                    for number in 0..length {
                        output.send(mix(number, 7)).await;
                    }
                });
                self.open.push((open, (0..length).map(|number| mix(number, 7)).collect()));
            }
            Kind::Map(salt) => self.one_to_one(
                name,
                inputs,
                capacities,
                move |mut input, mut output| async move {
                    while let Some(value) = input.recv().await {
                        output.send(mix(value, salt)).await;
                    }
                },
                |values| values.into_iter().map(|value| mix(value, salt)).collect(),
            ),
            Kind::Take(length) => self.one_to_one(
                name,
                inputs,
                capacities,
                move |mut input, mut output| async move {
                    for _ in 0..length {
                        let Some(value) = input.recv().await else { return };
                        output.send(value).await;
                    }
                },
                |values| values.into_iter().take(length).collect(),
            ),
            Kind::Delay(length) => self.one_to_one(
                name,
                inputs,
                capacities,
                move |mut input, mut output| async move {
                    for _ in 0..length {
                        output.send(0).await;
                    }
                    while let Some(value) = input.recv().await {
                        output.send(value).await;
                    }
                },
                |values| std::iter::repeat_n(0, length).chain(values).collect(),
            ),
            Kind::Zip => self.two_to_one(
                name,
                inputs,
                capacities,
                |mut left, mut right, mut output| async move {
                    while let Some(first) = left.recv().await {
                        let Some(second) = right.recv().await else { return };
                        output.send(mix(first, second)).await;
                    }
                },
                |left, right| left.into_iter().zip(right).map(|(left, right)| mix(left, right)).collect(),
            ),
            Kind::Alternate => self.two_to_one(
                name,
                inputs,
                capacities,
                |mut next, mut other, mut output| async move {
                    while let Some(value) = next.recv().await {
                        output.send(value).await;
                        std::mem::swap(&mut next, &mut other);
                    }
                    while let Some(value) = other.recv().await {
                        output.send(value).await;
                    }
                },
                |left, right| {
                    let both = left.len().min(right.len());
                    // Alternate over the common length, then append the rest of the longer input.
                    let turns = left.iter().zip(&right).flat_map(|(left, right)| [*left, *right]);
                    turns.chain(left[both..].iter().copied()).chain(right[both..].iter().copied()).collect()
                },
            ),
            Kind::Merge => self.two_to_one(
                name,
                inputs,
                capacities,
                |mut left, mut right, mut output| async move {
                    let mut heads = (left.recv().await, right.recv().await);
                    loop {
                        match heads {
                            (Some(first), second) if second.is_none_or(|second| first <= second) => {
                                output.send(first).await;
                                heads.0 = left.recv().await;
                            }
                            (_, Some(second)) => {
                                output.send(second).await;
                                heads.1 = right.recv().await;
                            }
                            _ => return,
                        }
                    }
                },
                |left, right| {
                    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
                    let first = |left: Option<&u64>, right: Option<&u64>| match (left, right) {
                        (Some(left), Some(right)) => left <= right,
                        (left, _) => left.is_some(),
                    };
                    let next = || if first(left.peek(), right.peek()) { left.next() } else { right.next() };
                    std::iter::from_fn(next).collect()
                },
            ),
            Kind::Choose => self.two_to_one(
                name,
                inputs,
                capacities,
                |mut left, mut right, mut output| async move {
                    while let Some(value) = left.recv().await {
                        let instead = if value % 2 == 1 { right.recv().await } else { None };
                        output.send(instead.unwrap_or(value)).await;
                    }
                },
                |left, right| {
                    let mut right = right.into_iter();
                    let choose = |value| (value % 2 == 1).then(|| right.next()).flatten().unwrap_or(value);
                    left.into_iter().map(choose).collect()
                },
            ),
            Kind::Deal => self.one_to_two(name, inputs, capacities, |nth, _| [nth % 2 == 0, nth % 2 == 1]),
            Kind::Sort => self.one_to_two(name, inputs, capacities, |_, value| [value % 3 == 0, value % 3 != 0]),
            Kind::Copy => self.one_to_two(name, inputs, capacities, |_, _| [true, true]),
            Kind::Feedback(length) => {
                let (input, values) = self.input(inputs[0]);
                let (output, open) = self.channel(capacities[0]);
                let (forth, delayed) = self.channel(capacities[1]);
                let (back, fed) = self.channel(capacities[2]);
                self.network.process(name.clone(), (input, fed, output, forth), |ports| async move {
                    let (mut input, mut fed, mut output, mut forth) = ports;
                    while let Some(value) = input.recv().await {
                        let Some(earlier) = fed.recv().await else { unreachable!("the loop has always values") };
                        let sum = mix(value, earlier);
                        forth.send(sum).await;
                        output.send(sum).await;
                    }
                });
                self.network.process(format!("{name} back"), (delayed, back), |(mut delayed, mut back)| async move {
                    for _ in 0..length {
                        back.send(0).await;
                    }
                    while let Some(value) = delayed.recv().await {
                        back.send(value).await;
                    }
                });
                let mut held = VecDeque::from(vec![0; length]);
                let sum = |value| {
                    let sum = mix(value, held.pop_front().expect("as above"));
                    held.push_back(sum);
                    sum
                };
                self.open.push((open, values.into_iter().map(sum).collect()));
            }
        }
    }

    fn one_to_one<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        inputs: &[Index; 2],
        capacities: &[usize; 3],
        body: impl FnOnce(Receiver<u64>, Sender<u64>) -> F,
        meaning: impl FnOnce(Vec<u64>) -> Vec<u64>,
    ) {
        let (input, values) = self.input(inputs[0]);
        let (output, open) = self.channel(capacities[0]);
        self.network.process(name, (input, output), |(input, output)| body(input, output));
        self.open.push((open, meaning(values)));
    }

    fn two_to_one<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        inputs: &[Index; 2],
        capacities: &[usize; 3],
        body: impl FnOnce(Receiver<u64>, Receiver<u64>, Sender<u64>) -> F,
        meaning: impl FnOnce(Vec<u64>, Vec<u64>) -> Vec<u64>,
    ) {
        let (left, left_values) = self.input(inputs[0]);
        let (right, right_values) = self.input(inputs[1]);
        let (output, open) = self.channel(capacities[0]);
        self.network.process(name, (left, right, output), |(left, right, output)| body(left, right, output));
        self.open.push((open, meaning(left_values, right_values)));
    }

    /// Adds a process with two outputs. `goes(nth, value)` returns for each output whether it receives the value.
    fn one_to_two(
        &mut self,
        name: String,
        inputs: &[Index; 2],
        capacities: &[usize; 3],
        goes: impl Fn(usize, u64) -> [bool; 2] + Send + 'static + Copy,
    ) {
        let (input, values) = self.input(inputs[0]);
        let (left, left_open) = self.channel(capacities[0]);
        let (right, right_open) = self.channel(capacities[1]);
        self.network.process(name, (input, [left, right]), move |(mut input, outputs)| async move {
            let mut outputs = outputs;
            let mut nth = 0;
            while let Some(value) = input.recv().await {
                for (output, goes) in outputs.iter_mut().zip(goes(nth, value)) {
                    if goes {
                        output.send(value).await;
                    }
                }
                nth += 1;
            }
        });
        for (side, open) in [left_open, right_open].into_iter().enumerate() {
            let values = values.iter().copied().enumerate().filter(|(nth, value)| goes(*nth, *value)[side]);
            self.open.push((open, values.map(|(_, value)| value).collect()));
        }
    }
}

/// The reader of a receiver that no process of the random network owns.
enum Sink {
    /// A task outside of the network, which returns its received values.
    Task(Task<Vec<u64>>),
    /// A process, which notes the stream after its end.
    Process(Arc<Mutex<Option<Vec<u64>>>>),
}

/// Runs the network and compares its streams with the computed streams. Returns true if the network stopped because a
/// channel was too small.
fn stops(pool: &ThreadPool, steps: &[Step], scale: usize) -> bool {
    let Building { mut network, open, .. } = Building::new(steps, scale);
    let mut sinks = Vec::new();
    for (nth, (mut input, values)) in open.into_iter().enumerate() {
        let sink = if nth % 2 == 0 {
            Sink::Task(spawn_in(pool, async move {
                let mut all = Vec::new();
                while let Some(value) = input.recv().await {
                    all.push(value);
                }
                all
            }))
        } else {
            let noted = Arc::new(Mutex::new(None));
            let note = Arc::clone(&noted);
            network.process(format!("sink {nth}"), input, |mut input| async move {
                let mut all = Vec::new();
                while let Some(value) = input.recv().await {
                    all.push(value);
                }
                *note.lock().unwrap() = Some(all);
            });
            Sink::Process(noted)
        };
        sinks.push((sink, values));
    }
    let stops = match run(pool, network) {
        Ok(()) => false,
        Err(Failure::Deadlocked(deadlock)) => {
            assert!(deadlock.is_artificial(), "{deadlock}");
            true
        }
        Err(failure) => panic!("{failure}"),
    };
    for (sink, values) in sinks {
        match sink {
            Sink::Task(task) if stops => {
                let begun = block_on(task);
                assert!(values.starts_with(&begun), "{begun:?} does not begin {values:?}");
            }
            Sink::Task(task) => assert_eq!(block_on(task), values),
            Sink::Process(noted) => match noted.lock().unwrap().take() {
                Some(noted) => assert_eq!(noted, values),
                None => assert!(stops, "a sink has ended without a note"),
            },
        }
    }
    stops
}

/// Returns the capacity scales with which the network stops: 1, 4, 16 and so on. With the next scale of this sequence,
/// the network runs to its end.
fn room(pool: &ThreadPool, steps: &[Step]) -> Vec<usize> {
    let scales = std::iter::successors(Some(1), |scale| Some(4 * scale));
    scales.take_while(|scale| stops(pool, steps, *scale)).collect()
}

/// Tests that a network that stops because of small channels stops on every pool, with any number of workers.
///
/// Each pool runs `⌈PROPTEST_CASES / 64⌉` networks.
#[test]
fn a_random_network_gives_the_same_on_every_pool() {
    let reference = pool(1, "plain");
    let cases = Config::default().cases.div_ceil(64);
    let (ran, stopped) = (Cell::new(0), Cell::new(0));
    for policy in Policy::all() {
        for place in ["current", "last", "last-if-up"] {
            for workers in [1, 2, 4, 8] {
                let name = format!("{}:place={place}", policy.name());
                let pool = pool(workers, &name);
                let config = Config { cases, failure_persistence: None, ..Config::default() };
                let outcome = TestRunner::new(config).run(&steps(), |steps| {
                    let rooms = room(&pool, &steps);
                    ran.set(ran.get() + 1);
                    stopped.set(stopped.get() + usize::from(!rooms.is_empty()));
                    prop_assert_eq!(rooms, room(&reference, &steps));
                    Ok(())
                });
                outcome.unwrap_or_else(|error| panic!("under {name} with {workers} workers: {error}"));
                pool.shutdown();
            }
        }
    }
    reference.shutdown();
    let (ran, stopped) = (ran.get(), stopped.get());
    assert!(stopped > ran / 100 && stopped < ran / 2, "{stopped} of {ran} networks stopped: both should be tried");
}
