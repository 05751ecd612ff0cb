//! Kahn's and MacQueen's sieve: a network of processes in which each takes the first number that it sees for a prime,
//! and passes on what that does not divide.
//!
//! ```text
//!     numbers ──▶ by 2 ──▶ by 3 ──▶ by 5 ──▶ … ──▶ what no process divides is prime
//!                   └────────┴────────┴──── and each one's own number
//! ```
//!
//! (Kahn and MacQueen, *Coroutines and networks of parallel processes*, IFIP 1977. There the network grows; here it is
//! as long as the numbers ask for, for what has no divisor up to its square root is prime.)
//!
//! `cargo run --release -p comity-flow --example sieve -- --below 100000`
//!
//! prints
//!
//! ```text
//! 9592 primes below 100000, by a network of 65 sieves; the last ones: 99961 99971 99989 99991
//! ```
//!
//! and a comparison with the sieve of Eratosthenes, which it must be equal to.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{Network, block_on};
use futures::{future, join};

/// Finds primes by a network of processes.
#[derive(Parser)]
pub struct Args {
    /// The end of the numbers, which is not one of them
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
    below: u32,
    /// How many numbers a message has: one message for each is work of nanoseconds
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// How many messages a channel holds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    capacity: u16,
    /// Threads; as many as there are cores, if not given
    #[arg(long)]
    workers: Option<usize>,
    /// A policy, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// What was found.
pub struct Found {
    /// In their order.
    pub primes: Vec<u32>,
    /// Processes that sieve.
    pub sieves: usize,
    took: Duration,
    sequentially: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(Found { primes, sieves, took, sequentially }) => {
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

/// Finds the primes by a network and without one.
pub fn run(args: &Args) -> Result<Found, String> {
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
    Ok(Found { primes, sieves, took, sequentially })
}

/// The network.
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
    // What the sieves let through, while they run, and then what each has kept.
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

/// The primes below `end`.
fn eratosthenes(end: u32) -> Vec<u32> {
    let mut is_prime = vec![true; end as usize];
    for n in (2..end as usize).take_while(|n| n * n < end as usize) {
        if is_prime[n] {
            (n * n..end as usize).step_by(n).for_each(|multiple| is_prime[multiple] = false);
        }
    }
    (2..end).filter(|n| is_prime[*n as usize]).collect()
}
