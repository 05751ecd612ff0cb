//! Loom tests of a task's state word: every interleaving of a waker, a worker and the handle.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::state::{Begun, Pended, State};

/// A task whose future counts its polls, and is ready after `wanted` wake-ups (see `work`).
struct Task {
    state: State,
    /// The number of queue entries. With two entries, two workers would poll the task at once.
    queued: AtomicUsize,
    /// The number of events, for which the future waits, that have occurred.
    come: AtomicUsize,
    /// The number of polls. Only the thread that polls or drops the future locks it. `None`: the future is dropped.
    future: Mutex<Option<usize>>,
    /// True while the task has an outcome that no thread has taken.
    left: Mutex<bool>,
    taken: AtomicUsize,
}

impl Task {
    fn queued() -> Arc<Task> {
        Arc::new(Task {
            state: State::queued(),
            queued: AtomicUsize::new(1),
            come: AtomicUsize::new(0),
            future: Mutex::new(Some(0)),
            left: Mutex::new(false),
            taken: AtomicUsize::new(0),
        })
    }

    /// Acts as a waker: counts an event, then wakes the task. The counter uses relaxed ordering, so only the orderings
    /// of the state word can make the event visible to the next poll.
    fn wake(&self) {
        self.come.fetch_add(1, Ordering::Relaxed);
        if self.state.wake() {
            self.queue();
        }
    }

    fn cancel(&self) {
        if self.state.cancel() {
            self.queue();
        }
    }

    fn abandon(&self) {
        if self.state.abandon() {
            self.take();
        }
    }

    fn queue(&self) {
        assert_eq!(self.queued.fetch_add(1, Ordering::AcqRel), 0, "a task is queued once");
    }

    fn take(&self) {
        assert!(std::mem::take(&mut *self.left.try_lock().expect("one takes it")), "there is something left");
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Acts as a worker: runs the task if it is queued. Its future is ready after `wanted` events.
    fn work(&self, wanted: usize) {
        if self.queued.load(Ordering::Acquire) == 0 {
            return;
        }
        self.queued.fetch_sub(1, Ordering::AcqRel);
        if self.state.begin() == Begun::Cancelled {
            return self.end();
        }
        let come = self.come.load(Ordering::Relaxed);
        *self.future.try_lock().expect("one polls").as_mut().expect("it is polled before it is dropped") += 1;
        if come >= wanted {
            return self.end();
        }
        match self.state.pend() {
            Pended::Waits => {}
            Pended::Again => self.queue(),
            Pended::Cancelled => self.end(),
        }
    }

    fn end(&self) {
        *self.future.try_lock().expect("one drops") = None;
        *self.left.try_lock().expect("one leaves it") = true;
        if self.state.end() {
            self.take();
        }
    }
}

/// Explores all schedules with up to three preemptions, for models of three threads.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two wakers and a worker run concurrently. When all have finished, the task has ended or is queued.
#[test]
fn loom_no_wake_up_is_lost() {
    explore(|| {
        let task = Task::queued();
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let task = Arc::clone(&task);
                thread::spawn(move || task.wake())
            })
            .collect();
        task.work(2);
        task.work(2);
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
        // Only queued work is left now.
        task.work(2);
        task.work(2);
        assert!(task.state.has_ended(), "both have come, and no worker would poll again");
        assert_eq!(task.queued.load(Ordering::Relaxed), 0);
    });
}

/// A waker and a canceller run concurrently with a worker. The future is dropped once, and not polled after the drop.
#[test]
fn loom_a_cancelled_task_ends_however_it_is_woken() {
    explore(|| {
        let task = Task::queued();
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.wake())
        };
        let canceller = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.cancel())
        };
        task.work(2);
        task.work(2);
        waker.join().unwrap();
        canceller.join().unwrap();
        task.work(2);
        task.work(2);
        assert!(task.state.has_ended(), "it was cancelled, and no worker would drop its future");
        assert!(task.future.lock().unwrap().is_none());
    });
}

/// A worker ends the task while the handle abandons it: either the worker or the handle takes the outcome, once.
#[test]
fn loom_what_a_task_leaves_is_taken_once() {
    explore(|| {
        let task = Task::queued();
        let handle = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.abandon())
        };
        task.work(0);
        handle.join().unwrap();
        assert_eq!(task.taken.load(Ordering::Relaxed), 1);
    });
}

/// Dropping a handle cancels and abandons the task, while a worker and a waker run.
#[test]
fn loom_a_dropped_handle_leaves_nothing() {
    explore(|| {
        let task = Task::queued();
        let handle = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                task.cancel();
                task.abandon();
            })
        };
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.wake())
        };
        task.work(1);
        handle.join().unwrap();
        waker.join().unwrap();
        task.work(1);
        task.work(1);
        assert!(task.state.has_ended());
        assert_eq!(task.taken.load(Ordering::Relaxed), 1);
    });
}
