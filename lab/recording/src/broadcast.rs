//! `broadcast`: calling a closure once for every thread that the pool claims to have.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::children::Children;
use crate::{detached, pool};

/// The context of one call of a broadcast: its index and the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastContext {
    index: usize,
    num_threads: usize,
}

impl BroadcastContext {
    /// Returns the call's index, from 0. It is also the thread's index during the call.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of calls.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// Returns the contexts of `num_threads` calls.
pub(crate) fn contexts(num_threads: usize) -> impl Iterator<Item = BroadcastContext> {
    (0..num_threads).map(move |index| BroadcastContext { index, num_threads })
}

/// Calls `op`. During the call, [`pool::current_thread_index`] returns the index of the context.
pub(crate) fn call<R>(context: BroadcastContext, op: impl FnOnce(BroadcastContext) -> R) -> R {
    pool::with_index(Some(context.index), || op(context))
}

/// Calls `op` once for each thread that this thread's pool claims to have. Outside of any pool, it uses the global
/// pool. The calls run one after another on the pool's worker. Returns the results in the order of the indices.
///
/// # Panics
/// If a call of `op` panics. The other calls still run, and then the first panic is resumed.
pub fn broadcast<F, R>(op: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    pool::on_worker(|| {
        let mut children = Children::default();
        let outcomes: Vec<_> = contexts(pool::current_num_threads())
            .map(|context| {
                children.next();
                catch_unwind(AssertUnwindSafe(|| call(context, &op)))
            })
            .collect();
        children.join();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload))).collect()
    })
}

/// Calls `op` like [`broadcast`], but returns without waiting for the calls.
///
/// A panic goes to the pool's panic handler. Without a handler, the process aborts.
pub fn spawn_broadcast<F>(op: F)
where
    F: Fn(BroadcastContext) + Send + Sync + 'static,
{
    each_detached(op, pool::current_num_threads(), detached::spawn);
}

/// Spawns each call as a separate task.
pub(crate) fn each_detached<F>(op: F, num_threads: usize, spawn: impl Fn(Box<dyn FnOnce() + Send>))
where
    F: Fn(BroadcastContext) + Send + Sync + 'static,
{
    let op = Arc::new(op);
    for context in contexts(num_threads) {
        let op = Arc::clone(&op);
        spawn(Box::new(move || call(context, &*op)));
    }
}
