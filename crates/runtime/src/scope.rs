//! `scope`: any number of tasks that may borrow, all finished when it returns.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use comity_os::lock;

use crate::pool::global;
use crate::raw::current;
use crate::raw::job::{HeapJob, Payload};
use crate::raw::latch::{CountLatch, Latch, Probe, Waiter, WorkerLatch};
use crate::shared::{Shared, drop_lost};
use crate::worker::Worker;

/// Spawns tasks that may borrow what outlives `'scope`. See [`scope`].
pub struct Scope<'scope> {
    shared: Arc<Shared>,
    /// The body and the tasks that have not finished.
    unfinished: CountLatch,
    /// The first panic.
    panic: Mutex<Option<Payload>>,
    /// Invariant in `'scope`: a longer or shorter one would let a task borrow what it must not.
    tasks: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// Calls `body` with a scope to spawn tasks in, and returns after `body` and every task, those that tasks spawned
/// included, have finished. Outside of any pool, the global one is used.
///
/// # Panics
/// With the first panic of `body` or of a task, after all have ended.
///
/// ```
/// let mut squares = [0; 8];
/// comity::scope(|scope| {
///     for (i, square) in squares.iter_mut().enumerate() {
///         scope.spawn(move |_| *square = i * i);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49]);
/// ```
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    current::with(|worker| match worker {
        Some(worker) => scope_on(worker, body),
        None => global().install(|| scope(body)),
    })
}

fn scope_on<'scope, F, R>(worker: &Worker, body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let shared = Arc::clone(worker.shared());
    let latch = WorkerLatch::new(&shared.sleep, worker.id());
    let scope = Scope {
        unfinished: CountLatch::new(1, Waiter::Worker(latch)),
        shared,
        panic: Mutex::new(None),
        tasks: PhantomData,
    };
    let result = scope.run(|| body(&scope));
    let Waiter::Worker(latch) = &scope.unfinished.waiter else { unreachable!("set above") };
    worker.wait_until(latch);
    debug_assert!(latch.probe());
    match scope.panic.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(payload) => resume_unwind(payload),
        None => result.expect("a body without a result has panicked"),
    }
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Runs `task` some time before the scope ends. It gets the scope, to spawn more.
    pub fn spawn<F>(&self, task: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        /// The scope's address, for a task on another thread.
        struct Home<'scope>(*const Scope<'scope>);
        // SAFETY: `Scope` is `Sync`: a latch of atomics, a mutex and a reference to the pool.
        unsafe impl Send for Home<'_> {}
        impl<'scope> Home<'scope> {
            fn get(&self) -> *const Scope<'scope> {
                self.0
            }
        }

        self.unfinished.increment();
        let home = Home(self);
        let job = move || {
            // SAFETY: the scope's frame waits until this task is counted down, which `run` does last.
            let scope = unsafe { &*home.get() };
            scope.run(|| task(scope));
        };
        // SAFETY: what the task borrows outlives 'scope, and `scope` returns only after it has run.
        self.shared.queue(unsafe { HeapJob::new_ref(job) });
    }

    /// Runs the body or a task, keeps its panic, and counts it down. The scope may be gone when this returns.
    fn run<R>(&self, task: impl FnOnce() -> R) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(task));
        let result = result.map_err(|payload| self.keep_first(payload));
        // SAFETY: this task is counted, so the latch is live.
        unsafe { CountLatch::set(&raw const self.unfinished) };
        result.ok()
    }

    /// Keeps the first panic and drops all later ones.
    #[cold]
    fn keep_first(&self, payload: Payload) {
        let mut first = lock(&self.panic);
        if first.is_none() {
            *first = Some(payload);
            return;
        }
        // Dropping the payload may run other tasks of this scope, which panic too.
        drop(first);
        drop_lost(payload);
    }
}
