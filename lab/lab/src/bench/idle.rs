//! `comity-lab bench idle`: measures the processor time that workers without work use.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::{Backend as Started, ForkJoin, OnComity, OnRayon};
use comity_os::cpu_clock::ThreadId;
use comity_os::usage::Usage;
use comity_policy::Policy;
use serde::{Deserialize, Serialize};

use super::harness::{self, Block, Harness};
use crate::backend::{Backend, BackendName, MAX_WORKERS, PolicyList, backends};

const EXAMPLES: &str = "Examples:
  comity-lab bench idle
  comity-lab bench idle --policy comity,bws --threads 2,16 --seconds 1";

/// Measure the processor time of idle pools, and of the other workers while one worker runs a serial task
///
/// One pool exists at a time. It first runs some work, so that its workers have been awake. Then it idles, and then one
/// of its workers runs a serial task. Stock rayon takes part in the same run. The machine must be quiet, because a
/// thief that yields uses only time that no other program uses.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to compare with stock rayon [default: all policies]
    #[arg(long, value_name = "POLICY,…")]
    policy: Option<PolicyList>,
    /// Sizes of the pools, in workers, 1 to 1024 each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,16,64", value_parser = whole::<u16>(1..=u64::from(MAX_WORKERS)))]
    threads: Vec<u16>,
    /// Idle time, in seconds, 1 to 3600
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = whole::<u64>(1..=3600))]
    seconds: u64,
    /// Time of the serial task, in seconds, 1 to 3600
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = whole::<u64>(1..=3600))]
    task_seconds: u64,
    /// Print JSON (schema comity-bench-idle/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    seconds: u64,
    task_seconds: u64,
    rows: Vec<Row>,
}

/// The measurements of a backend's pool of one size.
#[derive(Clone, Serialize, Deserialize)]
struct Row {
    backend: String,
    threads: u16,
    idle: Burnt,
    beside_a_task: Burnt,
}

/// The processor time and switches of a pool's workers that had no task.
#[derive(Clone, Serialize, Deserialize)]
struct Burnt {
    /// Processor seconds, without the time of the task.
    cpu_s: f64,
    /// Voluntary context switches; most of them are wake-ups.
    voluntary_switches: u64,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let policies = arguments.policy.clone().unwrap_or_else(|| PolicyList(Policy::all().collect()));
    let backends = backends(&[policies], &[BackendName::Rayon])?;
    let by = |backend: &Backend| arguments.threads.iter().map(|threads| (*backend, *threads)).collect::<Vec<_>>();
    let pools: Vec<(Backend, u16)> = backends.iter().flat_map(by).collect();
    let Arguments { seconds, task_seconds, json, .. } = *arguments;
    let block =
        |(backend, threads): &(Backend, u16)| Block { name: format!("{backend}, {threads} workers"), rounds: 1 };
    let harness = Harness {
        name: "idle",
        setting: format!("{seconds} s of idleness, a task of {task_seconds} s"),
        has_own_table: false,
        blocks: pools.iter().map(block).collect(),
        json,
        out,
    };
    let report = move |done: &[Vec<Row>]| Report { seconds, task_seconds, rows: done.concat() };
    let measure = |turn: harness::Turn| {
        let (backend, threads) = pools[turn.block];
        burn(backend, threads, arguments)
    };
    harness.run(measure, report)
}

fn burn(backend: Backend, threads: u16, arguments: &Arguments) -> Result<Row, Failure> {
    let pool = backend.start(threads)?;
    let task = Duration::from_secs(arguments.task_seconds);
    work(&pool, threads);
    let idle = idle(Duration::from_secs(arguments.seconds));
    work(&pool, threads);
    let beside_a_task = match &pool {
        Started::Comity(pool) => pool.install(|| beside(task)),
        Started::Rayon(pool) => pool.install(|| beside(task)),
        Started::Serial => beside(task),
    };
    // Waits for the end of the pool's threads, so that they do not disturb the next pool. A rayon pool ends without a
    // wait.
    if let Started::Comity(pool) = pool {
        pool.shutdown();
    }
    Ok(Row { backend: backend.to_string(), threads, idle, beside_a_task })
}

/// Gives every worker some milliseconds of work.
fn work(pool: &Started, threads: u16) {
    let leaf = |part: std::ops::Range<usize>| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {
            spin_loop();
        }
        part.len()
    };
    let pieces = 500 + 10 * usize::from(threads);
    let add = |a: usize, b: usize| a + b;
    black_box(match pool {
        Started::Comity(pool) => pool.install(|| OnComity.reduce_range(0..pieces, 1, &leaf, &add)),
        Started::Rayon(pool) => pool.install(|| OnRayon.reduce_range(0..pieces, 1, &leaf, &add)),
        Started::Serial => pieces,
    });
}

/// Measures the pool for `time` while no worker has a task. The calling thread is not a worker.
fn idle(time: Duration) -> Burnt {
    let used = Usage::of_this_process();
    std::thread::sleep(time);
    Burnt::of(Usage::of_this_process().since(used), Duration::ZERO)
}

/// Measures the pool for `time` while the calling worker runs one task, whose processor time is subtracted.
fn beside(time: Duration) -> Burnt {
    let me = ThreadId::current();
    let own = || me.cpu_time().expect("the calling thread has not ended");
    let (used, own_before) = (Usage::of_this_process(), own());
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
    let own = own() - own_before;
    Burnt::of(Usage::of_this_process().since(used), own)
}

impl Burnt {
    fn of(used: Usage, task: Duration) -> Burnt {
        Burnt { cpu_s: used.cpu.saturating_sub(task).as_secs_f64(), voluntary_switches: used.voluntary_switches }
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["backend", "threads", "idle: cpu s", "switches", "during a task: cpu s", "switches"]);
        for row in &self.rows {
            table.add_row([
                row.backend.clone(),
                row.threads.to_string(),
                format!("{:.3}", row.idle.cpu_s),
                row.idle.voluntary_switches.to_string(),
                format!("{:.3}", row.beside_a_task.cpu_s),
                row.beside_a_task.voluntary_switches.to_string(),
            ]);
        }
        format!(
            "Processor seconds of a pool in {} s of idle time, and of its other workers during one task of {} \
             s\n{table}\n",
            self.seconds, self.task_seconds
        )
    }
}
