//! The hand-overs of the sleep protocol under loom: every interleaving and every weak-memory outcome of two or three
//! threads. A lost wake-up shows as a deadlock. Run with `RUSTFLAGS="--cfg loom" cargo test -p comity --lib loom_`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use comity_policy::{SleepRefusal, WakeReason, Waking, WorkerId};
use comity_protocol::platform::Platform;
use comity_protocol::sleep::{Parking, Sleep};

use super::{Admission, Woken, Work, park};
use crate::raw::sync::{FutexWord, Threads, Waker, explore, fence};

mod asymmetric;
mod closed;

const W0: WorkerId = WorkerId(0);
const W1: WorkerId = WorkerId(1);
const W2: WorkerId = WorkerId(2);

/// A pool with counts of tasks as its queues.
struct Pool<P: Platform = Threads> {
    platform: P,
    sleep: Sleep<P>,
    deque: AtomicU32,
    /// The inbox of `W1`.
    placed: AtomicU32,
    injector: AtomicU32,
    /// The workers that look for sleepers at their next push: `Deque::limit` of the product.
    bells: Vec<AtomicBool>,
    ended: AtomicBool,
}

impl<P: Platform> Work for Pool<P> {
    fn deques_have_task(&self) -> bool {
        self.deque.load(Ordering::Acquire) > 0 || self.placed.load(Ordering::Acquire) > 0
    }

    fn injector_has_task(&self) -> bool {
        self.injector.load(Ordering::Acquire) > 0
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        self.ended.load(Ordering::Acquire) || worker == W1 && self.placed.load(Ordering::Acquire) > 0
    }

    /// As `Registry::ring_bells` and `Deque::ring`, but for workers that never push here.
    fn ring_bells(&self) {
        fence(Ordering::SeqCst);
        for bell in &self.bells {
            if !bell.load(Ordering::Relaxed) {
                bell.store(true, Ordering::Release);
            }
        }
    }
}

impl<P: Platform<Parker = FutexWord> + Clone> Pool<P> {
    fn on(platform: P, workers: u32, waking: Waking) -> Arc<Pool<P>> {
        let sleep = Sleep::new(platform.clone(), workers, waking, false);
        (0..workers).for_each(|me| sleep.publish_thief(WorkerId(me)));
        Arc::new(Pool {
            platform,
            sleep,
            deque: AtomicU32::new(0),
            placed: AtomicU32::new(0),
            injector: AtomicU32::new(0),
            bells: vec![AtomicBool::new(matches!(waking, Waking::EveryPush { .. }))],
            ended: AtomicBool::new(false),
        })
    }

    /// What `thief::Spell::sleep` does.
    fn sleep(&self, me: WorkerId) -> Result<Woken, SleepRefusal> {
        self.sleep.announce(me);
        let admission = self.sleep.admit(me, self);
        self.rest(me, admission)
    }

    /// What follows the first look. A timeout is a moment at which others run, for loom knows no time.
    fn rest(&self, me: WorkerId, mut admission: Admission) -> Result<Woken, SleepRefusal> {
        loop {
            match admission {
                Admission::Refused(refusal) => return self.sleep.retract(me).map_or(Err(refusal), Ok),
                Admission::Park(None) => return Ok(park(&self.sleep, me, None).expect("no timeout")),
                Admission::Park(Some(_)) => match self.sleep.park(me) {
                    Parking::Over(woken) => return Ok(woken),
                    Parking::Waits { .. } => thread::yield_now(),
                },
            }
            admission = self.sleep.admit(me, self);
        }
    }

    /// Sleeps and looks until it has a task, as a thief with no patience does; then says that it is busy.
    fn find(&self, me: WorkerId) {
        loop {
            if Pool::take(&self.deque) || Pool::take(&self.placed) || Pool::take(&self.injector) {
                self.sleep.publish_busy(me);
                self.sleep.hand_over(me, self);
                return;
            }
            let _ = self.sleep(me);
        }
    }

    /// The worker's push met its bell.
    fn answer_bell(&self, me: WorkerId) {
        if self.sleep.bell_may_stop() {
            self.bells[me.index()].swap(false, Ordering::AcqRel);
            fence(Ordering::SeqCst);
        }
        self.sleep.push_met_bell(me, self);
    }

    /// A worker's push onto its deque.
    fn push(&self, me: WorkerId) {
        self.deque.fetch_add(1, Ordering::Release);
        self.platform.light();
        if self.bells[me.index()].load(Ordering::Relaxed) {
            self.answer_bell(me);
        }
    }

    /// A worker, or a thread of no pool, places a task at `W1`.
    fn place(&self, me: Option<WorkerId>) {
        self.placed.fetch_add(1, Ordering::Release);
        self.sleep.after_placing(W1, me, self);
    }

    /// A worker's push onto the queue that all can see.
    fn spawn(&self, me: WorkerId) {
        self.deque.fetch_add(1, Ordering::Release);
        self.sleep.after_spawn(me, self);
    }
}

impl Pool {
    fn new(workers: u32, waking: Waking) -> Arc<Pool> {
        Pool::on(Threads, workers, waking)
    }

    fn take(queue: &AtomicU32) -> bool {
        queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |tasks| tasks.checked_sub(1)).is_ok()
    }
}

/// Runs `what` on a thread of its own.
fn beside<M: 'static, T: 'static>(shared: &Arc<M>, what: impl FnOnce(&M) -> T + 'static) -> thread::JoinHandle<T> {
    let shared = shared.clone();
    thread::spawn(move || what(&shared))
}

fn a_task_reaches_a_would_be_sleeper(waking: Waking, hand_in: fn(&Pool, WorkerId)) {
    explore(4, move || {
        let pool = Pool::new(2, waking);
        pool.sleep.publish_busy(W0);
        let thief = beside(&pool, |pool| pool.find(W1));
        hand_in(&pool, W0);
        thief.join().unwrap();
    });
}

#[test]
fn loom_a_push_wakes_a_hungry_sleeper() {
    a_task_reaches_a_would_be_sleeper(Waking::Hungry, Pool::push);
}

#[test]
fn loom_a_push_wakes_under_busy_wakes() {
    a_task_reaches_a_would_be_sleeper(Waking::EveryPush { sleepers: 2 }, Pool::push);
}

#[test]
fn loom_a_spawn_wakes_a_hungry_sleeper() {
    for waking in [Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        a_task_reaches_a_would_be_sleeper(waking, Pool::spawn);
    }
}

/// Where no other worker looks: the one at which it is placed must not sleep beside it.
#[test]
fn loom_a_placed_task_reaches_the_worker_that_it_last_ran_on() {
    for waking in [Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        a_task_reaches_a_would_be_sleeper(waking, |pool, me| pool.place(Some(me)));
    }
    // Beside a watchdog that is elsewhere, where the others may sleep.
    explore(4, || {
        let pool = Pool::new(3, Waking::Watchdog);
        pool.sleep.publish_busy(W0);
        assert_eq!(pool.sleep(W2), Err(SleepRefusal::YouAreWatchdog));
        let thief = beside(&pool, |pool| pool.find(W1));
        pool.place(Some(W0));
        thief.join().unwrap();
    });
    // From outside, with no worker busy.
    for waking in [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        explore(4, move || {
            let pool = Pool::new(2, waking);
            let thief = beside(&pool, |pool| pool.find(W1));
            pool.place(None);
            thief.join().unwrap();
        });
    }
}

/// Where its worker never comes to it: a worker that wants to sleep takes it, or is woken for it.
#[test]
fn loom_a_task_placed_at_a_busy_worker_wakes_a_hungry_sleeper() {
    for waking in [Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        for placer in [Some(W0), None] {
            explore(3, move || {
                let pool = Pool::new(3, waking);
                pool.sleep.publish_busy(W0);
                pool.sleep.publish_busy(W1);
                let thief = beside(&pool, |pool| pool.find(W2));
                pool.place(placer);
                thief.join().unwrap();
            });
        }
    }
}

/// The second may come while the first one's searching worker is on its way, and nothing rings for it later.
#[test]
fn loom_two_spawns_wake_two_hungry_sleepers() {
    explore(2, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        let thieves = [W1, W2].map(|me| beside(&pool, move |pool| pool.find(me)));
        pool.spawn(W0);
        pool.spawn(W0);
        for thief in thieves {
            thief.join().unwrap();
        }
    });
}

/// One that dozes is up again by itself, maybe in the moment in which a waker looks at it, and the other sleeper
/// relied on its look.
#[test]
fn loom_a_doze_that_ends_hides_no_task_and_no_sleeper() {
    explore(3, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        let sleeper = beside(&pool, |pool| pool.find(W1));
        let dozer = beside(&pool, |pool| {
            pool.sleep.announce(W2);
            let _ = pool.sleep.admit(W2, pool);
            let _ = pool.sleep.retract(W2);
            pool.find(W2);
        });
        pool.push(W0);
        pool.push(W0);
        for thief in [sleeper, dozer] {
            thief.join().unwrap();
        }
    });
}

#[test]
fn loom_an_injection_wakes_under_every_way_of_waking() {
    for waking in [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        explore(4, move || {
            let pool = Pool::new(1, waking);
            let thief = beside(&pool, |pool| pool.find(W0));
            pool.injector.fetch_add(1, Ordering::Release);
            pool.sleep.after_injection(Waker::GoesOn, &*pool);
            thief.join().unwrap();
        });
    }
}

#[test]
fn loom_business_wakes_the_worker_that_has_it() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        let waiter = beside(&pool, |pool| {
            while !pool.ended.load(Ordering::Acquire) {
                let _ = pool.sleep(W1);
            }
        });
        pool.ended.store(true, Ordering::Release);
        pool.sleep.wake_for_business(W1);
        waiter.join().unwrap();
    });
}

/// Where another sleeps already and has answered for all that rest, so this one calls no barrier.
#[test]
fn loom_business_wakes_one_that_another_answers_for() {
    explore(4, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.announce(W2);
        assert!(matches!(pool.sleep.admit(W2, &*pool), Admission::Park(_)));
        let waiter = beside(&pool, |pool| {
            while !pool.ended.load(Ordering::Acquire) {
                let _ = pool.sleep(W1);
            }
        });
        pool.ended.store(true, Ordering::Release);
        pool.sleep.wake_for_business(W1);
        waiter.join().unwrap();
    });
}

#[test]
fn loom_a_searching_worker_answers_for_the_tasks_left_to_it() {
    // Two thieves, two pushes: the thief that is woken for the first task wakes the other for the second.
    explore(3, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        let thieves = [W1, W2].map(|me| beside(&pool, move |pool| pool.find(me)));
        pool.push(W0);
        pool.push(W0);
        for thief in thieves {
            thief.join().unwrap();
        }
    });
}

#[test]
fn loom_a_watchdog_that_turns_busy_leaves_a_watchdog_awake() {
    explore(4, || {
        let pool = Pool::new(3, Waking::Watchdog);
        // W2 is busy throughout, so a thief must stay awake. W0 is the watchdog.
        pool.sleep.publish_busy(W2);
        assert_eq!(pool.sleep(W0), Err(SleepRefusal::YouAreWatchdog));
        let sleeper = beside(&pool, |pool| {
            // Parks for ever, and loom reports the deadlock, unless it becomes the watchdog one way or the other.
            match pool.sleep(W1) {
                Ok(Woken::For(WakeReason::Appointed)) | Err(SleepRefusal::YouAreWatchdog) => {}
                other => panic!("{other:?}"),
            }
        });
        pool.sleep.publish_busy(W0);
        pool.sleep.hand_over(W0, &*pool);
        sleeper.join().unwrap();
    });
}

#[test]
fn loom_work_in_hand_leaves_a_watchdog_awake_that_sees_none() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Watchdog);
        // W1 has just taken a task; W0 looks around for work and may find none.
        let taker = beside(&pool, |pool| {
            pool.sleep.publish_busy(W1);
            pool.sleep.hand_over(W1, pool);
        });
        // Either it sees the work and stays as the watchdog, or it is appointed out of its sleep.
        match pool.sleep(W0) {
            Ok(Woken::For(WakeReason::Appointed)) | Err(SleepRefusal::YouAreWatchdog) => {}
            other => panic!("{other:?}"),
        }
        taker.join().unwrap();
    });
}

#[test]
fn loom_work_in_hand_wakes_all_workers_of_an_always_awake_pool() {
    explore(4, || {
        let pool = Pool::new(2, Waking::AlwaysAwake);
        let taker = beside(&pool, |pool| {
            pool.sleep.publish_busy(W1);
            pool.sleep.hand_over(W1, pool);
        });
        // Deadlock unless the sleep is refused or ended.
        let _ = pool.sleep(W0);
        taker.join().unwrap();
    });
}

#[test]
fn loom_a_sleeper_that_is_called_away_does_not_hide_another() {
    explore(3, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        // W2 sleeps, and no worker but W2 will look for tasks.
        pool.sleep.announce(W2);
        assert!(matches!(pool.sleep.admit(W2, &*pool), Admission::Park(_)));
        let called = beside(&pool, |pool| {
            // As `thief::Spell` does: business ends the spell, whatever else there is.

            while !pool.ended.load(Ordering::Acquire) && !Pool::take(&pool.deque) {
                let _ = pool.sleep(W1);
            }
            pool.sleep.publish_busy(W1);
            pool.sleep.hand_over(W1, pool);
        });
        let caller = beside(&pool, |pool| {
            pool.ended.store(true, Ordering::Release);
            pool.sleep.wake_for_business(W1);
        });
        pool.push(W0);
        called.join().unwrap();
        caller.join().unwrap();
        assert!(
            !pool.deques_have_task() || !pool.sleep.is_asleep(W2),
            "a task waits, a worker sleeps, and all workers that are awake are busy"
        );
    });
}

/// What `thief::Spell::rest_until_up` does.
fn rest_until_up<P: Platform<Parker = FutexWord> + Clone>(pool: &Pool<P>, me: WorkerId) -> Woken {
    pool.sleep.pass_on(me, pool);
    if pool.has_business(me) {
        return pool.sleep.retract(me).unwrap_or(Woken::Business);
    }
    park(&pool.sleep, me, None).expect("no timeout")
}

#[test]
fn loom_business_wakes_one_that_retires() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        let waiter = beside(&pool, |pool| {
            pool.sleep.retire(W1);
            assert_eq!(rest_until_up(pool, W1), Woken::Business);
        });
        pool.ended.store(true, Ordering::Release);
        pool.sleep.wake_for_business(W1);
        waiter.join().unwrap();
    });
}

/// The coordinator has a core, business comes, and neither wakes it twice nor not at all.
#[test]
fn loom_a_recall_and_business_wake_once() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        pool.sleep.retire(W1);
        let waiter = beside(&pool, |pool| rest_until_up(pool, W1));
        let coordinator = beside(&pool, |pool| pool.sleep.recall(W1));
        pool.ended.store(true, Ordering::Release);
        pool.sleep.wake_for_business(W1);
        let (woken, recalled) = (waiter.join().unwrap(), coordinator.join().unwrap());
        assert_eq!(recalled, woken == Woken::For(WakeReason::Coordinator));
        assert!(!pool.sleep.is_asleep(W1));
    });
}

/// A core is free: the retired are hungry again, and the push that comes meanwhile wakes one.
#[test]
fn loom_a_push_beside_restored_hunger_wakes() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        pool.sleep.retire(W1);
        let retired = beside(&pool, |pool| {
            let _ = rest_until_up(pool, W1);
            pool.find(W1);
        });
        let coordinator = beside(&pool, |pool| pool.sleep.restore_hunger([W1].into_iter(), pool));
        pool.push(W0);
        coordinator.join().unwrap();
        retired.join().unwrap();
        assert_eq!(pool.sleep.hunger(), 0, "no worker sleeps, and none is searching");
    });
}

/// One that has just retired has business, and takes its retirement back, while another thread makes it hungry again.
#[test]
fn loom_one_that_comes_back_beside_restored_hunger_is_not_counted() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        pool.sleep.retire(W1);
        pool.ended.store(true, Ordering::Release);
        let other = beside(&pool, |pool| pool.sleep.restore_hunger([W1].into_iter(), pool));
        let _ = rest_until_up(&pool, W1);
        other.join().unwrap();
        assert!(!pool.sleep.is_asleep(W1));
        assert_eq!(pool.sleep.hunger(), 0, "no worker sleeps, and none is searching");
    });
}

/// There is no core for a sleeper: the push wakes it, or leaves it for the coordinator to recall.
#[test]
fn loom_a_push_wakes_a_sleeper_or_leaves_it_to_its_recall() {
    explore(4, || {
        let pool = Pool::new(2, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        pool.sleep.announce(W1);
        let sleeper = beside(&pool, |pool| {
            assert!(park(&pool.sleep, W1, None).is_some());
            pool.find(W1);
        });
        let coordinator = beside(&pool, |pool| {
            if pool.sleep.retire_sleeper(W1) {
                assert!(pool.sleep.recall(W1), "nothing else wakes a worker that has retired");
            }
        });
        pool.push(W0);
        coordinator.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(pool.sleep.hunger(), 0, "no worker sleeps, and none is searching");
    });
}

/// A searching worker finds no core: the task that was left to it passes to another sleeper.
#[test]
fn loom_a_searching_worker_that_retires_answers_for_its_tasks() {
    explore(3, || {
        let pool = Pool::new(3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        for sleeper in [W1, W2] {
            pool.sleep.announce(sleeper);
            assert!(matches!(pool.sleep.admit(sleeper, &*pool), Admission::Park(_)));
        }
        let up = Arc::new(AtomicU32::new(0));
        let [first, second] = [W1, W2].map(|me| {
            let (pool, up) = (pool.clone(), up.clone());
            thread::spawn(move || {
                let woken = park(&pool.sleep, me, None).expect("no timeout");
                // The first that is up retires, as if there were no core for it, until it has business.
                if up.fetch_add(1, Ordering::AcqRel) == 0 {
                    pool.sleep.retire(me);
                    let _ = rest_until_up(&pool, me);
                    return woken;
                }
                assert!(Pool::take(&pool.deque), "it was woken for the task");
                pool.ended.store(true, Ordering::Release);
                pool.sleep.wake_for_business(W1);
                pool.sleep.wake_for_business(W2);
                woken
            })
        });
        pool.push(W0);
        first.join().unwrap();
        second.join().unwrap();
    });
}
