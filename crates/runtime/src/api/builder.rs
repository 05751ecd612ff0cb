//! The builder of pools.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use comity_os::cpu_clock::ThreadId;
use comity_os::writes::say;
use comity_os::{fork, lock, thread_limit};
use comity_policy::{Policy, Thief, WorkerId};
use comity_table::CORES;
use crossbeam_deque::{Stealer, Worker as Spawns};

use crate::api::pool::ThreadPool;
use crate::cores::masks;
use crate::fork::PerProcess;
use crate::raw::abort::AbortOnDrop;
use crate::sharing::coordinator;
use crate::watching::trace::{self, Trace};
use crate::watching::watch;
use crate::workers::current;
use crate::workers::mask;
use crate::workers::registry::{
    Enrolment, Handlers, JobRef, MOST_WEIGHT, Own, ProgramSettings, Registry, Turn, USUAL_WEIGHT, WorkerHandler,
};

/// The maximum number of workers of a pool.
pub const MAX_THREADS: usize = 65_535;

/// A builder of pools. Every setting has a default.
///
/// # From outside of the program
///
/// Environment variables choose the settings that the builder leaves open:
///
/// - `COMITY_POLICY` and `COMITY_NUM_THREADS`: the policy, and the number of workers.
/// - `COMITY_CORES`: the maximum number of cores that the program uses.
/// - `COMITY_TABLE`: the core table, the shared memory through which programs share cores, or `off`.
/// - `COMITY_WEIGHT`: the program's weight in the core table, 1 to 10000. The default depends on the nice value (100
///   for nice 0), and changes with it.
/// - `COMITY=off`: plain work stealing, without sharing cores. In `COMITY`, `COMITY_TABLE` and `COMITY_TRACE`, the
///   values `none`, `no`, `false` and `0` mean the same as `off`, in upper or lower case.
/// - `COMITY_WATCH=SECS`: a pool that has tasks but makes no progress for `SECS` seconds prints where each of its
///   threads waits.
/// - `COMITY_TRACE=FILE`: a file for the timeline of all workers, in the Trace Event Format that Perfetto opens. `%p`
///   in the name stands for the process number.
///
/// The builder returns an error if a variable has a bad value. The first use of the global pool panics with the
/// message of that error. A program that wants to handle the error instead calls
/// [`build_global`](ThreadPoolBuilder::build_global) first.
///
/// # After a fork
///
/// The child gets its own global pool. It cannot use the other pools of its parent: calls to them panic. While a
/// thread of a pool starts or ends, a fork waits. A fork does not wait for threads that the program itself starts. If
/// the program forks exactly while the standard library registers such a thread, the child cannot start threads.
///
/// # Example
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
    use_current_thread: bool,
    breadth_first: bool,
    handlers: Handlers,
    lenient: bool,
}

impl ThreadPoolBuilder {
    /// Returns a builder in which every setting has its default.
    pub fn new() -> ThreadPoolBuilder {
        ThreadPoolBuilder::default()
    }

    /// Sets the number of workers, at most [`MAX_THREADS`]. The value 0 selects the default: `COMITY_NUM_THREADS`,
    /// else `RAYON_NUM_THREADS`, else the number of usable cores. Affinity, cgroup quota and `COMITY_CORES` limit the
    /// usable cores.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = Some(num_threads).filter(|number| *number > 0);
        self
    }

    /// Sets the policy. Default: `plain` if `COMITY=off`, else `COMITY_POLICY`, else `comity`.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets a function that names each worker's thread by the worker's index. Default:
    /// [`build`](ThreadPoolBuilder::build) names the threads `comity-0`, `comity-1` and so on.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.thread_name = Some(Box::new(name));
        self
    }

    /// Sets the stack size of each worker's thread, in bytes. Default: the default of the standard library.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets a handler for the panics of detached tasks. Without a handler, the process aborts. It also aborts if the
    /// handler panics.
    pub fn panic_handler<F>(mut self, handler: F) -> Self
    where
        F: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.handlers.panic = Some(Box::new(handler));
        self
    }

    /// Makes the thread that builds the pool its worker 0. The thread runs tasks of the pool only while it waits for
    /// tasks, or when it [yields](crate::yield_now()). At all other times the pool treats it as busy. It stays a
    /// worker until it ends: its part of the pool's memory is never freed.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Makes each worker take the oldest of its [spawned](crate::spawn) tasks first, instead of the newest.
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Sets a handler that each worker calls with its index, before anything else runs on the worker. Worker 0 does
    /// not call it if it is [the thread that builds the pool](ThreadPoolBuilder::use_current_thread). A panic in the
    /// handler goes to the panic handler; without a panic handler, the process aborts. A handler panics if it spawns
    /// a task into its own pool after the pool's handle was dropped.
    pub fn start_handler<F>(mut self, handler: F) -> Self
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Sets a handler that each worker calls with its index, after everything else has run on the worker. A panic in
    /// the handler goes to the panic handler; without a panic handler, the process aborts. Other workers may have
    /// ended by then. So a handler that waits for them, for example by [`broadcast`](crate::broadcast()), may wait
    /// for ever. A handler that spawns a task into its own pool panics.
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
    /// See [`BuildError`]. After an error, all threads that were started have ended.
    pub fn build(self) -> Result<ThreadPool, BuildError> {
        let mut threads = Vec::new();
        let built = self.build_with(|worker| {
            let name = worker.name().map_or_else(|| format!("comity-{}", worker.index()), str::to_owned);
            let mut builder = thread::Builder::new().name(name);
            if let Some(bytes) = worker.stack_size() {
                builder = builder.stack_size(bytes);
            }
            threads.push(worker.spawn(builder)?);
            Ok(())
        });
        match built {
            Ok(pool) => Ok(pool.with_threads(threads)),
            Err(error) => {
                // The workers that have started end, because `build_with` has dropped the pool's handle. This waits
                // for them.
                for thread in threads {
                    thread.join().expect("a worker does not unwind");
                }
                Err(error)
            }
        }
    }

    /// Builds the pool on threads that `spawn` provides. `spawn` is called once for each worker, and must make a
    /// thread call [`ThreadBuilder::run`].
    ///
    /// # Errors
    /// See [`BuildError`]. After an error, the workers that have started end without a further call.
    pub fn build_with<F>(mut self, mut spawn: F) -> Result<ThreadPool, BuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        if self.use_current_thread && current::with(|worker| worker.is_some()) {
            return Err(BuildError::CurrentThreadInPool);
        }
        mask::register_fork_hooks();
        let num_threads = self.choose_num_threads()?;
        let policy = self.policy.map_or_else(|| default_policy(&self), Ok)?;
        let watch = self.or_default(watch_period(), || None)?;
        let weight = self.or_default(choose_weight(), || None)?;
        let cores = self.or_default(choose_cores(), || None)?;
        let starter = mask::narrow();
        let trace = self.or_default(begin_trace(starter), || None)?;
        let queue = if self.breadth_first { Spawns::new_fifo } else { Spawns::new_lifo };
        let spawns: Vec<Spawns<JobRef>> = (0..num_threads).map(|_| queue()).collect();
        let stealers: Vec<Stealer<JobRef>> = spawns.iter().map(Spawns::stealer).collect();
        // This steal makes crossbeam create its collector now, which takes a lock. If a worker created the collector
        // while this thread forks, the lock would stay locked in the child.
        let _nothing = stealers.first().map(Stealer::steal);
        let handlers = Handlers { lenient: self.lenient, ..std::mem::take(&mut self.handlers) };
        // The seed differs between pools, so that their thieves draw different victims. The n-th pool of a process
        // has the same seed on every run.
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let seed = POOLS.fetch_add(1, Ordering::Relaxed);
        let enrolment = Enrolment { settings: ProgramSettings { weight, cores }, enroll: coordinator::enroll };
        let recorder = trace.map(|trace| trace.record(seed + 1, policy, num_threads));
        let registry =
            Registry::new(policy, stealers, handlers, self.use_current_thread, mask::roams(), enrolment, recorder);
        // From here on, dropping the handle `pool` after an error or a panic ends the workers that have started.
        let pool = ThreadPool::new(Arc::clone(&registry), self.stack_size, self.breadth_first);

        let mut own_worker = None;
        for (index, spawns) in spawns.into_iter().enumerate() {
            let id = WorkerId(index as u32);
            let worker = ThreadBuilder {
                id,
                name: self.thread_name.as_mut().map(|name| name(index)),
                stack_size: self.stack_size,
                thief: policy.thief(id, registry.workers(), seed),
                registry: Arc::clone(&registry),
                spawns,
                starter,
            };
            if index == 0 && self.use_current_thread {
                own_worker = Some(worker);
            } else {
                spawn(worker).map_err(|error| BuildError::Spawn { index, num_threads, error })?;
            }
        }
        // Nothing can fail from here on. The calling thread must be adopted last, because it stays a worker for ever.
        if let Some(worker) = own_worker {
            worker.adopt();
        }
        if let Some(period) = watch {
            watch::start(Arc::downgrade(&registry), period);
        }
        if self.use_current_thread {
            // This thread pushes its tasks into its own deque, so no injected task would make the pool join its
            // program.
            registry.begin();
        }
        Ok(pool)
    }

    /// Returns a builder with the settings of `pool`, except for its handlers and names.
    pub(crate) fn like(pool: &ThreadPool) -> ThreadPoolBuilder {
        ThreadPoolBuilder {
            stack_size: pool.stack_size,
            breadth_first: pool.breadth_first,
            lenient: pool.registry().handlers.lenient,
            ..ThreadPoolBuilder::new().num_threads(pool.current_num_threads()).policy(pool.policy())
        }
    }

    fn choose_num_threads(&self) -> Result<usize, BuildError> {
        match self.num_threads {
            Some(number) if number > MAX_THREADS => Err(BuildError::TooManyThreads(number)),
            Some(number) => within_limit(number),
            None => self.or_default(within_limit(default_num_threads(self)?), usable_cores),
        }
    }

    /// Returns the default in place of a bad environment value, if the builder is lenient. The process prints each
    /// error once, for any number of pools.
    fn or_default<T>(&self, value: Result<T, BuildError>, default: impl FnOnce() -> T) -> Result<T, BuildError> {
        static SAID: PerProcess<Mutex<HashSet<String>>> = PerProcess::new();
        match value {
            Err(error) if self.lenient => {
                let sentence = format!("{error}. The default is used.");
                if lock(SAID.get(|_| Mutex::default())).insert(sentence.clone()) {
                    say(&sentence);
                }
                Ok(default())
            }
            value => value,
        }
    }
}

/// Returns a builder for programs whose users may not know Comity, for example rayon programs. If an environment
/// variable has a bad value, the pools use the default, and the process prints one line for each bad value. If an
/// exit handler spawns a task, the pool drops the task.
pub fn lenient_builder() -> ThreadPoolBuilder {
    ThreadPoolBuilder { lenient: true, ..ThreadPoolBuilder::new() }
}

/// Returns the policy of a pool whose builder sets none: see [`ThreadPoolBuilder::policy`].
///
/// # Errors
/// If an environment variable has a bad value and the builder is not lenient.
pub fn default_policy(builder: &ThreadPoolBuilder) -> Result<Policy, BuildError> {
    const NAME: &str = "COMITY_POLICY";
    match environment("COMITY") {
        Some(value) if comity_os::environment::is_off(&value) => return Ok(Policy::plain()),
        Some(value) if !value.eq_ignore_ascii_case("on") => {
            let error = bad_variable("COMITY", value, "is neither on nor off");
            return builder.or_default(Err(error), Policy::default);
        }
        _ => {}
    }
    let Some(value) = environment(NAME) else { return Ok(Policy::default()) };
    let policy = value.parse().map_err(|error| {
        let message = format!("{NAME}: {error}");
        BuildError::Variable { name: NAME, value, message }
    });
    builder.or_default(policy, Policy::default)
}

/// Returns the number of workers of a pool whose builder sets none: see [`ThreadPoolBuilder::num_threads`].
///
/// # Errors
/// If an environment variable has a bad value and the builder is not lenient.
pub fn default_num_threads(builder: &ThreadPoolBuilder) -> Result<usize, BuildError> {
    let number = whole_number("COMITY_NUM_THREADS", MAX_THREADS, "");
    Ok(builder.or_default(number, || None)?.unwrap_or_else(usual_num_threads))
}

/// Returns the number of workers from rayon's variables, else the number of usable cores.
fn usual_num_threads() -> usize {
    rayons_num_threads().unwrap_or_else(usable_cores)
}

fn usable_cores() -> usize {
    let usable = comity_os::cores::usable_of(mask::roams().len()).get();
    choose_cores().ok().flatten().map_or(usable, |most| usable.min(most as usize))
}

/// Returns the number if the process can have this many threads, else an error.
fn within_limit(num_threads: usize) -> Result<usize, BuildError> {
    match thread_limit::exceeded_by(num_threads as u64) {
        Some(exceeded) => Err(BuildError::ThreadLimit { num_threads, most: exceeded.threads, limit: exceeded.name }),
        None => Ok(num_threads),
    }
}

/// Returns the number of workers from rayon's variables, by rayon's rules. An invalid value is ignored, 0 means the
/// default, and a number above the maximum means the maximum.
fn rayons_num_threads() -> Option<usize> {
    #[expect(clippy::disallowed_methods, reason = "a program with more rights than its caller obeys them in rayon too")]
    let variable = |name| std::env::var(name).ok()?.parse::<usize>().ok();
    let number =
        variable("RAYON_NUM_THREADS").or_else(|| variable("RAYON_RS_NUM_CPUS").filter(|number| *number > 0))?;
    Some(number.min(MAX_THREADS)).filter(|number| *number > 0)
}

/// Returns the weight of this program, if the user has set it.
fn choose_weight() -> Result<Option<u32>, BuildError> {
    whole_number("COMITY_WEIGHT", MOST_WEIGHT, format_args!(" (default {USUAL_WEIGHT})"))
}

/// Returns the maximum number of cores of this program, if the user has set it.
fn choose_cores() -> Result<Option<u32>, BuildError> {
    whole_number("COMITY_CORES", CORES as u32, " (default: all cores)")
}

/// Returns the time without progress after which a pool prints a report, if the user has set it.
fn watch_period() -> Result<Option<Duration>, BuildError> {
    const NAME: &str = "COMITY_WATCH";
    let Some(value) = environment(NAME) else { return Ok(None) };
    let period = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // The minimum is 100 ms, because a thread that is neither blocked nor stuck may be off its core for some
    // milliseconds.
    let period = period.filter(|period| *period >= Duration::from_millis(100));
    period.map(Some).ok_or_else(|| bad_variable(NAME, value, "is not a number of seconds (minimum 0.1)"))
}

/// Returns the process's trace, if the user has asked for one. `starter` is the caller's affinity mask, if Comity has
/// confined the caller.
fn begin_trace(starter: Option<masks::Narrow>) -> Result<Option<&'static Trace>, BuildError> {
    const NAME: &str = "COMITY_TRACE";
    trace::begin(starter).map_err(|sentence| {
        let message = format!("{NAME}={sentence}");
        BuildError::Variable { name: NAME, value: environment(NAME).unwrap_or_default(), message }
    })
}

/// Returns the value of a variable that is a whole number from 1 to `most`, or `None` if it is not set. `hint` ends the
/// error's message.
fn whole_number<T>(name: &'static str, most: T, hint: impl fmt::Display) -> Result<Option<T>, BuildError>
where
    T: FromStr + From<u8> + PartialOrd + fmt::Display,
{
    let Some(value) = environment(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) if number >= T::from(1) && number <= most => Ok(Some(number)),
        _ => Err(bad_variable(name, value, format_args!("is not a whole number from 1 to {most}{hint}"))),
    }
}

/// Returns the error for a bad value. `wrong` is the part of the message that follows the value.
fn bad_variable(name: &'static str, value: String, wrong: impl fmt::Display) -> BuildError {
    let message = format!("{name}={value} {wrong}");
    BuildError::Variable { name, value, message }
}

/// Returns the value of one of Comity's own variables.
fn environment(name: &str) -> Option<String> {
    comity_os::environment::variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// A worker whose thread has not started yet. See [`ThreadPoolBuilder::build_with`].
pub struct ThreadBuilder {
    id: WorkerId,
    name: Option<String>,
    stack_size: Option<usize>,
    thief: Box<dyn Thief>,
    registry: Arc<Registry>,
    spawns: Spawns<JobRef>,
    /// The affinity mask of the thread that built the pool, if Comity had confined that thread. The worker's thread
    /// may inherit the mask, and widens it when it starts.
    starter: Option<masks::Narrow>,
}

impl ThreadBuilder {
    /// The worker's index in its pool, from 0.
    pub fn index(&self) -> usize {
        self.id.index()
    }

    /// The name from [`ThreadPoolBuilder::thread_name`].
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The stack size from [`ThreadPoolBuilder::stack_size`], in bytes.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Starts the thread that `thread` describes, and [runs](ThreadBuilder::run) the worker on it. A fork waits while
    /// the thread starts or ends. A fork while the standard library registers this thread would leave a child that
    /// cannot start threads.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn spawn(self, thread: thread::Builder) -> io::Result<JoinHandle<()>> {
        fork::spawn(thread, || self.run())
    }

    /// Runs the worker on this thread until its pool ends.
    ///
    /// # Panics
    /// If this thread is a worker already.
    pub fn run(self) {
        let starter = self.starter;
        let (id, own) = self.into_own();
        let registry = Arc::clone(&own.registry);
        let call = |handler: &Option<Box<WorkerHandler>>, no_handler| {
            if let Some(handler) = handler {
                registry.catch_panic(|| handler(id.index()), no_handler);
            }
        };
        masks::widen(starter);
        current::enter(own.registry.peer(id), &own, |worker| {
            registry.has_started(id, ThreadId::current());
            call(&registry.handlers.start, "a pool's start handler panicked");
            let abort = AbortOnDrop("a worker panicked outside of a task. This is a bug in Comity");
            worker.run();
            std::mem::forget(abort);
            if let Some(recorder) = &registry.recorder {
                recorder.ended(id);
            }
            call(&registry.handlers.exit, "a pool's exit handler panicked");
        });
    }

    /// Makes this thread the worker until the thread ends.
    fn adopt(self) {
        let (id, own) = self.into_own();
        let own: &'static Own = Box::leak(Box::new(Own { adopted: true, ..own }));
        current::adopt(own.registry.peer(id), own);
        own.registry.has_started(id, ThreadId::current());
    }

    fn into_own(self) -> (WorkerId, Own) {
        let own = Own {
            registry: self.registry,
            spawns: self.spawns,
            thief: RefCell::new(self.thief),
            busy_since: Cell::new(Instant::now()),
            adopted: false,
            stolen_depth: Cell::new(0),
            turn: Turn::default(),
        };
        (self.id, own)
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index())
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
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

/// The reason why a pool could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of workers is greater than [`MAX_THREADS`].
    TooManyThreads(usize),
    /// An environment variable has a bad value.
    #[non_exhaustive]
    Variable {
        /// The variable, for example `COMITY_WEIGHT`.
        name: &'static str,
        /// The value. Bytes that are not UTF-8 are replaced.
        value: String,
        /// The error's message: the variable, its value and which values are allowed.
        message: String,
    },
    /// The number of workers is greater than the number of threads that the process may have. No thread was started.
    ThreadLimit {
        /// The requested number of workers.
        num_threads: usize,
        /// The number of threads that the limit allows.
        most: u64,
        /// The name of the limit, for administrators.
        limit: String,
    },
    /// The system could not start a thread.
    Spawn {
        /// The index of the worker whose thread could not be started.
        index: usize,
        /// The requested number of workers.
        num_threads: usize,
        /// The system's error.
        error: io::Error,
    },
    /// The global pool has been built or used before.
    GlobalPoolExists,
    /// The calling thread, which was to become worker 0, is already a worker.
    CurrentThreadInPool,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooManyThreads(number) => {
                write!(f, "a pool cannot have {number} workers. Choose 1 to {MAX_THREADS}")
            }
            BuildError::Variable { message, .. } => f.write_str(message),
            BuildError::ThreadLimit { num_threads, most, limit } => {
                write!(
                    f,
                    "{num_threads} workers exceed the limit of {most} threads: {limit}. Use fewer workers, or raise it"
                )
            }
            BuildError::Spawn { index, num_threads, error } => {
                write!(f, "could not start the thread of worker {index} of {num_threads}: {error}. Use fewer workers")
            }
            BuildError::GlobalPoolExists => {
                f.write_str("the global pool already exists. Build it before its first use")
            }
            BuildError::CurrentThreadInPool => {
                f.write_str("this thread is already a worker of another pool. Build the pool on another thread")
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Spawn { error, .. } => Some(error),
            _ => None,
        }
    }
}
