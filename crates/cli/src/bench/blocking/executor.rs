//! Who runs tasks that block.

use std::fmt;
use std::future::Future;
use std::thread::{self, JoinHandle};

use comity_policy::Policy;
use smol::channel;

use crate::failure::Failure;

/// An executor to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Comity under a policy.
    Comity(Policy),
    /// tokio's multi-threaded scheduler.
    Tokio,
    /// smol's executor.
    Smol,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Comity(policy) => policy.fmt(f),
            Name::Tokio => f.write_str("tokio"),
            Name::Smol => f.write_str("smol"),
        }
    }
}

/// The same with its workers.
pub enum Executor {
    Comity(comity::ThreadPool),
    Tokio(tokio::runtime::Runtime),
    Smol(Smol),
}

/// smol leaves the threads to its user.
pub struct Smol {
    executor: &'static smol::Executor<'static>,
    /// Dropped to end the threads.
    _stop: channel::Sender<()>,
    _threads: Vec<JoinHandle<()>>,
}

impl Name {
    /// Starts so many workers.
    pub fn start(self, workers: u16) -> Result<Executor, Failure> {
        let cannot =
            |error: &dyn fmt::Display| Failure::Run(format!("cannot start {workers} workers of {self}: {error}"));
        match self {
            Name::Comity(policy) => comity::ThreadPoolBuilder::new()
                .num_threads(workers.into())
                .policy(policy)
                .build()
                .map(Executor::Comity)
                .map_err(|error| cannot(&error)),
            Name::Tokio => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers.into())
                .build()
                .map(Executor::Tokio)
                .map_err(|error| cannot(&error)),
            Name::Smol => {
                // As in smol's documentation of its executor; leaked, as its global one is static.
                let executor: &'static smol::Executor<'static> = Box::leak(Box::new(smol::Executor::new()));
                let (stop, stopped) = channel::bounded::<()>(1);
                let start = |_| {
                    let stopped = stopped.clone();
                    thread::Builder::new().spawn(move || {
                        let _ = smol::block_on(executor.run(async { stopped.recv().await }));
                    })
                };
                let threads = (0..workers).map(start).collect::<Result<_, _>>().map_err(|error| cannot(&error))?;
                Ok(Executor::Smol(Smol { executor, _stop: stop, _threads: threads }))
            }
        }
    }
}

impl Executor {
    /// Runs `future` as a task that nobody waits for.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self {
            Executor::Comity(pool) => comity_flow::spawn_in(pool, future).detach(),
            Executor::Tokio(runtime) => drop(runtime.spawn(future)),
            Executor::Smol(smol) => smol.executor.spawn(future).detach(),
        }
    }

    /// Runs `future` as a task and waits for it on this thread, which is no worker.
    pub fn run<R: Send + 'static>(&self, future: impl Future<Output = R> + Send + 'static) -> R {
        let (done, result) = std::sync::mpsc::channel();
        self.spawn(async move {
            let _ = done.send(future.await);
        });
        result.recv().expect("a task of the bench does not panic")
    }

    /// Attempts to steal so far, where that is told.
    pub fn steal_attempts(&self) -> Option<u64> {
        match self {
            Executor::Comity(pool) => Some(comity::WorkerCounters::total(&pool.counters()).steal_attempts),
            Executor::Tokio(_) | Executor::Smol(_) => None,
        }
    }
}
