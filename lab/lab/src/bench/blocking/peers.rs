//! tokio and smol as executors; needs the feature `peers`.

use std::fmt;
use std::future::Future;
use std::io;
use std::thread::{self, JoinHandle};

use smol::channel;

/// An executor of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// tokio's multi-threaded scheduler.
    Tokio,
    /// smol's executor.
    Smol,
}

/// The peers in the comparison. The first one occurs twice; its second run is a control.
pub const PEERS: &[Peer] = &[Peer::Tokio, Peer::Tokio, Peer::Smol];

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::Tokio => "tokio",
            Peer::Smol => "smol",
        })
    }
}

/// A started peer with its workers.
pub enum Started {
    Tokio(tokio::runtime::Runtime),
    Smol(Smol),
}

/// smol's executor, with the threads that run it. smol leaves it to its user to start threads.
pub struct Smol {
    executor: &'static smol::Executor<'static>,
    /// The sender that ends the threads when it is dropped.
    _stop: channel::Sender<()>,
    _threads: Vec<JoinHandle<()>>,
}

impl Peer {
    /// Starts the peer with `workers` workers.
    pub fn start(self, workers: u16) -> io::Result<Started> {
        match self {
            Peer::Tokio => {
                tokio::runtime::Builder::new_multi_thread().worker_threads(workers.into()).build().map(Started::Tokio)
            }
            Peer::Smol => {
                // The threads are started as in the documentation of smol's executor. The executor is leaked, because
                // smol's global executor is static too.
                let executor: &'static smol::Executor<'static> = Box::leak(Box::new(smol::Executor::new()));
                let (stop, stopped) = channel::bounded::<()>(1);
                let start = |_| {
                    let stopped = stopped.clone();
                    thread::Builder::new().spawn(move || {
                        let _ = smol::block_on(executor.run(async { stopped.recv().await }));
                    })
                };
                let threads = (0..workers).map(start).collect::<Result<_, _>>()?;
                Ok(Started::Smol(Smol { executor, _stop: stop, _threads: threads }))
            }
        }
    }
}

impl Started {
    /// Runs `future` as a task that no task waits for.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self {
            Started::Tokio(runtime) => drop(runtime.spawn(future)),
            Started::Smol(smol) => smol.executor.spawn(future).detach(),
        }
    }
}
