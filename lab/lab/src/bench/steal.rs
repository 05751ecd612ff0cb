//! `comity-lab bench steal`: measures what attempts to steal cost the owner of the queue.

use std::collections::VecDeque;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_os::cpu_clock::ThreadId;
use comity_os::{affinity, cores, lock};
use crossbeam_deque::Worker;
use serde::{Deserialize, Serialize};

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;

const EXAMPLES: &str = "Examples:
  comity-lab bench steal
  comity-lab bench steal --thieves 1,3,7,15 --rounds 11 --json";

/// Measure the time that attempts to steal cost the owner of a queue
///
/// A worker repeatedly pushes a task, computes, and takes the task back. On other cores, thieves try to steal the task,
/// as under ABP: a yield, then an attempt. Two queues are compared: the deque of Chase and Lev, as in `abp`, and a deque
/// with a mutex, as in Cilk++. Each thread is bound to a core of its own, and the machine must be quiet.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Numbers of thieves. There must be a core for each thief and for the worker [default: 0, 1, 3, 7, … as far as
    /// there are cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = whole::<u16>(0..=1023))]
    thieves: Vec<u16>,
    /// Lengths of the computation between a push and the take, in iterations of an empty loop
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0,1000", value_parser = whole::<u32>(0..=1_000_000))]
    work: Vec<u32>,
    /// Number of rounds, 1 to 100000
    #[arg(long, value_name = "R", default_value_t = 11, value_parser = whole::<u32>(1..=100_000))]
    rounds: u32,
    /// Number of pushes in a round, 1000 to 1000000000
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = whole::<u32>(1_000..=1_000_000_000))]
    pushes: u32,
    /// Print JSON (schema comity-bench-steal/1)
    #[arg(long)]
    json: bool,
}

/// A queue of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    ChaseLev,
    Locked,
}

impl Queue {
    const ALL: [Queue; 2] = [Queue::ChaseLev, Queue::Locked];

    fn name(self) -> &'static str {
        match self {
            Queue::ChaseLev => "chase-lev",
            Queue::Locked => "locked",
        }
    }
}

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
struct Setting {
    queue: Queue,
    thieves: u16,
    work: u32,
}

/// The outcome of a measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Outcome {
    /// The nanoseconds of a push, the computation and a take.
    ns: f64,
    /// The number of attempts to steal, divided by the number of pushes.
    attempts: f64,
    /// The part of the pushed tasks that thieves took.
    stolen: f64,
}

#[derive(Serialize)]
struct Report {
    rounds: usize,
    pushes: u32,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    queue: &'static str,
    thieves: u16,
    work: u32,
    /// The nanoseconds of a push, the computation and a take.
    ns: Quartiles,
    /// The additional nanoseconds, compared with no thieves in the same round. `None` if this was not measured.
    more_ns: Option<Quartiles>,
    /// The number of attempts to steal for each push.
    attempts: Quartiles,
    /// The part of the tasks that were stolen.
    stolen: Quartiles,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let cores: Vec<usize> = cores::allowed().iter().map(|core| core.id).collect();
    let thieves = match arguments.thieves.as_slice() {
        [] => (0..).map(|power| (1 << power) - 1).take_while(|thieves| usize::from(*thieves) < cores.len()).collect(),
        some => some.to_vec(),
    };
    if let Some(most) = thieves.iter().find(|thieves| usize::from(**thieves) >= cores.len()) {
        return Err(Failure::Usage(format!(
            "{most} thieves and a worker need {} cores, and this command may use {}. Give --thieves smaller numbers",
            most + 1,
            cores.len()
        )));
    }
    let of = |work: &u32| {
        let with = |thieves: &u16| Queue::ALL.map(|queue| Setting { queue, thieves: *thieves, work: *work });
        thieves.iter().flat_map(with).collect::<Vec<_>>()
    };
    let settings: Vec<Setting> = arguments.work.iter().flat_map(of).collect();
    let pushes = arguments.pushes;
    let harness = Harness {
        name: "steal",
        setting: format!("{pushes} pushes, thieves {thieves:?}, work {:?}", arguments.work),
        has_own_table: false,
        blocks: Block::each_round(arguments.rounds),
        json: arguments.json,
        out,
    };
    let rows = settings.clone();
    let measure = |turn: harness::Turn| turn.in_turn(&settings, |setting| measure(*setting, pushes, &cores));
    harness.run(measure, move |done: &[Vec<Vec<Outcome>>]| report(&rows, pushes, &done.concat()))
}

fn measure(setting: Setting, pushes: u32, cores: &[usize]) -> Result<Outcome, Failure> {
    match setting.queue {
        Queue::ChaseLev => {
            let deque = Worker::new_lifo();
            let stealer = deque.stealer();
            race(setting, pushes, cores, deque, || stealer.steal().is_success())
        }
        Queue::Locked => {
            let deque = Mutex::new(VecDeque::new());
            race(setting, pushes, cores, &deque, || lock(&deque).pop_front().is_some())
        }
    }
}

/// The owner's end of a queue.
trait Owned: Send {
    fn push(&self, task: u32);
    fn take(&self) -> Option<u32>;
}

impl Owned for Worker<u32> {
    fn push(&self, task: u32) {
        self.push(task);
    }

    fn take(&self) -> Option<u32> {
        self.pop()
    }
}

impl Owned for &Mutex<VecDeque<u32>> {
    fn push(&self, task: u32) {
        lock(self).push_back(task);
    }

    fn take(&self) -> Option<u32> {
        lock(self).pop_back()
    }
}

/// Lets the owner push and take tasks while thieves try to steal them.
fn race(
    Setting { thieves, work, .. }: Setting,
    pushes: u32,
    cores: &[usize],
    owned: impl Owned,
    steal: impl Fn() -> bool + Sync,
) -> Result<Outcome, Failure> {
    let bind = |nth: usize| affinity::confine(ThreadId::current(), [cores[nth]].into_iter().collect());
    let (started, ended) = (Barrier::new(usize::from(thieves) + 1), AtomicBool::new(false));
    let (is_bound, attempts, stolen) = (AtomicBool::new(true), AtomicU64::new(0), AtomicU64::new(0));
    let thief = |nth: usize| {
        is_bound.fetch_and(bind(nth), Ordering::Relaxed);
        started.wait();
        let (mut tried, mut found) = (0, 0);
        loop {
            std::thread::yield_now();
            tried += 1;
            found += u64::from(steal());
            if ended.load(Ordering::Relaxed) {
                break;
            }
        }
        attempts.fetch_add(tried, Ordering::Relaxed);
        stolen.fetch_add(found, Ordering::Relaxed);
    };
    let owner = || {
        // The owner's end moves to the owner's thread.
        let owned = owned;
        is_bound.fetch_and(bind(0), Ordering::Relaxed);
        started.wait();
        let start = Instant::now();
        for task in 0..pushes {
            owned.push(task);
            for step in 0..work {
                black_box(step);
            }
            black_box(owned.take());
        }
        let time = start.elapsed();
        ended.store(true, Ordering::Relaxed);
        time
    };
    let time = std::thread::scope(|scope| {
        for nth in 1..=usize::from(thieves) {
            scope.spawn(move || thief(nth));
        }
        scope.spawn(owner).join().expect("the owner does not panic")
    });
    if !is_bound.into_inner() {
        return Err(Failure::Run("the kernel does not let this command bind its threads to cores".into()));
    }
    let each = f64::from(pushes);
    Ok(Outcome {
        ns: time.as_nanos() as f64 / each,
        attempts: attempts.into_inner() as f64 / each,
        stolen: stolen.into_inner() as f64 / each,
    })
}

fn report(settings: &[Setting], pushes: u32, rounds: &[Vec<Outcome>]) -> Report {
    let of = |nth: usize, get: fn(&Outcome) -> f64| rounds.iter().map(|round| get(&round[nth])).collect::<Vec<f64>>();
    let row = |(nth, setting): (usize, &Setting)| {
        let Setting { queue, thieves, work } = *setting;
        let is_base = |other: &Setting| other.queue == queue && other.work == work && other.thieves == 0;
        let base = settings.iter().position(is_base).filter(|_| thieves > 0);
        let (own, quartiles) = (of(nth, |one| one.ns), |get| Quartiles::of(&of(nth, get)));
        let more = |base: usize| {
            let more: Vec<f64> = own.iter().zip(of(base, |one| one.ns)).map(|(own, base)| own - base).collect();
            Quartiles::of(&more)
        };
        Row {
            queue: queue.name(),
            thieves,
            work,
            ns: Quartiles::of(&own),
            more_ns: base.map(more),
            attempts: quartiles(|one| one.attempts),
            stolen: quartiles(|one| one.stolen),
        }
    };
    let rows = if rounds.is_empty() { Vec::new() } else { settings.iter().enumerate().map(row).collect() };
    Report { rounds: rounds.len(), pushes, rows }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["queue", "work", "thieves", "ns", "more than without thieves", "attempts", "stolen, %"]);
        for row in &self.rows {
            let Quartiles { lower, median, upper } = row.stolen;
            table.add_row([
                row.queue.to_owned(),
                row.work.to_string(),
                row.thieves.to_string(),
                row.ns.told(1),
                row.more_ns.map_or_else(String::new, |more| more.told(1)),
                row.attempts.told(2),
                Quartiles { lower: 100.0 * lower, median: 100.0 * median, upper: 100.0 * upper }.told(1),
            ]);
        }
        format!(
            "Time of a push, `work` iterations and a take, and attempts to steal in this time.\nMedians and quartiles of \
             {} rounds of {} pushes\n{table}\n",
            self.rounds, self.pushes
        )
    }
}
