//! The inbox under loom: every interleaving of two threads that push and one or two threads that take.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::raw::sync::explore;

/// A job that only counts how often it was taken.
#[repr(C)]
struct Job {
    linked: Linked<()>,
    taken: UnsafeCell<u32>,
}

fn never(_: NonNull<Header<()>>, _: &()) {
    unreachable!("a counted job is not executed");
}

fn jobs(count: usize) -> Vec<*mut Job> {
    let job = || Job { linked: Linked::new(Header::new(never)), taken: UnsafeCell::new(0) };
    (0..count).map(|_| Box::into_raw(Box::new(job()))).collect()
}

fn push(inbox: &Inbox<()>, job: usize) {
    let job = NonNull::new(job as *mut Linked<()>).unwrap();
    // SAFETY: `end` frees the job, after all threads have ended.
    inbox.push(unsafe { LinkedRef::new(job) });
}

/// Takes all jobs, and counts up each job's counter. loom would report a race on the counter.
fn take(inbox: &Inbox<()>) {
    for job in inbox.take() {
        let job: NonNull<Job> = job.0.cast();
        // SAFETY: the job is alive, and the thread that has taken it is the only one to touch it.
        unsafe { job.as_ref().taken.with_mut(|taken| *taken += 1) };
    }
}

fn end(inbox: &Inbox<()>, jobs: Vec<*mut Job>) {
    take(inbox);
    assert!(inbox.is_empty());
    for job in jobs {
        // SAFETY: no other thread uses it any more.
        let job = unsafe { Box::from_raw(job) };
        // SAFETY: as above.
        job.taken.with(|taken| assert_eq!(unsafe { *taken }, 1, "each job is taken once"));
    }
}

#[test]
fn loom_an_inbox_gives_each_job_once() {
    explore(3, || {
        let inbox = Arc::new(Inbox::new());
        let jobs = jobs(3);
        let addresses: Vec<usize> = jobs.iter().map(|job| *job as usize).collect();
        let pusher = {
            let (inbox, first) = (Arc::clone(&inbox), addresses[0]);
            thread::spawn(move || push(&inbox, first))
        };
        let thief = {
            let inbox = Arc::clone(&inbox);
            // The thief puts back all jobs that it took.
            thread::spawn(move || {
                let mut taken = inbox.take();
                let first = taken.next();
                taken.for_each(|job| inbox.push(job));
                if let Some(job) = first {
                    inbox.push(job);
                }
            })
        };
        push(&inbox, addresses[1]);
        push(&inbox, addresses[2]);
        take(&inbox);
        pusher.join().unwrap();
        thief.join().unwrap();
        end(&inbox, jobs);
    });
}
