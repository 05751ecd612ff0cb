//! Kahn process networks: processes that share nothing but channels.
//!
//! In Kahn's model (1974), a process reads one channel at a time, and waits while that channel is empty. No process
//! can ask whether a channel holds a value. The values sent over each channel therefore depend on the input alone, not
//! on scheduling.
//!
//! Here channels are bounded, and a process that writes to a full channel waits. The bound does not change the values
//! that a channel carries. But it can stop a network that would continue with larger channels. This is an *artificial*
//! deadlock (Parks 1995), which [`Deadlock::is_artificial`] reports.

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

/// The delay from the start of a network to the first check for a deadlock. The delay doubles after each check, up to
/// [`SELDOM`].
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_millis(320);

/// A process before it runs: its number, and its future.
type Body = (ProcessId, Pin<Box<dyn Future<Output = ()> + Send>>);

/// A running process.
struct Running {
    id: ProcessId,
    task: Task<()>,
}

/// A future of the process's number and outcome. The outcome of a cancelled process is `Ok`.
impl Future for Running {
    type Output = (ProcessId, Result<(), Payload>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.task.poll_outcome(context);
        outcome.map(|outcome| (self.id, outcome.unwrap_or(Ok(()))))
    }
}

/// A builder for a network. [`Network::run`] starts the network.
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
    /// Creates a network without processes.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a channel that holds up to `capacity` values. An end that no [process](Network::process) owns connects the
    /// network with its environment: any thread or task can send or receive values through it.
    ///
    /// # Panics
    /// If `capacity` is 0.
    pub fn channel<T: Send>(&mut self, name: impl Into<String>, capacity: usize) -> (Sender<T>, Receiver<T>) {
        channel::channel(&mut self.ledger, name.into(), capacity)
    }

    /// Adds a process, which owns the ends in `ports`: one end, a tuple, an array or a `Vec` of ends, or `()`.
    ///
    /// The process may await one of its channels at a time. It may also await any future that has the same output on
    /// each run. A process that awaits a channel together with another future (`select`) is no Kahn process. A deadlock
    /// check may report it as blocked by the channel although the other future could wake it.
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
                    // Mark the process as broken by a panic. A channel end that is dropped during the panic does the
                    // same (`End::drop`). But a hand-written future may keep its ends until the panic is over.
                    Poll::Ready(Err(_)) => process.breaks(),
                    _ => process.survives(),
                }
                polled
            })
            .await;
            process.has_ended();
            // Resume the panic, so that the future of the run gets it from the task. If that future was dropped, the
            // pool's panic handler gets the panic.
            outcome.unwrap_or_else(|payload| resume_unwind(payload));
        };
        self.processes.push((id, Box::pin(body)));
    }

    /// Runs the processes as tasks until all have ended. The tasks belong to the pool whose worker first polls this
    /// future, or to the global pool if another thread polls it first.
    ///
    /// After a panic or a deadlock, all processes that still run are cancelled, and this future is ready when their
    /// tasks have ended. If this future is dropped before it is ready, the processes are cancelled some time later.
    ///
    /// # Errors
    /// [`Failure`]: the first failure of the network.
    ///
    /// # Panics
    /// If the global pool is used and [cannot be built](comity::ThreadPoolBuilder#from-outside-of-the-program).
    pub async fn run(self) -> Result<(), Failure> {
        self.run_by(task::spawn).await
    }

    /// Like [`Network::run`], but runs the processes as tasks of `pool`.
    ///
    /// # Errors
    /// See [`Network::run`].
    pub async fn run_in(self, pool: &ThreadPool) -> Result<(), Failure> {
        self.run_by(|process| task::spawn_in(pool, process)).await
    }

    async fn run_by(self, spawn: impl Fn(Pin<Box<dyn Future<Output = ()> + Send>>) -> Task<()>) -> Result<(), Failure> {
        let Network { ledger, processes } = self;
        let running = processes.into_iter().map(|(id, body)| Running { id, task: spawn(body) });
        let mut running: FuturesUnordered<Running> = running.collect();
        // `stop` is dropped before the tasks are. Otherwise a process that still runs would see the closed channel of a
        // cancelled process, and treat it as the end of the stream.
        let stop = Stop(ledger.stopped());
        let outcome = watch(&ledger, &mut running).await;
        drop(stop);
        // After a failure, wait until the other tasks have ended. Only the first failure is reported: panics of these
        // tasks are dropped.
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

/// A guard that, when dropped, marks the network as stopped: a closed channel then no longer means the end of a
/// stream.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until all processes have ended, a process has panicked, or a check has found a deadlock.
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

/// The reason why a network failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A process panicked.
    Panicked(Panic),
    /// Processes wait for each other in a cycle.
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

    /// Returns the payload of the panic, for [`resume_unwind`](std::panic::resume_unwind).
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
