//! Futures as tasks of a pool.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use comity::ThreadPool;
use comity::executor::{Resume, Runnable};
use futures_util::task::AtomicWaker;

use crate::state::{Begun, Pended, State};
use crate::surroundings::Surroundings;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs `future` as a task of the current worker's pool, or of the global pool if this thread is no worker.
///
/// The pool runs until the task has ended. See [`Task`] for its result.
///
/// # Panics
/// If the global pool is used and [cannot be built](comity::ThreadPoolBuilder#from-outside-of-the-program).
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    start(Runnable::new(Body::new(future)))
}

/// Like [`spawn`], but runs the future as a task of `pool`.
///
/// # Panics
/// In a process that was forked from the pool's process.
pub fn spawn_in<F>(pool: &ThreadPool, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    start(Runnable::new_in(pool, Body::new(future)))
}

fn start<F>(body: Arc<Runnable<Body<F>>>) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Arc::clone(&body).schedule();
    Task::of(body)
}

/// The handle of a task: a future of the task's result.
///
/// Awaiting the handle returns the result, or resumes the task's panic. Dropping the handle cancels the task: its
/// future is not polled again, and a worker drops it some time later. [`Task::detach`] lets the task run without a
/// handle.
///
/// If the task panics and its handle is not awaited, the panic is reported to the pool's panic handler. Without a
/// panic handler, the process aborts.
#[doc(alias = "JoinHandle")]
#[doc(alias = "abort")]
#[must_use = "a task is cancelled when its handle is dropped; `detach` lets it run"]
pub struct Task<T> {
    /// `None` after the task is detached or its result is taken.
    body: Option<Arc<dyn Ended<T>>>,
}

impl<T> Task<T> {
    pub(crate) fn of(body: Arc<dyn Ended<T>>) -> Task<T> {
        Task { body: Some(body) }
    }

    /// Drops the handle without cancelling the task.
    pub fn detach(mut self) {
        if let Some(body) = self.body.take() {
            body.abandon();
        }
    }

    /// Cancels the task, and waits until its future is dropped. Returns the task's result if the task ended before the
    /// cancellation had an effect, or if it is a blocking call that had begun.
    ///
    /// # Panics
    /// If the task panicked, with the task's panic.
    pub async fn cancel(mut self) -> Option<T> {
        self.call_off();
        let outcome = std::future::poll_fn(|context| self.poll_outcome(context)).await;
        outcome.map(|outcome| outcome.unwrap_or_else(|payload| resume_unwind(payload)))
    }

    /// Cancels the task without waiting: a worker drops the future some time later.
    pub(crate) fn call_off(&self) {
        if let Some(body) = &self.body {
            Arc::clone(body).cancel();
        }
    }

    /// True if the task has ended.
    pub fn is_finished(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.has_ended())
    }

    /// Polls for the outcome. `None` means that the task was cancelled.
    pub(crate) fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Payload>>> {
        let body = self.body.as_ref().expect("a task is not polled again after its result was taken");
        let outcome = body.poll_outcome(context);
        if outcome.is_ready() {
            self.body = None;
        }
        outcome
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// If the task panicked, with its panic. Also if polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_outcome(context).map(|outcome| {
            let outcome = outcome.expect("only its handle cancels a task");
            outcome.unwrap_or_else(|payload| resume_unwind(payload))
        })
    }
}

impl<T> Unpin for Task<T> {}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            Arc::clone(&body).cancel();
            body.abandon();
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// The interface of a task for its handle, independent of the type of the task's future.
pub(crate) trait Ended<T>: Send + Sync {
    fn cancel(self: Arc<Self>);
    fn abandon(&self);
    fn has_ended(&self) -> bool;
    fn poll_outcome(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, Payload>>>;
}

/// A future and its outcome.
struct Body<F: Future> {
    state: State,
    /// Locked by the polling worker. After the task has ended, locked by the thread that takes the outcome. The lock is
    /// never contended.
    stage: Mutex<Stage<F>>,
    /// The waker of the task that awaits the handle.
    awaiter: AtomicWaker,
    surroundings: Surroundings,
}

enum Stage<F: Future> {
    Future(Pin<Box<F>>),
    Ended(Result<F::Output, Payload>),
    /// The task was cancelled, or its result was taken.
    Empty,
}

impl<F> Body<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn new(future: F) -> Body<F> {
        Body {
            state: State::queued(),
            stage: Mutex::new(Stage::Future(Box::pin(future))),
            awaiter: AtomicWaker::new(),
            surroundings: Surroundings::here(),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage<F>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the future. `None` means that it is still pending.
    fn poll(this: &Arc<Runnable<Self>>) -> Option<Result<F::Output, Payload>> {
        let mut stage = this.stage();
        let Stage::Future(future) = &mut *stage else { unreachable!("a task that has ended is not queued") };
        let waker = this.waker();
        let poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        match catch_unwind(AssertUnwindSafe(|| this.surroundings.around(poll))) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(result)) => Some(Ok(result)),
            Err(payload) => Some(Err(payload)),
        }
    }

    /// Drops the future and stores the outcome. `None` means that the task was cancelled.
    fn end(this: &Arc<Runnable<Self>>, result: Option<Result<F::Output, Payload>>) {
        let future = std::mem::replace(&mut *this.stage(), Stage::Empty);
        // The future's destructor may do anything, even wake the task.
        let dropped = catch_unwind(AssertUnwindSafe(|| this.surroundings.around(|| drop(future))));
        *this.stage() = match (result, dropped) {
            // If the poll and the destructor both panicked, keep the panic of the poll, which was first.
            (Some(Err(payload)), _) | (_, Err(payload)) => Stage::Ended(Err(payload)),
            (Some(Ok(result)), Ok(())) => Stage::Ended(Ok(result)),
            (None, Ok(())) => Stage::Empty,
        };
        let abandoned = this.state.end();
        this.awaiter.wake();
        if abandoned {
            this.drop_what_is_left();
        }
        this.done();
    }
}

trait Left {
    fn drop_what_is_left(&self);
}

impl<F> Left for Runnable<Body<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn drop_what_is_left(&self) {
        match std::mem::replace(&mut *self.stage(), Stage::Empty) {
            Stage::Ended(outcome) => let_go(self, Some(outcome)),
            Stage::Future(_) | Stage::Empty => {}
        }
    }
}

/// Drops an outcome that no task will ask for. A panic is reported to the pool.
pub(crate) fn let_go<B: Resume, T>(work: &Runnable<B>, outcome: Option<Result<T, Payload>>) {
    let payload = match outcome {
        Some(Err(payload)) => Some(payload),
        other => catch_unwind(AssertUnwindSafe(|| drop(other))).err(),
    };
    if let Some(payload) = payload {
        work.report_panic(payload);
    }
}

impl<F> Resume for Body<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn resume(this: &Arc<Runnable<Self>>) {
        if this.state.begin() == Begun::Cancelled {
            return Body::end(this, None);
        }
        if let Some(result) = Body::poll(this) {
            return Body::end(this, Some(result));
        }
        match this.state.pend() {
            Pended::Waits => {}
            Pended::Again => Arc::clone(this).give_way(),
            Pended::Cancelled => Body::end(this, None),
        }
    }

    fn wake(&self) -> bool {
        self.state.wake()
    }
}

impl<F> Ended<F::Output> for Runnable<Body<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn cancel(self: Arc<Self>) {
        if self.state.cancel() {
            self.schedule();
        }
    }

    fn abandon(&self) {
        if self.state.abandon() {
            self.drop_what_is_left();
        }
    }

    fn has_ended(&self) -> bool {
        self.state.has_ended()
    }

    fn poll_outcome(&self, context: &mut Context<'_>) -> Poll<Option<Result<F::Output, Payload>>> {
        if !self.state.has_ended() {
            self.awaiter.register(context.waker());
            // The task may have ended before the waker was registered.
            if !self.state.has_ended() {
                return Poll::Pending;
            }
        }
        match std::mem::replace(&mut *self.stage(), Stage::Empty) {
            Stage::Ended(result) => Poll::Ready(Some(result)),
            _ => Poll::Ready(None),
        }
    }
}
