//! The split deque on real threads: an owner that pushes and pops at random, and thieves that steal.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

const UNTAKEN: u32 = 0;

/// Takes a task. A task is a counter of how often it was taken.
fn take(task: NonNull<AtomicU32>) {
    // SAFETY: the tests keep their tasks until all threads have ended.
    let before = unsafe { task.as_ref() }.fetch_add(1, Ordering::Relaxed);
    assert_eq!(before, UNTAKEN, "a task was taken twice");
}

/// Runs an owner with a stack of frames: a step `true` pushes, a step `false` pops. Returns the number of tasks that
/// the owner got back.
fn run_owner(deque: &Deque<AtomicU32>, tasks: &[AtomicU32], steps: impl IntoIterator<Item = bool>) -> usize {
    let (mut frames, mut next, mut back) = (Vec::new(), 0, 0);
    let pop = |(index, task): (usize, NonNull<AtomicU32>)| {
        // SAFETY: this thread is the owner, and pops in the opposite order of its pushes.
        let came_back = unsafe { deque.pop(index) } == Popped::Back;
        if came_back {
            take(task);
        }
        usize::from(came_back)
    };
    for is_push in steps {
        if is_push && next < tasks.len() {
            let task = NonNull::from(&tasks[next]);
            next += 1;
            // SAFETY: this thread is the owner.
            unsafe {
                let index = deque.push(task);
                frames.push((index, task));
                if deque.calls(index) {
                    deque.silence();
                    deque.answer();
                }
            }
        } else if let Some(frame) = frames.pop() {
            back += pop(frame);
        }
    }
    while let Some(frame) = frames.pop() {
        back += pop(frame);
    }
    // Tasks that were never pushed count as taken.
    tasks[next..].iter().for_each(|task| task.store(1, Ordering::Relaxed));
    back
}

/// The values of `raids` that can be tested on this system.
fn kinds() -> Vec<bool> {
    if heavy() { vec![true, false] } else { vec![false] }
}

#[test]
fn alone_the_owner_gets_back_what_it_pushed_and_the_deque_grows() {
    for raids in kinds() {
        let deque = Deque::new(raids);
        let tasks: Vec<AtomicU32> = (0..5 * SLOTS).map(|_| AtomicU32::new(UNTAKEN)).collect();
        assert_eq!(run_owner(&deque, &tasks, (0..tasks.len()).map(|_| true)), tasks.len());
        assert!(deque.is_empty());
    }
}

#[test]
fn a_deque_that_grows_rings_on_if_it_rang() {
    for rang in [false, true] {
        let deque = Deque::new(heavy());
        let tasks: Vec<AtomicU32> = (0..3 * SLOTS).map(|_| AtomicU32::new(UNTAKEN)).collect();
        if rang {
            deque.ring();
        }
        for task in &tasks {
            // SAFETY: this thread is the owner.
            unsafe {
                if deque.calls(deque.push(NonNull::from(task))) {
                    deque.answer();
                }
            }
        }
        assert_eq!(deque.rings(), rang || !heavy());
    }
}

#[test]
fn a_raid_reaches_what_is_private_and_no_more() {
    if !heavy() {
        return;
    }
    let deque = Deque::new(true);
    let tasks: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(UNTAKEN)).collect();
    // SAFETY: this thread is the owner.
    let indices: Vec<usize> = tasks.iter().map(|task| unsafe { deque.push(NonNull::from(task)) }).collect();
    assert_eq!(deque.len(), 8);
    assert!(deque.steal().is_none(), "no thief has asked, so nothing is shared");
    deque.raid(3);
    let mut mugged = 0;
    deque.steal_all(|task| {
        take(task);
        mugged += 1;
    });
    assert_eq!((mugged, deque.len()), (8, 0));
    for index in indices.into_iter().rev() {
        // SAFETY: this thread is the owner.
        assert_eq!(unsafe { deque.pop(index) }, Popped::Stolen);
    }
}

#[test]
fn thieves_of_every_kind_and_an_owner_lose_nothing() {
    for raids in kinds() {
        let deque = Deque::new(raids);
        let tasks: Vec<AtomicU32> = (0..400_000).map(|_| AtomicU32::new(UNTAKEN)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let thieves = [0, 1, 2].map(|thief: u32| {
                let (deque, done) = (&deque, &done);
                scope.spawn(move || {
                    let mut turn = 0u64;
                    while !done.load(Ordering::Acquire) {
                        turn += 1;
                        match (turn + u64::from(thief)) % 64 {
                            0 => deque.raid(thief),
                            1 => deque.steal_all(take),
                            n if n % 8 == 2 => {
                                deque.ask(turn);
                            }
                            _ => drop(deque.steal().map(take)),
                        }
                    }
                })
            });
            let mut random = 1u64;
            let steps = (0..1_000_000).map(move |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 60) < 9
            });
            run_owner(&deque, &tasks, steps);
            done.store(true, Ordering::Release);
            // The threads are joined one by one: ThreadSanitizer sees the ordering of a join, but not the ordering at
            // the end of a scope.
            thieves.into_iter().for_each(|thief| thief.join().expect("a thief ends well"));
        });
        assert!(deque.is_empty());
        assert!(tasks.iter().all(|task| task.load(Ordering::Relaxed) == 1), "a task was lost");
    }
}

proptest! {
    /// Compares the deque with a model, a plain double-ended queue: a successful steal always returns the oldest
    /// task.
    #[test]
    fn one_thread_in_all_roles_agrees_with_a_vector(steps in prop::collection::vec((0..6u8, any::<bool>()), 1..200)) {
        let tasks: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(UNTAKEN)).collect();
        let (deque, mut model, mut frames) = (Deque::new(heavy()), std::collections::VecDeque::new(), Vec::new());
        for (next, (step, raid)) in steps.into_iter().enumerate() {
            match step {
                0..=2 => {
                    let task = NonNull::from(&tasks[next]);
                    // SAFETY: this thread is the owner.
                    unsafe {
                        let index = deque.push(task);
                        frames.push((index, task));
                        if deque.calls(index) {
                            deque.silence();
                            deque.answer();
                        }
                    }
                    model.push_back(task);
                }
                3 => if let Some((index, task)) = frames.pop() {
                    // SAFETY: this thread is the owner.
                    let popped = unsafe { deque.pop(index) };
                    let expected = if model.back() == Some(&task) { model.pop_back(); Popped::Back } else { Popped::Stolen };
                    prop_assert_eq!(popped, expected);
                },
                _ => {
                    if raid { deque.raid(0) } else { deque.ask(1); }
                    if let Some(stolen) = deque.steal() {
                        prop_assert_eq!(model.pop_front(), Some(stolen));
                    } else {
                        prop_assert!(!raid || model.is_empty() || !heavy(), "a raid finds what there is");
                    }
                }
            }
            prop_assert_eq!(deque.len(), model.len());
        }
    }
}
