//! `broadcast`: the same closure once for every thread that the pool would have.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::children::Children;
use crate::{detached, pool};

/// Which of how many a broadcast's call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastContext {
    index: usize,
    num_threads: usize,
}

impl BroadcastContext {
    /// The call's index, from 0, which is the thread's as long as it runs.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of calls.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// The contexts of the calls, for so many threads.
pub(crate) fn contexts(num_threads: usize) -> impl Iterator<Item = BroadcastContext> {
    (0..num_threads).map(move |index| BroadcastContext { index, num_threads })
}

/// One call of `op`, under its index.
pub(crate) fn call<R>(context: BroadcastContext, op: impl FnOnce(BroadcastContext) -> R) -> R {
    pool::with_index(Some(context.index), || op(context))
}

/// Calls `op` for each thread that this thread's pool would have, or the global one outside of any. The calls run one
/// after another on the pool's worker; returns the results in the order of the indices.
///
/// # Panics
/// With the first panic of `op`, after all calls have ended.
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

/// As [`broadcast`], but does not wait.
///
/// A panic goes to the pool's panic handler; without one, the process aborts.
pub fn spawn_broadcast<F>(op: F)
where
    F: Fn(BroadcastContext) + Send + Sync + 'static,
{
    each_detached(op, pool::current_num_threads(), detached::spawn);
}

/// Spawns each call by itself.
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
