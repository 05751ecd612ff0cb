//! A TCP server whose requests need processor time. A client sends one number per line, and the server answers with
//! the number of primes below that number. Each connection is a task, which uses no thread while it waits for its
//! client. Each request is a parallel loop on the workers.
//!
//! `cargo run --release -p comity-flow --example server -- --clients 4 --requests 10`
//!
//! starts its own clients, which are tasks too, and prints the number of correct answers:
//!
//! ```text
//! 127.0.0.1:40123: 4 clients were told 40 right answers, the last one is 41538 primes below 500000
//! ```
//!
//! With `--listen 127.0.0.1:7878` and no clients, it serves until it is killed: `echo 100 | nc 127.0.0.1 7878` prints
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

/// The largest number of a request. One worker needs about 0.1 s for it.
const LARGEST: usize = 500_000;

/// The number of consecutive integers that one worker tests.
const GRAIN: usize = 1024;

/// The maximum length of a request in bytes, including its end of line.
const LINE: u64 = 32;

/// Serves the number of primes below a client's number
#[derive(Parser)]
pub struct Args {
    /// Address to listen at; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Number of clients to start; the program ends with them, or serves until it is killed if there are none
    #[arg(long, default_value_t = 0)]
    clients: u32,
    /// Number of requests that each client sends
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Close a connection after this many seconds without a request
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Number of worker threads [default: the number of cores]
    #[arg(long)]
    workers: Option<usize>,
    /// Policy of the pool, as for COMITY_POLICY; `comity policies` lists them
    #[arg(long, default_value_t)]
    policy: Policy,
}

/// The answers that this program's own clients received.
pub struct Told {
    /// The address of the server.
    pub address: SocketAddr,
    /// The number of answers. All of them were correct.
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

/// Runs the server, and calls `listens` with the server's address. Returns when this program's own clients have ended.
/// Without own clients, returns only on an error.
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
    // Dropping the handle ends the server. Its connections end with their clients.
    drop(server);
    pool.shutdown();
    told
}

/// Accepts clients until an error occurs.
async fn serve(listener: Async<TcpListener>, idle: Duration) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => spawn(async move {
                // An error of one client, for example an invalid request, does not affect the others.
                let _ = answer(stream, idle).await;
            })
            .detach(),
            Err(error) => return error,
        }
    }
}

/// Serves one connection until its client ends it, sends an invalid request or is idle for too long.
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

/// Returns the number of primes below `number`, by trial division. The workers share the loop.
fn primes_below(number: usize) -> usize {
    let is_prime = |n: &usize| *n >= 2 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    comity::map_reduce(0..number, GRAIN, |part| part.filter(is_prime).count(), |left, right| left + right).unwrap_or(0)
}

/// Runs all clients concurrently, each as a task, and checks their answers.
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

/// Runs one client, whose numbers go up to the largest one. Returns its requests and answers.
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

/// Returns for each number below `end` whether it is prime, by the sieve of Eratosthenes.
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
