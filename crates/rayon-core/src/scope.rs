//! `scope`: tasks that may borrow data. `scope` returns after all of its tasks have finished.

use std::{fmt, ptr};

use comity::internal::have_lenient_global_pool;

use crate::broadcast::BroadcastContext;

/// A scope for spawning tasks. The tasks may borrow data that outlives `'scope`. See [`scope()`].
#[repr(transparent)]
pub struct Scope<'scope> {
    inner: comity::Scope<'scope>,
}

/// A [`Scope`] in which each thread runs the tasks that it has spawned oldest first. See [`scope_fifo()`].
#[repr(transparent)]
pub struct ScopeFifo<'scope> {
    inner: comity::ScopeFifo<'scope>,
}

/// Calls `op` with a scope to spawn tasks in. Returns after `op` and all tasks have finished, including tasks that
/// tasks spawned. See [`comity::scope`].
///
/// # Panics
/// If `op` or a task panics, with the first panic, after `op` and all tasks have ended.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    have_lenient_global_pool();
    comity::scope(|inner| op(Scope::of(inner)))
}

/// Calls `op` like [`scope()`], but each thread runs the tasks that it has spawned oldest first.
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

/// Calls `op` like [`scope()`], but always on the calling thread, even if that thread belongs to no pool.
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

/// Calls `op` like [`scope_fifo()`], but always on the calling thread, even if that thread belongs to no pool.
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

    /// Spawns a task that runs `body` at some time before the scope ends. `body` receives the scope, so that it can
    /// spawn further tasks.
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

    /// Spawns a task that runs `body` at some time before the scope ends. `body` receives the scope, so that it can
    /// spawn further tasks. The thread first runs the tasks that it has spawned before, unless other threads take them.
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
