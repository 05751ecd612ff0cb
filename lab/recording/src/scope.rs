//! `scope`: any number of tasks that may borrow local data. All tasks have finished when `scope` returns.

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

/// A scope of tasks that may borrow data that outlives `'scope`. See [`scope()`].
pub type Scope<'scope> = Tasks<'scope, false>;

/// A [`Scope`] that runs the tasks of a body in FIFO order. See [`scope_fifo()`].
pub type ScopeFifo<'scope> = Tasks<'scope, true>;

type Task<'scope, const FIFO: bool> = Box<dyn FnOnce(&Tasks<'scope, FIFO>) + Send + 'scope>;

/// Calls `body` with a scope in which it can spawn tasks. Returns after `body` and all tasks have finished, including
/// tasks that tasks have spawned. Of the tasks that a body has spawned, the newest runs first.
///
/// # Panics
/// If `body` or a task panics. The other tasks still run, and then the first panic is resumed.
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    pool::on_worker(|| in_place_scope(body))
}

/// Calls `body` like [`scope()`], but runs the tasks of a body in FIFO order.
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
    /// Calls `op` once for each thread that the scope's pool claims to have: the number that the program has chosen,
    /// although the pool has one worker. All calls end before the scope ends.
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

    /// Runs `body` on this thread. Then runs the tasks that `body` has spawned on the only worker of `pool`. `None`
    /// stands for this thread's pool. Outside of any pool, `None` stands for the global pool.
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

/// The state of the body that is running.
struct Open<T> {
    waiting: VecDeque<T>,
    /// The place at which the body began: the session, and the depth of nested forks. The first spawn at this depth
    /// begins a fork. A spawn inside a fork of the body, such as a `join`, is deeper and begins no fork. In a
    /// [quiet fork](Fork::Quiet), depths are not counted: for a body that begins there, the first spawn at any depth
    /// begins a fork. `None` between bodies, and if nothing is measured.
    place: Option<Place>,
    /// The fork that a spawn of the body has begun. Its first child is the code of the body that follows this spawn.
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
            // Outside of workers, the fork must not become quiet: in a quiet fork, `join` assumes that its thread is a
            // worker, and would not move its closures to one.
            open.fork = Some(session::fork(pool::is_worker()));
        }
        open.waiting.push_back(task);
    }

    /// Runs a body. Returns its result (`None` if it panicked) and the tasks that it has spawned.
    fn body<R>(&self, body: impl FnOnce() -> R) -> (Option<R>, Done<T>) {
        lock(&self.open).place = session::place();
        let result = catch_unwind(AssertUnwindSafe(body)).map_err(|payload| self.keep_first(payload)).ok();
        let mut open = lock(&self.open);
        open.place = None;
        (result, Done { waiting: std::mem::take(&mut open.waiting), children: Children::of(open.fork.take()) })
    }

    /// Runs all tasks that a body has spawned. After each task, runs the tasks that this task has spawned. Not
    /// recursive, because a chain of spawns may be deeper than the thread's stack allows.
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
