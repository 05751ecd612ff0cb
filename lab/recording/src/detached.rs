//! Tasks for which no other waits.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::{pool, process, session};

/// Runs `task` some time on the worker of this thread's pool, or of the global one outside of any.
///
/// A panic goes to the pool's panic handler; without one, the process aborts.
pub fn spawn<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    begin();
    comity::spawn(|| run(task));
}

/// As [`spawn`], but the worker begins with the oldest of the tasks that it has spawned.
pub fn spawn_fifo<F>(task: F)
where
    F: FnOnce() + Send + 'static,
{
    begin();
    comity::spawn_fifo(|| run(task));
}

/// What spawns is a thread that forks; outside of any pool it needs the global one.
fn begin() {
    if !pool::is_worker() {
        pool::global();
        session::begin();
    }
}

/// Runs a task on a worker, apart from the run that is there.
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
