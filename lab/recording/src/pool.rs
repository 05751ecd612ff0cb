//! Pools of one worker, what they say of themselves, and how a run comes to one.

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
    /// On a worker: how many threads its pool would have; elsewhere 0.
    static THREADS: Cell<usize> = const { Cell::new(0) };
    /// Within a call of a broadcast: the index that it has.
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// How many threads the global pool would have. 0: it is not built.
static GLOBAL: AtomicUsize = AtomicUsize::new(0);

/// How many threads are trying to build it.
static BUILDERS: AtomicUsize = AtomicUsize::new(0);

/// This thread is a worker of a pool that would have so many threads.
pub(crate) fn is_worker_of(threads: usize) {
    THREADS.set(threads);
}

/// The global pool would have so many threads.
pub(crate) fn is_global(threads: usize) {
    GLOBAL.store(threads, Ordering::Release);
}

/// Calls what builds the global pool.
pub(crate) fn building_global(build: impl FnOnce() -> Result<(), BuildError>) -> Result<(), BuildError> {
    BUILDERS.fetch_add(1, Ordering::Relaxed);
    let outcome = build();
    BUILDERS.fetch_sub(1, Ordering::Release);
    outcome
}

/// How many threads the global pool would have, which is built at its first use. For threads outside of any pool.
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
    // Where another thread has built it, its worker says the number as soon as it begins.
    loop {
        let builders = BUILDERS.load(Ordering::Acquire);
        let threads = GLOBAL.load(Ordering::Acquire);
        if threads > 0 {
            return threads;
        }
        assert!(
            builders > 0,
            "the global pool is not this recorder's: a program that uses comity itself is not recorded"
        );
        std::thread::yield_now();
    }
}

/// Whether this thread is a worker of some pool.
#[inline]
pub(crate) fn is_worker() -> bool {
    comity::current_thread_index().is_some()
}

/// Makes this thread ready to fork, if it is a worker; whether it is.
pub(crate) fn begin() -> bool {
    let is_worker = is_worker();
    if is_worker {
        session::begin_on_worker();
    }
    is_worker
}

/// What `body` does under this index.
pub(crate) fn with_index<R>(index: Option<usize>, body: impl FnOnce() -> R) -> R {
    let before = INDEX.replace(index);
    let result = catch_unwind(AssertUnwindSafe(body));
    INDEX.set(before);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` on a worker of this thread's pool, or of the global one outside of any; this thread's run goes along.
pub(crate) fn on_worker<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    if begin() {
        return body();
    }
    global();
    hand_over(body, |run| comity::on_worker(|_| run()))
}

/// Has `there` run `body` on another thread, to which this thread's run goes and comes back.
fn hand_over<R: Send>(body: impl FnOnce() -> R + Send, there: impl FnOnce(&mut (dyn FnMut() + Send))) -> R {
    session::begin();
    let mut baggage = session::take();
    let quiet = baggage.is_quiet_alone();
    let (mut body, mut outcome) = (Some(body), None);
    let moving = &mut baggage;
    there(&mut || {
        let outer = session::take();
        session::put(std::mem::take(moving));
        // Nothing was taken along where nothing is measured, or from a thread that is ending.
        session::count_only();
        let body = body.take().expect("a pool runs it once");
        outcome = Some(catch_unwind(AssertUnwindSafe(body)));
        *moving = session::take();
        session::put(outer);
    });
    session::put(baggage.or_quiet(quiet));
    outcome.expect("a pool runs it before it returns").unwrap_or_else(|payload| resume_unwind(payload))
}

/// The number of threads that this thread's pool would have, or the global one outside of any: for so many a program
/// divides its work.
pub fn current_num_threads() -> usize {
    match THREADS.get() {
        0 => global(),
        threads => threads,
    }
}

/// This thread's index in its pool, which is 0 but within a broadcast and on threads that [became a pool's
/// first](crate::ThreadPoolBuilder::use_current_thread); `None` outside of any.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    comity::current_thread_index().map(|own| INDEX.get().unwrap_or(own))
}

/// A pool of one worker.
///
/// Dropping the handle ends the pool, as it does in `comity`.
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
    /// With the panic of `task`.
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

    /// [`join`](crate::join()) in this pool.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join::join(a, b))
    }

    /// [`scope`](crate::scope()) in this pool.
    pub fn scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope(body))
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    pub fn scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope_fifo(body))
    }

    /// [`in_place_scope`](crate::in_place_scope()): `body` runs on this thread, its tasks in this pool.
    pub fn in_place_scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        Scope::complete(Some(self), body)
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()): `body` runs on this thread, its tasks in this pool.
    pub fn in_place_scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        ScopeFifo::complete(Some(self), body)
    }

    /// [`broadcast`](crate::broadcast()) to this pool.
    pub fn broadcast<F, R>(&self, op: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.install(|| broadcast::broadcast(&op))
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast()) to this pool.
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(BroadcastContext) + Send + Sync + 'static,
    {
        broadcast::each_detached(op, self.threads, |call| self.spawn(call));
    }

    /// [`spawn`](crate::spawn()) into this pool.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        session::begin();
        self.inner.spawn(|| detached::run(task));
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) into this pool.
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        session::begin();
        self.inner.spawn_fifo(|| detached::run(task));
    }

    /// The number of threads that it would have.
    pub fn current_num_threads(&self) -> usize {
        self.threads
    }

    /// [`current_thread_index`], if this thread is a worker of this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.inner.current_thread_index().map(|own| INDEX.get().unwrap_or(own))
    }

    /// Whether this thread has tasks that have not begun, if it is a worker of this pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.inner.current_thread_has_pending_tasks()
    }

    /// [`yield_now`](crate::yield_now()), if this thread is a worker of this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.inner.yield_now()
    }

    /// [`yield_local`](crate::yield_local()), if this thread is a worker of this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.inner.yield_local()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("num_threads", &self.threads).finish_non_exhaustive()
    }
}
