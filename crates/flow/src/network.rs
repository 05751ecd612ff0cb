//! Kahn process networks: processes that share nothing but channels.
//!
//! Kahn 1974: a process reads one channel at a time, and waits where it is empty; no process can ask whether something
//! is there. So what is sent over each channel depends on the input alone, not on which process ran when. Here
//! channels are bounded, as on any real machine, and a process waits where its channel is full. That keeps the streams
//! what they are, but may stop a network that goes on with larger channels: an *artificial* deadlock (Parks 1995),
//! which is reported as one.

mod channel;
mod ledger;

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_io::Timer;
use comity::ThreadPool;
use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::task::{self, Payload, Task};
pub use channel::{Ports, Receiver, Sender};
pub use ledger::{Deadlock, Wait};
use ledger::{Ledger, ProcessId};

/// How long after its start, or after its last look, a running network is asked whether all of its processes wait;
/// doubled up to [`SELDOM`].
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_millis(320);

/// A process before it runs: its number, and what it does.
type Body = (ProcessId, Pin<Box<dyn Future<Output = ()> + Send>>);

/// A process that runs.
struct Running {
    id: ProcessId,
    task: Task<()>,
}

/// Which process has ended, and how. One that was called off has ended well.
impl Future for Running {
    type Output = (ProcessId, Result<(), Payload>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.task.poll_outcome(context);
        outcome.map(|outcome| (self.id, outcome.unwrap_or(Ok(()))))
    }
}

/// A network that is being put together. [`Network::run`] starts it.
///
/// ```
/// use comity_flow::{Network, block_on};
///
/// let mut network = Network::new();
/// let (numbers, input) = network.channel("numbers", 4);
/// let (squares, mut output) = network.channel("squares", 4);
/// network.process("count", numbers, |mut numbers| async move {
///     for number in 1..=3 {
///         numbers.send(number).await;
///     }
/// });
/// network.process("square", (input, squares), |(mut input, mut squares)| async move {
///     while let Some(number) = input.recv().await {
///         squares.send(number * number).await;
///     }
/// });
/// let sum = block_on(async {
///     let sum = comity_flow::spawn(async move {
///         let mut sum = 0;
///         while let Some(square) = output.recv().await {
///             sum += square;
///         }
///         sum
///     });
///     network.run().await.unwrap();
///     sum.await
/// });
/// assert_eq!(sum, 14);
/// ```
#[derive(Default)]
pub struct Network {
    ledger: Ledger,
    processes: Vec<Body>,
}

impl Network {
    /// A network without processes.
    pub fn new() -> Network {
        Network::default()
    }

    /// A channel that holds up to `capacity` values. An end that is given to no [process](Network::process) is the
    /// network's link with the thread or task that holds it.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn channel<T: Send>(&mut self, name: impl Into<String>, capacity: usize) -> (Sender<T>, Receiver<T>) {
        channel::channel(&mut self.ledger, name.into(), capacity)
    }

    /// Adds a process, which owns these ends of channels: one, or a tuple, an array or a `Vec` of them, or `()`.
    ///
    /// It may await its channels, one at a time, and whatever else gives the same at each run. One that awaits a
    /// channel and something else at once (`select`) is no Kahn process, and may be taken for one that waits for its
    /// channel alone.
    pub fn process<P, F>(&mut self, name: impl Into<String>, mut ports: P, body: impl FnOnce(P) -> F)
    where
        P: Ports,
        F: Future<Output = ()> + Send + 'static,
    {
        let process = self.ledger.add_process(name.into());
        ports.bind(&process);
        let body = AssertUnwindSafe(body(ports)).catch_unwind();
        let id = process.id();
        let body = async move {
            let mut body = pin!(body);
            let outcome = poll_fn(|context| {
                let polled = body.as_mut().poll(context);
                match polled {
                    // Some futures drop their ends only after the panic.
                    Poll::Ready(Err(_)) => process.breaks(),
                    _ => process.survives(),
                }
                polled
            })
            .await;
            process.has_ended();
            // The panic is the task's again: if the run is dropped before it hears of it, the pool does.
            outcome.unwrap_or_else(|payload| resume_unwind(payload));
        };
        self.processes.push((id, Box::pin(body)));
    }

    /// Runs the processes as tasks of the pool that polls this, or of the global one, until all have ended.
    ///
    /// If one panics, or if they all wait for each other, the others are cancelled: no task is left when this is
    /// ready. The same happens, some time later, if this is dropped before.
    ///
    /// # Errors
    /// [`Failure`], the first of several.
    ///
    /// # Panics
    /// If the global pool is used and [cannot be built](comity::ThreadPoolBuilder#from-outside-of-the-program).
    pub async fn run(self) -> Result<(), Failure> {
        self.run_by(task::spawn).await
    }

    /// [`Network::run`] with the processes as tasks of this pool.
    ///
    /// # Errors
    /// As [`Network::run`].
    pub async fn run_in(self, pool: &ThreadPool) -> Result<(), Failure> {
        self.run_by(|process| task::spawn_in(pool, process)).await
    }

    async fn run_by(self, spawn: impl Fn(Pin<Box<dyn Future<Output = ()> + Send>>) -> Task<()>) -> Result<(), Failure> {
        let Network { ledger, processes } = self;
        let running = processes.into_iter().map(|(id, body)| Running { id, task: spawn(body) });
        let mut running: FuturesUnordered<Running> = running.collect();
        // Dropped before the tasks: a process that is still polled must not take their ends for those of streams.
        let stop = Stop(ledger.stopped());
        let outcome = watch(&ledger, &mut running).await;
        drop(stop);
        // After a failure: until nothing is left of them. A panic on the way comes after the one that is reported.
        running.iter().for_each(|process| process.task.call_off());
        while running.next().await.is_some() {}
        outcome
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

/// Tells the processes that whatever comes to an end now does so before its time.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until all have ended, or one has failed, or some wait for each other.
async fn watch(ledger: &Ledger, running: &mut FuturesUnordered<Running>) -> Result<(), Failure> {
    let mut period = OFTEN;
    let mut tick = Timer::after(period);
    loop {
        match select(running.next(), &mut tick).await {
            Either::Left((None, _)) => return Ok(()),
            Either::Left((Some((process, outcome)), _)) => {
                if let Err(payload) = outcome {
                    let process = ledger.process(process).to_owned();
                    return Err(Failure::Panicked(Panic { process, payload: Mutex::new(payload) }));
                }
            }
            Either::Right(_) => {
                if let Some(deadlock) = ledger.deadlock() {
                    return Err(Failure::Deadlocked(deadlock));
                }
                period = SELDOM.min(2 * period);
                tick.set_after(period);
            }
        }
    }
}

/// Why a network has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A process panicked.
    Panicked(Panic),
    /// Processes wait for each other.
    Deadlocked(Deadlock),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panicked(panic) => panic.fmt(f),
            Failure::Deadlocked(deadlock) => deadlock.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// A panic of a process.
#[derive(Debug)]
pub struct Panic {
    process: String,
    payload: Mutex<Payload>,
}

impl Panic {
    /// The name of the process.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// What the panic carries, as for [`resume_unwind`](std::panic::resume_unwind).
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::error::Error for Panic {}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process '{}' panicked", self.process)?;
        let payload = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        text.map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}
