//! The handle of a pool, and functions that use the current thread's pool.

use std::error::Error;
use std::fmt;

use comity::internal::have_lenient_global_pool;

use crate::broadcast::BroadcastContext;
#[allow(deprecated)]
use crate::configuration::Configuration;
use crate::scope::{Scope, ScopeFifo};

/// Returns the maximum number of threads of a pool. A builder reduces a larger number to this maximum.
pub fn max_num_threads() -> usize {
    comity::MAX_THREADS
}

/// Returns the number of threads of the current pool, or of the global pool outside of any pool. It never changes.
pub fn current_num_threads() -> usize {
    have_lenient_global_pool();
    comity::current_num_threads()
}

/// Returns this thread's index in its pool, from 0. `None` outside of any pool.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    comity::current_thread_index()
}

/// Returns true if tasks of this thread wait in its queue, and no thread has begun them. `None` outside of any pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    comity::current_thread_has_pending_tasks()
}

/// Runs `func` at some later time on the current pool, or on the global pool outside of any pool.
///
/// A panic goes to the pool's panic handler. Without a handler, the process aborts.
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    have_lenient_global_pool();
    comity::spawn(func);
}

/// Runs `func` like [`spawn`]. Of the tasks that a thread has spawned with `spawn_fifo`, the oldest runs first.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    have_lenient_global_pool();
    comity::spawn_fifo(func);
}

/// Runs one queued task of this thread's pool, if the pool has a queued task. Returns `None` outside of any pool.
pub fn yield_now() -> Option<Yield> {
    comity::yield_now().map(Yield::of)
}

/// Runs one task of this thread's own queue, if the queue is not empty. Returns `None` outside of any pool.
pub fn yield_local() -> Option<Yield> {
    comity::yield_local().map(Yield::of)
}

/// The result of [`yield_now`] or [`yield_local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// A task was found and has run.
    Executed,
    /// No task was found.
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
/// After the value is dropped, the pool ends as soon as all tasks that were spawned into it have ended. The drop does
/// not wait for these tasks.
pub struct ThreadPool {
    inner: comity::ThreadPool,
}

impl ThreadPool {
    pub(crate) fn of(inner: comity::ThreadPool) -> ThreadPool {
        ThreadPool { inner }
    }

    /// Builds a pool. Use [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    /// Runs `op` on a thread of this pool, and returns the result. Functions of this crate that `op` calls use this
    /// pool. A caller that belongs to another pool runs tasks of its own pool while it waits.
    ///
    /// # Panics
    /// If `op` panics, with that panic.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.inner.install(op)
    }

    /// Calls `op` on every thread of this pool, like [`broadcast`](crate::broadcast()).
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        self.inner.broadcast(|context| op(BroadcastContext::new(context)))
    }

    /// Returns the number of threads. It never changes.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.inner.current_num_threads()
    }

    /// Returns the calling thread's index if the thread belongs to this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.inner.current_thread_index()
    }

    /// Returns true if tasks of this thread wait in its queue. `None` if this thread does not belong to this pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.inner.current_thread_has_pending_tasks()
    }

    /// Runs both closures in this pool, like [`join`](crate::join()).
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.inner.join(oper_a, oper_b)
    }

    /// Calls `op` with a scope of this pool, like [`scope`](crate::scope()).
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.inner.scope(|inner| op(Scope::of(inner)))
    }

    /// Calls `op` with a scope of this pool, like [`scope_fifo`](crate::scope_fifo()).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.inner.scope_fifo(|inner| op(ScopeFifo::of(inner)))
    }

    /// Calls `op` on this thread, and runs the scope's tasks in this pool. See
    /// [`in_place_scope`](crate::in_place_scope()).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        self.inner.in_place_scope(|inner| op(Scope::of(inner)))
    }

    /// Calls `op` on this thread, and runs the scope's tasks in this pool. See
    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        self.inner.in_place_scope_fifo(|inner| op(ScopeFifo::of(inner)))
    }

    /// Spawns a task into this pool, like [`spawn`](crate::spawn()).
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.inner.spawn(op);
    }

    /// Spawns a task into this pool, like [`spawn_fifo`](crate::spawn_fifo()).
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.inner.spawn_fifo(op);
    }

    /// Calls `op` on every thread of this pool without waiting, like [`spawn_broadcast`](crate::spawn_broadcast()).
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        self.inner.spawn_broadcast(move |context| op(BroadcastContext::new(context)));
    }

    /// Runs a queued task like [`yield_now`](crate::yield_now()). `None` if this thread does not belong to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.inner.yield_now().map(Yield::of)
    }

    /// Runs a queued task like [`yield_local`](crate::yield_local()). `None` if this thread does not belong to this
    /// pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.inner.yield_local().map(Yield::of)
    }
}

/// Ends the pool after all tasks that were spawned into it. Stock rayon-core implements `Drop` too.
impl Drop for ThreadPool {
    fn drop(&mut self) {
        // The drop of `inner` ends the pool.
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
