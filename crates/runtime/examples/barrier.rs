//! Tasks that wait for each other at a barrier, on a pool with one worker per task. Measures the time until all have
//! met.
//!
//! usage: cargo run --release -p comity --example barrier -- TASKS block|spin|yield
//!
//! Prints the time in milliseconds. Run the same command with `COMITY_TABLE=off`, or while another program runs, to
//! see how sharing affects such tasks.

use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tasks, way] = arguments.as_slice() else { return usage("two arguments are needed") };
    let Ok(tasks @ 1..=1024) = tasks.parse() else { return usage("TASKS is a number from 1 to 1024") };
    let (barrier, here) = (Barrier::new(tasks), AtomicUsize::new(0));
    let look_until_all_are_here = |between_looks: fn()| {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < tasks {
            between_looks();
        }
    };
    let wait = || match way.as_str() {
        "block" => _ = barrier.wait(),
        "spin" => look_until_all_are_here(std::hint::spin_loop),
        _ => look_until_all_are_here(std::thread::yield_now),
    };
    if !["block", "spin", "yield"].contains(&way.as_str()) {
        return usage("tasks wait by block, spin or yield");
    }
    let pool = match comity::ThreadPoolBuilder::new().num_threads(tasks).build() {
        Ok(pool) => pool,
        Err(error) => return usage(&error.to_string()),
    };
    let begin = Instant::now();
    pool.install(|| comity::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| wait()))));
    println!("{:.2}", begin.elapsed().as_secs_f64() * 1e3);
    ExitCode::SUCCESS
}

fn usage(wrong: &str) -> ExitCode {
    eprintln!("error: {wrong}\nusage: barrier TASKS block|spin|yield");
    ExitCode::FAILURE
}
