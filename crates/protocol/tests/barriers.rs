//! Tests of the number of barriers. Workers that fall asleep together execute one heavy barrier in total. A worker
//! that retires executes a fence.

mod cells;

use std::cell::Cell;

use comity_policy::{SleepRefusal, Waking, WorkerId};
use comity_protocol::sleep::{Admission, Sleep, Work};

use cells::Cells;

const WORKERS: u32 = 64;

/// The pool's only queue, and its bells.
#[derive(Default)]
struct Queue {
    tasks: Cell<u32>,
    rung: Cell<u32>,
}

impl Work for Queue {
    fn deques_have_task(&self) -> bool {
        self.tasks.get() > 0
    }

    fn injector_has_task(&self) -> bool {
        false
    }

    fn has_business(&self, _: WorkerId) -> bool {
        false
    }

    fn ring_bells(&self) {
        self.rung.set(self.rung.get() + 1);
    }
}

fn pool(refuses: bool) -> (Cells, Sleep<Cells>, Queue) {
    let cells = Cells { refuses, ..Cells::default() };
    let sleep = Sleep::new(cells.clone(), WORKERS, Waking::Hungry, false);
    workers().for_each(|me| sleep.publish_thief(me));
    (cells, sleep, Queue::default())
}

fn workers() -> impl Iterator<Item = WorkerId> {
    (0..WORKERS).map(WorkerId)
}

fn rests(sleep: &Sleep<Cells>, me: WorkerId, queue: &Queue) -> Admission {
    sleep.announce(me);
    sleep.admit(me, queue)
}

/// Gives a task to the worker, which is awake.
fn begins(sleep: &Sleep<Cells>, me: WorkerId, queue: &Queue) {
    queue.tasks.set(queue.tasks.get() - 1);
    sleep.publish_busy(me);
    sleep.hand_over(me, queue);
}

#[test]
fn one_barrier_serves_all_that_rest_together() {
    let (cells, sleep, queue) = pool(false);
    for me in workers().skip(1) {
        assert_eq!(rests(&sleep, me, &queue), Admission::Park(None));
    }
    assert_eq!((cells.barriers.get(), queue.rung.get()), (1, 1));

    // A search ends, and the searching worker answers for the workers that still sleep. Then it sleeps too.
    queue.tasks.set(1);
    sleep.push_met_bell(WorkerId(0), &queue);
    let searching = workers().skip(1).find(|worker| !sleep.is_asleep(*worker)).expect("one was woken");
    sleep.park(searching);
    begins(&sleep, searching, &queue);
    sleep.publish_thief(searching);
    assert_eq!(rests(&sleep, searching, &queue), Admission::Park(None));
    assert_eq!((cells.barriers.get(), queue.rung.get()), (2, 2));
}

/// Tests that a bell continues to ring until a push meets it, whether a worker sleeps or not.
#[test]
fn an_answer_holds_until_a_search_begins() {
    let (cells, sleep, queue) = pool(false);
    for push in [false, false, true, false] {
        if push {
            sleep.push_met_bell(WorkerId(1), &queue);
            assert_eq!(sleep.hunger(), 0, "there is none to be woken");
        }
        assert_eq!(rests(&sleep, WorkerId(0), &queue), Admission::Park(None));
        sleep.wake_for_business(WorkerId(0));
        sleep.park(WorkerId(0));
    }
    assert_eq!((cells.barriers.get(), queue.rung.get()), (2, 2));
}

#[test]
fn the_one_that_answers_searches_if_it_sees_a_task() {
    let (cells, sleep, queue) = pool(false);
    queue.tasks.set(1);
    assert_eq!(rests(&sleep, WorkerId(1), &queue), Admission::Refused(SleepRefusal::WorkArrived));
    assert_eq!(sleep.retract(WorkerId(1)), None);
    assert!(sleep.hunger() < 0, "it searches");
    queue.tasks.set(0);
    assert_eq!(rests(&sleep, WorkerId(2), &queue), Admission::Park(None), "and is relied on");
    assert_eq!(cells.barriers.get(), 1);
    queue.tasks.set(2);
    begins(&sleep, WorkerId(1), &queue);
    assert!(!sleep.is_asleep(WorkerId(2)), "there is another task");
}

/// Tests that each sleeper looks for tasks again after a timeout if barriers are refused. A worker that has parked
/// because it relied on a barrier is woken.
#[test]
fn where_the_barrier_is_refused_each_looks_again() {
    let (cells, sleep, queue) = pool(true);
    sleep.publish_busy(WorkerId(0));
    sleep.announce(WorkerId(2));
    assert!(matches!(rests(&sleep, WorkerId(1), &queue), Admission::Park(Some(_))));
    assert!(!sleep.is_asleep(WorkerId(1)) && !sleep.is_asleep(WorkerId(2)), "both look for themselves");
    for nth in 2..5 {
        assert!(matches!(rests(&sleep, WorkerId(nth + 1), &queue), Admission::Park(Some(_))));
        assert_eq!(cells.barriers.get(), nth);
    }
}

/// Tests that, if barriers are refused, a sleeper looks again while no worker is busy, but less often. Otherwise, if a
/// worker turns busy later and spawns a task during a search, the sleeper would never look.
#[test]
fn where_the_barrier_is_refused_one_that_rests_beside_no_busy_worker_looks_again_too() {
    let (_, sleep, queue) = pool(true);
    rests(&sleep, WorkerId(0), &queue);
    sleep.park(WorkerId(0));
    let Admission::Park(Some(beside_none)) = rests(&sleep, WorkerId(1), &queue) else { panic!("it never looks again") };
    sleep.publish_busy(WorkerId(2));
    assert!(
        matches!(rests(&sleep, WorkerId(3), &queue), Admission::Park(Some(beside_one)) if beside_one < beside_none)
    );
}

/// Tests the fence of Lemma 3. Without it, the worker could miss business that another thread made visible before that
/// thread looked at the worker's word.
#[test]
fn a_retired_worker_calls_a_fence_before_it_looks_for_business() {
    for waking in [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        let (cells, me) = (Cells::default(), WorkerId(0));
        let sleep = Sleep::new(cells.clone(), 2, waking, false);
        sleep.publish_thief(me);
        sleep.retire(me);
        cells.fences.set(0);
        sleep.pass_on(me, &Queue::default());
        assert_eq!(cells.fences.get(), 1, "{waking:?}");
    }
}
