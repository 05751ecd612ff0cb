//! Kahn's and MacQueen's prime sieve, as a network of processes. Each process takes the first number that it receives
//! as its prime, and forwards the numbers that this prime does not divide.
//!
//! ```text
//!     numbers ──▶ by 2 ──▶ by 3 ──▶ by 5 ──▶ … ──▶ what no process divides is prime
//!                   └────────┴────────┴──── and each one's own number
//! ```
//!
//! (Kahn and MacQueen, *Coroutines and networks of parallel processes*, IFIP 1977. Their network grows. This one has
//! a fixed number of processes, because a number without a divisor up to its square root is prime.)
//!
//! `cargo run --release -p comity-flow --example sieve -- --below 100000`
//!
//! prints
//!
//! ```text
//! 9592 primes below 100000, by a network of 65 sieves; the last ones: 99961 99971 99989 99991
//! ```
//!
//! and checks that the sieve of Eratosthenes finds the same primes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{Network, block_on};
use futures::{future, join};

/// Finds primes by a network of processes.
#[derive(Parser)]
pub struct Args {
    /// End of the range of numbers, exclusive
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    below: u32,
    /// Number of integers in a message: a message for each integer would carry only nanoseconds of work
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Number of messages that a channel holds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    capacity: u16,
    /// Number of worker threads [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Policy of the pool, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// The result of a run.
pub struct Outcome {
    /// The primes, in ascending order.
    pub primes: Vec<u32>,
    /// The number of processes that filter multiples of a prime.
    pub sieves: usize,
    took: Duration,
    sequentially: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(Outcome { primes, sieves, took, sequentially }) => {
            let last: String = primes.iter().skip(primes.len().saturating_sub(4)).map(|p| format!(" {p}")).collect();
            println!(
                "{} primes below {}, by a network of {sieves} sieves; the last ones:{last}",
                primes.len(),
                args.below
            );
            println!("network: {took:.1?}; Eratosthenes: {sequentially:.1?}. The primes are the same.");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sieve: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Finds the primes with a network, then with one thread, and compares the results.
pub fn run(args: &Args) -> Result<Outcome, String> {
    let mut builder = ThreadPoolBuilder::new().policy(args.policy);
    if let Some(workers) = args.workers {
        builder = builder.num_threads(workers);
    }
    let pool = builder.build().map_err(|error| format!("no pool of workers: {error}"))?;
    let root = args.below.isqrt();
    let sieves = eratosthenes(root + 1).len();
    let start = Instant::now();
    let primes = sift(&pool, args, sieves)?;
    let took = start.elapsed();
    pool.shutdown();
    let start = Instant::now();
    let expected = eratosthenes(args.below);
    let sequentially = start.elapsed();
    if primes != expected {
        return Err(format!("the network has found {} primes, and Eratosthenes {}", primes.len(), expected.len()));
    }
    Ok(Outcome { primes, sieves, took, sequentially })
}

/// Builds and runs the network, and returns the primes.
fn sift(pool: &ThreadPool, args: &Args, sieves: usize) -> Result<Vec<u32>, String> {
    let (below, batch, capacity) = (args.below, usize::from(args.batch), args.capacity.into());
    let mut network = Network::new();
    let (mut numbers, mut rest) = network.channel::<Vec<u32>>("numbers", capacity);
    network.process("numbers", numbers, move |mut numbers| async move {
        for first in (2..below).step_by(batch) {
            numbers.send((first..below.min(first.saturating_add(batch as u32))).collect()).await;
        }
    });
    let mut own = Vec::new();
    for nth in 0..sieves {
        let (prime, primes) = network.channel(format!("prime {nth}"), 1);
        own.push(primes);
        let input = rest;
        (numbers, rest) = network.channel(format!("after sieve {nth}"), capacity);
        network.process(
            format!("sieve {nth}"),
            (input, prime, numbers),
            |(mut input, mut prime, mut output)| async move {
                let mut mine = None;
                while let Some(mut batch) = input.recv().await {
                    if mine.is_none()
                        && let Some(first) = batch.first().copied()
                    {
                        mine = Some(first);
                        prime.send(first).await;
                    }
                    batch.retain(|number| mine.is_some_and(|prime| !number.is_multiple_of(prime)));
                    if !batch.is_empty() {
                        output.send(batch).await;
                    }
                }
            },
        );
    }
    // First receive the numbers that pass all sieves, while the sieves run. Then receive the prime of each sieve.
    let sifted = async {
        let mut primes = Vec::new();
        while let Some(batch) = rest.recv().await {
            primes.extend(batch);
        }
        primes
    };
    let kept = future::join_all(own.iter_mut().map(|prime| prime.recv()));
    let (outcome, kept, sifted) = block_on(async { join!(network.run_in(pool), kept, sifted) });
    outcome.map_err(|failure| failure.to_string())?;
    Ok(kept.into_iter().flatten().chain(sifted).collect())
}

/// Returns the primes below `end`.
fn eratosthenes(end: u32) -> Vec<u32> {
    let mut is_prime = vec![true; end as usize];
    for n in (2..end as usize).take_while(|n| n * n < end as usize) {
        if is_prime[n] {
            (n * n..end as usize).step_by(n).for_each(|multiple| is_prime[multiple] = false);
        }
    }
    (2..end).filter(|n| is_prime[*n as usize]).collect()
}
