//! The split deque under loom: every interleaving and every weak-memory outcome of an owner and one or two thieves.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p comity --lib loom_`.
//!
//! A task is a cell that its pusher and its taker write. So loom reports a task that is taken twice, and a taker that
//! does not see the pusher's writes.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::raw::sync::{beside, explore};

struct Task {
    what: UnsafeCell<u32>,
}

// SAFETY: loom checks every access.
unsafe impl Sync for Task {}

struct Model {
    deque: Deque<Task>,
    tasks: Vec<Task>,
}

// SAFETY: as above.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

const TAKEN: u32 = 100;

impl Model {
    fn new(tasks: usize, raids: bool) -> Arc<Model> {
        let tasks = (0..tasks).map(|_| Task { what: UnsafeCell::new(0) }).collect();
        Arc::new(Model { deque: Deque::new(raids), tasks })
    }

    /// Pushes like `Worker::fork`.
    fn push(&self, nth: usize) -> usize {
        // SAFETY: loom checks; the owner alone calls this.
        unsafe {
            self.tasks[nth].what.with_mut(|what| *what = nth as u32 + 1);
            let index = self.deque.push(NonNull::from(&self.tasks[nth]));
            if self.deque.calls(index) {
                self.deque.silence();
                self.deque.answer();
            }
            index
        }
    }

    /// Pops a task in the frame that pushed it. True if it came back.
    fn pop(&self, nth: usize, index: usize) -> bool {
        // SAFETY: loom checks; the owner alone calls this.
        let back = unsafe { self.deque.pop(index) } == Popped::Back;
        if back {
            self.take(NonNull::from(&self.tasks[nth]));
        }
        back
    }

    fn take(&self, task: NonNull<Task>) {
        // SAFETY: loom checks.
        unsafe {
            task.as_ref().what.with_mut(|what| {
                assert!(*what > 0 && *what < TAKEN, "a task is taken twice, or before it was pushed");
                *what += TAKEN;
            });
        }
    }

    fn steal(&self) -> usize {
        self.deque.steal().into_iter().map(|task| self.take(task)).count()
    }

    fn raid(&self) -> usize {
        self.deque.raid(0);
        self.steal()
    }

    fn mug(&self) -> usize {
        let mut mugged = 0;
        self.deque.steal_all(|task| {
            self.take(task);
            mugged += 1;
        });
        mugged
    }
}

/// Runs `thief` while an owner twice pushes `tasks` tasks and pops them again. Each task must be taken once.
fn beside_an_owner(tasks: usize, raids: bool, most_preemptions: usize, thief: fn(&Model) -> usize) {
    explore(most_preemptions, move || {
        let model = Model::new(2 * tasks, raids);
        let thief = beside(&model, thief);
        let mut back = 0;
        for round in 0..2 {
            let indices: Vec<usize> = (0..tasks).map(|nth| model.push(round * tasks + nth)).collect();
            for (nth, index) in indices.into_iter().enumerate().rev() {
                back += usize::from(model.pop(round * tasks + nth, index));
            }
        }
        let stolen = thief.join().unwrap();
        assert_eq!(back + stolen, 2 * tasks, "{back} came back and {stolen} were stolen");
        assert!(model.deque.is_empty());
    });
}

#[test]
fn loom_a_thief_that_asks_is_given_a_task_or_finds_none() {
    beside_an_owner(2, true, 3, |model| {
        model.deque.ask(1);
        model.steal() + model.steal()
    });
}

#[test]
fn loom_a_raid_and_the_owners_pops_take_each_task_once() {
    beside_an_owner(2, true, 3, Model::raid);
}

#[test]
fn loom_two_raids_in_a_row_take_each_task_once() {
    beside_an_owner(1, true, 3, |model| model.raid() + model.raid());
}

#[test]
fn loom_a_raid_that_ends_in_a_mugging_takes_each_task_once() {
    beside_an_owner(2, true, 3, |model| {
        model.deque.raid(0);
        model.mug()
    });
}

#[test]
fn loom_without_raids_everything_is_shared() {
    beside_an_owner(2, false, 3, |model| model.steal() + model.steal());
}

#[test]
fn loom_a_deque_that_grows_under_a_thief_loses_nothing() {
    beside_an_owner(3, true, 2, |model| model.raid() + model.steal());
}

#[test]
fn loom_two_raiders_take_each_task_once() {
    explore(2, || {
        let model = Model::new(2, true);
        let raiders = [0, 1].map(|raider| {
            beside(&model, move |model| {
                model.deque.raid(raider);
                model.steal()
            })
        });
        let mut back = 0;
        for nth in 0..2 {
            let index = model.push(nth);
            back += usize::from(model.pop(nth, index));
        }
        let stolen: usize = raiders.into_iter().map(|raider| raider.join().unwrap()).sum();
        assert_eq!(back + stolen, 2);
    });
}

#[test]
fn loom_a_raid_finds_what_an_owner_does_not_share() {
    // The owner pushes and then does not touch the deque again: the raid must get the task, whatever happened before.
    explore(4, || {
        let model = Model::new(2, true);
        let thief = beside(&model, Model::raid);
        let first = model.push(0);
        let back = usize::from(model.pop(0, first));
        let second = model.push(1);
        let stolen = thief.join().unwrap();
        model.deque.raid(1);
        let rescued = model.steal();
        assert_eq!(back + stolen + rescued, 2);
        assert!(!model.pop(1, second) && model.deque.is_empty());
    });
}

#[test]
fn loom_an_owner_takes_its_oldest_beside_a_thief() {
    explore(3, || {
        let model = Model::new(2, true);
        let thief = beside(&model, Model::raid);
        let indices = [model.push(0), model.push(1)];
        // SAFETY: this thread is the owner.
        let oldest = unsafe { model.deque.take_oldest() };
        let taken = oldest.into_iter().map(|task| model.take(task)).count();
        let back = usize::from(model.pop(1, indices[1])) + usize::from(model.pop(0, indices[0]));
        assert_eq!(taken + back + thief.join().unwrap(), 2);
    });
}

#[test]
fn loom_a_push_hears_the_bell_or_is_seen() {
    // A thread that is about to sleep rings the bell, and looks for tasks after a barrier. Either the pusher sees the
    // bell, or this thread sees the task.
    explore(4, || {
        let model = Model::new(1, true);
        let sleeper = beside(&model, |model| {
            model.deque.ring();
            assert!(heavy());
            !model.deque.is_empty()
        });
        // SAFETY: loom checks; this thread is the owner.
        let heard = unsafe { model.deque.calls(model.deque.push(NonNull::from(&model.tasks[0]))) };
        let seen = sleeper.join().unwrap();
        assert!(heard || seen, "a task is pushed, and neither side knows of the other");
    });
}

#[test]
fn loom_a_thief_that_finds_the_bell_ringing_is_heard_too() {
    explore(4, || {
        let model = Model::new(0, true);
        let hunger = Arc::new(AtomicUsize::new(0));
        model.deque.ring();
        let knows = hunger.clone();
        // Rings like `Registry::ring_bells`.
        let ringer = beside(&model, move |model| {
            knows.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            model.deque.ring();
        });
        // SAFETY: this thread is the owner.
        unsafe { model.deque.silence() }
        let seen = hunger.load(Ordering::Relaxed);
        ringer.join().unwrap();
        assert!(seen == 1 || model.deque.rings(), "the owner knows of no hunger, and will not hear of it");
    });
}

#[test]
fn loom_a_bell_goes_on_while_the_deque_grows() {
    explore(4, || {
        let model = Model::new(2, true);
        let ringer = beside(&model, |model| model.deque.ring());
        for task in &model.tasks {
            // SAFETY: loom checks; this thread is the owner. It answers, and does not stop the bell.
            unsafe {
                if model.deque.calls(model.deque.push(NonNull::from(task))) {
                    model.deque.answer();
                }
            }
        }
        ringer.join().unwrap();
        assert!(model.deque.rings(), "a thread stopped the bell that does not know what it rang for");
    });
}

/// Checks that an owner that only pops also shares tasks: each of its pops may cancel a raid, or make shared tasks
/// private again.
#[test]
fn loom_a_pop_beside_a_raid_shares() {
    explore(4, || {
        let model = Model::new(3, true);
        let indices = [0, 1, 2].map(|nth| model.push(nth));
        // The task that was shared when the deque grew has been taken. Two private tasks are left.
        assert_eq!(model.steal(), 1);
        let raider = beside(&model, |model| {
            model.deque.ask(1);
            model.deque.raid(0);
        });
        let back = model.pop(2, indices[2]);
        raider.join().unwrap();
        assert!(model.steal() == 1 || !back, "a task is left, and it is not shared");
    });
}
