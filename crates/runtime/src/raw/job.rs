//! Tasks as the queues hold them: one pointer for each task. The type parameter `W` is the worker that runs them.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crossbeam_deque::{Injector, Steal};

use super::latch::{AsWorker, JoinLatch, Latch};

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The first field of every job, so that a pointer to the header is a pointer to the job.
#[repr(C)]
pub(crate) struct Header<W> {
    /// Runs the job that has this header on the worker. Called once.
    execute: unsafe fn(NonNull<Header<W>>, &W),
}

/// A pointer to a job that waits to be executed exactly once.
pub(crate) struct JobRef<W>(NonNull<Header<W>>);

// SAFETY: a job is created only from closures that are `Send`, and the thread that holds the one `JobRef` executes it.
unsafe impl<W> Send for JobRef<W> {}

impl<W> Header<W> {
    pub(crate) fn new(execute: unsafe fn(NonNull<Header<W>>, &W)) -> Header<W> {
        Header { execute }
    }
}

impl<W> JobRef<W> {
    /// Returns the reference to the job behind `header`, as the deques hold it.
    pub(crate) fn of(header: NonNull<Header<W>>) -> JobRef<W> {
        JobRef(header)
    }

    /// Runs the job on this thread's worker. Does not unwind: a panic is stored for the job's owner.
    ///
    /// # Safety
    /// Called at most once per job, while the job is alive. If the job is in a stack frame, that frame must wait for
    /// its latch.
    pub(crate) unsafe fn execute(self, worker: &W) {
        // SAFETY: by the caller's promise the job behind the pointer is alive, and `execute` is its own function.
        unsafe { (self.0.as_ref().execute)(self.0, worker) }
    }
}

/// The right half of a join, in the frame of the worker that pushed it. That frame either takes the job back and
/// calls its task, or waits for the latch and takes the result. Only a thief writes a result.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `task` | moved out by the thread that runs it | the thread that runs it |
/// | `outcome` | a thief, before it sets the latch | the owner, after the latch is set |
#[repr(C)]
pub(crate) struct JoinJob<W, F, R> {
    header: Header<W>,
    /// Set when a thief has ended the job.
    pub(crate) latch: JoinLatch<W>,
    task: UnsafeCell<ManuallyDrop<F>>,
    outcome: UnsafeCell<MaybeUninit<Result<R, Payload>>>,
}

impl<W, F, R> JoinJob<W, F, R>
where
    W: AsWorker,
    F: FnOnce(&W, bool) -> R + Send,
    R: Send,
{
    #[inline(always)]
    pub(crate) fn new(owner: Option<&W>, task: F) -> JoinJob<W, F, R> {
        JoinJob {
            header: Header { execute: Self::execute },
            latch: JoinLatch::new(owner),
            task: UnsafeCell::new(ManuallyDrop::new(task)),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The pointer that the deque holds.
    #[inline(always)]
    pub(crate) fn header(&self) -> NonNull<Header<W>> {
        NonNull::from(self).cast()
    }

    /// Calls the task on its owner, which has taken the job back.
    ///
    /// # Safety
    /// The job was pushed and came back from the deque. This is called once, and no other method is called after it.
    #[inline(always)]
    pub(crate) unsafe fn run_inline(&self, owner: &W) -> R {
        // SAFETY: no other thread has the job.
        let task = unsafe { self.take() };
        task(owner, false)
    }

    /// Moves the task out.
    ///
    /// # Safety
    /// The job was not pushed, or came back. This is called once, and no other method is called after it.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> F {
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::take(&mut *self.task.get()) }
    }

    /// Returns the result that a thief left. Resumes the task's panic if it panicked.
    ///
    /// # Safety
    /// See [`JoinJob::outcome`].
    pub(crate) unsafe fn result(&self) -> R {
        // SAFETY: the caller's promise.
        unsafe { self.outcome() }.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Returns the result or the panic that a thief left.
    ///
    /// # Safety
    /// The latch is set. This is called once.
    pub(crate) unsafe fn outcome(&self) -> Result<R, Payload> {
        // SAFETY: the thief wrote the outcome before it set the latch.
        unsafe { (*self.outcome.get()).assume_init_read() }
    }

    /// # Safety
    /// `header` is the header of a live `JoinJob` of this type, which is executed for the first time.
    unsafe fn execute(header: NonNull<Header<W>>, worker: &W) {
        let this: *const Self = header.as_ptr().cast();
        // SAFETY: the job is alive until its latch is set below. The reference is executed once, so no other thread
        // touches `task` and `outcome` now.
        unsafe {
            let owner = (*this).latch.begin(worker);
            // The task is moved out inside of the closure: outside, the stack would hold a second copy.
            let call = || ManuallyDrop::take(&mut *(*this).task.get())(worker, owner != worker.id());
            let outcome = catch_unwind(AssertUnwindSafe(call));
            (*(*this).outcome.get()).write(outcome);
            // The owner's frame may end as soon as the latch is set, so nothing of `this` is used afterwards.
            JoinLatch::set(&raw const (*this).latch, worker, owner);
        }
    }
}

/// Takes one job, and tries again while another thread interferes.
pub(crate) fn take<T>(mut attempt: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match attempt() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// The state of a job's result.
enum Outcome<R> {
    Pending,
    Done(R),
    Panicked(Payload),
}

/// A job in its owner's stack frame. The owner waits for the latch before the frame ends, and then takes the result.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `task` | emptied by the thread that executes | the thread that executes |
/// | `outcome` | the thread that executes, before the latch is set | the owner, after the latch is set |
#[repr(C)]
pub(crate) struct StackJob<W, L, F, R> {
    header: Header<W>,
    /// Set when the job has ended.
    pub(crate) latch: L,
    task: UnsafeCell<Option<F>>,
    outcome: UnsafeCell<Outcome<R>>,
}

impl<W, L, F, R> StackJob<W, L, F, R>
where
    L: Latch,
    F: FnOnce() -> R + Send,
    R: Send,
{
    pub(crate) fn new(task: F, latch: L) -> StackJob<W, L, F, R> {
        StackJob {
            header: Header { execute: Self::execute },
            latch,
            task: UnsafeCell::new(Some(task)),
            outcome: UnsafeCell::new(Outcome::Pending),
        }
    }

    /// Returns a reference that is to be executed once.
    ///
    /// # Safety
    /// The job must not move. It must live until its latch is set, or until the reference has been taken back
    /// unexecuted.
    pub(crate) unsafe fn as_job_ref(&self) -> JobRef<W> {
        JobRef(NonNull::from(self).cast())
    }

    /// Returns the result, once the latch is set. Resumes the task's panic if it panicked.
    pub(crate) fn result(&mut self) -> R {
        match self.outcome() {
            Ok(result) => result,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Returns the result or the panic, once the latch is set.
    pub(crate) fn outcome(&mut self) -> Result<R, Payload> {
        match mem::replace(self.outcome.get_mut(), Outcome::Pending) {
            Outcome::Done(result) => Ok(result),
            Outcome::Panicked(payload) => Err(payload),
            Outcome::Pending => unreachable!("the latch is set only after the outcome is there"),
        }
    }

    /// # Safety
    /// `header` is the header of a live `StackJob` of this type, which is executed for the first time.
    unsafe fn execute(header: NonNull<Header<W>>, _: &W) {
        let this: *const Self = header.as_ptr().cast();
        // SAFETY: the job is alive until its latch is set below. The reference is executed once, so no other thread
        // touches `task` and `outcome` now.
        unsafe {
            // The task is moved out inside of the closure, as in `JoinJob::execute`.
            let call = || (*(*this).task.get()).take().expect("a job is executed once")();
            *(*this).outcome.get() = match catch_unwind(AssertUnwindSafe(call)) {
                Ok(result) => Outcome::Done(result),
                Err(payload) => Outcome::Panicked(payload),
            };
            // The owner's frame may end as soon as the latch is set, so nothing of `this` is used afterwards.
            L::set(&raw const (*this).latch);
        }
    }
}

/// A queue of jobs that run in the order in which they were pushed, although the worker's own queue runs the newest
/// job first. For each of these jobs, the worker's queue holds a placeholder. A placeholder runs the oldest job of
/// the fifo.
#[repr(C)]
pub(crate) struct JobFifo<W> {
    header: Header<W>,
    jobs: Injector<JobRef<W>>,
}

impl<W> JobFifo<W> {
    pub(crate) fn new() -> JobFifo<W> {
        JobFifo { header: Header { execute: Self::execute }, jobs: Injector::new() }
    }

    /// Adds a job, and returns the placeholder that the caller must queue in its place. The placeholder must be
    /// executed once.
    ///
    /// # Safety
    /// The fifo must not move, and must live until the placeholder has been executed.
    pub(crate) unsafe fn push(&self, job: JobRef<W>) -> JobRef<W> {
        self.jobs.push(job);
        JobRef(NonNull::from(self).cast())
    }

    /// # Safety
    /// `header` is the header of a live `JobFifo`, and belongs to a placeholder from [`JobFifo::push`] that is
    /// executed for the first time.
    unsafe fn execute(header: NonNull<Header<W>>, worker: &W) {
        // SAFETY: the header is the first field of a live `JobFifo`.
        let this = unsafe { header.cast::<JobFifo<W>>().as_ref() };
        let oldest = take(|| this.jobs.steal()).expect("there is one turn for each job");
        // SAFETY: each job leaves the queue once, and is alive because its pusher promised that.
        unsafe { oldest.execute(worker) }
    }
}

/// A job on the heap for which no frame waits directly. It calls `done` with its outcome. It needs one allocation.
#[repr(C)]
pub(crate) struct HeapJob<W, F, D> {
    header: Header<W>,
    done: D,
    task: F,
}

impl<W, F, D> HeapJob<W, F, D>
where
    F: FnOnce() + Send,
    D: FnOnce(Result<(), Payload>) + Copy + Send,
{
    /// Returns a reference that is to be executed once. `done` gets the outcome of `task`, and must not unwind.
    ///
    /// # Safety
    /// All data that `task` and `done` borrow must live until both have run.
    pub(crate) unsafe fn new_ref(task: F, done: D) -> JobRef<W> {
        let job = Box::new(HeapJob { header: Header { execute: Self::execute }, done, task });
        JobRef(NonNull::from(Box::leak(job)).cast())
    }

    /// # Safety
    /// `header` is the header of a `HeapJob` of this type from [`HeapJob::new_ref`], executed for the first time.
    unsafe fn execute(header: NonNull<Header<W>>, _: &W) {
        // SAFETY: the pointer came from a leaked box and is turned back once.
        let job = unsafe { Box::from_raw(header.as_ptr().cast::<Self>()) };
        let done = job.done;
        done(catch_unwind(AssertUnwindSafe(|| {
            // The task is moved out inside of the closure: outside, the stack would hold a second copy.
            let HeapJob { task, .. } = *job;
            task();
        })));
    }
}
