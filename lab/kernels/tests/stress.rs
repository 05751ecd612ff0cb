//! Trees and Fibonacci numbers in turn, with many more workers than cores, under every policy: the counts stay right.
//!
//! `COMITY_STRESS_SECS` says for how long under each policy; without it each program runs once. To see how much was
//! done: `COMITY_STRESS_SECS=60 cargo test -p comity-kernels --test stress -- --nocapture`.

#[path = "../../../crates/runtime/tests/harness/watchdog.rs"]
mod watchdog;

use std::process::Command;
use std::time::{Duration, Instant};

use comity::{Policy, ThreadPoolBuilder, WorkerCounters};
use comity_kernels::{Backend, catalog};
use watchdog::Watchdog;

const WORKERS: usize = 16;
const DEFAULT_SECS: u64 = 0;

/// Set in the process that has a core table of its own. In the table of other tests a pool may have one core, and so one
/// worker that is awake, for as long as they run.
const WITHIN: &str = "COMITY_STRESS_WITHIN";

#[test]
fn trees_and_fibonacci_numbers_are_right_under_every_policy() {
    const TEST: &str = "trees_and_fibonacci_numbers_are_right_under_every_policy";
    if std::env::var_os(WITHIN).is_none() {
        let table = std::env::temp_dir().join(format!("comity-stress-{}", std::process::id()));
        let mut within = Command::new(std::env::current_exe().unwrap());
        within.args(["--exact", TEST, "--nocapture"]).env(WITHIN, "1").env("COMITY_TABLE", &table);
        let status = within.status();
        let _ = std::fs::remove_file(table);
        assert!(status.unwrap().success());
        return;
    }
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
        // Every program at least once, however short the time; and where others want the cores, a thief may come late.
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
