//! How a pool is built.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use comity_policy::{Policy, PolicyError, WorkerId};
use crossbeam_deque::Worker as Spawns;

use crate::pool::{self, ThreadPool};
use crate::raw::current;
use crate::shared::{AbortOnDrop, Handlers, Shared};
use crate::worker::Own;

/// The most workers that a pool may have.
pub const MAX_THREADS: usize = 32_767;

/// What a pool is to be like. Everything has a default.
///
/// ```
/// let pool = comity::ThreadPoolBuilder::new().num_threads(2).policy("bws".parse().unwrap()).build().unwrap();
/// assert_eq!(pool.install(comity::current_num_threads), 2);
/// ```
#[derive(Default)]
pub struct ThreadPoolBuilder {
    num_threads: Option<usize>,
    policy: Option<Policy>,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    handlers: Handlers,
}

impl ThreadPoolBuilder {
    /// All defaults.
    pub fn new() -> ThreadPoolBuilder {
        ThreadPoolBuilder::default()
    }

    /// The number of workers, at most [`MAX_THREADS`]. 0, or not set: `COMITY_NUM_THREADS`, or else as many as there
    /// are usable cores (affinity and cgroup quota considered).
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = Some(num_threads).filter(|number| *number > 0);
        self
    }

    /// The policy. Not set: `COMITY_POLICY`, or else `comity`.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Names each worker's thread by its index. Not set: `comity-0`, `comity-1` and so on.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.thread_name = Some(Box::new(name));
        self
    }

    /// Bytes of stack of each worker. Not set: what the standard library takes.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Called with the panic of a task that nobody waits for. Not set: the process aborts, as it does when the handler
    /// panics.
    pub fn panic_handler<F>(mut self, handler: F) -> Self
    where
        F: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.handlers.panic = Some(Box::new(handler));
        self
    }

    /// Called by each worker with its index, before anything else runs on it. If it panics, the process aborts; so it
    /// does if the handler spawns a task into a pool whose handle is dropped already.
    pub fn start_handler<F>(mut self, handler: F) -> Self
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Called by each worker with its index, after everything else has run on it. If it panics, the process aborts.
    /// The other workers may be gone: a handler that asks for them, as by [`broadcast`](crate::broadcast()), waits for ever.
    pub fn exit_handler<F>(mut self, handler: F) -> Self
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.exit = Some(Box::new(handler));
        self
    }

    /// Builds the pool.
    ///
    /// # Errors
    /// See [`BuildError`]. No thread is left behind.
    pub fn build(mut self) -> Result<ThreadPool, BuildError> {
        let num_threads = self.choose_num_threads()?;
        let policy = self.choose_policy()?;
        // The program's own closure may panic, so it runs before there is any thread to leave behind.
        let mut name = self.thread_name.take().unwrap_or_else(|| Box::new(|index| format!("comity-{index}")));
        let names: Vec<String> = (0..num_threads).map(&mut name).collect();
        let spawns: Vec<_> = (0..num_threads).map(|_| Spawns::new_lifo()).collect();
        let stealers = spawns.iter().map(Spawns::stealer).collect();
        let shared = Arc::new(Shared::new(policy, stealers, std::mem::take(&mut self.handlers)));

        // Each pool draws its own victims, and the n-th pool of a program the same ones on every run.
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let seed = POOLS.fetch_add(1, Ordering::Relaxed);
        let mut threads = Vec::with_capacity(num_threads);
        for (index, (spawns, name)) in spawns.into_iter().zip(names).enumerate() {
            let id = WorkerId(index as u16);
            let (worker_shared, thief) = (Arc::clone(&shared), policy.thief(id, shared.workers(), seed));
            let own = move || Own {
                shared: worker_shared,
                spawns,
                thief: RefCell::new(thief),
                busy_since: Cell::new(Instant::now()),
                stolen_depth: Cell::new(0),
            };
            let mut builder = thread::Builder::new().name(name);
            if let Some(bytes) = self.stack_size {
                builder = builder.stack_size(bytes);
            }
            match builder.spawn(move || run_worker(id, &own())) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // The handle ends those that have started; wait for them, so that none is left behind.
                    ThreadPool::new(shared, threads).shutdown();
                    return Err(BuildError::Spawn { index, num_threads, error });
                }
            }
        }
        Ok(ThreadPool::new(shared, threads))
    }

    /// Builds the pool that the free functions use outside of any other.
    ///
    /// # Errors
    /// See [`BuildError`]; the global pool is built at most once.
    pub fn build_global(self) -> Result<(), BuildError> {
        pool::build_global(self)
    }

    fn choose_num_threads(&self) -> Result<usize, BuildError> {
        let number = match (self.num_threads, environment("COMITY_NUM_THREADS")) {
            (Some(number), _) => number,
            (None, Some(text)) => text
                .parse()
                .ok()
                .filter(|number| (1..=MAX_THREADS).contains(number))
                .ok_or(BuildError::NumThreadsVariable(text))?,
            (None, None) => comity_os::cores::usable().get(),
        };
        if number > MAX_THREADS { Err(BuildError::TooManyThreads(number)) } else { Ok(number) }
    }

    fn choose_policy(&self) -> Result<Policy, BuildError> {
        match (self.policy, environment("COMITY_POLICY")) {
            (Some(policy), _) => Ok(policy),
            (None, Some(text)) => text.parse().map_err(BuildError::PolicyVariable),
            (None, None) => Ok(Policy::default()),
        }
    }
}

/// An environment variable; set to nothing is not set.
fn environment(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

fn run_worker(id: WorkerId, own: &Own) {
    let handlers = &own.shared.handlers;
    let call = |handler: &Option<Box<dyn Fn(usize) + Send + Sync>>, sentence| {
        if let Some(handler) = handler {
            let abort = AbortOnDrop(sentence);
            handler(id.index());
            std::mem::forget(abort);
        }
    };
    current::enter(own.shared.peer(id), own, |worker| {
        call(&handlers.start, "a pool's start handler panicked");
        let abort = AbortOnDrop("a worker panicked outside of any task: this is a bug in comity");
        worker.run();
        std::mem::forget(abort);
        call(&handlers.exit, "a pool's exit handler panicked");
    });
}

impl fmt::Debug for ThreadPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("policy", &self.policy)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// Why a pool could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// More workers than [`MAX_THREADS`].
    TooManyThreads(usize),
    /// `COMITY_NUM_THREADS` is not a number of workers.
    NumThreadsVariable(String),
    /// `COMITY_POLICY` is not a policy.
    PolicyVariable(PolicyError),
    /// The system gave no thread.
    Spawn {
        /// The worker that got none.
        index: usize,
        /// The number of workers that the pool was to have.
        num_threads: usize,
        /// What the system said.
        error: io::Error,
    },
    /// The global pool has been built, or used, before.
    GlobalPoolExists,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooManyThreads(number) => {
                write!(f, "{number} workers are too many; a pool takes 1 to {MAX_THREADS}")
            }
            BuildError::NumThreadsVariable(text) => {
                write!(f, "COMITY_NUM_THREADS={text} is not a whole number from 1 to {MAX_THREADS}")
            }
            BuildError::PolicyVariable(error) => write!(f, "COMITY_POLICY: {error}"),
            BuildError::Spawn { index, num_threads, error } => {
                write!(f, "no thread for worker {index} of {num_threads}: {error}; ask for fewer workers")
            }
            BuildError::GlobalPoolExists => {
                f.write_str("the global pool exists already; build it before anything uses it")
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::PolicyVariable(error) => Some(error),
            BuildError::Spawn { error, .. } => Some(error),
            _ => None,
        }
    }
}
