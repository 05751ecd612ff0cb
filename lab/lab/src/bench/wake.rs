//! `comity-lab bench wake`: measures how long a task waits for a sleeping worker.

use std::fmt::Display;
use std::hint::spin_loop;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::Backend as Started;
use serde::{Deserialize, Serialize};

use super::floor::Sleeper;
use super::harness::{self, Block, Harness};
use super::quartiles::percentile;
use crate::backend::{Backend, BackendName, PolicyList, backends, workers_range};

const EXAMPLES: &str = "Examples:
  comity-lab bench wake
  comity-lab bench wake --policy comity,bws,abp --samples 1000";

/// Measure the time from the submission of a task to its start on another worker, after the pool has been idle
///
/// There are two ways to submit. With `join`, a worker submits and keeps running: its own half waits for the other half
/// to start. With `spawn`, a thread outside the pool submits. Stock rayon takes turns in the same run, and so does a
/// plain futex between two threads on two cores. A runtime that uses both cores cannot be faster than the futex on this
/// machine.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to compare with stock rayon
    #[arg(long, value_name = "POLICY,…", default_value = "comity")]
    policy: PolicyList,
    /// Number of workers of each pool, 2 to 1024
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = workers_range())]
    workers: u16,
    /// Idle time before each submission, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5, value_parser = whole::<u64>(0..=10_000))]
    idle_ms: u64,
    /// Number of submissions per backend and way, 10 to 1000000
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = whole::<u32>(10..=1_000_000))]
    samples: u32,
    /// Print JSON (schema comity-bench-wake/1)
    #[arg(long)]
    json: bool,
}

/// The number of submissions per backend in one turn.
const TURN: u32 = 25;

/// The maximum number of blocks into which the turns are divided, to show progress.
const BLOCKS: usize = 10;

/// The time after which a task that has not started counts as lost.
const LOST: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Report {
    workers: u16,
    idle_ms: u64,
    /// Samples per row. If the run was interrupted, there are fewer than requested.
    samples: usize,
    rows: Vec<Row>,
}

/// The samples of a turn, in microseconds.
#[derive(Serialize, Deserialize)]
struct Samples {
    by_floor: Vec<f64>,
    /// The samples of each backend, by way of submission.
    by: Vec<[Vec<f64>; 2]>,
}

/// The result of a backend for one way of submission. Times are microseconds from the submission to the start of the
/// task.
#[derive(Serialize)]
struct Row {
    backend: String,
    submitted_by: &'static str,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Join,
    Spawn,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Join => "join",
            Way::Spawn => "spawn",
        }
    }
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    if arguments.workers < 2 {
        return Err(Failure::Usage(
            "a pool with one worker cannot start a task on another worker. Give --workers 2 or more".to_owned(),
        ));
    }
    let backends = backends(std::slice::from_ref(&arguments.policy), &[BackendName::Rayon])?;
    let started: Vec<(Backend, Started)> = backends
        .into_iter()
        .map(|backend| Ok((backend, backend.start(arguments.workers)?)))
        .collect::<Result<_, Failure>>()?;
    let idle = Duration::from_millis(arguments.idle_ms);
    let floor = Floor::start();
    let names: Vec<String> = started.iter().map(|(backend, _)| backend.to_string()).collect();
    let turns = arguments.samples.div_ceil(TURN) as usize;
    let blocks = turns.min(BLOCKS);
    let block = |nth| Block {
        name: format!("part {} of {blocks}", nth + 1),
        rounds: turns * (nth + 1) / blocks - turns * nth / blocks,
    };
    let Arguments { workers, idle_ms, samples, json, .. } = *arguments;
    let blocks: Vec<Block> = (0..blocks).map(block).collect();
    let rounds: Vec<usize> = blocks.iter().map(|block| block.rounds).collect();
    let harness = Harness {
        name: "wake",
        setting: format!("{}, {workers} workers, {idle_ms} ms, {samples} samples", names.join(", ")),
        has_own_table: false,
        blocks,
        json,
        out,
    };
    let measure = |turn: harness::Turn| {
        // The last turn has the remaining samples.
        let before = rounds[..turn.block].iter().sum::<usize>() + turn.round;
        let number = (samples - before as u32 * TURN).min(TURN);
        let by_floor = (0..number).map(|_| floor.once(idle).ok_or_else(|| lost("the machine", "a futex alone")));
        let by_floor: Vec<f64> = by_floor.collect::<Result<_, _>>()?;
        let by = |(backend, started): &(Backend, Started)| -> Result<[Vec<f64>; 2], Failure> {
            let by_way = |way: Way| {
                let samples = (0..number).map(|_| once(started, way, idle).ok_or_else(|| lost(backend, way.name())));
                samples.collect::<Result<Vec<f64>, Failure>>()
            };
            Ok([by_way(Way::Join)?, by_way(Way::Spawn)?])
        };
        Ok(Samples { by_floor, by: started.iter().map(by).collect::<Result<_, Failure>>()? })
    };
    let report = move |done: &[Vec<Samples>]| {
        let all = |of: &dyn Fn(&Samples) -> &[f64]| done.iter().flatten().flat_map(of).copied().collect::<Vec<f64>>();
        let rows = names.iter().enumerate().flat_map(|(nth, name)| {
            let row = move |(place, way): (usize, Way)| row(name, way.name(), &all(&|turn| &turn.by[nth][place]));
            [Way::Join, Way::Spawn].into_iter().enumerate().map(row)
        });
        let by_floor = all(&|turn| &turn.by_floor);
        Report {
            workers,
            idle_ms,
            samples: by_floor.len(),
            rows: rows.chain([row("no runtime (floor)", "futex", &by_floor)]).collect(),
        }
    };
    harness.run(measure, report)
}

fn lost(backend: impl Display, way: &str) -> Failure {
    Failure::Run(format!("{backend}: a task submitted by {way} had not started after {LOST:?}"))
}

fn row(backend: impl Display, way: &'static str, samples: &[f64]) -> Row {
    Row {
        backend: backend.to_string(),
        submitted_by: way,
        p50_us: percentile(samples, 50),
        p90_us: percentile(samples, 90),
        p99_us: percentile(samples, 99),
        max_us: samples.iter().copied().fold(0.0, f64::max),
    }
}

/// Waits until the pool has been idle for `idle`, submits a task, and spins until the task starts. Returns
/// microseconds, or `None` if the task did not start.
fn once(started: &Started, way: Way, idle: Duration) -> Option<f64> {
    match way {
        Way::Join => inside(started, || {
            std::thread::sleep(idle);
            let clock = Clock::start();
            // The second half starts on another worker, because the first half returns only after the second has
            // started.
            let (waited, ()) = join(started, || clock.wait(), || clock.stop());
            waited
        }),
        Way::Spawn => {
            std::thread::sleep(idle);
            let clock = Arc::new(Clock::start());
            let other = Arc::clone(&clock);
            spawn(started, move || other.stop());
            clock.wait()
        }
    }
}

/// A lower bound of the time on this machine: a futex wakes a sleeping thread on another core, without a runtime.
struct Floor {
    sleeper: Sleeper,
    clock: Arc<Mutex<Option<Arc<Clock>>>>,
}

impl Floor {
    fn start() -> Floor {
        let clock: Arc<Mutex<Option<Arc<Clock>>>> = Arc::default();
        let shown = Arc::clone(&clock);
        let stop = move || {
            if let Some(clock) = shown.lock().unwrap().take() {
                clock.stop();
            }
        };
        Floor { sleeper: Sleeper::start(stop), clock }
    }

    fn once(&self, idle: Duration) -> Option<f64> {
        std::thread::sleep(idle);
        let clock = Arc::new(Clock::start());
        *self.clock.lock().unwrap() = Some(Arc::clone(&clock));
        self.sleeper.wake();
        clock.wait()
    }
}

/// A clock that measures from its start to [`Clock::stop`], which any thread can call.
struct Clock {
    start: Instant,
    /// The elapsed time in nanoseconds. 0 while the clock runs.
    elapsed: AtomicU64,
}

impl Clock {
    fn start() -> Clock {
        Clock { start: Instant::now(), elapsed: AtomicU64::new(0) }
    }

    fn stop(&self) {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.elapsed.store(nanos.max(1), Ordering::Release);
    }

    /// Spins until the clock is stopped, so that the submitter keeps its core busy like a working program.
    fn wait(&self) -> Option<f64> {
        loop {
            match self.elapsed.load(Ordering::Acquire) {
                0 if self.start.elapsed() > LOST => return None,
                0 => spin_loop(),
                nanos => return Some(nanos as f64 / 1000.0),
            }
        }
    }
}

fn inside<R: Send>(started: &Started, task: impl FnOnce() -> R + Send) -> R {
    match started {
        Started::Serial => task(),
        Started::Comity(pool) => pool.install(task),
        Started::Rayon(pool) => pool.install(task),
    }
}

fn join<A: Send, B: Send>(started: &Started, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    match started {
        Started::Serial => unreachable!("the bench compares pools"),
        Started::Comity(_) => comity::join(a, b),
        Started::Rayon(_) => rayon::join(a, b),
    }
}

fn spawn(started: &Started, task: impl FnOnce() + Send + 'static) {
    match started {
        Started::Serial => unreachable!("the bench compares pools"),
        Started::Comity(pool) => pool.spawn(task),
        Started::Rayon(pool) => pool.spawn(task),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["backend", "submitted by", "p50 µs", "p90 µs", "p99 µs", "max µs"]);
        for row in &self.rows {
            let times = [row.p50_us, row.p90_us, row.p99_us, row.max_us].map(|us| format!("{us:.1}"));
            table.add_row([row.backend.clone(), row.submitted_by.to_owned()].into_iter().chain(times));
        }
        format!(
            "Time from submission to start on another worker, after {} ms of idle time; {} workers, {} samples \
             each\n{table}\n",
            self.idle_ms, self.workers, self.samples
        )
    }
}
