//! `scope`: tasks that may borrow, all of which have finished when it returns.

use std::{fmt, ptr};

use comity::internal::have_lenient_global_pool;

use crate::broadcast::BroadcastContext;

/// A scope, into which tasks are spawned that may borrow data that outlives `'scope`. See [`scope()`].
#[repr(transparent)]
pub struct Scope<'scope> {
    inner: comity::Scope<'scope>,
}

/// A [`Scope`] of which each thread runs its oldest task first. See [`scope_fifo()`].
#[repr(transparent)]
pub struct ScopeFifo<'scope> {
    inner: comity::ScopeFifo<'scope>,
}

/// Calls `op` with a scope to spawn tasks in. Returns after `op` and all tasks have finished, including tasks that
/// tasks spawned. See [`comity::scope`].
///
/// # Panics
/// If `op` or a task panics, with the first panic, after all have ended.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    have_lenient_global_pool();
    comity::scope(|inner| op(Scope::of(inner)))
}

/// Calls `op` like [`scope()`], but each thread runs the oldest of the tasks that it has spawned first.
///
/// # Panics
/// See [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    have_lenient_global_pool();
    comity::scope_fifo(|inner| op(ScopeFifo::of(inner)))
}

/// Calls `op` like [`scope()`], but always on this thread, even if it belongs to no pool.
///
/// # Panics
/// See [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    have_lenient_global_pool();
    comity::in_place_scope(|inner| op(Scope::of(inner)))
}

/// Calls `op` like [`scope_fifo()`], but always on this thread, even if it belongs to no pool.
///
/// # Panics
/// See [`scope()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    have_lenient_global_pool();
    comity::in_place_scope_fifo(|inner| op(ScopeFifo::of(inner)))
}

impl<'scope> Scope<'scope> {
    pub(crate) fn of<'a>(inner: &'a comity::Scope<'scope>) -> &'a Scope<'scope> {
        // SAFETY: `Scope` is a transparent wrapper, so the reference points to a valid `Scope` of the same lifetime.
        unsafe { &*ptr::from_ref(inner).cast() }
    }

    /// Runs `body` at some time before the scope ends, and passes it the scope, to spawn more tasks.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.inner.spawn(|inner| body(Scope::of(inner)));
    }

    /// Calls `body` once on every thread of the scope's pool, at some time before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        self.inner.spawn_broadcast(move |inner, context| body(Scope::of(inner), BroadcastContext::new(context)));
    }
}

impl<'scope> ScopeFifo<'scope> {
    pub(crate) fn of<'a>(inner: &'a comity::ScopeFifo<'scope>) -> &'a ScopeFifo<'scope> {
        // SAFETY: `ScopeFifo` is a transparent wrapper, so the reference points to a valid `ScopeFifo` of the same
        // lifetime.
        unsafe { &*ptr::from_ref(inner).cast() }
    }

    /// Runs `body` at some time before the scope ends, and passes it the scope, to spawn more tasks. Tasks that this
    /// thread has spawned earlier run first, unless other threads take them.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.inner.spawn_fifo(|inner| body(ScopeFifo::of(inner)));
    }

    /// Calls `body` once on every thread of the scope's pool, at some time before the scope ends.
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
