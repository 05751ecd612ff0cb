//! The members that are not kernels: a server with bursts, two programs with a pipe between them, and programs whose
//! tasks or phases wait for each other.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use comity::{ThreadPool, ThreadPoolBuilder};
use comity_console::Failure;
use comity_kernels::joins::piece;
use comity_kernels::{Backend as Started, catalog};
use comity_os::cores;

/// A role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Works in bursts.
    Server,
    /// Reads a byte from standard input in each task, and works.
    Reader,
    /// Works, and writes a byte to standard output, in each task.
    Writer,
    /// Builds a pool for each step, whose tasks wait for each other.
    Steps,
    /// Computes outside of the pool between two parallel phases.
    Phases,
}

/// The time that the server is idle between two bursts.
const IDLE: Duration = Duration::from_millis(30);

/// The server's bursts, each of about 17 to 45 ms of processor time.
const BURSTS: [&str; 3] = ["fib:n=33", "fib:n=35", "fib:n=34"];

/// Steps of arithmetic per byte, each about 2 ns. The writer works twice as long per byte as the reader, so the pipe
/// does not stay full.
const READER_STEPS: u64 = 20_000;
const WRITER_STEPS: u64 = 40_000;

/// Rows of work, each followed by a barrier, that a task of [`Role::Steps`] does in one step.
const ROWS: usize = 32;

/// Numbers of steps of about 2 ns each: in a row of [`Role::Steps`], in a parallel piece of [`Role::Phases`], and in
/// its serial part.
const ROW_STEPS: u64 = 10_000;
const PIECE_STEPS: u64 = 25_000;
const SERIAL_STEPS: u64 = 1_000_000;

/// Pieces of a parallel phase of [`Role::Phases`].
const PIECES: usize = 64;

impl Role {
    /// Returns the role's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Reader => "reader",
            Role::Writer => "writer",
            Role::Steps => "steps",
            Role::Phases => "phases",
        }
    }

    /// Works until another process ends this one. A reader or writer also returns when the pipe is closed.
    pub fn run(self) -> Result<(), Failure> {
        let workers = 2 * cores::usable().get();
        let build = || {
            let built = ThreadPoolBuilder::new().num_threads(workers).build();
            built.map_err(|error| Failure::Run(error.to_string()))
        };
        let pool = build()?;
        let lost = |error: io::Error| Failure::Run(format!("cannot create a pipe: {error}"));
        match self {
            Role::Server => serve(pool),
            Role::Steps => loop {
                step(&build()?, workers);
            },
            Role::Phases => loop {
                black_box(piece(0, SERIAL_STEPS));
                pool.install(|| {
                    comity::for_range(0..PIECES, 1, |part| {
                        part.for_each(|nth| {
                            black_box(piece(nth, PIECE_STEPS));
                        });
                    });
                });
            },
            Role::Reader => {
                let pipe = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(lost)?);
                forever(&pool, |nth| {
                    if (&pipe).read_exact(&mut [0]).is_err() {
                        exit(0);
                    }
                    piece(nth, READER_STEPS)
                })
            }
            Role::Writer => {
                let pipe = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(lost)?);
                forever(&pool, |nth| {
                    let done = piece(nth, WRITER_STEPS);
                    if (&pipe).write_all(&[0]).is_err() {
                        exit(0);
                    }
                    done
                })
            }
        }
    }
}

fn serve(pool: ThreadPool) -> Result<(), Failure> {
    let bursts: Result<Vec<_>, _> = BURSTS.iter().map(|burst| catalog::prepare(burst)).collect();
    let bursts = bursts.map_err(|error| Failure::Run(error.to_string()))?;
    let backend = Started::Comity(pool);
    loop {
        for burst in &bursts {
            thread::sleep(IDLE);
            let verdict = burst.run(&backend, false).verdict;
            if !verdict.verified {
                return Err(Failure::Run(format!("a burst gave a wrong result: {}", verdict.detail)));
            }
        }
    }
}

/// Runs one step of [`Role::Steps`]: `tasks` tasks, one per worker, which meet at a barrier after each row.
fn step(pool: &ThreadPool, tasks: usize) {
    let barrier = Barrier::new(tasks);
    pool.install(|| {
        comity::scope(|scope| {
            for task in 0..tasks {
                let barrier = &barrier;
                scope.spawn(move |_| {
                    for _ in 0..ROWS {
                        black_box(piece(task, ROW_STEPS));
                        barrier.wait();
                    }
                });
            }
        });
    });
}

fn forever(pool: &ThreadPool, task: impl Fn(usize) -> u64 + Sync) -> ! {
    loop {
        pool.install(|| {
            comity::for_range(0..1_000_000, 1, |part| {
                part.for_each(|nth| {
                    black_box(task(nth));
                });
            });
        });
    }
}
