//! A TCP server whose requests are work for processors: a client sends numbers, one a line, and is told how many primes
//! there are below each. A connection is a task, which waits for its client without a thread; a request is a parallel
//! loop on the workers.
//!
//! `cargo run --release -p comity-flow --example server -- --clients 4 --requests 10`
//!
//! asks itself, by clients that are tasks too, and prints how many answers were right:
//!
//! ```text
//! 127.0.0.1:40123: 4 clients were told 40 right answers, the last one is 41538 primes below 500000
//! ```
//!
//! With `--listen 127.0.0.1:7878` and no clients it serves until it is killed: `echo 100 | nc 127.0.0.1 7878` prints
//! 25.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use async_io::Async;
use clap::Parser;
use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_flow::{JoinSet, block_on, spawn, spawn_in, timeout};
use futures::io::BufReader;
use futures::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

/// The largest number of a request: it takes one worker about a tenth of a second.
const LARGEST: usize = 500_000;

/// Numbers that one worker looks at in a row.
const GRAIN: usize = 1024;

/// How many bytes a request has at most, with its end of line.
const LINE: u64 = 32;

/// Tells clients how many primes there are below their numbers.
#[derive(Parser)]
pub struct Args {
    /// Where clients connect; port 0 is a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Clients that this program starts itself, and ends with; without any it serves until it is killed
    #[arg(long, default_value_t = 0)]
    clients: u32,
    /// How many numbers each of them sends
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// After so many seconds without a request a connection is closed
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Threads; as many as there are cores, if not given
    #[arg(long)]
    workers: Option<usize>,
    /// A policy, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// What this program's own clients were told.
pub struct Told {
    /// Where the server was.
    pub address: SocketAddr,
    /// How many answers there were, all of them right.
    pub answers: usize,
    /// The last number that the last client sent, and its answer.
    pub last: (usize, usize),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args, |address| eprintln!("server: listens at {address}")) {
        Ok(Told { address, answers, last: (number, primes) }) => {
            println!(
                "{address}: {} clients were told {answers} right answers, the last one is {primes} primes below {number}",
                args.clients
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves, and says where it `listens`. It returns when its own clients have ended; without any it does not, but for an
/// error.
pub fn run(args: &Args, listens: impl FnOnce(SocketAddr)) -> Result<Told, String> {
    let mut builder = ThreadPoolBuilder::new().policy(args.policy);
    if let Some(workers) = args.workers {
        builder = builder.num_threads(workers);
    }
    let pool = builder.build().map_err(|error| format!("no pool of workers: {error}"))?;
    let cannot_listen = |error: io::Error| format!("cannot listen at {}: {error}; choose another port", args.listen);
    let listener = Async::<TcpListener>::bind(args.listen).map_err(cannot_listen)?;
    let address = listener.get_ref().local_addr().map_err(cannot_listen)?;
    listens(address);
    let server = spawn_in(&pool, serve(listener, Duration::from_secs(args.idle)));
    if args.clients == 0 {
        return Err(format!("cannot accept clients: {}", block_on(server)));
    }
    let told = block_on(ask_all(&pool, address, args));
    // The server goes with its handle; its connections end with their clients.
    drop(server);
    pool.shutdown();
    told
}

/// Accepts clients until that fails.
async fn serve(listener: Async<TcpListener>, idle: Duration) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => spawn(async move {
                // A client that is gone, or has sent nonsense, is no trouble of the others.
                let _ = answer(stream, idle).await;
            })
            .detach(),
            Err(error) => return error,
        }
    }
}

/// One connection, until its client ends it, sends nonsense or nothing.
async fn answer(stream: Async<TcpStream>, idle: Duration) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        timeout(idle, (&mut read).take(LINE).read_line(&mut line)).await??;
        if line.is_empty() {
            return Ok(());
        }
        let number = line.trim().parse().ok().filter(|number| *number <= LARGEST);
        let Some(number) = number else {
            write.write_all(format!("a number from 0 to {LARGEST} is wanted\n").as_bytes()).await?;
            return Ok(());
        };
        write.write_all(format!("{}\n", primes_below(number)).as_bytes()).await?;
    }
}

/// How many primes there are below `number`, by division: the workers share the loop.
fn primes_below(number: usize) -> usize {
    let is_prime = |n: &usize| *n >= 2 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    comity::map_reduce(0..number, GRAIN, |part| part.filter(is_prime).count(), |left, right| left + right).unwrap_or(0)
}

/// All clients at once, each a task.
async fn ask_all(pool: &ThreadPool, address: SocketAddr, args: &Args) -> Result<Told, String> {
    let mut clients = JoinSet::new();
    for client in 0..args.clients {
        let requests = args.requests;
        clients.spawn_in(pool, async move { ask(address, client, requests).await });
    }
    let mut told: Vec<(u32, usize, usize)> = Vec::new();
    while let Some(answers) = clients.join_next().await {
        told.extend(answers.map_err(|error| format!("a client got no answer: {error}"))?);
    }
    let is_prime = sieve(LARGEST);
    for (_, number, primes) in &told {
        let expected = is_prime[..*number].iter().filter(|is_prime| **is_prime).count();
        if *primes != expected {
            return Err(format!("there are {expected} primes below {number}, and not {primes}"));
        }
    }
    let last = told.iter().max_by_key(|(client, number, _)| (*client, *number)).expect("there are requests");
    Ok(Told { address, answers: told.len(), last: (last.1, last.2) })
}

/// One client: its numbers go up to the largest one. What it has asked, and what it was told.
async fn ask(address: SocketAddr, client: u32, requests: u32) -> io::Result<Vec<(u32, usize, usize)>> {
    let (read, mut write) = Async::<TcpStream>::connect(address).await?.split();
    let mut lines = BufReader::new(read);
    let mut told = Vec::new();
    for request in 1..=requests as usize {
        let number = LARGEST / requests as usize * request;
        write.write_all(format!("{number}\n").as_bytes()).await?;
        let mut line = String::new();
        lines.read_line(&mut line).await?;
        let primes = line.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, line))?;
        told.push((client, number, primes));
    }
    Ok(told)
}

/// Whether each number below `end` is prime, by Eratosthenes.
fn sieve(end: usize) -> Vec<bool> {
    let mut is_prime = vec![true; end];
    is_prime[..2.min(end)].fill(false);
    for n in (2..end).take_while(|n| n * n < end) {
        if is_prime[n] {
            (n * n..end).step_by(n).for_each(|multiple| is_prime[multiple] = false);
        }
    }
    is_prime
}
