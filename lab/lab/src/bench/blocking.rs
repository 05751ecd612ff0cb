//! `comity-lab bench blocking`: measures tasks that block, under Comity, tokio and smol.

pub mod executor;
#[cfg(feature = "peers")]
mod peers;
#[cfg(not(feature = "peers"))]
#[path = "blocking/no_peers.rs"]
mod peers;
pub mod workloads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use comity_console::Failure;
use comity_console::output::ResultFile;
use comity_console::parse::whole;
use comity_kernels::joins::piece;
use comity_papers::figure::{Axis, Figure, Marks, Series};
use serde::{Deserialize, Serialize};

use self::executor::Name;
use self::workloads::{Measured, Plan, Workload};
use super::harness::{self, Block, Harness};
use super::r#loop::steps_in;
use super::quartiles::Quartiles;
use super::ratio::Ratio;
use crate::backend::{MAX_WORKERS, PolicyList};
use crate::figure;

const EXAMPLES: &str = "Examples:
  comity-lab bench blocking
  comity-lab bench blocking --workload ring,pipeline \\
      --policy comity,comity:place=current --n 64 --w-us 1,10";

/// Measure programs whose tasks block and unblock each other, compared with tokio and smol: time / ideal time
///
/// The ideal time is that of plain threads that do the same arithmetic without communication, in the same run. There is
/// one thread per worker, at most one per core. tokio runs twice; the second time is the control. All backends use
/// tokio's channels.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Workloads to measure
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "scatter-gather")]
    workload: Vec<Workload>,
    /// Policies to compare
    #[arg(long, value_name = "POLICY,…", default_value = "comity")]
    policy: PolicyList,
    /// Numbers of workers of each pool, 1 to 1024 each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,8", value_parser = whole::<u16>(1..=u64::from(MAX_WORKERS)))]
    workers: Vec<u16>,
    /// Sizes n of the workloads, 2 to 100000 each: workers of scatter-gather, messages in the pipeline, leaves of the
    /// tree, tasks of the ring, tasks of the pairs
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "50,250,1000", value_parser = whole::<u32>(2..=100_000))]
    n: Vec<u32>,
    /// Work per message, in microseconds, 1 to 100000 each
    #[arg(long, value_name = "US,…", value_delimiter = ',', default_value = "1,10,100", value_parser = whole::<u32>(1..=100_000))]
    w_us: Vec<u32>,
    /// Do not measure tokio and smol
    #[arg(long)]
    alone: bool,
    /// Approximate ideal time of a run, in milliseconds, 1 to 60000 [default: 50, or 2 with --quick]
    #[arg(long, value_name = "MS", value_parser = whole::<u32>(1..=60_000))]
    run_ms: Option<u32>,
    /// Number of rounds per backend, 1 to 100000 [default: 7, or 2 with --quick]
    #[arg(long, value_name = "R", value_parser = whole::<u32>(1..=100_000))]
    rounds: Option<u32>,
    /// Run a short test that everything works; its numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Draw an SVG file in this folder for each workload and number of workers
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print JSON (schema comity-bench-blocking/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    rounds: u32,
    rows: Vec<Row>,
    #[serde(skip)]
    figures: Arc<Vec<(Workload, u16, ResultFile)>>,
}

/// The result of one backend at one point.
#[derive(Serialize)]
struct Row {
    workload: Workload,
    n: u32,
    w_us: u32,
    workers: u16,
    backend: String,
    /// The number of counted rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// True if this row is the second run of a backend, as a control.
    is_control: bool,
    /// Wall-clock time divided by the ideal time of the same point.
    over_ideal: Quartiles,
    /// Wall-clock time divided by the first backend's time in the same round.
    over_first: Ratio,
    /// Context switches of the process per thousand messages.
    switches_per_1000: Quartiles,
    /// Attempts to steal per thousand messages, if the executor counts them.
    steal_attempts_per_1000: Option<Quartiles>,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 2 } else { 7 });
    let run_ms = arguments.run_ms.unwrap_or(if arguments.quick { 2 } else { 50 });
    let mut names: Vec<Name> = Vec::new();
    if !arguments.alone {
        super::say_without_peers("tokio and smol");
        names.extend(peers::PEERS.iter().map(|peer| Name::Peer(*peer)));
    }
    names.extend(arguments.policy.0.iter().map(|policy| Name::Comity(*policy)));
    let figures = Arc::new(match &arguments.svg {
        Some(directory) => figures(arguments, directory)?,
        None => Vec::new(),
    });
    let mut points = Vec::new();
    for workload in &arguments.workload {
        for w_us in &arguments.w_us {
            let steps = steps_in(std::time::Duration::from_micros((*w_us).into()));
            for n in &arguments.n {
                for workers in &arguments.workers {
                    let point = Point { workload: *workload, n: *n, w_us: *w_us, workers: *workers, steps, run_ms };
                    points.push(point);
                }
            }
        }
    }
    let backends: Vec<String> = names.iter().map(Name::to_string).collect();
    let harness = Harness {
        name: "blocking",
        setting: format!("{}, runs of {run_ms} ms", backends.join(", ")),
        has_own_table: false,
        blocks: points.iter().map(|point| Block { name: point.name(), rounds: rounds as usize }).collect(),
        json: arguments.json,
        out,
    };
    let (told, backends) = (points.clone(), names.clone());
    let measure = |turn: harness::Turn| {
        let point = &points[turn.block];
        // The first round warms up and is not counted.
        let warm = turn.is_first.then(|| point.run_all(&names, 0)).transpose()?;
        let round = point.run_all(&names, turn.round + 1)?;
        Ok(Round { ideal: warm.map_or(round.ideal, |warm| warm.ideal.min(round.ideal)), ..round })
    };
    let report = move |done: &[Vec<Round>]| {
        let measured = told.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty());
        Report {
            rounds,
            rows: measured.flat_map(|(point, rounds)| point.compare(&backends, rounds)).collect(),
            figures: Arc::clone(&figures),
        }
    };
    harness.run(measure, report)
}

/// Checks one output file for each workload and number of workers.
fn figures(arguments: &Arguments, directory: &Path) -> Result<Vec<(Workload, u16, ResultFile)>, Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::Usage(format!("cannot create the folder '{}': {error}. Choose another --svg", directory.display()))
    })?;
    let by_workers =
        |workload: &Workload| arguments.workers.iter().map(|workers| (*workload, *workers)).collect::<Vec<_>>();
    let file = |(workload, workers): (Workload, u16)| {
        let path = directory.join(format!("{}-{workers}.svg", workload.name()));
        Ok((workload, workers, ResultFile::check(&path, "--svg")?))
    };
    arguments.workload.iter().flat_map(by_workers).map(file).collect()
}

impl Report {
    /// Draws `time / ideal time` over the work per message, for the smallest and the largest number of tasks.
    fn figure(&self, workload: Workload, workers: u16) -> Figure {
        let all = self.rows.iter().map(|row| row.n);
        let ends = [all.clone().min(), all.max()];
        let mut series: Vec<Series> = Vec::new();
        let own = |row: &&Row| row.workload == workload && row.workers == workers && ends.contains(&Some(row.n));
        for row in self.rows.iter().filter(own).filter(|row| !row.is_control) {
            let name = format!("{}, n = {}", row.backend, row.n);
            let point = (row.w_us.into(), row.over_ideal.median);
            let interval = row.over_ideal.interval(row.w_us.into());
            match series.iter_mut().find(|line| line.name == name) {
                Some(line) => {
                    line.points.push(point);
                    line.intervals.push(interval);
                }
                None => series.push(Series::new(name, Marks::Line, vec![point]).with_intervals([interval])),
            }
        }
        Figure {
            title: format!("{} with {workers} workers", workload.name()),
            x: Axis::log("work per message, µs"),
            y: Axis::linear("time / ideal time"),
            series,
        }
    }
}

/// The measurements of one round at one point.
#[derive(Serialize, Deserialize)]
struct Round {
    /// The ideal time, in seconds: the arithmetic alone. In a first round, the shorter of two measurements.
    ideal: f64,
    /// Steps of arithmetic per message. Each process of this command measures how many steps take the requested time.
    steps: u64,
    /// The run of each backend.
    runs: Vec<Run>,
}

/// The setting under which the backends are compared.
#[derive(Clone)]
struct Point {
    workload: Workload,
    n: u32,
    w_us: u32,
    workers: u16,
    steps: u64,
    run_ms: u32,
}

impl Point {
    fn name(&self) -> String {
        let Point { workload, n, w_us, workers, .. } = self;
        format!("{}, {w_us} µs, n = {n}, {workers} workers", workload.name())
    }

    /// Returns the plan that every backend runs, and the number of threads on which the ideal time is measured.
    fn plan(&self) -> (Plan, usize) {
        let mut plan = Plan { workload: self.workload, n: self.n, steps: self.steps, rounds: 1 };
        let threads =
            if plan.is_serial() { 1 } else { usize::from(self.workers).min(comity_os::cores::usable().get()) };
        let round_ms = plan.messages() as f64 * f64::from(self.w_us) / 1000.0 / threads as f64;
        plan.rounds = (f64::from(self.run_ms) / round_ms).ceil().max(1.0) as u32;
        (plan, threads)
    }

    fn messages(&self) -> u64 {
        let (plan, _) = self.plan();
        plan.messages() * u64::from(plan.rounds)
    }

    /// Runs all backends, with one pool at a time, because some policies never rest.
    fn run_all(&self, names: &[Name], round: usize) -> Result<Round, Failure> {
        let (plan, threads) = self.plan();
        let ideal = ideal(self.messages(), threads, self.steps);
        let mut runs: Vec<Option<Run>> = names.iter().map(|_| None).collect();
        for nth in 0..names.len() {
            // The order of the backends rotates, so that no backend always follows the same other backend.
            let turn = (nth + round) % names.len();
            let executor = names[turn].start(self.workers)?;
            let before = executor.steal_attempts();
            let Measured { seconds, switches } = plan.run(&executor);
            let attempts = executor.steal_attempts().zip(before).map(|(after, before)| after - before);
            runs[turn] = Some(Run { seconds, switches, attempts });
        }
        Ok(Round { ideal, steps: self.steps, runs: runs.into_iter().flatten().collect() })
    }

    fn compare(&self, names: &[Name], rounds: &[Round]) -> Vec<Row> {
        let messages = self.messages();
        let seconds = |nth: usize| rounds.iter().map(|round| round.runs[nth].seconds).collect::<Vec<f64>>();
        // The smallest ideal time is used, because other programs disturbed that measurement least.
        let ideal = rounds.iter().map(|round| round.ideal / round.steps as f64).fold(f64::INFINITY, f64::min);
        let over_ideal = |nth: usize| {
            let over = |round: &Round| round.runs[nth].seconds / round.steps as f64 / ideal;
            rounds.iter().map(over).collect::<Vec<f64>>()
        };
        let per_1000 = |count: f64| count * 1000.0 / messages as f64;
        let rows = names.iter().enumerate().map(|(nth, name)| {
            let own = rounds.iter().map(|round| &round.runs[nth]);
            let attempts: Option<Vec<f64>> = own.clone().map(|run| run.attempts.map(|n| per_1000(n as f64))).collect();
            let is_control = names[..nth].contains(name);
            Row {
                workload: self.workload,
                n: self.n,
                w_us: self.w_us,
                workers: self.workers,
                is_control,
                rounds: rounds.len(),
                backend: if is_control { format!("{name} again (control)") } else { name.to_string() },
                over_ideal: Quartiles::of(&over_ideal(nth)),
                over_first: Ratio::of(&seconds(nth), &seconds(0)),
                switches_per_1000: Quartiles::of(&own.map(|run| per_1000(run.switches as f64)).collect::<Vec<f64>>()),
                steal_attempts_per_1000: attempts.map(|attempts| Quartiles::of(&attempts)),
            }
        });
        rows.collect()
    }
}

#[derive(Serialize, Deserialize)]
struct Run {
    seconds: f64,
    switches: u64,
    /// Attempts to steal, including attempts in the warm-up rounds.
    attempts: Option<u64>,
}

/// Measures the seconds that the arithmetic alone takes, divided equally among `threads` threads.
fn ideal(messages: u64, threads: usize, steps: u64) -> f64 {
    let barrier = std::sync::Barrier::new(threads);
    let part = messages.div_ceil(threads as u64);
    std::thread::scope(|scope| {
        let measure = || {
            barrier.wait();
            let start = Instant::now();
            for nth in 0..part {
                std::hint::black_box(piece(nth as usize, steps));
            }
            start.elapsed().as_secs_f64()
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(measure)).collect();
        handles.into_iter().map(|handle| handle.join().expect("arithmetic does not panic")).fold(0.0, f64::max)
    })
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header([
            "workload",
            "w µs",
            "n",
            "workers",
            "backend",
            "over ideal",
            "over the first",
            "switches per 1000",
            "steal attempts per 1000",
        ]);
        for row in &self.rows {
            table.add_row([
                format!("{:?}", row.workload),
                row.w_us.to_string(),
                row.n.to_string(),
                row.workers.to_string(),
                row.backend.clone(),
                row.over_ideal.told(2),
                row.over_first.to_string(),
                format!("{:.1}", row.switches_per_1000.median),
                row.steal_attempts_per_1000.map_or("–".to_owned(), |attempts| format!("{:.0}", attempts.median)),
            ]);
        }
        format!("{} rounds: medians (quartiles)\n{table}\n", self.rounds)
    }

    fn files(&self) -> Vec<(&ResultFile, String)> {
        self.figures
            .iter()
            .map(|(workload, workers, file)| (file, figure::svg(&self.figure(*workload, *workers))))
            .collect()
    }
}
