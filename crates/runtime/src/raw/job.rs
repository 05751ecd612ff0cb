//! Tasks as the deques hold them: one word each.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::latch::Latch;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The first field of every job, so that a pointer to it is a pointer to the job.
#[repr(C)]
struct Header {
    /// Runs the job that this is the header of, once.
    execute: unsafe fn(*const Header),
}

/// A pointer to a job that waits to be executed exactly once.
///
/// One word, so that a deque slot can be a plain atomic. Equality is identity of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobRef(*const Header);

// SAFETY: a job is created only from closures that are `Send`, and whoever holds the one `JobRef` executes it.
unsafe impl Send for JobRef {}

impl JobRef {
    /// Runs the job on this thread. Does not unwind: a panic is kept for the job's owner.
    ///
    /// # Safety
    /// Called at most once per job, while the job is alive: for a [`StackJob`] its owner's frame must wait for the
    /// latch.
    pub(crate) unsafe fn execute(self) {
        // SAFETY: by the caller's promise the job behind the pointer is alive, and `execute` is its own function.
        unsafe { ((*self.0).execute)(self.0) }
    }
}

/// What became of a job.
enum Outcome<R> {
    Pending,
    Done(R),
    Panicked(Payload),
}

/// A job in its owner's stack frame. The owner waits for the latch before the frame ends, and then takes the result.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `task` | emptied by whoever executes | the same |
/// | `outcome` | whoever executes, before the latch is set | the owner, after the latch is set |
#[repr(C)]
pub(crate) struct StackJob<L, F, R> {
    header: Header,
    /// Set when the job is done.
    pub(crate) latch: L,
    task: UnsafeCell<Option<F>>,
    outcome: UnsafeCell<Outcome<R>>,
}

impl<L, F, R> StackJob<L, F, R>
where
    L: Latch,
    F: FnOnce() -> R + Send,
    R: Send,
{
    pub(crate) fn new(task: F, latch: L) -> StackJob<L, F, R> {
        StackJob {
            header: Header { execute: Self::execute },
            latch,
            task: UnsafeCell::new(Some(task)),
            outcome: UnsafeCell::new(Outcome::Pending),
        }
    }

    /// A reference to be executed once.
    ///
    /// # Safety
    /// The job must not move, and must live until its latch is set or the reference has been taken back unexecuted.
    pub(crate) unsafe fn as_job_ref(&self) -> JobRef {
        JobRef(std::ptr::from_ref(self).cast())
    }

    /// Runs the task on the owner's own thread, when its reference was taken back unexecuted. Unwinds if it panics.
    pub(crate) fn run_inline(self) -> R {
        let task = self.task.into_inner().expect("a job that was taken back has not run");
        task()
    }

    /// The result, once the latch is set. Unwinds with the task's panic, if it panicked.
    pub(crate) fn into_result(self) -> R {
        match self.into_outcome() {
            Ok(result) => result,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The result or the panic, once the latch is set.
    pub(crate) fn into_outcome(self) -> Result<R, Payload> {
        match self.outcome.into_inner() {
            Outcome::Done(result) => Ok(result),
            Outcome::Panicked(payload) => Err(payload),
            Outcome::Pending => unreachable!("the latch is set only after the outcome is there"),
        }
    }

    /// # Safety
    /// `header` is that of a live `StackJob` of this type, executed for the first time.
    unsafe fn execute(header: *const Header) {
        let this: *const Self = header.cast();
        // SAFETY: the job is alive until its latch is set below, and the reference is executed once, so nobody else
        // touches `task` and `outcome` now.
        unsafe {
            let task = (*(*this).task.get()).take().expect("a job is executed once");
            *(*this).outcome.get() = match catch_unwind(AssertUnwindSafe(task)) {
                Ok(result) => Outcome::Done(result),
                Err(payload) => Outcome::Panicked(payload),
            };
            // The owner's frame may end as soon as the latch is set: nothing of `this` is used afterwards.
            L::set(&raw const (*this).latch);
        }
    }
}

/// A job on the heap that nobody waits for by its own: its closure tells whoever must know. One allocation.
#[repr(C)]
pub(crate) struct HeapJob<F> {
    header: Header,
    task: F,
}

impl<F: FnOnce() + Send> HeapJob<F> {
    /// A reference to be executed once. `task` must not unwind.
    ///
    /// # Safety
    /// Everything that `task` borrows must live until it has run.
    pub(crate) unsafe fn new_ref(task: F) -> JobRef {
        let job = Box::new(HeapJob { header: Header { execute: Self::execute }, task });
        JobRef(Box::into_raw(job).cast_const().cast())
    }

    /// # Safety
    /// `header` is that of a `HeapJob` of this type from [`HeapJob::new_ref`], executed for the first time.
    unsafe fn execute(header: *const Header) {
        // SAFETY: the pointer came from `Box::into_raw` and is turned back once.
        let job = unsafe { Box::from_raw(header.cast_mut().cast::<Self>()) };
        (job.task)();
    }
}
