//! `broadcast`: the same closure once on every thread of a pool.

use std::fmt;
use std::marker::PhantomData;

use comity::internal::have_lenient_global_pool;

/// Calls `op` once on every thread of the current pool, or of the global one outside of any, and returns the results
/// in the order of the threads. See [`comity::broadcast`].
///
/// # Panics
/// With a panic of `op`, after all calls have ended.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    have_lenient_global_pool();
    comity::broadcast(|context| op(BroadcastContext::new(context)))
}

/// Calls `op` some time once on every thread of the current pool, or of the global one outside of any, and does not
/// wait.
///
/// A panic goes to the pool's panic handler; without one, the process aborts.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    have_lenient_global_pool();
    comity::spawn_broadcast(move |context| op(BroadcastContext::new(context)));
}

/// Which of how many a broadcast's call is.
pub struct BroadcastContext<'a> {
    context: comity::BroadcastContext,
    /// Neither `Send` nor `Sync`, and for this call alone.
    _marker: PhantomData<&'a mut dyn Fn()>,
}

impl<'a> BroadcastContext<'a> {
    pub(crate) fn new(context: comity::BroadcastContext) -> BroadcastContext<'a> {
        BroadcastContext { context, _marker: PhantomData }
    }

    /// The thread's index in its pool, from 0.
    #[inline]
    pub fn index(&self) -> usize {
        self.context.index()
    }

    /// The number of threads of the pool, and so of calls.
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
