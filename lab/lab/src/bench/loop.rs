//! `comity-lab bench loop`: measures many short parallel phases with serial gaps, as in conjugate gradients.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::abp::{self, OnAbp};
use comity_kernels::joins::piece;
use comity_kernels::{Backend as Started, ForkJoin, OnComity, OnRayon, Serial};
use comity_os::usage::Usage;
use serde::{Deserialize, Serialize};

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use crate::backend::{Backend, BackendName, MAX_WORKERS, PolicyList, backends};

const EXAMPLES: &str = "Examples:
  comity-lab bench loop
  comity-lab bench loop --policy comity,bws --gap-us 20,100 --workers 2";

/// Measure a loop of short parallel phases with serial gaps between them: time / ideal time, and processor time
///
/// The ideal time is the serial time of a phase, divided by the number of workers, plus the gap. Stock rayon and a
/// minimal pool that never sleeps take turns with Comity in the same run. Stock rayon runs twice; the second time is
/// the control. Every sum is checked.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Policies to compare
    #[arg(long, value_name = "POLICY,…", default_value = "comity")]
    policy: PolicyList,
    /// Number of workers of each pool, 2 to 1024
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<u16>(2..=u64::from(MAX_WORKERS)))]
    workers: u16,
    /// Serial work between two phases, in microseconds, 0 to 1000000 each
    #[arg(long, value_name = "US,…", value_delimiter = ',', default_value = "0,20,100,1000,5000", value_parser = whole::<u64>(0..=1_000_000))]
    gap_us: Vec<u64>,
    /// Work in a phase, in microseconds of one worker, 1 to 1000000
    #[arg(long, value_name = "US", default_value_t = 50, value_parser = whole::<u64>(1..=1_000_000))]
    work_us: u64,
    /// Number of equal pieces of a phase, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<u32>(1..=100_000))]
    pieces: u32,
    /// Number of phases in a run, 1 to 1000000 [default: 300, or 20 with --quick]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1_000_000))]
    phases: Option<u32>,
    /// Number of rounds per backend, 1 to 100000 [default: 7, or 3 with --quick]
    #[arg(long, value_name = "R", value_parser = whole::<u32>(1..=100_000))]
    rounds: Option<u32>,
    /// Run few phases, to test that everything works; the numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Print JSON (schema comity-bench-loop/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    work_us: u64,
    pieces: u32,
    phases: u32,
    rounds: u32,
    rows: Vec<Row>,
}

/// The measurements of a backend with one length of gap.
#[derive(Serialize)]
struct Row {
    gap_us: u64,
    backend: String,
    /// The number of counted rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// True if every sum was right. The bench fails at a wrong sum.
    verified: bool,
    /// Wall-clock microseconds of a phase and its gap.
    phase_us: Quartiles,
    /// The time of a phase and its gap, divided by the ideal time of the same round, `serial phase time / workers +
    /// gap`.
    over_ideal: Quartiles,
    /// Processor seconds of the process per second.
    cpu_per_s: Quartiles,
    /// Voluntary context switches of all threads per phase.
    switches_per_phase: Quartiles,
}

/// A backend that runs the phases.
enum Team {
    Pool(Started),
    Abp(u16),
}

/// The loop that each backend runs.
#[derive(Clone, Copy)]
struct Plan {
    gap: Duration,
    phases: u32,
    pieces: u32,
    /// Steps of arithmetic in a piece.
    steps: u64,
}

/// The measurements of one run of the loop.
#[derive(Serialize, Deserialize)]
struct Measured {
    /// Seconds of a phase with its gap.
    phase_s: f64,
    cpu_per_s: f64,
    switches_per_phase: f64,
    sum: u64,
}

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 3 } else { 7 });
    let phases = arguments.phases.unwrap_or(if arguments.quick { 20 } else { 300 });
    // The serial run is first, because it gives the ideal time. The control is last. All pools exist at the same
    // time, because idle pools use no processor time.
    let mut teams = vec![("serial".to_owned(), Team::Pool(Started::Serial))];
    for backend in backends(std::slice::from_ref(&arguments.policy), &[BackendName::Rayon])? {
        teams.push((backend.to_string(), Team::Pool(backend.start(arguments.workers)?)));
    }
    teams.push(("bare abp".to_owned(), Team::Abp(arguments.workers)));
    let control = Backend::Rayon.start(arguments.workers)?;
    teams.push(("rayon again (control)".to_owned(), Team::Pool(control)));

    let per_piece = Duration::from_micros(arguments.work_us) / arguments.pieces;
    let steps = steps_in(per_piece);
    let Arguments { workers, work_us, pieces, json, .. } = *arguments;
    let gaps = arguments.gap_us.clone();
    let names: Vec<String> = teams.iter().map(|(name, _)| name.clone()).collect();
    let harness = Harness {
        name: "loop",
        setting: format!("{}, {workers} workers, {phases} phases of {work_us} µs in {pieces} pieces", names.join(", ")),
        has_own_table: false,
        blocks: gaps.iter().map(|gap| Block { name: format!("gaps of {gap} µs"), rounds: rounds as usize }).collect(),
        json,
        out,
    };
    let plan = |block: usize| Plan { gap: Duration::from_micros(arguments.gap_us[block]), phases, pieces, steps };
    let measure = |turn: harness::Turn| {
        // The first round warms up and is not counted.
        if turn.is_first {
            run_all(&teams, plan(turn.block), 0)?;
        }
        run_all(&teams, plan(turn.block), turn.round + 1)
    };
    let report = move |done: &[Vec<Vec<Measured>>]| {
        let measured = gaps.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty());
        Report {
            workers,
            work_us,
            pieces,
            phases,
            rounds,
            rows: measured.flat_map(|(gap_us, rounds)| compare(*gap_us, &names, workers, rounds)).collect(),
        }
    };
    harness.run(measure, report)
}

/// Runs one round: the loop on each backend.
fn run_all(teams: &[(String, Team)], plan: Plan, round: usize) -> Result<Vec<Measured>, Failure> {
    let expected = plan.expected();
    let mut all: Vec<Option<Measured>> = teams.iter().map(|_| None).collect();
    for nth in 0..teams.len() {
        // The order of the backends rotates, so that no backend always follows the same other backend.
        let turn = (nth + round) % teams.len();
        let (backend, team) = &teams[turn];
        let measured = team.run(plan);
        if measured.sum != expected {
            let gap_us = plan.gap.as_micros();
            return Err(Failure::Run(format!("the loop with gaps of {gap_us} µs on {backend}: the sum is wrong")));
        }
        all[turn] = Some(measured);
    }
    Ok(all.into_iter().flatten().collect())
}

fn compare(gap_us: u64, names: &[String], workers: u16, rounds: &[Vec<Measured>]) -> Vec<Row> {
    let gap_s = Duration::from_micros(gap_us).as_secs_f64();
    // The ideal time of a round is computed from the serial run of the round.
    let ideal = |round: &[Measured]| (round[0].phase_s - gap_s) / f64::from(workers) + gap_s;
    let rows = names.iter().enumerate().map(|(nth, backend)| {
        let quartiles = |of: &dyn Fn(&Measured) -> f64| {
            Quartiles::of(&rounds.iter().map(|round| of(&round[nth])).collect::<Vec<f64>>())
        };
        let over_ideal: Vec<f64> = rounds.iter().map(|round| round[nth].phase_s / ideal(round)).collect();
        Row {
            gap_us,
            backend: backend.clone(),
            rounds: rounds.len(),
            verified: true,
            phase_us: quartiles(&|run| run.phase_s * 1e6),
            over_ideal: Quartiles::of(&over_ideal),
            cpu_per_s: quartiles(&|run| run.cpu_per_s),
            switches_per_phase: quartiles(&|run| run.switches_per_phase),
        }
    });
    rows.collect()
}

impl Team {
    fn run(&self, plan: Plan) -> Measured {
        match self {
            Team::Pool(Started::Serial) => plan.run(Serial),
            Team::Pool(Started::Comity(pool)) => pool.install(|| plan.run(OnComity)),
            Team::Pool(Started::Rayon(pool)) => pool.install(|| plan.run(OnRayon)),
            Team::Abp(workers) => abp::run(*workers, |_| plan.run(OnAbp)),
        }
    }
}

impl Plan {
    /// Runs the loop. The caller must be a worker of the pool.
    fn run(self, fork_join: impl ForkJoin) -> Measured {
        let used = Usage::of_this_process();
        let start = Instant::now();
        let mut sum = 0_u64;
        for _ in 0..self.phases {
            let leaf = |part: std::ops::Range<usize>| piece(part.start, self.steps);
            let add = |a: u64, b: u64| a.wrapping_add(b);
            sum = sum.wrapping_add(fork_join.reduce_range(0..self.pieces as usize, 1, &leaf, &add));
            busy_for(self.gap);
        }
        let seconds = start.elapsed().as_secs_f64();
        let used = Usage::of_this_process().since(used);
        let phases = f64::from(self.phases);
        Measured {
            phase_s: seconds / phases,
            cpu_per_s: used.cpu.as_secs_f64() / seconds,
            switches_per_phase: used.voluntary_switches as f64 / phases,
            sum,
        }
    }

    fn expected(self) -> u64 {
        let phase = (0..self.pieces as usize).fold(0, |sum: u64, nth| sum.wrapping_add(piece(nth, self.steps)));
        phase.wrapping_mul(u64::from(self.phases))
    }
}

/// Returns the number of steps of arithmetic that take `time`. Uses the fastest of some tries, because other threads
/// did not interrupt it.
pub fn steps_in(time: Duration) -> u64 {
    const STEPS: u64 = 100_000;
    let tries = (0..50).map(|nth| {
        let start = Instant::now();
        black_box(piece(nth, STEPS));
        start.elapsed()
    });
    let fastest = tries.min().expect("there are tries");
    ((time.as_secs_f64() / fastest.as_secs_f64() * STEPS as f64) as u64).max(1)
}

/// Computes for `time`, as a serial part of a program does.
fn busy_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        table.set_header(["gap µs", "backend", "phase and gap µs", "over ideal", "cpu s per s", "switches per phase"]);
        for row in &self.rows {
            table.add_row([
                row.gap_us.to_string(),
                row.backend.clone(),
                format!("{:.1}", row.phase_us.median),
                row.over_ideal.told(2),
                format!("{:.2}", row.cpu_per_s.median),
                format!("{:.2}", row.switches_per_phase.median),
            ]);
        }
        format!(
            "{} phases of {} µs in {} pieces; {} workers, {} rounds: medians (quartiles)\n{table}\n",
            self.phases, self.work_us, self.pieces, self.workers, self.rounds
        )
    }
}
