//! The calling thread's index in its pool, and its queued tasks.

use crate::api::global::global;
use crate::workers::current;
use crate::workers::worker::Yield;

/// The number of workers of the current pool. Outside of any pool, the number of workers of the global pool.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn current_num_threads() -> usize {
    current::with(|worker| match worker {
        Some(worker) => worker.registry().workers() as usize,
        None => global().current_num_threads(),
    })
}

/// This thread's index in its pool, from 0. `None` outside of any pool.
pub fn current_thread_index() -> Option<usize> {
    current::with(|worker| Some(worker?.id().index()))
}

/// True if tasks that no worker has begun are queued at this thread's worker. `None` outside of any pool.
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    current::with(|worker| Some(worker?.has_pending_tasks()))
}

/// Runs one task that is queued anywhere in this thread's pool, if there is one. Returns `None` outside of any pool.
/// A task that polls for an event can call this, so that other tasks run meanwhile.
pub fn yield_now() -> Option<Yield> {
    current::with(|worker| Some(worker?.yield_now()))
}

/// Runs one task like [`yield_now()`], but only one that is queued at this thread's own worker.
pub fn yield_local() -> Option<Yield> {
    current::with(|worker| Some(worker?.yield_local()))
}
