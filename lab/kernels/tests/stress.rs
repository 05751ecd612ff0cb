//! Runs trees and Fibonacci numbers alternately, with 16 workers, under every policy, and checks the counts.
//!
//! `COMITY_STRESS_SECS` is the time in seconds under each policy. Without this variable, each program runs at least
//! once. To see the number of runs:
//! `COMITY_STRESS_SECS=60 cargo test -p comity-kernels --test stress -- --nocapture`.

#[path = "../../../crates/runtime/tests/harness/own_table.rs"]
mod own_table;
#[path = "../../../crates/runtime/tests/harness/watchdog.rs"]
mod watchdog;

use std::time::{Duration, Instant};

use comity::{Policy, ThreadPoolBuilder, WorkerCounters};
use comity_kernels::{Backend, catalog};
use own_table::in_own_table;
use watchdog::Watchdog;

const WORKERS: usize = 16;
const DEFAULT_SECS: u64 = 0;

#[test]
fn trees_and_fibonacci_numbers_are_right_under_every_policy() {
    in_own_table(TEST, stress);
}

const TEST: &str = "trees_and_fibonacci_numbers_are_right_under_every_policy";

fn stress() {
    let secs = match std::env::var("COMITY_STRESS_SECS") {
        Ok(text) => text.parse().expect("COMITY_STRESS_SECS is a whole number of seconds"),
        Err(_) => DEFAULT_SECS,
    };
    let watchdog = Watchdog::start(TEST);
    let programs = ["uts:tree=T3", "fib:n=27", "uts:tree=T1", "uts:tree=T5"];
    let prepared: Vec<_> = programs.iter().map(|text| catalog::prepare(text).expect("a known program")).collect();
    for policy in Policy::all() {
        let pool = ThreadPoolBuilder::new().num_threads(WORKERS).policy(policy).build().expect("a pool starts");
        let backend = Backend::Comity(pool);
        let Backend::Comity(pool) = &backend else { unreachable!("made above") };
        let steals = || WorkerCounters::total(&pool.counters()).steals;
        let began = Instant::now();
        let mut runs = 0;
        // Every program runs at least once, however short the time is. If other programs use the cores, a thief may
        // start late.
        while runs < programs.len() || began.elapsed() < Duration::from_secs(secs) || steals() == 0 {
            assert!(runs < 1_000 || steals() > 0, "one worker did everything under {policy}");
            let nth = runs % programs.len();
            watchdog.step(format!("{} under {policy}, run {runs}", programs[nth]));
            let verdict = prepared[nth].run(&backend, false).verdict;
            assert!(verdict.verified, "{} under {policy}: {}", programs[nth], verdict.detail);
            runs += 1;
        }
        println!("{policy}: {runs} runs in {:.1?}, all right; {} steals", began.elapsed(), steals());
        let Backend::Comity(pool) = backend else { unreachable!("made above") };
        pool.shutdown();
    }
}
