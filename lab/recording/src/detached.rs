//! Tasks that no other task waits for.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::{pool, process, session};

/// Runs `task` later on the worker of this thread's pool. Outside of any pool, it uses the global pool.
///
/// A panic goes to the pool's panic handler. Without a handler, the process aborts.
pub fn spawn<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    begin();
    comity::spawn(|| run(task));
}

/// Runs `task` like [`spawn`], but the worker runs the tasks that it has spawned with `spawn_fifo` in FIFO order.
pub fn spawn_fifo<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    begin();
    comity::spawn_fifo(|| run(task));
}

/// Builds the global pool and begins this thread's session, if the thread belongs to no pool.
fn begin() {
    if !pool::is_worker() {
        pool::global();
        session::begin();
    }
}

/// Runs a detached task on a worker, with a session of its own. Restores the session of the interrupted run afterwards.
pub(crate) fn run(task: impl FnOnce()) {
    let outer = session::take();
    match process::begin_detached() {
        Some((recorder, number)) => session::go_on(recorder, number),
        None => session::count_only(),
    }
    let result = catch_unwind(AssertUnwindSafe(|| pool::with_index(None, task)));
    if let Some(recorder) = session::end() {
        process::keep_detached(recorder);
    }
    session::put(outer);
    if let Err(payload) = result {
        resume_unwind(payload);
    }
}
