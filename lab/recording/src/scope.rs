//! `scope`: any number of tasks that may borrow, all of which have finished when it returns.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use comity_os::lock;

use crate::broadcast::{self, BroadcastContext};
use crate::children::Children;
use crate::pool::{self, ThreadPool};
use crate::session::{self, Fork, Place};

/// A scope: tasks that may borrow data that outlives `'scope`. Each task receives the scope.
pub struct Tasks<'scope, const FIFO: bool> {
    group: Group<Task<'scope, FIFO>>,
}

/// A scope, into which tasks are spawned that may borrow data that outlives `'scope`. See [`scope()`].
pub type Scope<'scope> = Tasks<'scope, false>;

/// A [`Scope`] that runs the oldest task of a body first. See [`scope_fifo()`].
pub type ScopeFifo<'scope> = Tasks<'scope, true>;

type Task<'scope, const FIFO: bool> = Box<dyn FnOnce(&Tasks<'scope, FIFO>) + Send + 'scope>;

/// Calls `body` with a scope to spawn tasks in. Returns after `body` and all tasks have finished, including tasks
/// that tasks spawned. The newest task of a body runs first.
///
/// # Panics
/// If `body` or a task panics, with the first panic, after all have ended.
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    pool::on_worker(|| in_place_scope(body))
}

/// Calls `body` like [`scope()`], but the oldest task of a body runs first.
///
/// # Panics
/// See [`scope()`].
pub fn scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    pool::on_worker(|| in_place_scope_fifo(body))
}

/// Calls `body` like [`scope()`], but always on this thread, even if it is no worker.
///
/// # Panics
/// See [`scope()`].
pub fn in_place_scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    Tasks::complete(None, body)
}

/// Calls `body` like [`scope_fifo()`], but always on this thread, even if it is no worker.
///
/// # Panics
/// See [`scope()`].
pub fn in_place_scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R,
{
    Tasks::complete(None, body)
}

impl<'scope> Scope<'scope> {
    /// Runs `task` after the body that spawns it, before the scope ends. Passes it the scope, to spawn more tasks.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.group.push(Box::new(task));
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Runs `task` after the body that spawns it, before the scope ends. Passes it the scope, to spawn more tasks.
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.group.push(Box::new(task));
    }
}

impl<'scope, const FIFO: bool> Tasks<'scope, FIFO> {
    /// Calls `op` for each thread that the scope's pool claims to have, before the scope ends.
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(&Tasks<'scope, FIFO>, BroadcastContext) + Send + Sync + 'scope,
    {
        let op = Arc::new(op);
        for context in broadcast::contexts(self.group.threads) {
            let op = Arc::clone(&op);
            self.group.push(Box::new(move |scope| broadcast::call(context, |context| op(scope, context))));
        }
    }

    /// Runs `body` here, and its tasks on the worker of `pool`. `None` stands for this thread's pool, or the global
    /// pool outside of any pool.
    pub(crate) fn complete<F, R>(pool: Option<&ThreadPool>, body: F) -> R
    where
        F: FnOnce(&Self) -> R,
    {
        let threads = pool.map_or_else(pool::current_num_threads, ThreadPool::current_num_threads);
        if !pool::begin() {
            session::begin();
        }
        let scope = Tasks { group: Group::new(threads) };
        let (result, done) = scope.group.body(|| body(&scope));
        if !done.waiting.is_empty() {
            let drain = || scope.group.drain(done, FIFO, |task| task(&scope));
            match pool {
                Some(pool) => pool.install(drain),
                None => pool::on_worker(drain),
            }
        }
        scope.group.conclude(result)
    }
}

impl<const FIFO: bool> fmt::Debug for Tasks<'_, FIFO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(if FIFO { "ScopeFifo" } else { "Scope" }).finish_non_exhaustive()
    }
}

/// The tasks of one scope. Tasks that a body spawns wait until the body is done.
struct Group<T> {
    open: Mutex<Open<T>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The number of threads that the scope's pool claims to have.
    threads: usize,
}

/// The body that runs.
struct Open<T> {
    waiting: VecDeque<T>,
    /// The place where the body began. A spawn at this place splits the body's stretch; in a quiet fork it is assumed
    /// to do so. `None` between bodies, and if nothing is measured.
    place: Option<Place>,
    /// The fork whose first child is the rest of the body.
    fork: Option<Fork>,
}

/// A finished body, and the tasks that it has spawned.
struct Done<T> {
    waiting: VecDeque<T>,
    children: Children,
}

impl<T> Group<T> {
    fn new(threads: usize) -> Group<T> {
        let open = Open { waiting: VecDeque::new(), place: None, fork: None };
        Group { open: Mutex::new(open), panic: Mutex::new(None), threads }
    }

    fn push(&self, task: T) {
        let mut open = lock(&self.open);
        if open.fork.is_none() && open.place.is_some() && open.place == session::place() {
            // A fork may become quiet only on a worker.
            open.fork = Some(session::fork(pool::is_worker()));
        }
        open.waiting.push_back(task);
    }

    /// Runs a body. Returns `None` instead of its result if it has panicked.
    fn body<R>(&self, body: impl FnOnce() -> R) -> (Option<R>, Done<T>) {
        lock(&self.open).place = session::place();
        let result = catch_unwind(AssertUnwindSafe(body)).map_err(|payload| self.keep_first(payload)).ok();
        let mut open = lock(&self.open);
        open.place = None;
        (result, Done { waiting: std::mem::take(&mut open.waiting), children: Children::of(open.fork.take()) })
    }

    /// Runs all tasks that a body has spawned, each followed by the tasks that it spawns. The stack stays flat,
    /// however deep tasks spawn tasks.
    fn drain(&self, first: Done<T>, fifo: bool, run: impl Fn(T)) {
        let mut bodies = vec![first];
        while let Some(mut done) = bodies.pop() {
            let next = if fifo { done.waiting.pop_front() } else { done.waiting.pop_back() };
            let Some(task) = next else {
                done.children.join();
                continue;
            };
            done.children.next();
            bodies.push(done);
            bodies.push(self.body(|| run(task)).1);
        }
    }

    fn keep_first(&self, payload: Box<dyn Any + Send>) {
        let mut first = lock(&self.panic);
        match *first {
            None => *first = Some(payload),
            // Forget the payload: dropping it could panic again.
            Some(_) => std::mem::forget(payload),
        }
    }

    fn conclude<R>(self, result: Option<R>) -> R {
        match self.panic.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(payload) => resume_unwind(payload),
            None => result.expect("a body without a result has panicked"),
        }
    }
}
