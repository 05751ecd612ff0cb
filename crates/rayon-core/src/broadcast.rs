//! `broadcast`: calling a closure once on every thread of a pool.

use std::fmt;
use std::marker::PhantomData;

use comity::internal::have_lenient_global_pool;

/// Calls `op` once on every thread of the current pool, or of the global pool outside of any pool. Returns the
/// results in the order of the threads. See [`comity::broadcast`].
///
/// # Panics
/// If `op` panics, with that panic, after all calls have ended.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    have_lenient_global_pool();
    comity::broadcast(|context| op(BroadcastContext::new(context)))
}

/// Calls `op` once on every thread of the current pool, or of the global pool outside of any pool. Does not wait for
/// the calls.
///
/// A panic goes to the pool's panic handler. Without a handler, the process aborts.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    have_lenient_global_pool();
    comity::spawn_broadcast(move |context| op(BroadcastContext::new(context)));
}

/// The context of one call of a broadcast: its index and the number of calls.
pub struct BroadcastContext<'a> {
    context: comity::BroadcastContext,
    /// Makes the type neither `Send` nor `Sync`, and limits its lifetime to this call.
    _marker: PhantomData<&'a mut dyn Fn()>,
}

impl<'a> BroadcastContext<'a> {
    pub(crate) fn new(context: comity::BroadcastContext) -> BroadcastContext<'a> {
        BroadcastContext { context, _marker: PhantomData }
    }

    /// Returns the thread's index in its pool, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.context.index()
    }

    /// Returns the number of threads of the pool, which is the number of calls.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.context.num_threads()
    }
}

impl<'a> fmt::Debug for BroadcastContext<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.fmt(f)
    }
}
