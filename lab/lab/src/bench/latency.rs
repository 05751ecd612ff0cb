//! `comity-lab bench latency`: measures the time of a small parallel request while another program computes all the
//! time.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::joins::piece;
use comity_kernels::{Backend as Started, ForkJoin, OnComity, OnRayon};
use comity_os::task_group;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::child::{order, tell};
use super::harness::{self, Block, Harness};
use super::r#loop::steps_in;
use super::quartiles::{Quartiles, percentile};
use crate::backend::{Backend, BackendName, PolicyList, backends, default_workers, workers_range};
use crate::children::Children;
use crate::corun::{Grouping, task_grouping};
use crate::descendants;

const EXAMPLES: &str = "Examples:
  comity-lab bench latency
  comity-lab bench latency --policy comity,dws --weight 1000 --group separate
  comity-lab bench latency --work-us 5000 --every-ms 100 --workers 8";

/// Measure the response time of small parallel requests while another program computes, and that program's loss of
/// speed
///
/// Two programs share the machine through a core table of their own. The server gets a request at regular intervals and
/// is idle in between; a thread outside its pool waits for each request. The batch always has more tasks than workers.
/// In each round, the server runs alone, then the batch alone, then both together. Stock rayon takes part in the same
/// rounds.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to compare with stock rayon
    #[arg(long, value_name = "POLICY,…", default_value = "comity")]
    policy: PolicyList,
    /// Weights of the server; the batch has weight 100 [default: 100,1000]
    #[arg(long, value_name = "W,…", value_delimiter = ',', default_values_t = [100, 1000], hide_default_value = true,
        value_parser = whole::<u32>(1..=1_000_000))]
    weight: Vec<u32>,
    /// Sessions of the programs. With autogroup, each session is a task group
    #[arg(long, value_enum, value_name = "GROUPING", default_value = "same", hide_possible_values = true)]
    group: Grouping,
    /// Number of workers of each program, 1 to 1024 [default: COMITY_NUM_THREADS, RAYON_NUM_THREADS, or the usable
    /// cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Work in a request, in microseconds of one worker, 16 to 1000000
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = whole::<u64>(16..=1_000_000))]
    work_us: u64,
    /// Time from the start of one request to the start of the next, in milliseconds, 1 to 10000
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = whole::<u64>(1..=10_000))]
    every_ms: u64,
    /// Number of requests per round while the batch runs, 10 to 100000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = whole::<u32>(10..=100_000))]
    samples: u32,
    /// Number of rounds, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = whole::<u32>(1..=1_000))]
    rounds: u32,
    /// Print JSON (schema comity-bench-latency/1)
    #[arg(long)]
    json: bool,
    /// Be one of the two programs
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// Run on stock rayon
    #[arg(long, hide = true)]
    rayon: bool,
    /// Steps of arithmetic in a task
    #[arg(long, hide = true, default_value_t = 1)]
    steps: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Server,
    Batch,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Batch => "batch",
        }
    }
}

/// The number of tasks of a request.
const PIECES: u32 = 16;

/// The number of tasks that the batch runs before it checks again if it must stop. A task of the batch is as long as
/// a task of a request.
const BATCH: usize = 64;

/// The time for which both programs compute before the measurement begins.
const SETTLES: Duration = Duration::from_millis(300);

/// The longest time to wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(1200);

/// The answer of a program that has carried out its order.
#[derive(Serialize, Deserialize)]
enum Answer {
    Ready,
    /// Microseconds that each request took.
    Served(Vec<f64>),
    /// Tasks per second.
    Computed(f64),
}

/// The measurements of one contestant in a round.
#[derive(Serialize, Deserialize)]
struct Measured {
    alone_us: Vec<f64>,
    beside_us: Vec<f64>,
    /// Tasks per second of the batch.
    batch_alone: f64,
    batch_beside: f64,
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    grouping: &'static str,
    work_us: u64,
    every_ms: u64,
    samples: u32,
    rounds: usize,
    rows: Vec<Row>,
}

/// The result of one contestant. Times are milliseconds from the start of a request until it is done.
#[derive(Serialize)]
struct Row {
    backend: String,
    /// The weight of the server. `None` for a backend without weights.
    weight: Option<u32>,
    alone_p50_ms: f64,
    alone_p99_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// The batch's loss: 1 − (tasks per second together with the server) / (tasks per second alone).
    batch_loss: Quartiles,
}

/// A backend in the comparison, and the weight of its server.
#[derive(Clone, Copy)]
struct Contestant {
    backend: Backend,
    weight: Option<u32>,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    match arguments.role {
        Some(Role::Server) => return server(arguments),
        Some(Role::Batch) => return batch(arguments),
        None => {}
    }
    descendants::look_after()?;
    let workers = arguments.workers.map_or_else(default_workers, Ok)?;
    let backends = backends(std::slice::from_ref(&arguments.policy), &[BackendName::Rayon])?;
    let contestants: Vec<Contestant> =
        backends.iter().flat_map(|backend| weighed(*backend, &arguments.weight)).collect();
    let steps = steps_in(Duration::from_micros(arguments.work_us) / PIECES);
    let grouping = task_grouping(arguments.group);
    let Arguments { samples, work_us, every_ms, json, .. } = *arguments;
    let harness = Harness {
        name: "latency",
        setting: format!("{contestants:?}, {workers} workers, {work_us} µs every {every_ms} ms, {grouping}, {samples}"),
        has_own_table: false,
        blocks: Block::each_round(arguments.rounds),
        json,
        out,
    };
    let rows = contestants.clone();
    let report = move |done: &[Vec<Vec<Measured>>]| {
        let done: Vec<&Vec<Measured>> = done.iter().flatten().collect();
        Report {
            workers,
            grouping,
            work_us,
            every_ms,
            samples,
            rounds: done.len(),
            rows: rows.iter().enumerate().map(|(nth, contestant)| row(*contestant, nth, &done)).collect(),
        }
    };
    let measure = |turn: harness::Turn| {
        turn.in_turn(&contestants, |one| Programs::start(arguments, *one, workers, steps)?.measure(arguments))
    };
    harness.run(measure, report)
}

fn weighed(backend: Backend, weights: &[u32]) -> Vec<Contestant> {
    let shares = backend.policy().is_some_and(|policy| policy.shares_cores());
    let each = |weight: &u32| Contestant { backend, weight: Some(*weight) };
    if shares { weights.iter().map(each).collect() } else { vec![Contestant { backend, weight: None }] }
}

impl std::fmt::Debug for Contestant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.weight {
            Some(weight) => write!(f, "{} at {weight}", self.backend),
            None => write!(f, "{}", self.backend),
        }
    }
}

/// The processes of the server and the batch.
struct Programs {
    children: Children<Answer>,
    /// The folder with the core table of both programs. This field is last, so that the folder is deleted after both
    /// processes have ended.
    _folder: TempDir,
}

impl Programs {
    fn start(arguments: &Arguments, contestant: Contestant, workers: u16, steps: u64) -> Result<Programs, Failure> {
        let folder = tempfile::tempdir().map_err(|error| Failure::Run(format!("no temporary folder: {error}")))?;
        let mut children = Children::new(TIMEOUT);
        for (index, role) in [Role::Server, Role::Batch].into_iter().enumerate() {
            let mut command = Command::new("/proc/self/exe");
            command.args(["bench", "latency", "--role", role.name(), "--workers", &workers.to_string()]);
            command.args(["--steps", &steps.to_string(), "--every-ms", &arguments.every_ms.to_string()]);
            match contestant.backend.policy() {
                Some(policy) => command.args(["--policy", &policy.to_string()]),
                None => command.arg("--rayon"),
            };
            if arguments.group == Grouping::Separate {
                command.args(["--group", "separate"]);
            }
            for variable in ["COMITY", "COMITY_WATCH", "COMITY_TRACE", "COMITY_CORES", "COMITY_WEIGHT"] {
                command.env_remove(variable);
            }
            command.env("COMITY_TABLE", folder.path().join("table"));
            if let (Role::Server, Some(weight)) = (role, contestant.weight) {
                command.env("COMITY_WEIGHT", weight.to_string());
            }
            children.start(format!("the {}", role.name()), &mut command)?;
            children.expect(index);
            let (from, answer) = children.hear()?;
            if !matches!(answer, Answer::Ready) {
                return Err(children.fail(from, "answered out of turn".to_owned()));
            }
        }
        Ok(Programs { children, _folder: folder })
    }

    fn measure(mut self, arguments: &Arguments) -> Result<Measured, Failure> {
        let Arguments { samples, every_ms, .. } = *arguments;
        let alone_us = self.serve((samples / 4).max(10))?;
        self.children.tell(1, "go")?;
        thread::sleep(Duration::from_millis(every_ms) * (samples / 4).max(10));
        let batch_alone = self.stop()?;
        self.children.tell(1, "go")?;
        thread::sleep(SETTLES);
        self.children.tell(1, "count")?;
        let beside_us = self.serve(samples)?;
        let batch_beside = self.stop()?;
        self.children.close()?;
        Ok(Measured { alone_us, beside_us, batch_alone, batch_beside })
    }

    fn serve(&mut self, samples: u32) -> Result<Vec<f64>, Failure> {
        self.children.tell(0, &samples.to_string())?;
        self.children.expect(0);
        match self.children.hear()? {
            (_, Answer::Served(micros)) => Ok(micros),
            (from, _) => Err(self.children.fail(from, "answered out of turn".to_owned())),
        }
    }

    fn stop(&mut self) -> Result<f64, Failure> {
        self.children.tell(1, "stop")?;
        self.children.expect(1);
        match self.children.hear()? {
            (_, Answer::Computed(rate)) => Ok(rate),
            (from, _) => Err(self.children.fail(from, "answered out of turn".to_owned())),
        }
    }
}

fn row(contestant: Contestant, nth: usize, rounds: &[&Vec<Measured>]) -> Row {
    let all = |of: &dyn Fn(&Measured) -> &Vec<f64>| -> Vec<f64> {
        rounds.iter().flat_map(|round| of(&round[nth]).iter().map(|micros| micros / 1e3)).collect()
    };
    let (alone, beside) = (all(&|round| &round.alone_us), all(&|round| &round.beside_us));
    let loss = |round: &&Vec<Measured>| 1.0 - round[nth].batch_beside / round[nth].batch_alone;
    Row {
        backend: contestant.backend.to_string(),
        weight: contestant.weight,
        alone_p50_ms: percentile(&alone, 50),
        alone_p99_ms: percentile(&alone, 99),
        p50_ms: percentile(&beside, 50),
        p99_ms: percentile(&beside, 99),
        max_ms: beside.iter().copied().fold(0.0, f64::max),
        batch_loss: Quartiles::of(&rounds.iter().map(loss).collect::<Vec<f64>>()),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["backend", "weight", "alone p50 ms", "p99", "together p50 ms", "p99", "max", "batch's loss"]);
        for row in &self.rows {
            let millis = [row.alone_p50_ms, row.alone_p99_ms, row.p50_ms, row.p99_ms, row.max_ms];
            let Quartiles { lower, median, upper } = row.batch_loss;
            let weight = row.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string());
            let mut cells = vec![row.backend.clone(), weight];
            cells.extend(millis.map(|millis| format!("{millis:.2}")));
            cells.push(format!("{:.1} % ({:.1}–{:.1})", 100.0 * median, 100.0 * lower, 100.0 * upper));
            table.add_row(cells);
        }
        format!(
            "{table}\n\nRequests of {} µs of work every {} ms; {} rounds of {} requests while the batch runs; {} \
             workers in each program, task groups: {}.\nweight: the server's; the batch has 100. batch's loss: medians \
             (quartiles) over the rounds.\n",
            self.work_us, self.every_ms, self.rounds, self.samples, self.workers, self.grouping
        )
    }
}

fn pool(arguments: &Arguments) -> Result<Started, Failure> {
    if arguments.group == Grouping::Separate {
        task_group::new_session().map_err(|error| Failure::Run(format!("cannot start a session: {error}")))?;
    }
    let policy = arguments.policy.0.first().copied().unwrap_or_default();
    let backend = if arguments.rayon { Backend::Rayon } else { Backend::Comity(policy) };
    backend.start(arguments.workers.unwrap_or(1))
}

fn compute(pool: &Started, pieces: usize, steps: u64) {
    fn all(on: impl ForkJoin, pieces: usize, steps: u64) {
        on.for_range(0..pieces, 1, &|range| {
            for nth in range {
                black_box(piece(nth, steps));
            }
        });
    }
    match pool {
        Started::Serial => unreachable!("the bench compares pools"),
        Started::Comity(pool) => pool.install(|| all(OnComity, pieces, steps)),
        Started::Rayon(pool) => pool.install(|| all(OnRayon, pieces, steps)),
    }
}

fn server(arguments: &Arguments) -> Result<(), Failure> {
    let pool = pool(arguments)?;
    let every = Duration::from_millis(arguments.every_ms);
    compute(&pool, PIECES as usize, arguments.steps);
    tell(&Answer::Ready)?;
    while let Some(samples) = order().and_then(|order| order.parse::<u32>().ok()) {
        let mut micros = Vec::new();
        let mut next = Instant::now();
        for _ in 0..samples {
            // A request that takes too long delays the next one, because the client waits for the answer.
            next = (next + every).max(Instant::now());
            thread::sleep(next - Instant::now());
            let began = Instant::now();
            compute(&pool, PIECES as usize, arguments.steps);
            micros.push(began.elapsed().as_secs_f64() * 1e6);
        }
        tell(&Answer::Served(micros))?;
    }
    Ok(())
}

fn batch(arguments: &Arguments) -> Result<(), Failure> {
    let pool = pool(arguments)?;
    tell(&Answer::Ready)?;
    while order().is_some() {
        let (stops, tasks, mut began) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stops.load(Ordering::Relaxed) {
                    compute(&pool, BATCH, arguments.steps);
                    tasks.fetch_add(BATCH as u64, Ordering::Relaxed);
                }
            });
            // After the order `count`, the tasks are counted until the next order. Tasks before the order are not
            // counted.
            while order().is_some_and(|order| order == "count") {
                tasks.store(0, Ordering::Relaxed);
                began = Instant::now();
            }
            stops.store(true, Ordering::Relaxed);
        });
        tell(&Answer::Computed(tasks.into_inner() as f64 / began.elapsed().as_secs_f64()))?;
    }
    Ok(())
}
