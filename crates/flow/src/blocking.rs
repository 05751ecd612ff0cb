//! Blocking calls, on threads that are not workers of a pool.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use comity::ThreadPool;
use comity::executor::{Resume, Runnable};
use comity::internal::{PerProcess, spawn_thread};

use crate::surroundings::Surroundings;
use crate::task::{Ended, Payload, Task, let_go};

/// The default maximum number of threads.
const MOST: usize = 512;

/// The time that a thread without a call waits for the next call before it ends.
const KEPT: Duration = Duration::from_secs(10);

/// Runs `call`, which may block, on a thread that is no worker. The workers continue meanwhile.
///
/// Use it for calls that wait in system calls: files, name lookups, libraries without an asynchronous interface. Run
/// computations on the workers instead, for example with [`comity::join`]: there is one worker for each core.
///
/// A call that finds no idle thread starts one, up to 512 threads; [`set_max_blocking_threads`] changes the limit. A
/// thread ends after ten seconds without a call. Calls beyond the limit wait in a first-in, first-out queue, so the
/// number of calls that wait for each other must stay below the limit. If the system refuses to start even the first
/// thread, the call runs on a worker and blocks that worker.
///
/// Dropping the handle before the call has begun cancels the call: its closure is dropped immediately. A call that
/// has begun cannot be stopped. It runs to its end, and its result is dropped. A panic of the call is resumed where
/// the handle is awaited. If no task awaits the handle, the panic handler of a pool gets the panic: the pool of the
/// worker that called this function, or the global pool if the caller is no worker. This pool does not end before the
/// call. A process can exit during the call.
///
/// # Panics
/// If the global pool is used and [cannot be built](comity::ThreadPoolBuilder#from-outside-of-the-program).
///
/// # Processor time and cores
///
/// The processor time of these threads counts as the program's, because the program's coordinator thread reads the
/// processor time of the whole process. A thread that waits in a system call uses no time, and no core is held for it.
///
/// These threads hold no core of the core table, and their affinity is not restricted. While no worker has a task, the
/// program requests no core. The time that the calls used is charged when a worker next has a task: the policy
/// `comity` deducts up to half a second from the program's share.
///
/// ```
/// let name = comity_flow::spawn_blocking(|| std::fs::read_to_string("/proc/self/comm"));
/// let answer = comity::join(|| 20, || 22);
/// let name = comity_flow::block_on(name).unwrap_or_default();
/// println!("{name}: {answer:?}");
/// ```
#[doc(alias = "unblock")]
#[doc(alias = "block_in_place")]
pub fn spawn_blocking<F, R>(call: F) -> Task<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    start(Runnable::new(Call::new(call)))
}

/// Like [`spawn_blocking`], but `pool` runs until the call has ended and handles its panic.
///
/// # Panics
/// In a process that was forked from the pool's process.
pub fn spawn_blocking_in<F, R>(pool: &ThreadPool, call: F) -> Task<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    start(Runnable::new_in(pool, Call::new(call)))
}

/// Limits this process to `most` threads for calls of [`spawn_blocking`]. If more threads exist at the moment, surplus
/// threads end: idle threads immediately, other threads after their current call.
///
/// # Panics
/// If `most` is 0: no call would ever run.
#[doc(alias = "max_blocking_threads")]
pub fn set_max_blocking_threads(most: usize) {
    assert!(most > 0, "the maximum number of threads is 0. It must be at least 1");
    threads().set_most(most);
}

fn start<F, R>(call: Arc<Runnable<Call<F, R>>>) -> Task<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    threads().queue(Arc::clone(&call) as Arc<dyn Work>);
    Task::of(call)
}

/// Returns the threads of this process. A forked child starts without threads and inherits its parent's limit.
fn threads() -> &'static Threads {
    static THREADS: PerProcess<Threads> = PerProcess::new();
    THREADS.get(|parents| Threads::new(parents.map_or(MOST, |parents| parents.most.load(Ordering::Relaxed)), KEPT))
}

/// The interface of a call for the thread that runs it, independent of the call's result type.
trait Work: Send + Sync {
    /// Runs the call, unless it was cancelled.
    fn run(self: Arc<Self>);

    /// Schedules the call on a worker.
    fn run_on_a_worker(self: Arc<Self>);
}

/// A call and its outcome.
struct Call<F, R> {
    progress: Mutex<Progress<F, R>>,
    surroundings: Surroundings,
}

struct Progress<F, R> {
    stage: Stage<F, R>,
    /// The waker of the task that awaits the handle.
    awaiter: Option<Waker>,
    /// True after the handle was dropped or detached.
    abandoned: bool,
}

enum Stage<F, R> {
    Queued(F),
    /// The call runs, or its closure is being dropped.
    Begun,
    Ended(Result<R, Payload>),
    /// The call was cancelled, or its result was taken.
    Empty,
}

impl<F, R> Call<F, R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    fn new(call: F) -> Call<F, R> {
        let progress = Progress { stage: Stage::Queued(call), awaiter: None, abandoned: false };
        Call { progress: Mutex::new(progress), surroundings: Surroundings::here() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress<F, R>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the closure, if the call has not begun. The caller must then report the end with `end`.
    fn begin(&self) -> Option<F> {
        let mut progress = self.progress();
        match mem::replace(&mut progress.stage, Stage::Begun) {
            Stage::Queued(call) => Some(call),
            other => {
                progress.stage = other;
                None
            }
        }
    }

    /// Stores the outcome. `None` means that the call was cancelled and its closure dropped.
    fn end(this: &Runnable<Self>, outcome: Option<Result<R, Payload>>) {
        let mut progress = this.progress();
        let unheard = if progress.abandoned {
            progress.stage = Stage::Empty;
            outcome
        } else {
            progress.stage = outcome.map_or(Stage::Empty, Stage::Ended);
            None
        };
        let awaiter = progress.awaiter.take();
        drop(progress);
        if let Some(awaiter) = awaiter {
            awaiter.wake();
        }
        let_go(this, unheard);
        this.done();
    }
}

impl<F, R> Resume for Call<F, R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    /// Called on a thread of this module, or on a worker if there is no thread.
    fn resume(this: &Arc<Runnable<Self>>) {
        if let Some(call) = this.begin() {
            let result = catch_unwind(AssertUnwindSafe(|| this.surroundings.around(call)));
            Call::end(this, Some(result));
        }
    }

    fn wake(&self) -> bool {
        false
    }
}

impl<F, R> Work for Runnable<Call<F, R>>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    fn run(self: Arc<Self>) {
        Call::resume(&self);
    }

    fn run_on_a_worker(self: Arc<Self>) {
        self.schedule();
    }
}

impl<F, R> Ended<R> for Runnable<Call<F, R>>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    fn cancel(self: Arc<Self>) {
        if let Some(call) = self.begin() {
            let dropped = catch_unwind(AssertUnwindSafe(|| self.surroundings.around(|| drop(call))));
            Call::end(&self, dropped.err().map(Err));
        }
    }

    fn abandon(&self) {
        let mut progress = self.progress();
        progress.abandoned = true;
        // The thread of a running call handles the outcome itself.
        let left = match mem::replace(&mut progress.stage, Stage::Empty) {
            Stage::Ended(outcome) => Some(outcome),
            other => {
                progress.stage = other;
                None
            }
        };
        drop(progress);
        let_go(self, left);
    }

    fn has_ended(&self) -> bool {
        matches!(self.progress().stage, Stage::Ended(_) | Stage::Empty)
    }

    fn poll_outcome(&self, context: &mut Context<'_>) -> Poll<Option<Result<R, Payload>>> {
        // Outside of the lock: cloning or dropping a waker may run any code.
        let waker = context.waker().clone();
        let mut progress = self.progress();
        match mem::replace(&mut progress.stage, Stage::Empty) {
            Stage::Ended(outcome) => Poll::Ready(Some(outcome)),
            Stage::Empty => Poll::Ready(None),
            unfinished => {
                progress.stage = unfinished;
                let before = progress.awaiter.replace(waker);
                drop(progress);
                drop(before);
                Poll::Pending
            }
        }
    }
}

/// The threads for blocking calls, and the queue of calls.
///
/// **Claim.** A call waits only while `most` threads are running calls. If no more calls are queued than threads are
/// idle, a new call wakes an idle thread; otherwise it starts a thread. A thread takes calls until the queue is empty,
/// and checks the queue once more before it ends.
struct Threads {
    state: Mutex<State>,
    /// Notified when a call was queued, or when surplus threads must end.
    changed: Condvar,
    /// The maximum number of threads. Written under the lock of `state`. A forked child reads it without this lock,
    /// because another thread of the parent may have held the lock at the fork.
    most: AtomicUsize,
    kept: Duration,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<dyn Work>>,
    threads: usize,
    /// The number of threads that wait for a call, or were woken for a call that they have not taken yet.
    idle: usize,
}

impl Threads {
    fn new(most: usize, kept: Duration) -> Threads {
        Threads { state: Mutex::default(), changed: Condvar::new(), most: AtomicUsize::new(most), kept }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn set_most(&'static self, most: usize) {
        let mut state = self.lock();
        self.most.store(most, Ordering::Relaxed);
        self.changed.notify_all();
        // If the limit is now higher, start threads for the queued calls.
        let more = state.queue.len().saturating_sub(state.idle).min(most.saturating_sub(state.threads));
        state.threads += more;
        drop(state);
        (0..more).for_each(|_| self.start());
    }

    fn queue(&'static self, work: Arc<dyn Work>) {
        let mut state = self.lock();
        state.queue.push_back(work);
        if state.queue.len() <= state.idle {
            self.changed.notify_one();
        } else if state.threads < self.most() {
            state.threads += 1;
            drop(state);
            self.start();
        }
    }

    /// Starts a thread. The caller has already counted it in `State::threads`.
    fn start(&'static self) {
        let started = spawn_thread(thread::Builder::new().name("comity-blocking".to_owned()), || self.serve());
        if started.is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // If other threads exist, they take the calls from the queue.
            let stranded = if state.threads == 0 { mem::take(&mut state.queue) } else { VecDeque::new() };
            drop(state);
            stranded.into_iter().for_each(Work::run_on_a_worker);
        }
    }

    /// Runs calls until the thread is no longer needed.
    fn serve(&self) {
        let mut state = self.lock();
        while state.threads <= self.most() {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                if catch_unwind(AssertUnwindSafe(|| work.run())).is_err() {
                    // A waker has panicked, which printed a message. On a worker, such a panic ends the process too.
                    std::process::abort();
                }
                state = self.lock();
                continue;
            }
            let has_nothing = |state: &mut State| state.queue.is_empty() && state.threads <= self.most();
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout_while(state, self.kept, has_nothing).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() {
                break;
            }
        }
        state.threads -= 1;
        if !state.queue.is_empty() {
            // This surplus thread may have been woken for a queued call. Wake another thread for that call.
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    struct Job<F>(F);

    impl<F: Fn() + Send + Sync> Work for Job<F> {
        fn run(self: Arc<Self>) {
            (self.0)();
        }

        fn run_on_a_worker(self: Arc<Self>) {
            unreachable!("there are threads");
        }
    }

    fn leaked(most: usize, kept: Duration) -> &'static Threads {
        Box::leak(Box::new(Threads::new(most, kept)))
    }

    fn wait_until(threads: &Threads, what: &str, holds: impl Fn(&State) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !holds(&threads.lock()) {
            assert!(std::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns a call that reports its begin and ends when the returned sender is dropped.
    fn held() -> (Arc<dyn Work>, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((began, begins), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let ends = Mutex::new(ends);
        let work = Job(move || {
            began.send(()).unwrap();
            let _ = ends.lock().unwrap().recv();
        });
        (Arc::new(work), begins, end)
    }

    #[test]
    fn a_thread_without_a_call_is_used_again_and_ends_after_a_while() {
        let threads = leaked(8, Duration::MAX);
        for _ in 0..100 {
            let (work, begins, end) = held();
            threads.queue(work);
            begins.recv_timeout(PATIENCE).unwrap();
            drop(end);
            wait_until(threads, "the call has ended", |state| state.idle == state.threads);
            assert_eq!(threads.lock().threads, 1);
        }
        let threads = leaked(8, Duration::from_millis(1));
        for _ in 0..10 {
            let (work, begins, _end) = held();
            threads.queue(work);
            begins.recv_timeout(PATIENCE).unwrap();
        }
        wait_until(threads, "all threads have ended", |state| state.threads == 0);
    }

    #[test]
    fn calls_wait_only_while_all_threads_have_one_in_hand() {
        let threads = leaked(3, Duration::MAX);
        let calls: Vec<_> = (0..5).map(|_| held()).collect();
        let mut others = Vec::new();
        for (work, begins, end) in calls {
            threads.queue(work);
            others.push((begins, end));
        }
        others[..3].iter().for_each(|(begins, _)| begins.recv_timeout(PATIENCE).unwrap());
        let threads_and_calls = || {
            let state = threads.lock();
            (state.threads, state.queue.len())
        };
        assert_eq!(threads_and_calls(), (3, 2));
        // The new limit allows one more thread, for the oldest waiting call.
        threads.set_most(4);
        others[3].0.recv_timeout(PATIENCE).unwrap();
        assert_eq!(threads_and_calls(), (4, 1));
        // The new limit is one: the running calls continue, and the queued call waits until all of them have ended.
        threads.set_most(1);
        others.drain(..3);
        wait_until(threads, "three have ended", |state| state.threads == 1);
        assert!(others[1].0.try_recv().is_err());
        others.remove(0);
        others[0].0.recv_timeout(PATIENCE).unwrap();
        others.clear();
        wait_until(threads, "the last waits", |state| (state.threads, state.idle) == (1, 1));
        // Surplus idle threads end at once.
        threads.set_most(2);
        let calls: Vec<_> = (0..2).map(|_| held()).collect();
        for (work, begins, end) in calls {
            threads.queue(work);
            others.push((begins, end));
        }
        others.drain(..).for_each(|(begins, _)| begins.recv_timeout(PATIENCE).unwrap());
        wait_until(threads, "both wait", |state| (state.threads, state.idle) == (2, 2));
        threads.set_most(1);
        wait_until(threads, "one has ended", |state| (state.threads, state.idle) == (1, 1));
    }
}
