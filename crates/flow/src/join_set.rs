//! A set of tasks whose results are awaited together.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use comity::ThreadPool;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::blocking;
use crate::task::{self, Payload, Task};

/// A set of tasks that returns results in the order in which the tasks end. Dropping the set cancels all of its
/// tasks, as dropping a [`Task`] does.
///
/// ```
/// use comity_flow::{JoinSet, block_on};
///
/// let mut squares = JoinSet::new();
/// for number in 1..=4_u32 {
///     squares.spawn(async move { number * number });
/// }
/// let mut sum = 0;
/// block_on(async {
///     while let Some(square) = squares.join_next().await {
///         sum += square;
///     }
/// });
/// assert_eq!(sum, 30);
/// ```
pub struct JoinSet<T> {
    tasks: FuturesUnordered<Joined<T>>,
}

/// A future of a task's outcome. `None` means that the task was cancelled.
struct Joined<T>(Task<T>);

impl<T> Future for Joined<T> {
    type Output = Option<Result<T, Payload>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_outcome(context)
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task into this set, like [`spawn`](crate::spawn).
    pub fn spawn<F>(&mut self, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(task::spawn(future));
    }

    /// Spawns a task of `pool` into this set, like [`spawn_in`](crate::spawn_in).
    ///
    /// # Panics
    /// In a process that was forked from the pool's process.
    pub fn spawn_in<F>(&mut self, pool: &ThreadPool, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(task::spawn_in(pool, future));
    }

    /// Spawns a blocking call into this set, like [`spawn_blocking`](crate::spawn_blocking).
    pub fn spawn_blocking<F>(&mut self, call: F)
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(blocking::spawn_blocking(call));
    }
}

impl<T> JoinSet<T> {
    /// Creates an empty set.
    pub fn new() -> JoinSet<T> {
        JoinSet { tasks: FuturesUnordered::new() }
    }

    /// Adds a task that is already spawned.
    pub fn insert(&mut self, task: Task<T>) {
        self.tasks.push(Joined(task));
    }

    /// Waits until a task of the set has ended, removes the task, and returns its result. Returns `None` if the set is
    /// empty. Cancelled tasks are removed without a result.
    ///
    /// Cancel safe: no result is lost if the returned future is dropped before it is ready.
    ///
    /// # Panics
    /// If the task panicked, with the task's panic. The other tasks stay in the set.
    pub async fn join_next(&mut self) -> Option<T> {
        loop {
            match self.tasks.next().await? {
                Some(Ok(result)) => return Some(result),
                Some(Err(payload)) => resume_unwind(payload),
                None => {}
            }
        }
    }

    /// Waits for all tasks, and returns their results in the order in which they ended.
    ///
    /// # Panics
    /// If a task panicked, with the first panic. The other tasks are cancelled.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            results.push(result);
        }
        results
    }

    /// Cancels all tasks, which stay in the set. [`join_next`](JoinSet::join_next) still returns the results of ended
    /// tasks and of blocking calls that had begun. For each other task, it waits until the future is dropped.
    pub fn abort_all(&mut self) {
        self.tasks.iter().for_each(|task| task.0.call_off());
    }

    /// Cancels all tasks and waits until each has ended. Drops their results and leaves the set empty.
    ///
    /// # Panics
    /// If a task panicked, as [`join_next`](JoinSet::join_next) does.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Removes all tasks from the set and lets them run to their end.
    pub fn detach_all(&mut self) {
        std::mem::take(&mut self.tasks).into_iter().for_each(|task| task.0.detach());
    }

    /// Returns the number of tasks, including ended tasks whose results were not yet taken.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True if the set has no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
