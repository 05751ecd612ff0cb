//! Counts the operations of the sleep protocol on a large machine, per phase: `cargo run --release -p comity-sim
//! --example counts`.
//!
//! Each program runs alone on a simulated host with a worker for each core. The serial part between two phases is so
//! long that all other workers come to rest. `docs/results/counts.md` has the tables.

use std::error::Error;

use comity_policy::Policy;
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::{Costs, Counts, Host};

const WORKERS: [u32; 5] = [2, 8, 16, 32, 64];
const PHASES: u32 = 20;
/// Nanoseconds of a serial stretch: long enough for all thieves of 64 workers to fall asleep.
const SERIAL: u64 = 3_000_000;
const SEEDS: u64 = 3;

/// A program's name, and a function that creates it for a number of workers.
type Shape = (&'static str, fn(u32) -> ForkJoin);

const PROGRAMS: [Shape; 3] = [
    // 16 strands for each worker, created by a binary tree.
    ("fork-join", |workers| ForkJoin::new(SERIAL, 10_000, 16 * workers, PHASES, Fork::Tree)),
    // A strand for each worker, all in one deque at once, with a barrier at the end.
    ("phases", |workers| ForkJoin::new(SERIAL, 50_000, workers, PHASES, Fork::AtOnce)),
    // Two strands, so one strand for another worker.
    ("wake-ups", |_| ForkJoin::new(SERIAL, 50_000, 2, PHASES, Fork::AtOnce)),
];

/// The name of a count, and a function that reads it.
type Count = (&'static str, fn(&Counts) -> u64);

const COUNTED: [Count; 4] = [
    ("barriers", |counts| counts.barriers),
    ("wake-ups", |counts| counts.wakeups),
    ("shared writes", |counts| counts.shared_writes),
    ("sleeps", |counts| counts.sleeps),
];

fn counts(shape: ForkJoin, policy: Policy, workers: u32, seed: u64) -> Result<Counts, String> {
    let mut host = Host::new(workers as usize, Costs::default(), seed);
    let program = host.submit(0, Box::new(shape), policy, workers, seed);
    host.run(u64::MAX, u64::MAX)?;
    Ok(host.fate(program).counts)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("| program | policy | per phase |");
    WORKERS.iter().for_each(|workers| print!(" w = {workers} |"));
    println!(" from 8 to 64 |\n|---|---|---|{}---|", "---|".repeat(WORKERS.len()));
    for (name, shape) in PROGRAMS {
        for policy in ["comity", "bws", "dws"] {
            let policy: Policy = policy.parse()?;
            let mut all = Vec::new();
            for workers in WORKERS {
                all.push(
                    (0..SEEDS)
                        .map(|seed| counts(shape(workers), policy, workers, seed))
                        .collect::<Result<Vec<_>, _>>()?,
                );
            }
            for (what, count) in COUNTED {
                let mean = |runs: &Vec<Counts>| {
                    runs.iter().map(count).sum::<u64>() as f64 / (SEEDS * u64::from(PHASES)) as f64
                };
                let means: Vec<f64> = all.iter().map(mean).collect();
                print!("| {name} | `{policy}` | {what} |");
                means.iter().for_each(|mean| print!(" {mean:.1} |"));
                // The exponent of the growth: 0 if the count does not grow, 1 and 2 if it grows with w and w².
                let exponent = (means[4] / means[1]).ln() / 8f64.ln();
                if exponent.is_finite() { println!(" w^{exponent:.1} |") } else { println!(" - |") }
            }
        }
    }
    Ok(())
}
