//! Workers that sleep while others push without a fence. The barrier is asymmetric, like `membarrier`, and may be
//! refused.
//!
//! In the other models, each half of the barrier is a full fence. There, a worker that fences and looks sees even the
//! tasks for which it may rely on another worker's look (Lemma 12). So only the tests of this file notice if that
//! other worker's look fails.
//!
//! loom has no barrier that interrupts other threads. Here a barrier (`heavy`) is ordered before or after each call
//! of `light` by a lock. The proofs may use no other property of `membarrier`, which orders at least as much. A
//! refused barrier orders only its own thread. loom cannot express that a store becomes visible in time. So a sleeper
//! that would look again after a timeout yields instead. After a yield, loom shows the thread other values than
//! before.

use std::sync::atomic as uncounted;

use loom::sync::Mutex;

use super::*;

/// A platform whose barrier is granted a number of times, and refused after that.
#[derive(Clone)]
struct Asymmetric {
    /// A lock that `light` and `heavy` take, which orders them.
    order: Arc<Mutex<()>>,
    /// The number of barriers that are still granted. It is not an atomic of loom's, which would add an ordering to a
    /// refused barrier.
    granted: std::sync::Arc<uncounted::AtomicU32>,
}

impl Asymmetric {
    fn pool(workers: u32, granted: u32) -> Arc<Pool<Asymmetric>> {
        let platform = Asymmetric { order: Arc::default(), granted: std::sync::Arc::new(granted.into()) };
        let pool = Pool::on(platform, workers, Waking::Hungry);
        if granted == 0 {
            // The first refusal, which wakes all sleepers, comes before the model begins. So no test passes only
            // because of these wake-ups.
            pool.sleep.announce(W1);
            pool.sleep.admit(W1, &*pool);
            assert!(matches!(pool.sleep.park(W1), Parking::Over(_)), "the first refusal wakes all");
            // This undoes the effect of that look for tasks, so that no test relies on it.
            pool.sleep.push_met_bell(W0, &*pool);
            assert_eq!(pool.sleep.hunger(), 0);
        }
        pool
    }
}

/// A number of barriers that no test uses up.
const ALL: u32 = u32::MAX;

impl Platform for Asymmetric {
    type Bool = <Threads as Platform>::Bool;
    type Word = <Threads as Platform>::Word;
    type Counter = <Threads as Platform>::Counter;
    type Parker = FutexWord;
    type Lock<T> = <Threads as Platform>::Lock<T>;
    type Once<T> = <Threads as Platform>::Once<T>;

    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Self::Bool {
        Threads.bool(owner, value)
    }

    fn word(&self, owner: Option<WorkerId>, value: u32) -> Self::Word {
        Threads.word(owner, value)
    }

    fn counter(&self) -> Self::Counter {
        Threads.counter()
    }

    fn parker(&self, owner: WorkerId, value: u32) -> FutexWord {
        Threads.parker(owner, value)
    }

    fn lock<T>(&self, value: T) -> Self::Lock<T> {
        Threads.lock(value)
    }

    fn once<T>(&self) -> Self::Once<T> {
        Threads.once()
    }

    fn fence(&self, order: Ordering) {
        fence(order);
    }

    fn light(&self) {
        drop(self.order.lock().unwrap());
    }

    fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        let left = self.granted.load(uncounted::Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        self.granted.store(left - 1, uncounted::Ordering::Relaxed);
        drop(self.order.lock().unwrap());
        fence(Ordering::SeqCst);
        true
    }
}

type Hands = fn(&Pool<Asymmetric>, WorkerId);

/// Explores `model` with a pool of `workers` workers, of which `W0` is busy.
fn with_asymmetric(
    most_preemptions: usize,
    (workers, granted): (u32, u32),
    model: impl Fn(&Arc<Pool<Asymmetric>>) + Sync + Send + 'static,
) {
    explore(most_preemptions, move || {
        let pool = Asymmetric::pool(workers, granted);
        pool.sleep.publish_busy(W0);
        model(&pool);
    });
}

/// Makes `W0` queue two tasks, while two workers must take one task each.
fn two_tasks_reach_two_that_rest(most_preemptions: usize, granted: u32, hand_in: Hands) {
    with_asymmetric(most_preemptions, (3, granted), move |pool| {
        together(pool, &[|pool| pool.find(W1), |pool| pool.find(W2)], || {
            hand_in(pool, W0);
            hand_in(pool, W0);
        });
    });
}

#[test]
fn loom_one_barrier_serves_two_that_rest_together() {
    two_tasks_reach_two_that_rest(3, ALL, Pool::push);
}

/// Refuses the second barrier. A sleeper that relied on the first barrier, of another worker, must be told to look
/// itself.
#[test]
fn loom_a_barrier_that_is_refused_late_wakes_those_that_relied_on_another() {
    two_tasks_reach_two_that_rest(2, 1, Pool::push);
}

/// Checks that a task reaches the only worker that sleeps.
fn a_task_reaches_one_that_rests(hand_in: Hands) {
    with_asymmetric(4, (2, ALL), move |pool| together(pool, &[|pool| pool.find(W1)], || hand_in(pool, W0)));
}

#[test]
fn loom_a_spawn_without_a_fence_reaches_a_hungry_sleeper() {
    a_task_reaches_one_that_rests(Pool::spawn);
}

#[test]
fn loom_a_task_placed_without_a_fence_reaches_its_worker() {
    a_task_reaches_one_that_rests(|pool, me| pool.place(Some(me)));
}

/// Makes `W0` spawn one task for each worker that takes one. `W1` has retired. Meanwhile it is made hungry, which
/// means that a push may wake it again.
fn spawns_beside_restored_hunger(most_preemptions: usize, granted: u32, other: Option<fn(&Pool<Asymmetric>)>) {
    with_asymmetric(most_preemptions, (3, granted), move |pool| {
        pool.sleep.retire(W1);
        let both: [fn(&Pool<Asymmetric>); 2] = [|pool| pool.rest_and_find(W1), Pool::restore_hunger];
        let all: Vec<_> = both.into_iter().chain(other).collect();
        together(pool, &all, || (1..all.len()).for_each(|_| pool.spawn(W0)));
    });
}

/// Covers two cases: the coordinator looks for tasks on the worker's behalf, or relies on another worker that does.
#[test]
fn loom_a_spawn_beside_restored_hunger_and_an_answer_is_taken() {
    spawns_beside_restored_hunger(2, ALL, None);
    spawns_beside_restored_hunger(2, ALL, Some(|pool| pool.find(W2)));
}

/// Refuses the barrier, so that the coordinator's look is not enough.
#[test]
fn loom_a_spawn_beside_restored_hunger_is_taken_where_the_barrier_is_refused() {
    spawns_beside_restored_hunger(2, 0, None);
}

/// Makes a searching worker hungry that has retired, before it passes its search on to a sleeper. It may pass the
/// search to itself.
#[test]
fn loom_a_searching_worker_passes_its_search_to_itself() {
    with_asymmetric(4, (2, ALL), |pool| {
        pool.sleep.announce(W1);
        assert_eq!(pool.sleep.admit(W1, &**pool), Admission::Park(None));
        pool.spawn(W0);
        assert_eq!(pool.sleep.park(W1), Parking::Over(Woken::For(WakeReason::Peer)));
        assert!(pool.sleep.hunger() < 0, "it searches");
        pool.sleep.retire(W1);
        together(pool, &[|pool| pool.rest_and_find(W1)], || pool.restore_hunger());
        pool.assert_no_hunger();
    });
}

/// Lets two workers fall asleep while no worker is busy. The worker that is woken for the first task may not see the
/// second task, for which no other worker was woken.
#[test]
fn loom_where_the_barrier_is_refused_one_that_slept_beside_none_looks_again() {
    explore(2, || {
        let pool = Asymmetric::pool(3, 0);
        let [_, admission] = [W1, W2].map(|me| {
            pool.sleep.announce(me);
            pool.sleep.admit(me, &*pool)
        });
        pool.begin_task(W0);
        pool.spawn(W0);
        assert_eq!(pool.sleep.park(W1), Parking::Over(Woken::For(WakeReason::Peer)));
        assert!(Pool::take(&pool.deque), "it was woken for the task");
        let searching = beside(&pool, |pool| pool.begin_task(W1));
        let sleeper = beside(&pool, move |pool| {
            let _ = pool.rest(W2, admission);
            pool.find(W2);
        });
        pool.spawn(W0);
        searching.join().unwrap();
        sleeper.join().unwrap();
    });
}
