//! `scope`: tasks that may borrow, all finished when it returns.

use std::{fmt, ptr};

use comity::internal::have_lenient_global_pool;

use crate::broadcast::BroadcastContext;

/// Spawns tasks that may borrow what outlives `'scope`. See [`scope()`].
#[repr(transparent)]
pub struct Scope<'scope> {
    inner: comity::Scope<'scope>,
}

/// A [`Scope`] of which each thread begins the oldest task first. See [`scope_fifo()`].
#[repr(transparent)]
pub struct ScopeFifo<'scope> {
    inner: comity::ScopeFifo<'scope>,
}

/// Calls `op` with a scope to spawn tasks in, and returns after `op` and all tasks, those that tasks spawned included,
/// have finished. See [`comity::scope`].
///
/// # Panics
/// With the first panic of `op` or of a task, after all have ended.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    have_lenient_global_pool();
    comity::scope(|inner| op(Scope::of(inner)))
}

/// As [`scope()`], but each thread begins with the oldest of the tasks that it has spawned.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    have_lenient_global_pool();
    comity::scope_fifo(|inner| op(ScopeFifo::of(inner)))
}

/// As [`scope()`], but `op` runs on this thread, whether it belongs to a pool or not.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    have_lenient_global_pool();
    comity::in_place_scope(|inner| op(Scope::of(inner)))
}

/// As [`scope_fifo()`], but `op` runs on this thread, whether it belongs to a pool or not.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    have_lenient_global_pool();
    comity::in_place_scope_fifo(|inner| op(ScopeFifo::of(inner)))
}

impl<'scope> Scope<'scope> {
    pub(crate) fn of<'a>(inner: &'a comity::Scope<'scope>) -> &'a Scope<'scope> {
        // SAFETY: `Scope` is a transparent wrapper, so the reference is to a valid one, for as long.
        unsafe { &*ptr::from_ref(inner).cast() }
    }

    /// Runs `body` some time before the scope ends. It gets the scope, to spawn more.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.inner.spawn(|inner| body(Scope::of(inner)));
    }

    /// Calls `body` once on every thread of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        self.inner.spawn_broadcast(move |inner, context| body(Scope::of(inner), BroadcastContext::new(context)));
    }
}

impl<'scope> ScopeFifo<'scope> {
    pub(crate) fn of<'a>(inner: &'a comity::ScopeFifo<'scope>) -> &'a ScopeFifo<'scope> {
        // SAFETY: as in `Scope::of`.
        unsafe { &*ptr::from_ref(inner).cast() }
    }

    /// Runs `body` some time before the scope ends, and after what this thread has spawned in it before, if no other
    /// thread takes that. It gets the scope, to spawn more.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.inner.spawn_fifo(|inner| body(ScopeFifo::of(inner)));
    }

    /// Calls `body` once on every thread of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        self.inner.spawn_broadcast(move |inner, context| body(ScopeFifo::of(inner), BroadcastContext::new(context)));
    }
}

impl<'scope> fmt::Debug for Scope<'scope> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<'scope> fmt::Debug for ScopeFifo<'scope> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
