//! Random programs under every policy: joins, scopes, installs across pools, panics, futures and forks, nested in each
//! other. Meanwhile another process continually writes random words into the core table.
#![cfg(not(loom))]

#[path = "../../runtime/tests/harness/child.rs"]
mod child;
#[path = "../../runtime/tests/harness/forked.rs"]
mod forked;
#[path = "../../runtime/tests/harness/watchdog.rs"]
mod watchdog;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{block_on, spawn_in};
use forked::in_a_fork;
use watchdog::Watchdog;

/// The nesting depth of the random programs.
const DEPTH: u32 = 5;

/// The maximum number of forks of a process. Forking the memory of many threads takes long.
const MOST_FORKS: u64 = 20;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the n-th number of a seed, by SplitMix64.
fn draw(seed: u64, nth: u64) -> u64 {
    let mut z = seed.wrapping_add((nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn both(left: u64, right: u64) -> u64 {
    left.wrapping_mul(31).wrapping_add(right)
}

/// The payload of a part that panics after the other half of its join has ended.
struct Told(u64);

/// Runs the program of a seed on the pools, and returns its result.
fn play(pools: &Arc<[ThreadPool]>, seed: u64, depth: u32) -> u64 {
    if depth == 0 {
        return seed % 1000;
    }
    let part = |nth| play(pools, draw(seed, nth), depth - 1);
    let pool = &pools[(seed >> 8) as usize % pools.len()];
    match seed % 8 {
        0 | 1 => {
            let (left, right) = comity::join(|| part(0), || part(1));
            both(left, right)
        }
        2 | 3 => {
            let sum = AtomicU64::new(0);
            let add = |nth| sum.fetch_add(part(nth), Ordering::Relaxed);
            comity::scope(|scope| (0..3).for_each(|nth| scope.spawn(move |_| _ = add(nth))));
            sum.into_inner()
        }
        4 => pool.install(|| part(0)),
        5 => {
            let half = AtomicU64::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                comity::join(|| half.store(part(0), Ordering::Relaxed), || resume_unwind(Box::new(Told(part(1)))))
            }));
            let told =
                outcome.map(|((), ())| ()).unwrap_err().downcast::<Told>().expect("the payload is what was thrown");
            both(half.into_inner(), told.0)
        }
        6 => {
            let tasks = [0, 1].map(|nth| {
                let (pools, seed) = (Arc::clone(pools), draw(seed, nth));
                spawn_in(pool, async move { play(&pools, seed, depth - 1) })
            });
            let [left, right] = tasks;
            block_on(async { both(left.await, right.await) })
        }
        _ => {
            if FORKS.fetch_add(1, Ordering::Relaxed) < MOST_FORKS {
                assert!(in_a_fork(|| comity::join(|| 6, || 7) == (6, 7)), "a forked child has pools of its own");
            }
            part(0)
        }
    }
}

/// Computes the result of a program on one thread.
fn expected(seed: u64, depth: u32) -> u64 {
    if depth == 0 {
        return seed % 1000;
    }
    let part = |nth| expected(draw(seed, nth), depth - 1);
    match seed % 8 {
        0 | 1 | 5 | 6 => both(part(0), part(1)),
        2 | 3 => (0..3).map(part).sum(),
        _ => part(0),
    }
}

/// The process that writes into the table. It is killed when this value is dropped.
struct Writer(Child);

impl Writer {
    fn start(table: &Path) -> Writer {
        let mut command = child::command("write");
        command.env("COMITY_TABLE", table).stdin(Stdio::piped()).stdout(Stdio::null());
        Writer(command.spawn().expect("a test can run itself"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `COMITY_MIXED` sets the number of programs for each policy, `COMITY_SEED` chooses the programs.
#[test]
fn a_mixed_program_comes_to_the_same_under_every_policy_beside_a_writer_of_the_table() {
    let watchdog = Watchdog::start("a_mixed_program_comes_to_the_same_under_every_policy_beside_a_writer_of_the_table");
    for policy in Policy::all() {
        watchdog.step(format!("under {policy}"));
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let _writer = Writer::start(&table);
        let mut command = child::command("play");
        command.env("COMITY_POLICY", policy.to_string()).env("COMITY_TABLE", &table);
        let output = child::run(command);
        assert!(output.status.success(), "under {policy}: {}", child::stderr(&output));
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

#[test]
#[ignore = "a role that the other test plays in a process of its own"]
fn child() {
    let Some(role) = child::role() else { return };
    let (programs, seed) = (number("COMITY_MIXED", 40), number("COMITY_SEED", 1));
    match role.as_str() {
        "play" => {
            let pool = |workers| ThreadPoolBuilder::new().num_threads(workers).stack_size(64 << 20).build().unwrap();
            let pools: Arc<[ThreadPool]> = [1, 2, 3].map(pool).into();
            ThreadPoolBuilder::new().num_threads(2).stack_size(64 << 20).build_global().unwrap();
            for nth in 0..programs {
                let seed = draw(seed, nth);
                let outcome = pools[nth as usize % 3].install(|| play(&pools, seed, DEPTH));
                assert_eq!(outcome, expected(seed, DEPTH), "seed {seed}");
            }
        }
        "write" => {
            // The process ends at the end of its input, so it also ends if the test fails.
            std::thread::spawn(|| {
                let _ = std::io::stdin().read(&mut [0]);
                std::process::exit(0);
            });
            let table = std::env::var("COMITY_TABLE").unwrap();
            for nth in 0.. {
                // The process that plays the programs creates the table. The table may be gone after that process.
                if let Ok(file) = File::options().write(true).open(&table) {
                    let words = file.metadata().unwrap().len() / 8;
                    // Skip the words that identify the table, its layout and its size.
                    let at = 2 + draw(seed, 2 * nth) % words.saturating_sub(2).max(1);
                    let word = draw(seed, 2 * nth + 1) >> (draw(seed, nth) % 64);
                    if words > 2 {
                        file.write_all_at(&word.to_le_bytes(), 8 * at).unwrap();
                    }
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        other => panic!("no role {other}"),
    }
}
