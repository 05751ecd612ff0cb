//! tokio and smol, with the feature `peers`.

use std::fmt;
use std::future::Future;
use std::io;
use std::thread::{self, JoinHandle};

use smol::channel;

/// An executor that is not Comity's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// tokio's multi-threaded scheduler.
    Tokio,
    /// smol's executor.
    Smol,
}

/// Those that take part; the first twice, the second time as a control.
pub const PEERS: &[Peer] = &[Peer::Tokio, Peer::Tokio, Peer::Smol];

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::Tokio => "tokio",
            Peer::Smol => "smol",
        })
    }
}

/// The same with its workers.
pub enum Started {
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

impl Peer {
    /// Starts so many workers.
    pub fn start(self, workers: u16) -> io::Result<Started> {
        match self {
            Peer::Tokio => {
                tokio::runtime::Builder::new_multi_thread().worker_threads(workers.into()).build().map(Started::Tokio)
            }
            Peer::Smol => {
                // As in smol's documentation of its executor; leaked, as its global one is static.
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
