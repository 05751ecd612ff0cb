//! `comity-lab bench accelerate`: measures how much of their time thieves (workers without a task) pass to the only
//! worker that has a task.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use comity::{Refusal, ThreadPool, ThreadPoolBuilder, WorkerCounters};
use comity_console::Failure;
use comity_console::parse::whole;
use comity_os::cpu_clock::{ThreadId, of_process};
use comity_os::{affinity, cores, task_group};
use comity_policy::Policy;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::child::{order, tell};
use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use crate::backend::{PolicyList, workers_range};
use crate::children::Children;
use crate::corun::{Grouping, task_grouping};
use crate::descendants;

const EXAMPLES: &str = "Examples:
  comity-lab bench accelerate
  comity-lab bench accelerate --policy bws,robinhood --workers 8 --rounds 15";

/// Measure the processor time of a worker that has the only task, while another program computes on all cores
///
/// The measured program has one task without children; all its other workers are thieves. The other program, the
/// neighbour, has a thread on each core that never rests. Two programs without a pool give the bounds: one with thieves
/// that spin, and one without thieves. In each round, each program runs once in the neighbour's task group and once in
/// a task group of its own.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to compare
    #[arg(long, value_name = "POLICY,…", default_value = "abp,bws,robinhood,comity")]
    policy: PolicyList,
    /// Number of workers of the program, 2 to 1024 [default: one more than the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Counted time of each round, in milliseconds, 100 to 100000
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = whole::<u64>(100..=100_000))]
    count_ms: u64,
    /// Number of rounds, 1 to 1000
    #[arg(long, value_name = "R", default_value_t = 7, value_parser = whole::<u32>(1..=1_000))]
    rounds: u32,
    /// Print JSON (schema comity-bench-accelerate/1)
    #[arg(long)]
    json: bool,
    /// Be one of the two programs
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// Be in a session of its own
    #[arg(long, hide = true)]
    apart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// A pool.
    Pool,
    /// A busy thread, and others that spin.
    Spins,
    /// A busy thread.
    Rests,
    Neighbour,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Pool => "pool",
            Role::Spins => "spins",
            Role::Rests => "rests",
            Role::Neighbour => "neighbour",
        }
    }
}

/// The time for which both programs run before the measurement begins.
const SETTLES: Duration = Duration::from_millis(300);

/// The longest time to wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Serialize, Deserialize)]
enum Answer {
    Ready,
    Counted(Counted),
}

/// The rates of one program while it was counted.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Counted {
    /// Processor seconds per second of the thread with the task.
    busy: f64,
    /// Processor seconds per second of all threads of the program.
    all: f64,
    /// Accelerations per second.
    accelerations: f64,
    /// Refused accelerations per second, without the refusals because there is no hypervisor.
    refused: f64,
}

/// The result of one contestant in a round.
#[derive(Serialize, Deserialize)]
struct Measured {
    program: Counted,
    /// Processor seconds per second of the neighbour.
    neighbour: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Contestant {
    role: Role,
    policy: Option<Policy>,
    grouping: Grouping,
}

impl Display for Contestant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.role, self.policy) {
            (_, Some(policy)) => write!(f, "{policy}"),
            (Role::Spins, _) => f.write_str("spinning threads (bound)"),
            (..) => f.write_str("no thieves (bound)"),
        }
    }
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    cores: usize,
    count_ms: u64,
    rounds: usize,
    rows: Vec<Row>,
}

/// The result of one contestant. Processor time is in cores of the machine.
#[derive(Serialize)]
struct Row {
    contestant: String,
    grouping: &'static str,
    /// The processor time of the worker with the task, at most 1 core.
    busy: Quartiles,
    /// The processor time of the other workers.
    thieves: Quartiles,
    neighbour: Quartiles,
    accelerations_per_s: Quartiles,
    refused_per_s: Quartiles,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let machine_cores = cores::allowed().len();
    let workers = arguments.workers.unwrap_or_else(|| u16::try_from(machine_cores + 1).unwrap_or(u16::MAX).min(1024));
    if workers < 2 {
        return Err(Failure::Usage("a pool with one worker has no thief. Give --workers 2 or more".to_owned()));
    }
    match arguments.role {
        Some(Role::Neighbour) => return neighbour(arguments),
        Some(role) => return program(arguments, role, workers),
        None => {}
    }
    descendants::look_after()?;
    let contestants: Vec<Contestant> = [Grouping::Same, Grouping::Separate]
        .into_iter()
        .flat_map(|grouping| {
            let pools = arguments.policy.0.iter().map(|policy| (Role::Pool, Some(*policy)));
            let bounds = [(Role::Spins, None), (Role::Rests, None)];
            pools.chain(bounds).map(move |(role, policy)| Contestant { role, policy, grouping })
        })
        .collect();
    let Arguments { count_ms, json, .. } = *arguments;
    let names: Vec<String> = contestants.iter().map(Contestant::to_string).collect();
    let harness = Harness {
        name: "accelerate",
        setting: format!("{}, {workers} workers, {machine_cores} cores, {count_ms} ms", names.join(", ")),
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
            cores: machine_cores,
            count_ms,
            rounds: done.len(),
            rows: rows.iter().enumerate().map(|(nth, contestant)| row(*contestant, nth, &done)).collect(),
        }
    };
    let measure = |turn: harness::Turn| turn.in_turn(&contestants, |contestant| beside(*contestant, workers, count_ms));
    harness.run(measure, report)
}

/// Measures the contestant once while the neighbour runs.
fn beside(contestant: Contestant, workers: u16, count_ms: u64) -> Result<Measured, Failure> {
    let folder: TempDir = tempfile::tempdir().map_err(|error| Failure::Run(format!("no temporary folder: {error}")))?;
    let mut children = Children::new(TIMEOUT);
    for (index, role) in [contestant.role, Role::Neighbour].into_iter().enumerate() {
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "accelerate", "--role", role.name(), "--workers", &workers.to_string()]);
        if let Some(policy) = contestant.policy {
            command.args(["--policy", &policy.to_string()]);
        }
        if contestant.grouping == Grouping::Separate {
            command.arg("--apart");
        }
        for variable in ["COMITY", "COMITY_WATCH", "COMITY_TRACE", "COMITY_CORES", "COMITY_WEIGHT"] {
            command.env_remove(variable);
        }
        command.env("COMITY_TABLE", folder.path().join("table"));
        children.start(format!("the {}", role.name()), &mut command)?;
        children.expect(index);
        let (from, answer) = children.hear()?;
        if !matches!(answer, Answer::Ready) {
            return Err(children.fail(from, "answered out of turn".to_owned()));
        }
    }
    thread::sleep(SETTLES);
    let mut counted = [None; 2];
    for index in 0..2 {
        children.tell(index, &count_ms.to_string())?;
    }
    for _ in 0..2 {
        match children.hear()? {
            (from, Answer::Counted(of)) => counted[from] = Some(of),
            (from, Answer::Ready) => return Err(children.fail(from, "answered out of turn".to_owned())),
        }
    }
    children.close()?;
    let [program, neighbour] = counted.map(|counted| counted.expect("each has answered once"));
    Ok(Measured { program, neighbour: neighbour.all })
}

fn row(contestant: Contestant, nth: usize, rounds: &[&Vec<Measured>]) -> Row {
    let over = |of: &dyn Fn(&Measured) -> f64| {
        Quartiles::of(&rounds.iter().map(|round| of(&round[nth])).collect::<Vec<f64>>())
    };
    Row {
        contestant: contestant.to_string(),
        grouping: task_grouping(contestant.grouping),
        busy: over(&|measured| measured.program.busy),
        thieves: over(&|measured| measured.program.all - measured.program.busy),
        neighbour: over(&|measured| measured.neighbour),
        accelerations_per_s: over(&|measured| measured.program.accelerations),
        refused_per_s: over(&|measured| measured.program.refused),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header([
            "contestant",
            "task groups",
            "busy worker",
            "thieves",
            "neighbour",
            "accelerated/s",
            "refused/s",
        ]);
        for row in &self.rows {
            let cores = [row.busy, row.thieves, row.neighbour].map(|cores| cores.told(2));
            let rates = [row.accelerations_per_s, row.refused_per_s].map(|rate| rate.told(0));
            let names = [row.contestant.clone(), row.grouping.to_owned()];
            table.add_row(names.into_iter().chain(cores).chain(rates));
        }
        format!(
            "{table}\n\nCores used, of {}: medians (quartiles) of {} rounds of {} ms. The program has {} workers and \
             one task. The neighbour has a thread on each core; its fair part is {:.1}.\n",
            self.cores,
            self.rounds,
            self.count_ms,
            self.workers,
            self.cores as f64 / 2.0
        )
    }
}

fn stand_apart(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.apart {
        task_group::new_session().map_err(|error| Failure::Run(format!("cannot start a session: {error}")))?;
    }
    Ok(())
}

fn spin(ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        (0..100).for_each(|_| std::hint::spin_loop());
    }
}

/// Reads orders until the end of the input. An order is a number of milliseconds: counts for this time, and answers.
fn count(busy: impl Fn() -> Duration, pool: Option<&ThreadPool>) -> Result<(), Failure> {
    tell(&Answer::Ready)?;
    let all = || of_process(std::process::id()).unwrap_or_default();
    let counters = || pool.map(|pool| WorkerCounters::total(&pool.counters())).unwrap_or_default();
    while let Some(millis) = order().and_then(|order| order.parse::<u64>().ok()) {
        // The processor clocks are read after the wall clock starts and before it stops. Therefore a preemption
        // between two calls cannot make a program appear to have more cores than the machine.
        let (began, before) = (Instant::now(), (busy(), all(), counters()));
        thread::sleep(Duration::from_millis(millis));
        let (after, lasted) = ((busy(), all()), began.elapsed().as_secs_f64());
        let done = counters().since(&before.2);
        let refused = Refusal::ALL.iter().copied().filter(|refusal| *refusal != Refusal::NoHypervisor);
        tell(&Answer::Counted(Counted {
            busy: (after.0 - before.0).as_secs_f64() / lasted,
            all: (after.1 - before.1).as_secs_f64() / lasted,
            accelerations: done.accelerations as f64 / lasted,
            refused: refused.map(|refusal| done.refusals.of(refusal)).sum::<u64>() as f64 / lasted,
        }))?;
    }
    Ok(())
}

/// Returns a clock of the thread with the task, after that thread has stored its id in `thread`.
fn clock_of(thread: &AtomicI32) -> impl Fn() -> Duration {
    while thread.load(Ordering::Relaxed) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let thread = ThreadId::from_raw(thread.load(Ordering::Relaxed));
    move || thread.cpu_time().unwrap_or_default()
}

fn program(arguments: &Arguments, role: Role, workers: u16) -> Result<(), Failure> {
    stand_apart(arguments)?;
    let (ends, busy) = (AtomicBool::new(false), AtomicI32::new(0));
    let task = || {
        busy.store(ThreadId::current().as_raw(), Ordering::Relaxed);
        spin(&ends);
    };
    let pool = match role {
        Role::Pool => {
            let policy = arguments.policy.0.first().copied().unwrap_or_default();
            let builder = ThreadPoolBuilder::new().num_threads(workers.into()).policy(policy);
            Some(builder.build().map_err(|error| Failure::Run(error.to_string()))?)
        }
        _ => None,
    };
    thread::scope(|scope| {
        match &pool {
            Some(pool) => _ = scope.spawn(|| pool.install(task)),
            None => {
                scope.spawn(task);
                let thieves = if role == Role::Spins { workers - 1 } else { 0 };
                (0..thieves).for_each(|_| _ = scope.spawn(|| spin(&ends)));
            }
        }
        let counted = count(clock_of(&busy), pool.as_ref());
        ends.store(true, Ordering::Relaxed);
        counted
    })
}

fn neighbour(arguments: &Arguments) -> Result<(), Failure> {
    stand_apart(arguments)?;
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for core in cores::allowed() {
            let ends = &ends;
            scope.spawn(move || {
                affinity::confine(ThreadId::current(), [core.id].into_iter().collect());
                spin(ends);
            });
        }
        let counted = count(Duration::default, None);
        ends.store(true, Ordering::Relaxed);
        counted
    })
}
