//! `comity-lab bench fork-join`: what a join costs, and what a second worker gains.

mod workloads;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use comity_console::machine::{self, Machine, Versions};
use comity_console::{Failure, output};
use comity_kernels::Backend;
use serde::Serialize;

use self::workloads::{Input, Run};
use super::abp;
use super::quartiles::Quartiles;
use crate::contestant::{BackendName, Contestant, MAX_WORKERS};

const EXAMPLES: &str = "Examples:
  comity-lab bench fork-join
  comity-lab bench fork-join --workload fib,tree --n 32 --rounds 21
  comity-lab bench fork-join --quick --json";

/// Measure what a join costs on one worker, and what more workers gain, beside other fork-join pools
///
/// Each program is written once and compiled for each contestant: comity with the worker passed along (`on_worker` and
/// `Worker::join`) and in rayon's shape (`comity::join`), stock rayon, chili, a bare pool that never sleeps (a
/// Chase-Lev deque per thread, the thieves of Arora, Blumofe and Plaxton), and serial, where a join is two calls.
/// All take part in the same run, turn by turn, and every result is checked.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The programs [default: all]
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Which Fibonacci number `fib` computes, 1 to 45 [default: 38, or 22 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=45))]
    n: Option<u32>,
    /// Workers in the second table, 2 to 1024
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=i64::from(MAX_WORKERS)))]
    workers: u16,
    /// Rounds per contestant, 1 to 100000 [default: 7, or 3 with --quick]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// Small inputs, to see that everything works: the figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema comity-bench-fork-join/1)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Double recursion without a cutoff: nothing but joins
    Fib,
    /// The sum of a complete binary tree of 2^23 - 1 nodes in level order
    Tree,
    /// 13 queens: a join wherever a row has a choice
    Nqueens,
    /// 10^7 iterations, one per leaf, by halving
    Loop,
    /// The sum of a cheap function over 10^6 numbers, in leaves of 8192; rayon by its parallel iterator, comity in
    /// rayon's shape by its parallel loop
    Natural,
    /// 10^7 numbers in place, in leaves of at most 8192
    Quicksort,
    /// NPB CG, class S: hundreds of phases of some microseconds
    Cg,
    /// Two leaves of 10^8 ns or so, the second at one of four depths above the first: the slowest of the four
    Coarse,
    /// A descent that forks 1000 tasks of 8 µs or so, and then only joins them
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
    schema: &'static str,
    machine: Machine,
    versions: Versions,
    workers: u16,
    rounds: u32,
    quick: bool,
    rows: Vec<Row>,
}

/// A contestant on a program, with so many workers.
#[derive(Serialize)]
struct Row {
    workload: String,
    contestant: &'static str,
    workers: u16,
    /// Every run's result was right; the bench fails where one is not.
    verified: bool,
    seconds: Quartiles,
    /// Its time over the serial time of the same round.
    over_serial: Quartiles,
    /// Its median time over the serial median time.
    over_serial_of_medians: f64,
    /// The median time over the number of joins: `fib` only.
    ns_per_join: Option<f64>,
}

/// Runs a program with room for what it sorts: `None` where it is not for this contestant.
type Runner = Box<dyn Fn(&Input, &mut Vec<u32>) -> Option<Run>>;

/// Somebody who can run the programs.
struct Team {
    name: &'static str,
    run: Runner,
}

const SERIAL: &str = "serial";

/// Runs the bench.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 3 } else { 7 });
    let workloads = match arguments.workload.as_slice() {
        [] => Workload::value_variants(),
        some => some,
    };
    if let Some((_, twice)) = workloads.iter().enumerate().find(|(nth, one)| workloads[..*nth].contains(one)) {
        return Err(Failure::Usage(format!("{} is listed twice; list each workload once", twice.name())));
    }
    // All pools live together: idle ones use no processor time, and the bare pool lives for one run.
    let teams = [(1, teams(1)?), (arguments.workers, teams(arguments.workers)?)];
    let mut rows = Vec::new();
    for workload in workloads {
        let input = workload.input(arguments.n, arguments.quick);
        for (workers, teams) in &teams {
            rows.extend(compare(&workload.name(), &input, *workers, teams, rounds)?);
        }
    }
    let report = Report {
        schema: "comity-bench-fork-join/1",
        machine: machine::describe(None),
        versions: machine::versions(),
        workers: arguments.workers,
        rounds,
        quick: arguments.quick,
        rows,
    };
    if arguments.json { output::print(&output::to_json(&report)) } else { print(&report) }
}

/// Everybody, serial first.
fn teams(workers: u16) -> Result<Vec<Team>, Failure> {
    let comity = || match Contestant::new(BackendName::Comity, None)?.start(workers)? {
        Backend::Comity(pool) => Ok(pool),
        Backend::Serial | Backend::Rayon(_) => unreachable!("comity was asked for"),
    };
    let rayon = || match Contestant::Rayon.start(workers)? {
        Backend::Rayon(pool) => Ok(pool),
        Backend::Serial | Backend::Comity(_) => unreachable!("rayon was asked for"),
    };
    let (by_worker, in_shape) = (comity()?, comity()?);
    let (stock, control) = (rayon()?, rayon()?);
    let team = |name, run: Runner| Team { name, run };
    let teams = vec![
        team(SERIAL, Box::new(|input, buffer| workloads::serially::run((), input, buffer))),
        team(
            "comity, worker passed",
            Box::new(move |input, buffer| {
                by_worker.install(|| comity::on_worker(|worker| workloads::by_worker::run(worker, input, buffer)))
            }),
        ),
        team(
            "comity",
            Box::new(move |input, buffer| in_shape.install(|| workloads::by_comity::run((), input, buffer))),
        ),
        team("rayon", Box::new(move |input, buffer| stock.install(|| workloads::by_rayon::run((), input, buffer)))),
        team(
            "bare abp",
            Box::new(move |input, buffer| abp::run(workers, |worker| workloads::by_abp::run(worker, input, buffer))),
        ),
        team(
            "rayon again (control)",
            Box::new(move |input, buffer| control.install(|| workloads::by_rayon::run((), input, buffer))),
        ),
    ];
    #[cfg(feature = "peers")]
    let teams = teams.into_iter().chain([chili_team(workers)]).collect();
    Ok(teams)
}

#[cfg(feature = "peers")]
fn chili_team(workers: u16) -> Team {
    // The thread that opens a scope is one of the threads that chili counts.
    let chili = chili::ThreadPool::with_config(chili::Config {
        thread_count: std::num::NonZero::new(usize::from(workers)),
        ..chili::Config::default()
    });
    let run = move |input: &Input, buffer: &mut Vec<u32>| workloads::by_chili::run(&mut chili.scope(), input, buffer);
    Team { name: "chili", run: Box::new(run) }
}

fn compare(name: &str, input: &Input, workers: u16, teams: &[Team], rounds: u32) -> Result<Vec<Row>, Failure> {
    let mut seconds = vec![Vec::new(); teams.len()];
    let mut buffer = Vec::new();
    // The first round warms up and is not counted.
    for round in 0..=rounds as usize {
        for nth in 0..teams.len() {
            // Everybody follows everybody, so that nobody is always the one to find the caches as another left them.
            let turn = (nth + round) % teams.len();
            match (teams[turn].run)(input, &mut buffer) {
                Some(Run { correct: false, .. }) => {
                    let who = teams[turn].name;
                    return Err(Failure::Run(format!("{name} on {who}, {workers} workers: the result is wrong")));
                }
                Some(Run { seconds: own, .. }) if round > 0 => seconds[turn].push(own),
                _ => {}
            }
        }
    }
    let serial = Quartiles::of(&seconds[0]).median;
    let takes_part = teams.iter().zip(&seconds).filter(|(_, own)| !own.is_empty());
    let rows = takes_part.map(|(team, own)| {
        let pairs: Vec<f64> = own.iter().zip(&seconds[0]).map(|(own, serial)| own / serial).collect();
        let quartiles = Quartiles::of(own);
        Row {
            workload: name.to_owned(),
            contestant: team.name,
            workers,
            verified: true,
            seconds: quartiles,
            over_serial: Quartiles::of(&pairs),
            over_serial_of_medians: quartiles.median / serial,
            ns_per_join: input.fib_joins().map(|joins| quartiles.median * 1e9 / joins.max(1.0)),
        }
    });
    Ok(rows.collect())
}

fn print(report: &Report) -> Result<(), Failure> {
    let one = table(report, 1, |row| {
        format!("{:.2} ({:.2}–{:.2})", row.over_serial_of_medians, row.over_serial.lower, row.over_serial.upper)
    });
    let many = table(report, report.workers, |row| {
        let Quartiles { lower, upper, .. } = row.over_serial;
        format!("{:.2} ({:.2}–{:.2})", 1.0 / row.over_serial_of_medians, 1.0 / upper, 1.0 / lower)
    });
    let workers = report.workers;
    output::print(&format!(
        "One worker: time over serial time, ratio of medians (quartiles of the ratios round by round); {} rounds\n\
         {one}\n\n\
         {workers} workers: serial time over their time\n{many}\n",
        report.rounds
    ))
}

/// A row per program and a column per contestant; for `fib` with one worker, also the price of a join.
fn table(report: &Report, workers: u16, cell: impl Fn(&Row) -> String) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.workers == workers).collect();
    let mut contestants: Vec<&str> = Vec::new();
    for row in &rows {
        if row.contestant != SERIAL && !contestants.contains(&row.contestant) {
            contestants.push(row.contestant);
        }
    }
    table.set_header(["", "serial ms"].into_iter().chain(contestants.iter().copied()));
    for serial in rows.iter().filter(|row| row.contestant == SERIAL) {
        let of = |contestant: &&str| {
            rows.iter().find(|row| row.workload == serial.workload && row.contestant == *contestant)
        };
        if let (1, Some(price)) = (workers, serial.ns_per_join) {
            let prices = contestants.iter().map(|contestant| of(contestant).and_then(|row| row.ns_per_join));
            let prices = prices.map(|price| price.map_or("–".to_owned(), |price| format!("{price:.2}")));
            let own = [format!("{}: ns per join", serial.workload), format!("{price:.2} ns")];
            table.add_row(own.into_iter().chain(prices));
        }
        let ratios = contestants.iter().map(|contestant| of(contestant).map_or("–".to_owned(), |row| cell(row)));
        let own = [serial.workload.clone(), format!("{:.2}", serial.seconds.median * 1000.0)];
        table.add_row(own.into_iter().chain(ratios));
    }
    table
}
