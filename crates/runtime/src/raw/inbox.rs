//! The inbox: tasks that other workers have unblocked and placed at a worker. Any thread pushes on this stack, and a
//! thread that takes tasks takes the whole stack (Treiber 1986).
//!
//! The links are fields of the tasks, to which the pusher has just written anyway. A push costs one compare-and-swap.
//! Taking any number of tasks costs one swap. A thread follows the links only after it has taken the stack. So no
//! task can be freed or pushed again while a thread follows a link to it (no ABA problem).

#[cfg(all(test, loom))]
mod loom_tests;

use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use super::job::{Header, JobRef};
use super::sync::{AtomicPtr, AtomicUsize, Ordering};

/// The first field of a job that an inbox can hold.
#[repr(C)]
pub(crate) struct Linked<W> {
    header: Header<W>,
    /// The next older job in the inbox. The thread that has the job writes it.
    older: AtomicPtr<Linked<W>>,
}

impl<W> Linked<W> {
    pub(crate) fn new(header: Header<W>) -> Linked<W> {
        Linked { header, older: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// A reference to a job that an inbox can hold.
pub(crate) struct LinkedRef<W>(NonNull<Linked<W>>);

// SAFETY: as for `JobRef`, into which it can be turned.
unsafe impl<W> Send for LinkedRef<W> {}

impl<W> LinkedRef<W> {
    /// # Safety
    /// The job lives until it has been executed, and only this reference to it is executed.
    pub(crate) unsafe fn new(linked: NonNull<Linked<W>>) -> LinkedRef<W> {
        LinkedRef(linked)
    }

    pub(crate) fn job(self) -> JobRef<W> {
        JobRef::of(self.0.cast())
    }

    fn older(&self) -> &AtomicPtr<Linked<W>> {
        // SAFETY: the thread that has the reference has the job, which is alive.
        unsafe { &(*self.0.as_ptr()).older }
    }
}

/// The stack of placed jobs of one worker.
pub(crate) struct Inbox<W> {
    newest: CachePadded<Newest<W>>,
}

struct Newest<W> {
    job: AtomicPtr<Linked<W>>,
    /// The approximate number of jobs.
    len: AtomicUsize,
}

impl<W> Inbox<W> {
    pub(crate) fn new() -> Inbox<W> {
        Inbox { newest: CachePadded::new(Newest { job: AtomicPtr::new(ptr::null_mut()), len: AtomicUsize::new(0) }) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest.job.load(Ordering::Acquire).is_null()
    }

    /// The number of jobs now or a moment ago.
    pub(crate) fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.newest.len.load(Ordering::Relaxed).max(1) }
    }

    pub(crate) fn push(&self, job: LinkedRef<W>) {
        self.newest.len.fetch_add(1, Ordering::Relaxed);
        let mut newest = self.newest.job.load(Ordering::Relaxed);
        loop {
            job.older().store(newest, Ordering::Relaxed);
            // This release covers the link of `job`. Older links were released by their own pushes, whose release
            // sequences continue here.
            match self.newest.job.compare_exchange_weak(newest, job.0.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    /// Takes all jobs, the oldest first.
    pub(crate) fn take(&self) -> Taken<W> {
        if self.is_empty() {
            return Taken(ptr::null_mut());
        }
        self.newest.len.store(0, Ordering::Relaxed);
        // The list is reversed here, so that the oldest job comes first.
        let mut newer = self.newest.job.swap(ptr::null_mut(), Ordering::Acquire);
        let mut next = ptr::null_mut();
        while let Some(job) = NonNull::new(newer).map(LinkedRef) {
            newer = job.older().load(Ordering::Relaxed);
            job.older().store(next, Ordering::Relaxed);
            next = job.0.as_ptr();
        }
        Taken(next)
    }
}

/// The jobs that were taken from an inbox, the oldest first.
pub(crate) struct Taken<W>(*mut Linked<W>);

impl<W> Iterator for Taken<W> {
    type Item = LinkedRef<W>;

    fn next(&mut self) -> Option<LinkedRef<W>> {
        let job = LinkedRef(NonNull::new(self.0)?);
        self.0 = job.older().load(Ordering::Relaxed);
        Some(job)
    }
}
