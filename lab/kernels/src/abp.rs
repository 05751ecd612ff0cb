//! A bare work-stealing pool for comparisons, which has only a deque per thread. No thread sleeps, and nothing is
//! counted.
//!
//! Source: N. S. Arora, R. D. Blumofe, C. G. Plaxton, *Thread Scheduling for Multiprogrammed Multiprocessors*, SPAA
//! 1998, figure 3: a thief yields, then tries one random victim, and repeats. Deviations: the deque is the growable
//! deque of Chase and Lev (SPAA 2005). The threads exist only during one [`run`], so that an unused pool needs no
//! processor time. A panic aborts the process.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use crossbeam_deque::{Stealer, Worker as Deque};

use crate::ForkJoin;

/// A thread of the pool. Each closure of a join gets the worker that runs the closure.
pub struct Worker {
    deque: Deque<JobRef>,
    /// The stealers of all workers, by index. A thief that draws its own index finds no task, because it steals only
    /// when its deque is empty.
    stealers: Arc<[Stealer<JobRef>]>,
    /// The state of xorshift64, never zero.
    random: Cell<u64>,
}

thread_local! {
    /// The worker on this thread, for [`OnAbp`]. Null outside of [`run`].
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Calls `task` on the first of `workers` workers, after the other workers have started.
pub fn run<R>(workers: u16, task: impl FnOnce(&Worker) -> R) -> R {
    let abort = AbortOnDrop;
    let deques: Vec<Deque<JobRef>> = (0..workers).map(|_| Deque::new_lifo()).collect();
    let stealers: Arc<[Stealer<JobRef>]> = deques.iter().map(Deque::stealer).collect();
    let mut team: Vec<Worker> = (1..).zip(deques).map(|(seed, deque)| Worker::new(seed, deque, &stealers)).collect();
    let first = team.remove(0);
    let (started, ended) = (Barrier::new(usize::from(workers)), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        for worker in team {
            let (started, ended) = (&started, &ended);
            scope.spawn(move || {
                started.wait();
                worker.enter(|worker| worker.steal_until(ended));
            });
        }
        started.wait();
        let result = first.enter(task);
        ended.store(true, Ordering::Release);
        result
    });
    std::mem::forget(abort);
    result
}

impl Worker {
    fn new(seed: u64, deque: Deque<JobRef>, stealers: &Arc<[Stealer<JobRef>]>) -> Worker {
        let random = Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Worker { deque, stealers: Arc::clone(stealers), random }
    }

    fn enter<R>(&self, body: impl FnOnce(&Worker) -> R) -> R {
        let abort = AbortOnDrop;
        CURRENT.set(self);
        let result = body(self);
        CURRENT.set(ptr::null());
        std::mem::forget(abort);
        result
    }

    /// Runs both closures, the second closure possibly on another thread.
    #[inline]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Worker) -> RA + Send,
        B: FnOnce(&Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let job = Job {
            task: UnsafeCell::new(ManuallyDrop::new(b)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
            done: AtomicBool::new(false),
        };
        // This frame must not unwind while a thief may have the job.
        let abort = AbortOnDrop;
        self.deque.push(JobRef { job: ptr::from_ref(&job).cast(), execute: Job::<B, RB>::execute });
        let result_a = a(self);
        let result_b = if self.deque.pop().is_some() {
            // SAFETY: a pop returns the youngest job in the deque. The jobs that `a` pushed have left the deque, so
            // the popped job is `job`. No thief has `job`, so its closure is taken once.
            let task = unsafe { ManuallyDrop::take(&mut *job.task.get()) };
            task(self)
        } else {
            self.steal_until(&job.done);
            // SAFETY: the thief wrote the result before it set `done`, and does not access the job any more.
            unsafe { (*job.result.get()).assume_init_read() }
        };
        std::mem::forget(abort);
        (result_a, result_b)
    }

    /// The scheduling loop of the paper: yield, try one victim, run the stolen job if there is one.
    #[cold]
    #[inline(never)]
    fn steal_until(&self, done: &AtomicBool) {
        while !done.load(Ordering::Acquire) {
            std::thread::yield_now();
            let victim = self.draw() as usize % self.stealers.len();
            if let Some(stolen) = self.stealers[victim].steal().success() {
                // SAFETY: a job is stolen once, and the stack frame that holds the job waits until the job is done.
                unsafe { (stolen.execute)(stolen.job, self) };
            }
        }
    }

    fn draw(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x >> 32
    }
}

/// The right half of a join, in the stack frame that waits for its result.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `task` | moved out by the worker that runs it: the frame after its pop, or the one thief | the same worker |
/// | `result` | the thief, before it sets `done` | the frame, after `done` is set |
/// | `done` | the thief, with release, as its last access | the frame, with acquire |
struct Job<F, R> {
    task: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<R>>,
    done: AtomicBool,
}

impl<F: FnOnce(&Worker) -> R, R> Job<F, R> {
    /// # Safety
    /// `job` is a live `Job` of this type that the caller has stolen.
    unsafe fn execute(job: *const (), worker: &Worker) {
        let job: *const Self = job.cast();
        let abort = AbortOnDrop;
        // SAFETY: the frame that holds the job waits for `done`, which is set last. Until then, only the thief
        // accesses `task` and `result`.
        unsafe {
            let task = ManuallyDrop::take(&mut *(*job).task.get());
            (*(*job).result.get()).write(task(worker));
            (*job).done.store(true, Ordering::Release);
        }
        std::mem::forget(abort);
    }
}

/// A reference to a [`Job`] of any type.
#[derive(Clone, Copy)]
struct JobRef {
    job: *const (),
    execute: unsafe fn(*const (), &Worker),
}

// SAFETY: only `join` makes a `JobRef`, from closures and results that are `Send`.
unsafe impl Send for JobRef {}

/// Aborts the process if it is dropped instead of forgotten, which happens when a panic unwinds past it.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The backend of the kernels that uses the pool of the calling thread, which must be inside of [`run`].
#[derive(Clone, Copy)]
pub struct OnAbp;

impl ForkJoin for OnAbp {
    fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let current = CURRENT.get();
        assert!(!current.is_null(), "OnAbp is for threads inside of run");
        // SAFETY: `enter` sets the pointer to a worker that outlives its call, and clears the pointer before it
        // returns.
        unsafe { &*current }.join(|_| a(), |_| b())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(worker: &Worker, leaves: u32) -> u32 {
        if leaves == 1 {
            return 1;
        }
        let half = leaves / 2;
        let (a, b) = worker.join(|worker| count(worker, half), |worker| count(worker, leaves - half));
        a + b
    }

    #[test]
    fn every_leaf_is_run_once_by_one_and_by_many() {
        for workers in [1, 2, 5] {
            assert_eq!(run(workers, |worker| count(worker, 20_000)), 20_000);
        }
    }

    #[test]
    fn the_other_half_is_stolen_and_its_result_comes_back() {
        let taken = AtomicBool::new(false);
        let wait = |_: &Worker| {
            while !taken.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            "waited".to_owned()
        };
        let take = |_: &Worker| {
            taken.store(true, Ordering::Release);
            "taken".to_owned()
        };
        let both = run(2, |worker| worker.join(wait, take));
        assert_eq!(both, ("waited".to_owned(), "taken".to_owned()));
    }

    #[test]
    fn a_kernel_finds_the_pool_of_its_thread() {
        let sum = run(3, |_| OnAbp.reduce_range(0..1000, 10, &|part| part.sum::<usize>(), &|a, b| a + b));
        assert_eq!(sum, 499_500);
    }
}
