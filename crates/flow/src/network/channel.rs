//! The ends of a network's channels, over tokio's bounded channel.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_lite::future::yield_now;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};

use super::ledger::{Edge, Ledger, Process, Side};

/// The number of values that an end sends or receives without waiting before it lets other tasks run.
const BUDGET: u32 = 256;

pub(super) fn channel<T: Send>(ledger: &mut Ledger, name: String, capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "channel '{name}' has a capacity of 0. The minimum is 1");
    let (sender, receiver) = mpsc::channel(capacity);
    let end = End::new(ledger.add_channel(name, capacity), ledger.stopped());
    (Sender { values: sender, end: end.clone() }, Receiver { values: receiver, end })
}

/// The fields that [`Sender`] and [`Receiver`] share.
#[derive(Clone)]
struct End {
    edge: Arc<Edge>,
    /// The process of this network that owns this end, if any.
    process: Option<Arc<Process>>,
    /// True as soon as the network is being stopped.
    stopped: Arc<AtomicBool>,
    /// The number of values sent or received since this end last waited or yielded.
    spent: u32,
}

impl End {
    fn new(edge: Arc<Edge>, stopped: Arc<AtomicBool>) -> End {
        End { edge, process: None, stopped, spent: 0 }
    }

    /// Gives this end to `process`. If `process` belongs to another network, the channel links the two networks, and
    /// `End::process` stays `None`.
    fn bind(&mut self, process: &Arc<Process>, side: Side) {
        if !process.is_of(&self.stopped) {
            return;
        }
        self.edge.bind(side, process);
        self.process = Some(Arc::clone(process));
    }

    /// Waits for `value`, and notes the wait in the ledger.
    async fn wait<V>(&mut self, side: Side, value: impl Future<Output = V>) -> V {
        self.spent = 0;
        let _waits = self.process.as_deref().map(|process| process.waits(&self.edge, side));
        value.await
    }

    /// Counts a value before it is sent or received, and yields after each [`BUDGET`] values.
    async fn pay(&mut self) {
        self.spent += 1;
        if self.spent == BUDGET {
            self.spent = 0;
            yield_now().await;
        }
    }

    /// Called when the opposite end is found closed. Waits forever if a panic or the stop of the network closed that
    /// end: the process must not treat this as the end of the stream.
    async fn unless_stopped(&self, side: Side) {
        if self.process.is_none() {
            return;
        }
        if let Some(other) = self.edge.other(side) {
            other.unless_broken().await;
        }
        if self.stopped.load(Ordering::Acquire) {
            pending().await
        }
    }

    /// Called before an end is dropped. If its process panics, marks the process, so that the opposite end does not
    /// treat the closed channel as the end of the stream.
    fn drop(&self) {
        if let Some(process) = self.process.as_deref().filter(|_| thread::panicking()) {
            process.breaks();
        }
        self.edge.closes();
    }
}

/// The writing end of a channel.
pub struct Sender<T> {
    values: mpsc::Sender<T>,
    end: End,
}

impl<T> Sender<T> {
    /// Sends a value. Waits while the channel is full. If the reader has ended, the value is dropped without an error,
    /// because no process of a Kahn network can tell whether a value was read.
    pub async fn send(&mut self, value: T) {
        self.end.pay().await;
        let sent = match self.values.try_send(value) {
            Ok(()) => true,
            Err(TrySendError::Full(value)) => self.end.wait(Side::Writes, self.values.send(value)).await.is_ok(),
            Err(TrySendError::Closed(_)) => false,
        };
        if sent {
            self.end.edge.has_sent();
        } else {
            self.end.unless_stopped(Side::Writes).await;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.end.drop();
    }
}

/// The reading end of a channel.
pub struct Receiver<T> {
    values: mpsc::Receiver<T>,
    end: End,
}

impl<T> Receiver<T> {
    /// Receives the next value. Waits while the channel is empty. Returns `None` after the writer has ended and all of
    /// its values were received.
    pub async fn recv(&mut self) -> Option<T> {
        self.end.pay().await;
        let value = match self.values.try_recv() {
            Ok(value) => Some(value),
            Err(TryRecvError::Empty) => self.end.wait(Side::Reads, self.values.recv()).await,
            Err(TryRecvError::Disconnected) => None,
        };
        match value {
            Some(_) => self.end.edge.has_received(),
            None => self.end.unless_stopped(Side::Reads).await,
        }
        value
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.end.drop();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", &self.end.edge.name()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("channel", &self.end.edge.name()).finish_non_exhaustive()
    }
}

/// Ends of channels that a process can own.
pub trait Ports {
    /// Gives these ends to `process`.
    #[doc(hidden)]
    fn bind(&mut self, process: &Arc<Process>);
}

impl<T> Ports for Sender<T> {
    fn bind(&mut self, process: &Arc<Process>) {
        self.end.bind(process, Side::Writes);
    }
}

impl<T> Ports for Receiver<T> {
    fn bind(&mut self, process: &Arc<Process>) {
        self.end.bind(process, Side::Reads);
    }
}

impl<P: Ports> Ports for Vec<P> {
    fn bind(&mut self, process: &Arc<Process>) {
        self.iter_mut().for_each(|port| port.bind(process));
    }
}

impl<P: Ports> Ports for Option<P> {
    fn bind(&mut self, process: &Arc<Process>) {
        self.iter_mut().for_each(|port| port.bind(process));
    }
}

impl<P: Ports, const N: usize> Ports for [P; N] {
    fn bind(&mut self, process: &Arc<Process>) {
        self.iter_mut().for_each(|port| port.bind(process));
    }
}

impl Ports for () {
    fn bind(&mut self, _: &Arc<Process>) {}
}

macro_rules! ports_of_tuples {
    ($($name:ident)*) => {
        impl<$($name: Ports),*> Ports for ($($name,)*) {
            fn bind(&mut self, process: &Arc<Process>) {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                $($name.bind(process);)*
            }
        }
    };
}

ports_of_tuples!(A);
ports_of_tuples!(A B);
ports_of_tuples!(A B C);
ports_of_tuples!(A B C D);
ports_of_tuples!(A B C D E);
ports_of_tuples!(A B C D E F);
