//! The executors that run tasks that block.

use std::fmt;
use std::future::Future;

use comity_console::Failure;
use comity_policy::Policy;

use super::peers::{Peer, Started};

/// The name of an executor in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Comity under a policy.
    Comity(Policy),
    /// An executor of another library.
    Peer(Peer),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Comity(policy) => policy.fmt(f),
            Name::Peer(peer) => peer.fmt(f),
        }
    }
}

/// A started executor with its workers.
pub enum Executor {
    Comity(comity::ThreadPool),
    Peer(Started),
}

impl Name {
    /// Starts the executor with `workers` workers.
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
            Name::Peer(peer) => peer.start(workers).map(Executor::Peer).map_err(|error| cannot(&error)),
        }
    }
}

impl Executor {
    /// Runs `future` as a task that no task waits for.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self {
            Executor::Comity(pool) => comity_flow::spawn_in(pool, future).detach(),
            Executor::Peer(peer) => peer.spawn(future),
        }
    }

    /// Runs `future` as a task and waits for it on the calling thread, which is not a worker.
    pub fn run<R: Send + 'static>(&self, future: impl Future<Output = R> + Send + 'static) -> R {
        let (done, result) = std::sync::mpsc::channel();
        self.spawn(async move {
            let _ = done.send(future.await);
        });
        result.recv().expect("a task of the bench does not panic")
    }

    /// Returns the number of attempts to steal so far, if the executor counts them.
    pub fn steal_attempts(&self) -> Option<u64> {
        match self {
            Executor::Comity(pool) => Some(comity::WorkerCounters::total(&pool.counters()).steal_attempts),
            Executor::Peer(_) => None,
        }
    }
}
