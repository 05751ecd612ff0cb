//! What runs tasks that block.

use std::fmt;
use std::future::Future;

use comity_console::Failure;
use comity_policy::Policy;

use super::peers::{Peer, Started};

/// An executor to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Comity under a policy.
    Comity(Policy),
    /// Another.
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

/// The same with its workers.
pub enum Executor {
    Comity(comity::ThreadPool),
    Peer(Started),
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
            Executor::Peer(_) => None,
        }
    }
}
