//! The n-th Fibonacci number by double recursion without a cutoff, a program that consists almost only of joins.
//!
//! `cargo run --release -p comity --example fib -- join 40`. With `… -- worker 40`, the worker is passed along. The
//! environment variable `COMITY_POLICY` selects the policy; `… -- policies` lists all policies.

use std::process::ExitCode;

use comity::Worker;

fn by_join(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = comity::join(|| by_join(n - 1), || by_join(n - 2));
    a + b
}

/// Computes the number with the worker passed along, which saves each join an access to the thread's local storage.
fn by_worker(worker: &Worker, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = worker.join(|worker| by_worker(worker, n - 1), |worker| by_worker(worker, n - 2));
    a + b
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["policies"] {
        comity::Policy::all().for_each(|policy| println!("{policy}"));
        return ExitCode::SUCCESS;
    }
    let number = arguments.get(1).and_then(|n| n.parse().ok()).filter(|n| *n <= 90);
    let result = match (arguments.first().map(String::as_str), number) {
        (Some("join"), Some(n)) => comity::on_worker(|_| by_join(n)),
        (Some("worker"), Some(n)) => comity::on_worker(|worker| by_worker(worker, n)),
        _ => {
            eprintln!("usage: fib join|worker N, with N from 0 to 90; or fib policies");
            return ExitCode::from(2);
        }
    };
    println!("{result}");
    ExitCode::SUCCESS
}
