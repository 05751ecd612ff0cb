//! `comity-lab bench solo`: measures the kernels alone on the machine, as time divided by stock rayon's time.

use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::Args;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::{Backend as Started, Program, catalog};
use serde::Serialize;

use super::harness::{self, Block, Harness};
use super::quartiles::Quartiles;
use super::ratio::Ratio;
use crate::backend::{Backend, BackendName, PolicyList, backends, default_workers, workers_range};

const EXAMPLES: &str = "Examples:
  comity-lab bench solo
  comity-lab bench solo cg:class=S mergesort --policy comity,bws --rounds 31";

/// Measure kernels alone on the machine: their time / stock rayon's time, with stock rayon again as the control
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Kernels and their parameters [default: all kernels that steal work, in the default size]
    #[arg(value_name = "NAME[:key=value,…]")]
    kernels: Vec<String>,
    /// Policies to compare with stock rayon
    #[arg(long, value_name = "POLICY,…", default_value = "comity,bws,abp")]
    policy: PolicyList,
    /// Number of workers of each pool, 1 to 1024 [default: the usable cores]
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
    /// Number of rounds per backend, 3 to 100000
    #[arg(long, value_name = "R", default_value_t = 21, value_parser = whole::<u32>(3..=100_000))]
    rounds: u32,
    /// Print JSON (schema comity-bench-solo/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    workers: u16,
    rounds: u32,
    kernels: Vec<KernelReport>,
}

#[derive(Serialize)]
struct KernelReport {
    name: String,
    /// The number of counted rounds. If the run was interrupted, it is smaller than the requested number.
    rounds: usize,
    /// Seconds of stock rayon.
    rayon_s: Quartiles,
    ratios: Vec<BackendRatio>,
}

/// The time of a backend divided by the time of stock rayon.
#[derive(Serialize)]
struct BackendRatio {
    backend: String,
    #[serde(flatten)]
    over_rayon: Ratio,
}

/// The pause between two runs. During the pause, the coordinator of the previous pool looks at the core table for the
/// last time. That takes up to five quanta of 10 ms under `comity`; the rest is a margin.
const SETTLE: Duration = Duration::from_millis(70);

/// Runs the bench.
pub fn run(arguments: &Arguments, out: Option<&Path>) -> Result<(), Failure> {
    let workers = arguments.workers.map_or_else(default_workers, Ok)?;
    let names = if arguments.kernels.is_empty() { all_stealing() } else { arguments.kernels.clone() };
    let programs: Vec<(String, Box<dyn Program>)> = names
        .into_iter()
        .map(|name| match catalog::prepare(&name) {
            Ok(program) => Ok((name, program)),
            Err(error) => Err(Failure::Usage(error.to_string())),
        })
        .collect::<Result<_, Failure>>()?;
    // Stock rayon is first, and the control is last. All pools exist at the same time, because idle pools use no
    // processor time.
    let mut started = vec![("rayon".to_owned(), Backend::Rayon.start(workers)?)];
    for backend in backends(std::slice::from_ref(&arguments.policy), &[BackendName::Comity])? {
        started.push((backend.to_string(), backend.start(workers)?));
    }
    started.push(("rayon again (control)".to_owned(), Backend::Rayon.start(workers)?));

    let names: Vec<String> = programs.iter().map(|(name, _)| name.clone()).collect();
    let backends: Vec<String> = started.iter().map(|(backend, _)| backend.clone()).collect();
    let rounds = arguments.rounds;
    let harness = Harness {
        name: "solo",
        setting: format!("{}, {workers} workers", backends.join(", ")),
        has_own_table: false,
        blocks: names.iter().map(|name| Block { name: name.clone(), rounds: rounds as usize }).collect(),
        json: arguments.json,
        out,
    };
    let measure = |turn: harness::Turn| {
        let (name, program) = &programs[turn.block];
        // The first round warms up and is not counted.
        if turn.is_first {
            run_all(name, &**program, &started, 0)?;
        }
        run_all(name, &**program, &started, turn.round as u64 + 1)
    };
    let report = move |done: &[Vec<Vec<f64>>]| {
        let measured = names.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty());
        Report { workers, rounds, kernels: measured.map(|(name, rounds)| compare(name, &backends, rounds)).collect() }
    };
    harness.run(measure, report)
}

/// Returns the names of all kernels except `loop`, which has its own threads and does not use the pool.
fn all_stealing() -> Vec<String> {
    catalog::DEFINITIONS.iter().map(|definition| definition.name.to_owned()).filter(|name| name != "loop").collect()
}

/// Runs one round and returns the seconds of each backend.
fn run_all(name: &str, program: &dyn Program, started: &[(String, Started)], round: u64) -> Result<Vec<f64>, Failure> {
    // The order is random. In a fixed order, a backend would always follow the same other backend, whose data would be
    // in the caches.
    let mut turns: Vec<usize> = (0..started.len()).collect();
    fastrand::Rng::with_seed(round).shuffle(&mut turns);
    let mut seconds = vec![0.0; started.len()];
    for turn in turns {
        // A pool under a policy that shares cores affects other pools until it has been idle for this time.
        thread::sleep(SETTLE);
        let run = program.run(&started[turn].1, false);
        if !run.verdict.verified {
            return Err(Failure::Run(format!("{name} on {}: {}", started[turn].0, run.verdict.detail)));
        }
        seconds[turn] = run.seconds;
    }
    Ok(seconds)
}

fn compare(name: &str, backends: &[String], rounds: &[Vec<f64>]) -> KernelReport {
    let seconds = |nth: usize| rounds.iter().map(|round| round[nth]).collect::<Vec<f64>>();
    let ratios = backends.iter().enumerate().skip(1).map(|(nth, backend)| BackendRatio {
        backend: backend.clone(),
        over_rayon: Ratio::of(&seconds(nth), &seconds(0)),
    });
    KernelReport {
        name: name.to_owned(),
        rounds: rounds.len(),
        rayon_s: Quartiles::of(&seconds(0)),
        ratios: ratios.collect(),
    }
}

impl harness::Report for Report {
    fn in_words(&self) -> String {
        let mut table = harness::table();
        let backends = self.kernels[0].ratios.iter().map(|ratio| ratio.backend.clone());
        table.set_header(["kernel".to_owned(), "rayon ms".to_owned()].into_iter().chain(backends));
        for kernel in &self.kernels {
            let ratios = kernel.ratios.iter().map(|ratio| ratio.over_rayon.to_string());
            let own = [kernel.name.clone(), format!("{:.2}", kernel.rayon_s.median * 1000.0)];
            table.add_row(own.into_iter().chain(ratios));
        }
        format!(
            "Time / stock rayon's time: ratio of medians (quartiles of the rounds' ratios); {} workers, {} \
             rounds\n{table}\n",
            self.workers, self.rounds
        )
    }
}
