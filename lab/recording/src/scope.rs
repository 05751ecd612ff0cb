//! `scope`: any number of tasks that may borrow, all finished when it returns.

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

/// A scope: tasks that may borrow what outlives `'scope`, each of which gets it.
pub struct Tasks<'scope, const FIFO: bool> {
    group: Group<Task<'scope, FIFO>>,
}

/// Spawns tasks that may borrow what outlives `'scope`. See [`scope()`].
pub type Scope<'scope> = Tasks<'scope, false>;

/// A [`Scope`] that begins with the oldest of what a body has spawned. See [`scope_fifo()`].
pub type ScopeFifo<'scope> = Tasks<'scope, true>;

type Task<'scope, const FIFO: bool> = Box<dyn FnOnce(&Tasks<'scope, FIFO>) + Send + 'scope>;

/// Calls `body` with a scope to spawn tasks in, and returns after `body` and all tasks, those that tasks spawned
/// included, have finished. Of what a body has spawned the newest begins.
///
/// # Panics
/// With the first panic of `body` or of a task, after all have ended.
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    pool::on_worker(|| in_place_scope(body))
}

/// As [`scope()`], but of what a body has spawned the oldest begins.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    pool::on_worker(|| in_place_scope_fifo(body))
}

/// As [`scope()`], but `body` runs on this thread, whether it is a worker or not.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    Tasks::complete(None, body)
}

/// As [`scope_fifo()`], but `body` runs on this thread, whether it is a worker or not.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R,
{
    Tasks::complete(None, body)
}

impl<'scope> Scope<'scope> {
    /// Runs `task` after the body that spawns it, and before the scope ends. It gets the scope, to spawn more.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.group.push(Box::new(task));
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Runs `task` after the body that spawns it, and before the scope ends. It gets the scope, to spawn more.
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.group.push(Box::new(task));
    }
}

impl<'scope, const FIFO: bool> Tasks<'scope, FIFO> {
    /// Calls `op` for each thread that the scope's pool would have, before the scope ends.
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

    /// Runs `body` here, and what it spawns on the worker of `pool`; `None`: of this thread's, or of the global one
    /// outside of any.
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

/// Tasks of one scope. What a body spawns waits until the body is done.
struct Group<T> {
    open: Mutex<Open<T>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// How many threads the scope's pool would have.
    threads: usize,
}

/// The body that runs.
struct Open<T> {
    waiting: VecDeque<T>,
    /// Where it began: what is spawned from there splits its stretch, or in quiet is taken to be. `None` between
    /// bodies, and of what is not measured.
    place: Option<Place>,
    /// The fork with the rest of the body as its first child.
    fork: Option<Fork>,
}

/// A body that is done, and what it has spawned.
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
            // What begins to be quiet stays on workers.
            open.fork = Some(session::fork(pool::is_worker()));
        }
        open.waiting.push_back(task);
    }

    /// Runs a body. `None`: it has panicked.
    fn body<R>(&self, body: impl FnOnce() -> R) -> (Option<R>, Done<T>) {
        lock(&self.open).place = session::place();
        let result = catch_unwind(AssertUnwindSafe(body)).map_err(|payload| self.keep_first(payload)).ok();
        let mut open = lock(&self.open);
        open.place = None;
        (result, Done { waiting: std::mem::take(&mut open.waiting), children: Children::of(open.fork.take()) })
    }

    /// Runs all that a body has spawned, each followed by what that spawns. However deep tasks spawn tasks, the stack
    /// is no deeper.
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
            // It may not be dropped, which could panic again.
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
