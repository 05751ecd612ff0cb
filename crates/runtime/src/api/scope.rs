//! `scope`: runs any number of tasks that may borrow from the caller. It returns after all tasks have ended.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use comity_os::lock;

use crate::api::broadcast::BroadcastContext;
use crate::api::global::global;
use crate::api::pool::ThreadPool;
use crate::raw::abort::drop_lost;
use crate::raw::job::Payload;
use crate::raw::latch::Latch;
use crate::workers::current;
use crate::workers::registry::{CountLatch, HeapJob, JobFifo, JobRef, Registry, Worker};

/// A scope, which can spawn tasks that borrow data that outlives `'scope`. See [`scope`].
pub struct Scope<'scope> {
    group: Group,
    /// Makes the scope invariant in `'scope`. With a longer or shorter lifetime, a task could borrow data that ends
    /// before the task.
    tasks: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// A [`Scope`] in which each worker begins with its oldest task. See [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    group: Group,
    /// The tasks that each worker has spawned, by worker index.
    fifos: Box<[JobFifo]>,
    /// Makes the scope invariant in `'scope`, like [`Scope`].
    tasks: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// Calls `body` with a scope that can spawn tasks. Returns after `body` and all tasks have ended, including tasks
/// that were spawned by tasks. Outside of any pool, uses the global pool.
///
/// To work on a slice in parallel, spawn one task for each chunk that `chunks` or `chunks_mut` returns.
///
/// # Panics
/// If `body` or a task panics, the first panic is resumed after `body` and all tasks have ended.
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
///
/// ```
/// let mut squares = [0; 8];
/// comity::scope(|scope| {
///     for (i, square) in squares.iter_mut().enumerate() {
///         scope.spawn(move |_| *square = i * i);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49]);
///
/// // If an element is little work, a task gets many elements.
/// let mut numbers = vec![1_u64; 100_000];
/// comity::scope(|scope| {
///     for chunk in numbers.chunks_mut(1024) {
///         scope.spawn(move |_| chunk.iter_mut().for_each(|number| *number *= 2));
///     }
/// });
/// assert!(numbers.iter().all(|number| *number == 2));
/// ```
#[doc(alias = "chunks_mut")]
#[doc(alias = "par_chunks")]
#[doc(alias = "par_chunks_mut")]
#[doc(alias = "par_iter_mut")]
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => scope_in(worker.registry(), Some(worker), body),
        None => global().install(|| scope(body)),
    })
}

/// Calls `body` like [`scope`], except that each worker that has several of the scope's tasks begins with the oldest.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => scope_fifo_in(worker.registry(), Some(worker), body),
        None => global().install(|| scope_fifo(body)),
    })
}

/// Calls `body` like [`scope`], but on this thread, which need not be a worker. So `body` need not be `Send`.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn in_place_scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    current::with(|worker| match worker {
        Some(worker) => scope_in(worker.registry(), Some(worker), body),
        None => global().in_place_scope(body),
    })
}

/// Calls `body` like [`scope_fifo`], but on this thread, which need not be a worker. So `body` need not be `Send`.
///
/// # Panics
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
pub fn in_place_scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R,
{
    current::with(|worker| match worker {
        Some(worker) => scope_fifo_in(worker.registry(), Some(worker), body),
        None => global().in_place_scope_fifo(body),
    })
}

impl ThreadPool {
    /// Calls [`scope`](crate::scope) in this pool.
    pub fn scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope(body))
    }

    /// Calls [`scope_fifo`](crate::scope_fifo) in this pool.
    pub fn scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope_fifo(body))
    }

    /// Calls [`in_place_scope`](crate::in_place_scope): `body` runs on this thread, its tasks in this pool.
    pub fn in_place_scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        current::with(|worker| scope_in(self.registry(), worker, body))
    }

    /// Calls [`in_place_scope_fifo`](crate::in_place_scope_fifo): `body` runs on this thread, its tasks in this pool.
    pub fn in_place_scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        current::with(|worker| scope_fifo_in(self.registry(), worker, body))
    }
}

/// Calls `body` with a scope of `pool` on this thread. `worker` is the worker of this thread, if it has one.
fn scope_in<'scope, F, R>(pool: &Arc<Registry>, worker: Option<&Worker>, body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let mut scope = Scope { group: Group::new(pool, worker), tasks: PhantomData };
    let result = scope.group.complete(worker, || body(&scope));
    scope.group.conclude(result)
}

/// Calls `body` with a FIFO scope, like [`scope_in`].
fn scope_fifo_in<'scope, F, R>(pool: &Arc<Registry>, worker: Option<&Worker>, body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R,
{
    let fifos = (0..pool.workers()).map(|_| JobFifo::new()).collect();
    let mut scope = ScopeFifo { group: Group::new(pool, worker), fifos, tasks: PhantomData };
    let result = scope.group.complete(worker, || body(&scope));
    scope.group.conclude(result)
}

impl<'scope> Scope<'scope> {
    /// Spawns a task that runs before the scope ends. The task gets the scope, so that it can spawn more tasks.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let home = Home(self);
        // SAFETY: the data that the task borrows outlives 'scope, and the scope ends only after the task has run.
        let job = unsafe { self.group.task(move || task(home.get())) };
        self.group.pool.queue(job, None);
    }

    /// Calls `op` once on every worker of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(&Scope<'scope>, BroadcastContext) + Send + Sync + 'scope,
    {
        let home = Home(self);
        // SAFETY: as in `spawn`.
        unsafe { self.group.broadcast(move |context| op(home.get(), context)) }
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Spawns a task that runs before the scope ends, and after the tasks that this worker spawned earlier in the
    /// scope, unless another worker takes the task or those tasks. The task gets the scope, so that it can spawn more
    /// tasks.
    pub fn spawn_fifo<F>(&self, task: F)
    where
        F: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let home = Home(self);
        // SAFETY: as in `Scope::spawn`.
        let job = unsafe { self.group.task(move || task(home.get())) };
        let pool = &self.group.pool;
        current::with(|worker| {
            let worker = worker.filter(|worker| Arc::ptr_eq(worker.registry(), pool));
            pool.queue(job, worker.map(|worker| &self.fifos[worker.index()]));
        });
    }

    /// Calls `op` once on every worker of the scope's pool, some time before the scope ends.
    pub fn spawn_broadcast<F>(&self, op: F)
    where
        F: Fn(&ScopeFifo<'scope>, BroadcastContext) + Send + Sync + 'scope,
    {
        let home = Home(self);
        // SAFETY: as in `Scope::spawn`.
        unsafe { self.group.broadcast(move |context| op(home.get(), context)) }
    }
}

/// The address of a scope or a group, for a task on another thread.
struct Home<S>(*const S);

impl<S> Clone for Home<S> {
    fn clone(&self) -> Home<S> {
        *self
    }
}

impl<S> Copy for Home<S> {}

// SAFETY: scopes are `Sync`: a latch of atomics, a mutex, queues that all threads may use, and a reference to the
// pool.
unsafe impl<S: Sync> Send for Home<S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Sync for Home<S> {}

impl<S> Home<S> {
    fn address(&self) -> *const S {
        self.0
    }

    fn get(&self) -> &S {
        // SAFETY: the task that has this address is counted down after its last use of the address, and the scope's
        // frame waits for that.
        unsafe { &*self.0 }
    }
}

/// The tasks of one scope.
struct Group {
    pool: Arc<Registry>,
    /// The latch that counts the body and the tasks until they end.
    unfinished: CountLatch,
    /// The payload of the first panic.
    panic: Mutex<Option<Payload>>,
}

impl Group {
    fn new(pool: &Arc<Registry>, worker: Option<&Worker>) -> Group {
        Group {
            unfinished: CountLatch::new(1, Worker::waiter(worker, pool)),
            pool: Arc::clone(pool),
            panic: Mutex::new(None),
        }
    }

    /// Runs the body and waits for all tasks.
    fn complete<R>(&self, worker: Option<&Worker>, body: impl FnOnce() -> R) -> Option<R> {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        // SAFETY: the body is counted, and not counted down yet.
        let result = unsafe { Group::ended(self, outcome) };
        self.unfinished.wait(worker);
        result
    }

    /// Returns the body's result, or resumes the first panic. Called after the body and all tasks have ended.
    fn conclude<R>(&mut self, result: Option<R>) -> R {
        match self.panic.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            Some(payload) => resume_unwind(payload),
            None => result.expect("a body without a result has panicked"),
        }
    }

    /// Returns a job of this group that runs `task`.
    ///
    /// # Safety
    /// The data that `task` borrows must live until this group is complete.
    unsafe fn task(&self, task: impl FnOnce() + Send) -> JobRef {
        self.pool.assert_of_this_process();
        self.unfinished.increment();
        let home = Home(self);
        let done = move |outcome| {
            // SAFETY: this task is counted, and not counted down yet.
            unsafe { Group::ended(home.address(), outcome) };
        };
        // SAFETY: the group is complete only after the job has run, and the caller promises that the borrowed data
        // lives until then.
        unsafe { HeapJob::new_ref(task, done) }
    }

    /// Makes every worker of the pool call `op` once.
    ///
    /// # Safety
    /// See [`Group::task`].
    unsafe fn broadcast(&self, op: impl Fn(BroadcastContext) + Send + Sync) {
        let op = Arc::new(op);
        let job = |context| {
            let op = Arc::clone(&op);
            // SAFETY: the caller's promise.
            unsafe { self.task(move || op(context)) }
        };
        let jobs: Vec<JobRef> = self.pool.contexts().map(job).collect();
        // This reference is dropped before the calls, so that one of the calls drops the last reference to `op`. The
        // data that `op` borrows may be gone after the calls.
        drop(op);
        self.pool.deliver(jobs.into_iter());
    }

    /// Counts down the body or a task of the group, and returns its result. Returns `None` after a panic, and keeps the
    /// panic if it is the first.
    ///
    /// # Safety
    /// `this` is a live group, and counts this task. The group may be gone when this returns.
    unsafe fn ended<R>(this: *const Group, outcome: Result<R, Payload>) -> Option<R> {
        // SAFETY: the group waits for this task, until it is counted down.
        unsafe {
            let result = outcome.map_err(|payload| (*this).keep_first(payload));
            CountLatch::set(&raw const (*this).unfinished);
            result.ok()
        }
    }

    /// Keeps the first panic and drops all later ones.
    #[cold]
    fn keep_first(&self, payload: Payload) {
        let mut first = lock(&self.panic);
        if first.is_none() {
            *first = Some(payload);
            return;
        }
        // The lock is released first, because dropping the payload may run other tasks of this scope, which may panic
        // too.
        drop(first);
        drop_lost(payload);
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopeFifo").finish_non_exhaustive()
    }
}
