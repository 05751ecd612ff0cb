//! The handle of a pool, and what the current thread may ask of its own.

use std::error::Error;
use std::fmt;

use comity::internal::have_lenient_global_pool;

use crate::broadcast::BroadcastContext;
#[allow(deprecated)]
use crate::configuration::Configuration;
use crate::scope::{Scope, ScopeFifo};

/// The most threads that a pool can have. A builder that is asked for more gives that many.
pub fn max_num_threads() -> usize {
    comity::MAX_THREADS
}

/// The number of threads of the current pool, or of the global one outside of any. It does not change.
pub fn current_num_threads() -> usize {
    have_lenient_global_pool();
    comity::current_num_threads()
}

/// This thread's index in its pool, from 0; `None` outside of any.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    comity::current_thread_index()
}

/// Whether this thread has tasks that no thread has begun; `None` outside of any pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    comity::current_thread_has_pending_tasks()
}

/// Runs `func` some time on the current pool, or on the global one outside of any.
///
/// A panic goes to the pool's panic handler; without one, the process aborts.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    have_lenient_global_pool();
    comity::spawn(func);
}

/// As [`spawn`], but each thread begins with the oldest of the tasks that it has spawned.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    have_lenient_global_pool();
    comity::spawn_fifo(func);
}

/// Runs one task that is queued anywhere in this thread's pool, if there is one; `None` outside of any pool.
pub fn yield_now() -> Option<Yield> {
    comity::yield_now().map(Yield::of)
}

/// Runs one task that is queued at this thread, if there is one; `None` outside of any pool.
pub fn yield_local() -> Option<Yield> {
    comity::yield_local().map(Yield::of)
}

/// What [`yield_now`] or [`yield_local`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// A task, and it has run.
    Executed,
    /// Nothing.
    Idle,
}

impl Yield {
    fn of(found: comity::Yield) -> Yield {
        match found {
            comity::Yield::Executed => Yield::Executed,
            comity::Yield::Idle => Yield::Idle,
        }
    }
}

/// A pool of threads, built by a [`ThreadPoolBuilder`](crate::ThreadPoolBuilder).
///
/// Dropping it ends the pool after all tasks that were spawned into it, and does not wait for that.
pub struct ThreadPool {
    inner: comity::ThreadPool,
}

impl ThreadPool {
    pub(crate) fn of(inner: comity::ThreadPool) -> ThreadPool {
        ThreadPool { inner }
    }

    /// Use [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    /// Runs `op` on a thread of this pool, and returns its result. What `op` calls of this crate's uses this pool. A
    /// thread of another pool runs tasks of that one while it waits.
    ///
    /// # Panics
    /// With the panic of `op`.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.inner.install(op)
    }

    /// [`broadcast`](crate::broadcast()) to this pool.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        self.inner.broadcast(|context| op(BroadcastContext::new(context)))
    }

    /// The number of threads. It does not change.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.inner.current_num_threads()
    }

    /// This thread's index, if it belongs to this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.inner.current_thread_index()
    }

    /// Whether this thread has tasks that no thread has begun, if it belongs to this pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.inner.current_thread_has_pending_tasks()
    }

    /// [`join`](crate::join()) in this pool.
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.inner.join(oper_a, oper_b)
    }

    /// [`scope`](crate::scope()) in this pool.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.inner.scope(|inner| op(Scope::of(inner)))
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.inner.scope_fifo(|inner| op(ScopeFifo::of(inner)))
    }

    /// [`in_place_scope`](crate::in_place_scope()): `op` runs on this thread, its tasks in this pool.
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        self.inner.in_place_scope(|inner| op(Scope::of(inner)))
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()): `op` runs on this thread, its tasks in this pool.
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        self.inner.in_place_scope_fifo(|inner| op(ScopeFifo::of(inner)))
    }

    /// [`spawn`](crate::spawn()) into this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.inner.spawn(op);
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) into this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.inner.spawn_fifo(op);
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast()) to this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        self.inner.spawn_broadcast(move |context| op(BroadcastContext::new(context)));
    }

    /// [`yield_now`](crate::yield_now()), if this thread belongs to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.inner.yield_now().map(Yield::of)
    }

    /// [`yield_local`](crate::yield_local()), if this thread belongs to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.inner.yield_local().map(Yield::of)
    }
}

/// Ends the pool, as said above.
impl Drop for ThreadPool {
    fn drop(&mut self) {
        // What ends it is the drop of `inner`.
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
