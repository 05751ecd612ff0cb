//! Pools of one worker, the number of threads that a pool claims to have, and moving a run to a pool.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use comity::{BuildError, Yield};

use crate::broadcast::{self, BroadcastContext};
use crate::builder::lenient_builder;
use crate::scope::{self, Scope, ScopeFifo};
use crate::{detached, join, session};

thread_local! {
    /// The number of threads that this thread's pool claims to have. 0 if this thread is not a worker.
    static THREADS: Cell<usize> = const { Cell::new(0) };
    /// During a call of a broadcast, the index of the call.
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of threads that the global pool claims to have. 0 until the pool is built.
static GLOBAL: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that are trying to build the global pool.
static BUILDERS: AtomicUsize = AtomicUsize::new(0);

/// Notes that this thread is a worker of a pool that claims to have this number of threads.
pub(crate) fn is_worker_of(threads: usize) {
    THREADS.set(threads);
}

/// Notes the number of threads that the global pool claims to have.
pub(crate) fn is_global(threads: usize) {
    GLOBAL.store(threads, Ordering::Release);
}

/// Calls `build`, which builds the global pool. Counts this thread in [`BUILDERS`] until `build` returns.
pub(crate) fn building_global(build: impl FnOnce() -> Result<(), BuildError>) -> Result<(), BuildError> {
    BUILDERS.fetch_add(1, Ordering::Relaxed);
    let outcome = build();
    BUILDERS.fetch_sub(1, Ordering::Release);
    outcome
}

/// Returns the number of threads that the global pool claims to have. The first call builds the pool. Only threads
/// outside of any pool call it.
pub(crate) fn global() -> usize {
    match GLOBAL.load(Ordering::Acquire) {
        0 => build_global(),
        threads => threads,
    }
}

#[cold]
fn build_global() -> usize {
    match lenient_builder().build_global() {
        Ok(()) | Err(BuildError::GlobalPoolExists) => {}
        Err(error) => panic!("the global pool cannot be built: {error}"),
    }
    // If another thread has built the pool, the pool's worker publishes the number when that worker starts.
    loop {
        let builders = BUILDERS.load(Ordering::Acquire);
        let threads = GLOBAL.load(Ordering::Acquire);
        if threads > 0 {
            return threads;
        }
        assert!(
            builders > 0,
            "the program made its own global pool; programs that use comity directly cannot be recorded"
        );
        std::thread::yield_now();
    }
}

/// True if this thread is a worker of a pool.
#[inline]
pub(crate) fn is_worker() -> bool {
    comity::current_thread_index().is_some()
}

/// Begins this thread's session if the thread is a worker. Returns true if it is a worker.
pub(crate) fn begin() -> bool {
    let is_worker = is_worker();
    if is_worker {
        session::begin_on_worker();
    }
    is_worker
}

/// Runs `body`. Meanwhile [`current_thread_index`] returns `index`, or the worker's own index if `index` is `None`.
pub(crate) fn with_index<R>(index: Option<usize>, body: impl FnOnce() -> R) -> R {
    let before = INDEX.replace(index);
    let result = catch_unwind(AssertUnwindSafe(body));
    INDEX.set(before);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` on a worker of this thread's pool. Outside of any pool, runs it on a worker of the global pool, with
/// this thread's session.
pub(crate) fn on_worker<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    if begin() {
        return body();
    }
    global();
    hand_over(body, |run| comity::on_worker(|_| run()))
}

/// Runs `body` on another thread by calling `there`. This thread's session moves to that thread and back.
fn hand_over<R: Send>(body: impl FnOnce() -> R + Send, there: impl FnOnce(&mut (dyn FnMut() + Send))) -> R {
    session::begin();
    let mut baggage = session::take();
    let quiet = baggage.is_quiet_alone();
    let (mut body, mut outcome) = (Some(body), None);
    let moving = &mut baggage;
    there(&mut || {
        let outer = session::take();
        session::put(std::mem::take(moving));
        // If nothing is measured, or if the caller's thread is ending, no session was moved. Then only count joins.
        session::count_only();
        let body = body.take().expect("a pool runs it once");
        outcome = Some(catch_unwind(AssertUnwindSafe(body)));
        *moving = session::take();
        session::put(outer);
    });
    session::put(baggage.or_quiet(quiet));
    outcome.expect("a pool runs it before it returns").unwrap_or_else(|payload| resume_unwind(payload))
}

/// Returns the number of threads that this thread's pool claims to have. Outside of any pool, returns the number of the
/// global pool. A program divides its work by this number.
pub fn current_num_threads() -> usize {
    match THREADS.get() {
        0 => global(),
        threads => threads,
    }
}

/// Returns this thread's index in its pool, or `None` outside of any pool. The index is 0, except within a broadcast
/// and on the [second worker](crate::ThreadPoolBuilder::use_current_thread) of a pool.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    comity::current_thread_index().map(|own| INDEX.get().unwrap_or(own))
}

/// A pool with one worker.
///
/// Dropping the handle ends the pool, as in `comity`.
pub struct ThreadPool {
    inner: comity::ThreadPool,
    threads: usize,
}

impl ThreadPool {
    pub(crate) fn new(inner: comity::ThreadPool, threads: usize) -> ThreadPool {
        ThreadPool { inner, threads }
    }

    /// Runs `task` on the worker of this pool and returns its result.
    ///
    /// # Panics
    /// If `task` panics, with that panic.
    pub fn install<F, R>(&self, task: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        if self.inner.current_thread_index().is_some() {
            return on_worker(task);
        }
        hand_over(task, |run| self.inner.install(run))
    }

    /// Runs both closures in this pool, like [`join`](crate::join()).
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join::join(a, b))
    }

    /// Calls `body` with a scope of this pool, like [`scope`](crate::scope()).
    pub fn scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope(body))
    }

    /// Calls `body` with a scope of this pool, like [`scope_fifo`](crate::scope_fifo()).
    pub fn scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope_fifo(body))
    }

    /// Calls `body` on this thread, and runs its tasks in this pool. See [`in_place_scope`](crate::in_place_scope()).
    pub fn in_place_scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        Scope::complete(Some(self), body)
    }

    /// Calls `body` on this thread, and runs its tasks in this pool. See
    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()).
    pub fn in_place_scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        ScopeFifo::complete(Some(self), body)
    }

    /// Calls `op` for each thread that this pool claims to have, like [`broadcast`](crate::broadcast()).
    pub fn broadcast<F, R>(&self, op: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.install(|| broadcast::broadcast(&op))
    }

    /// Calls `op` in this pool without waiting, like [`spawn_broadcast`](crate::spawn_broadcast()).
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(BroadcastContext) + Send + Sync + 'static,
    {
        broadcast::each_detached(op, self.threads, |call| self.spawn(call));
    }

    /// Spawns a task into this pool, like [`spawn`](crate::spawn()).
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        session::begin();
        self.inner.spawn(|| detached::run(task));
    }

    /// Spawns a task into this pool, like [`spawn_fifo`](crate::spawn_fifo()).
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        session::begin();
        self.inner.spawn_fifo(|| detached::run(task));
    }

    /// Returns the number of threads that this pool claims to have.
    pub fn current_num_threads(&self) -> usize {
        self.threads
    }

    /// Returns this thread's index, like [`current_thread_index`]. `None` if this thread is no worker of this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.inner.current_thread_index().map(|own| INDEX.get().unwrap_or(own))
    }

    /// Returns true if this thread has tasks that have not begun. `None` if this thread is no worker of this pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.inner.current_thread_has_pending_tasks()
    }

    /// Runs a queued task like [`yield_now`](crate::yield_now()). `None` if this thread is no worker of this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.inner.yield_now()
    }

    /// Runs a queued task like [`yield_local`](crate::yield_local()). `None` if this thread is no worker of this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.inner.yield_local()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("num_threads", &self.threads).finish_non_exhaustive()
    }
}
