//! Tasks that are waited for together.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use comity::ThreadPool;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::blocking;
use crate::task::{self, Payload, Task};

/// Tasks whose results come in the order in which they end. Dropping the set cancels all of them, as dropping a
/// [`Task`] does.
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

/// What has become of a task; `None`: it was cancelled.
struct Joined<T>(Task<T>);

impl<T> Future for Joined<T> {
    type Output = Option<Result<T, Payload>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_outcome(context)
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// [`spawn`](crate::spawn), into this set.
    pub fn spawn<F>(&mut self, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(task::spawn(future));
    }

    /// [`spawn_in`](crate::spawn_in), into this set.
    ///
    /// # Panics
    /// In a process that was forked from the pool's.
    pub fn spawn_in<F>(&mut self, pool: &ThreadPool, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(task::spawn_in(pool, future));
    }

    /// [`spawn_blocking`](crate::spawn_blocking), into this set.
    pub fn spawn_blocking<F>(&mut self, call: F)
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(blocking::spawn_blocking(call));
    }
}

impl<T> JoinSet<T> {
    /// A set without tasks.
    pub fn new() -> JoinSet<T> {
        JoinSet { tasks: FuturesUnordered::new() }
    }

    /// Takes in a task that was spawned before.
    pub fn insert(&mut self, task: Task<T>) {
        self.tasks.push(Joined(task));
    }

    /// Waits for the next task that ends, and takes it out of the set. `None`: there is none any more. Those that were
    /// cancelled are passed over.
    ///
    /// A future of this that is dropped before it is ready loses no result.
    ///
    /// # Panics
    /// With the task's panic. The others stay in the set.
    pub async fn join_next(&mut self) -> Option<T> {
        loop {
            match self.tasks.next().await? {
                Some(Ok(result)) => return Some(result),
                Some(Err(payload)) => resume_unwind(payload),
                None => {}
            }
        }
    }

    /// Waits for all, and returns their results in the order in which they ended.
    ///
    /// # Panics
    /// With the first panic of a task. The others are cancelled.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            results.push(result);
        }
        results
    }

    /// Cancels all tasks, which stay in the set. [`join_next`](JoinSet::join_next) then gives the results of those that
    /// had ended, and of calls that block and had begun, and waits for the rest to be dropped.
    pub fn abort_all(&mut self) {
        self.tasks.iter().for_each(|task| task.0.call_off());
    }

    /// Cancels all tasks, and waits until none is left. What they have given is dropped.
    ///
    /// # Panics
    /// As [`join_next`](JoinSet::join_next).
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Takes all tasks out of the set, and lets them run on.
    pub fn detach_all(&mut self) {
        std::mem::take(&mut self.tasks).into_iter().for_each(|task| task.0.detach());
    }

    /// How many tasks there are, those included that have ended and whose results were not asked for yet.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is none.
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
