//! `comity-lab bench fork-join`: measures what a join costs and what a second worker gains.

use std::path::Path;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::joins::{self, Input, Run};
use comity_kernels::{Backend as Started, abp};
use serde::Serialize;

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use crate::backend::{Backend, BackendName, MAX_WORKERS};

const EXAMPLES: &str = "Examples:
  comity-lab bench fork-join
  comity-lab bench fork-join --workload fib,tree --n 32 --rounds 21
  comity-lab bench fork-join --quick --json";

/// Measure the cost of a join on one worker and the speedup of more workers, compared with other fork-join pools
///
/// Each program is written once and compiled for each backend. Comity takes part in two forms: with the worker passed
/// along (`on_worker` and `Worker::join`), and with rayon's interface (`comity::join`). The other backends are stock
/// rayon, chili, and a minimal pool that never sleeps (a Chase-Lev deque per thread, thieves of Arora, Blumofe and
/// Plaxton). Backend `serial` has no pool: a join is two calls. The backends take turns in the same run, and every result is checked.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Programs to measure [default: all]
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Index of the Fibonacci number that `fib` computes, 1 to 45 [default: 38, or 22 with --quick]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=45))]
    n: Option<u32>,
    /// Number of workers for the speedups, 2 to 1024. The first table is measured with one worker
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<u16>(2..=u64::from(MAX_WORKERS)))]
    workers: u16,
    /// Number of rounds per backend, 1 to 100000 [default: 7, or 3 with --quick]
    #[arg(long, value_name = "R", value_parser = whole::<u32>(1..=100_000))]
    rounds: Option<u32>,
    /// Use small inputs, to test that everything works; the numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema comity-bench-fork-join/1)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Double recursion without a cutoff: only joins
    Fib,
    /// The sum of a complete binary tree of 2^23 - 1 nodes in level order
    Tree,
    /// 13 queens, with a join for each row that has several possible squares
    Nqueens,
    /// 10^7 iterations, one per leaf, by halving
    Loop,
    /// The sum of a short function over 10^6 numbers, in leaves of 8192. rayon uses its parallel iterator; comity with
    /// rayon's interface uses its parallel loop
    Natural,
    /// Sorting 10^7 numbers in place, in leaves of at most 8192
    Quicksort,
    /// NPB CG, class S: hundreds of phases of a few microseconds
    Cg,
    /// Two leaves of about 10^8 ns, in a tree with the second leaf at one of four depths. The slowest depth counts
    Coarse,
    /// A recursion that forks 1000 tasks of about 8 µs on the way down, and joins them on the way up
    Spine,
}

impl Workload {
    fn name(self) -> String {
        self.to_possible_value().expect("no workload is hidden").get_name().to_owned()
    }

    fn input(self, n: Option<u32>, quick: bool) -> Input {
        match (self, quick) {
            (Workload::Fib, quick) => Input::fib(n.unwrap_or(if quick { 22 } else { 38 })),
            (Workload::Tree, quick) => Input::tree(if quick { 12 } else { 23 }),
            (Workload::Nqueens, quick) => Input::queens(if quick { 7 } else { 13 }),
            (Workload::Loop, quick) => Input::a_loop(if quick { 10_000 } else { 10_000_000 }),
            (Workload::Natural, quick) => Input::natural(if quick { 20_000 } else { 1_000_000 }),
            (Workload::Quicksort, quick) => Input::quicksort(if quick { 100_000 } else { 10_000_000 }),
            (Workload::Cg, _) => Input::cg(),
            (Workload::Coarse, quick) => Input::coarse(if quick { 1_000_000 } else { 60_000_000 }),
            (Workload::Spine, quick) => Input::spine(if quick { 100 } else { 1000 }),
        }
    }
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    rounds: u32,
    quick: bool,
    rows: Vec<Row>,
}

/// The measurements of a backend on a program with `workers` workers.
#[derive(Serialize)]
struct Row {
    workload: String,
    backend: &'static str,
    workers: u16,
    /// The number of counted rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// True if the result of every run was right. The bench fails at a wrong result.
    verified: bool,
    seconds: Quartiles,
    /// The backend's time divided by the serial time of the same round.
    over_serial: Quartiles,
    /// The backend's median time divided by the serial median time.
    over_serial_of_medians: f64,
    /// The median time divided by the number of joins, for `fib` only.
    ns_per_join: Option<f64>,
}

/// A function that runs a program on a backend. The buffer is for the numbers to sort. Returns `None` if the backend
/// cannot run the program.
type Runner = Box<dyn Fn(&Input, &mut Vec<u32>) -> Option<Run>>;

/// A backend that can run the programs.
struct Team {
    name: &'static str,
    run: Runner,
}

const SERIAL: &str = "serial";

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 3 } else { 7 });
    let workloads = match arguments.workload.as_slice() {
        [] => Workload::value_variants(),
        some => some,
    };
    if let Some((_, twice)) = workloads.iter().enumerate().find(|(nth, one)| workloads[..*nth].contains(one)) {
        return Err(Failure::Usage(format!("{} is listed twice. List each workload once", twice.name())));
    }
    // All pools exist at the same time, because idle pools use no processor time. The minimal pool never sleeps, so
    // it exists for one run only.
    let teams = [(1, teams(1)?), (arguments.workers, teams(arguments.workers)?)];
    let point = |workload: &Workload, place: usize| Point {
        workload: workload.name(),
        workers: teams[place].0,
        teams: place,
        input: workload.input(arguments.n, arguments.quick),
    };
    let points: Vec<Point> = workloads.iter().flat_map(|workload| [0, 1].map(|place| point(workload, place))).collect();
    let names: Vec<&'static str> = teams[0].1.iter().map(|team| team.name).collect();
    let joins: Vec<Option<f64>> = points.iter().map(|point| point.input.fib_joins()).collect();
    let Arguments { workers, quick, json, n, .. } = *arguments;
    let quickly = if quick { ", small inputs" } else { "" };
    let n = n.map_or(String::new(), |n| format!(", n = {n}"));
    let title = |point: &Point| (point.workload.clone(), point.workers);
    let titles: Vec<(String, u16)> = points.iter().map(title).collect();
    let block = |(name, workers): &(String, u16)| {
        let plural = if *workers == 1 { "" } else { "s" };
        Block { name: format!("{name}, {workers} worker{plural}"), rounds: rounds as usize }
    };
    let harness = Harness {
        name: "fork-join",
        setting: format!("{}{n}{quickly}", names.join(", ")),
        has_own_table: false,
        blocks: titles.iter().map(block).collect(),
        json,
        out,
    };
    let mut buffer = Vec::new();
    let measure = |turn: harness::Turn| {
        let point = &points[turn.block];
        let teams = &teams[point.teams].1;
        // The first round warms up and is not counted.
        if turn.is_first {
            point.run_all(teams, 0, &mut buffer)?;
        }
        point.run_all(teams, turn.round + 1, &mut buffer)
    };
    let report = move |done: &[Vec<Vec<Option<f64>>>]| {
        let measured = titles.iter().zip(&joins).zip(done).filter(|(_, rounds)| !rounds.is_empty());
        let rows =
            measured.flat_map(|(((name, workers), joins), rounds)| compare(name, *workers, *joins, &names, rounds));
        Report { workers, rounds, quick, rows: rows.collect() }
    };
    harness.run(measure, report)
}

/// Starts all backends. The serial backend is first.
fn teams(workers: u16) -> Result<Vec<Team>, Failure> {
    let comity = || match Backend::new(BackendName::Comity, None)?.start(workers)? {
        Started::Comity(pool) => Ok(pool),
        Started::Serial | Started::Rayon(_) => unreachable!("comity was asked for"),
    };
    let rayon = || match Backend::Rayon.start(workers)? {
        Started::Rayon(pool) => Ok(pool),
        Started::Serial | Started::Comity(_) => unreachable!("rayon was asked for"),
    };
    let (by_worker, in_shape) = (comity()?, comity()?);
    let (stock, control) = (rayon()?, rayon()?);
    let team = |name, run: Runner| Team { name, run };
    let teams = vec![
        team(SERIAL, Box::new(|input, buffer| joins::serially::run((), input, buffer))),
        team(
            "comity, worker passed",
            Box::new(move |input, buffer| {
                by_worker.install(|| comity::on_worker(|worker| joins::by_worker::run(worker, input, buffer)))
            }),
        ),
        team("comity", Box::new(move |input, buffer| in_shape.install(|| joins::by_comity::run((), input, buffer)))),
        team("rayon", Box::new(move |input, buffer| stock.install(|| joins::by_rayon::run((), input, buffer)))),
        team(
            "bare abp",
            Box::new(move |input, buffer| abp::run(workers, |worker| joins::by_abp::run(worker, input, buffer))),
        ),
        team(
            "rayon again (control)",
            Box::new(move |input, buffer| control.install(|| joins::by_rayon::run((), input, buffer))),
        ),
    ];
    #[cfg(feature = "peers")]
    let teams = teams.into_iter().chain([chili_team(workers)]).collect();
    Ok(teams)
}

#[cfg(feature = "peers")]
fn chili_team(workers: u16) -> Team {
    // chili counts the thread that opens a scope among its threads.
    let chili = chili::ThreadPool::with_config(chili::Config {
        thread_count: std::num::NonZero::new(usize::from(workers)),
        ..chili::Config::default()
    });
    let run = move |input: &Input, buffer: &mut Vec<u32>| joins::by_chili::run(&mut chili.scope(), input, buffer);
    Team { name: "chili", run: Box::new(run) }
}

/// A program with its number of workers.
struct Point {
    workload: String,
    workers: u16,
    /// The index of the point's teams.
    teams: usize,
    input: Input,
}

impl Point {
    /// Runs one round. Returns the seconds of each team, or `None` for a team that cannot run the program.
    fn run_all(&self, teams: &[Team], round: usize, buffer: &mut Vec<u32>) -> Result<Vec<Option<f64>>, Failure> {
        let mut all = vec![None; teams.len()];
        for nth in 0..teams.len() {
            // The order of the backends rotates, so that no backend always finds the caches that the same other
            // backend left.
            let turn = (nth + round) % teams.len();
            match (teams[turn].run)(&self.input, buffer) {
                Some(Run { correct: false, .. }) => {
                    let (name, backend, workers) = (&self.workload, teams[turn].name, self.workers);
                    return Err(Failure::Run(format!("{name} on {backend}, {workers} workers: the result is wrong")));
                }
                Some(Run { seconds, .. }) => all[turn] = Some(seconds),
                None => {}
            }
        }
        Ok(all)
    }
}

fn compare(
    name: &str,
    workers: u16,
    joins: Option<f64>,
    teams: &[&'static str],
    rounds: &[Vec<Option<f64>>],
) -> Vec<Row> {
    let seconds = |nth: usize| rounds.iter().filter_map(|round| round[nth]).collect::<Vec<f64>>();
    let serial = seconds(0);
    let row = |(nth, team): (usize, &&'static str)| {
        let own = seconds(nth);
        if own.is_empty() {
            return None;
        }
        let pairs: Vec<f64> = own.iter().zip(&serial).map(|(own, serial)| own / serial).collect();
        let quartiles = Quartiles::of(&own);
        Some(Row {
            workload: name.to_owned(),
            backend: team,
            workers,
            rounds: own.len(),
            verified: true,
            seconds: quartiles,
            over_serial: Quartiles::of(&pairs),
            over_serial_of_medians: quartiles.median / Quartiles::of(&serial).median,
            ns_per_join: joins.map(|joins| quartiles.median * 1e9 / joins.max(1.0)),
        })
    };
    teams.iter().enumerate().filter_map(row).collect()
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let one = table(self, 1, |row| {
            format!("{:.2} ({:.2}–{:.2})", row.over_serial_of_medians, row.over_serial.lower, row.over_serial.upper)
        });
        let many = table(self, self.workers, |row| {
            let Quartiles { lower, upper, .. } = row.over_serial;
            format!("{:.2} ({:.2}–{:.2})", 1.0 / row.over_serial_of_medians, 1.0 / upper, 1.0 / lower)
        });
        let workers = self.workers;
        format!(
            "One worker: time / serial time, ratio of medians (quartiles of the rounds' ratios); {} \
             rounds\n{one}\n\n{workers} workers: serial time / time\n{many}\n",
            self.rounds
        )
    }
}

/// Makes a table with a row per program and a column per backend. With one worker, there is one more row for `fib`:
/// ns per join.
fn table(report: &Report, workers: u16, cell: impl Fn(&Row) -> String) -> Table {
    let mut table = harness::table();
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.workers == workers).collect();
    let mut backends: Vec<&str> = Vec::new();
    for row in &rows {
        if row.backend != SERIAL && !backends.contains(&row.backend) {
            backends.push(row.backend);
        }
    }
    table.set_header(["", "serial ms"].into_iter().chain(backends.iter().copied()));
    for serial in rows.iter().filter(|row| row.backend == SERIAL) {
        let of = |backend: &&str| rows.iter().find(|row| row.workload == serial.workload && row.backend == *backend);
        if let (1, Some(price)) = (workers, serial.ns_per_join) {
            let prices = backends.iter().map(|backend| of(backend).and_then(|row| row.ns_per_join));
            let prices = prices.map(|price| price.map_or("–".to_owned(), |price| format!("{price:.2}")));
            let own = [format!("{}: ns per join", serial.workload), format!("{price:.2} ns")];
            table.add_row(own.into_iter().chain(prices));
        }
        let ratios = backends.iter().map(|backend| of(backend).map_or("–".to_owned(), |row| cell(row)));
        let own = [serial.workload.clone(), format!("{:.2}", serial.seconds.median * 1000.0)];
        table.add_row(own.into_iter().chain(ratios));
    }
    table
}
