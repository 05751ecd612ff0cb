//! The sleep protocol under loom: every interleaving and every weak-memory outcome of two or three threads that push,
//! sleep and wake. A lost wake-up ends in a deadlock, which loom reports. Run with `RUSTFLAGS="--cfg loom" cargo test
//! -p comity --lib loom_`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use comity_policy::{SleepRefusal, WakeReason, Waking, WorkerId};
use comity_protocol::platform::Platform;
use comity_protocol::sleep::{Parking, Sleep};

use super::{Admission, Woken, Work, park};
use crate::raw::sync::{FutexWord, Threads, Waker, beside, explore, fence, together};

mod asymmetric;
mod closed;

const W0: WorkerId = WorkerId(0);
const W1: WorkerId = WorkerId(1);
const W2: WorkerId = WorkerId(2);

/// A pool whose queues are counts of tasks.
struct Pool<P: Platform = Threads> {
    platform: P,
    sleep: Sleep<P>,
    deque: AtomicU32,
    /// The inbox of `W1`.
    placed: AtomicU32,
    injector: AtomicU32,
    /// The bell of each worker that pushes: true if its next push looks for sleepers. In the runtime, each deque has
    /// its bell.
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

    /// Rings like `Registry::ring_bells` and `Deque::ring`. Only workers that push have a bell here.
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

    /// Puts the worker to sleep with the steps of a dialogue, until it is woken or the sleep is refused.
    fn sleep(&self, me: WorkerId) -> Result<Woken, SleepRefusal> {
        self.sleep.announce(me);
        let admission = self.sleep.admit(me, self);
        self.rest(me, admission)
    }

    /// Takes the steps after the first look of [`Pool::sleep`]. loom has no time, so instead of a wait with a
    /// timeout, other threads run for a moment.
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

    /// Announces the worker as a sleeper. The sleep must not be refused.
    fn falls_asleep(&self, me: WorkerId) {
        self.sleep.announce(me);
        assert!(matches!(self.sleep.admit(me, self), Admission::Park(_)));
    }

    /// Sleeps until the pool has ended.
    fn sleep_until_ended(&self, me: WorkerId) {
        while !self.ended.load(Ordering::Acquire) {
            let _ = self.sleep(me);
        }
    }

    /// Begins a task that the worker has found, and informs the other workers.
    fn begin_task(&self, me: WorkerId) {
        self.sleep.publish_busy(me);
        self.sleep.hand_over(me, self);
    }

    /// Alternates between a look for a task and a sleep, until the worker has a task. Then publishes that it is busy.
    fn find(&self, me: WorkerId) {
        while !(Pool::take(&self.deque) || Pool::take(&self.placed) || Pool::take(&self.injector)) {
            let _ = self.sleep(me);
        }
        self.begin_task(me);
    }

    /// Rests like a worker that has retired, until the worker is awake.
    fn rest_until_up(&self, me: WorkerId) -> Woken {
        self.sleep.pass_on(me, self);
        if self.has_business(me) {
            return self.sleep.retract(me).unwrap_or(Woken::Business);
        }
        park(&self.sleep, me, None).expect("no timeout")
    }

    /// Rests like a worker that has retired, until the worker is awake and finds a task.
    fn rest_and_find(&self, me: WorkerId) {
        let _ = self.rest_until_up(me);
        self.find(me);
    }

    /// Lets a push wake `W1` again, which has retired, like the coordinator.
    fn restore_hunger(&self) {
        self.sleep.restore_hunger([W1].into_iter(), self);
    }

    /// Ends the pool, and wakes each of `workers`, because the end is business of each of them.
    fn end(&self, workers: impl IntoIterator<Item = WorkerId>) {
        self.ended.store(true, Ordering::Release);
        workers.into_iter().for_each(|worker| self.sleep.wake_for_business(worker));
    }

    #[track_caller]
    fn assert_no_hunger(&self) {
        assert_eq!(self.sleep.hunger(), 0, "no worker sleeps, and none is searching");
    }

    /// Answers the bell after a push of the worker found it ringing.
    fn answer_bell(&self, me: WorkerId) {
        if self.sleep.bell_may_stop() {
            self.bells[me.index()].swap(false, Ordering::AcqRel);
            fence(Ordering::SeqCst);
        }
        self.sleep.push_met_bell(me, self);
    }

    /// Pushes a task onto the worker's deque.
    fn push(&self, me: WorkerId) {
        self.deque.fetch_add(1, Ordering::Release);
        self.platform.light();
        if self.bells[me.index()].load(Ordering::Relaxed) {
            self.answer_bell(me);
        }
    }

    /// Places a task at `W1`. `me` is the worker that places it, or `None` for a thread that is not a worker.
    fn place(&self, me: Option<WorkerId>) {
        self.placed.fetch_add(1, Ordering::Release);
        self.sleep.after_placing(W1, me, self);
    }

    /// Spawns a task, which all workers can see at once.
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

/// Explores `model` with a pool of `workers` workers. The workers in `busy` are busy.
fn with_pool(
    most_preemptions: usize,
    (workers, waking): (u32, Waking),
    busy: &'static [WorkerId],
    model: impl Fn(&Arc<Pool>) + Sync + Send + 'static,
) {
    explore(most_preemptions, move || {
        let pool = Pool::new(workers, waking);
        busy.iter().for_each(|me| pool.sleep.publish_busy(*me));
        model(&pool);
    });
}

/// The ways in which a push wakes sleepers.
const BY_PUSH: [Waking; 2] = [Waking::Hungry, Waking::EveryPush { sleepers: 2 }];
const ALL_WAYS: [Waking; 4] =
    [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }];

fn a_task_reaches_a_would_be_sleeper(waking: Waking, hand_in: fn(&Pool, WorkerId)) {
    with_pool(4, (2, waking), &[W0], move |pool| together(pool, &[|pool| pool.find(W1)], || hand_in(pool, W0)));
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
    BY_PUSH.into_iter().for_each(|waking| a_task_reaches_a_would_be_sleeper(waking, Pool::spawn));
}

/// Places a task at a worker, while no other worker looks for tasks. That worker must not sleep on.
#[test]
fn loom_a_placed_task_reaches_the_worker_that_it_last_ran_on() {
    for waking in BY_PUSH {
        a_task_reaches_a_would_be_sleeper(waking, |pool, me| pool.place(Some(me)));
    }
    // `W2`, the watchdog, stays awake and takes no step here, so the other thieves may sleep.
    with_pool(4, (3, Waking::Watchdog), &[W0], |pool| {
        assert_eq!(pool.sleep(W2), Err(SleepRefusal::YouAreWatchdog));
        together(pool, &[|pool| pool.find(W1)], || pool.place(Some(W0)));
    });
    // The task comes from outside, while no worker is busy.
    for waking in ALL_WAYS {
        with_pool(4, (2, waking), &[], |pool| together(pool, &[|pool| pool.find(W1)], || pool.place(None)));
    }
}

/// Places a task at a busy worker that never takes it. A worker that is about to sleep must take it, or be woken for
/// it.
#[test]
fn loom_a_task_placed_at_a_busy_worker_wakes_a_hungry_sleeper() {
    for waking in BY_PUSH {
        for placer in [Some(W0), None] {
            with_pool(3, (3, waking), &[W0, W1], move |pool| {
                together(pool, &[|pool| pool.find(W2)], || pool.place(placer));
            });
        }
    }
}

/// Spawns a second task while the worker that was woken for the first one still searches. No later push wakes a
/// worker for the second task.
#[test]
fn loom_two_spawns_wake_two_hungry_sleepers() {
    with_pool(2, (3, Waking::Hungry), &[W0], |pool| {
        together(pool, &[|pool| pool.find(W1), |pool| pool.find(W2)], || {
            pool.spawn(W0);
            pool.spawn(W0);
        });
    });
}

/// Checks a worker that dozes (sleeps until a timeout). Its doze may end at the moment when a waker chooses it, while
/// the other sleeper relies on its look.
#[test]
fn loom_a_doze_that_ends_hides_no_task_and_no_sleeper() {
    let doze_and_find = |pool: &Pool| {
        pool.sleep.announce(W2);
        let _ = pool.sleep.admit(W2, pool);
        let _ = pool.sleep.retract(W2);
        pool.find(W2);
    };
    with_pool(3, (3, Waking::Hungry), &[W0], move |pool| {
        together(pool, &[|pool| pool.find(W1), doze_and_find], || {
            pool.push(W0);
            pool.push(W0);
        });
    });
}

#[test]
fn loom_an_injection_wakes_under_every_way_of_waking() {
    for waking in ALL_WAYS {
        with_pool(4, (1, waking), &[], |pool| {
            together(pool, &[|pool| pool.find(W0)], || {
                pool.injector.fetch_add(1, Ordering::Release);
                pool.sleep.after_injection(Waker::GoesOn, &**pool);
            });
        });
    }
}

#[test]
fn loom_business_wakes_the_worker_that_has_it() {
    with_pool(4, (2, Waking::Hungry), &[], |pool| {
        together(pool, &[|pool| pool.sleep_until_ended(W1)], || pool.end([W1]));
    });
}

/// Checks a worker that calls no barrier, because another sleeper has already called one and looked for tasks on
/// behalf of all sleepers.
#[test]
fn loom_business_wakes_one_that_another_answers_for() {
    with_pool(4, (3, Waking::Hungry), &[], |pool| {
        pool.falls_asleep(W2);
        together(pool, &[|pool| pool.sleep_until_ended(W1)], || pool.end([W1]));
    });
}

#[test]
fn loom_a_searching_worker_answers_for_the_tasks_left_to_it() {
    // Two thieves, two pushes: the thief that is woken for the first task wakes the other for the second.
    with_pool(3, (3, Waking::Hungry), &[W0], |pool| {
        together(pool, &[|pool| pool.find(W1), |pool| pool.find(W2)], || {
            pool.push(W0);
            pool.push(W0);
        });
    });
}

/// Checks that the worker becomes the watchdog, before it sleeps or when it is woken. If not, the worker parks for
/// ever, and loom reports a deadlock.
fn becomes_the_watchdog(pool: &Pool, me: WorkerId) {
    match pool.sleep(me) {
        Ok(Woken::For(WakeReason::Appointed)) | Err(SleepRefusal::YouAreWatchdog) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn loom_a_watchdog_that_turns_busy_leaves_a_watchdog_awake() {
    // W2 is busy throughout, so a thief must stay awake. W0 is the watchdog.
    with_pool(4, (3, Waking::Watchdog), &[W2], |pool| {
        assert_eq!(pool.sleep(W0), Err(SleepRefusal::YouAreWatchdog));
        together(pool, &[|pool| becomes_the_watchdog(pool, W1)], || pool.begin_task(W0));
    });
}

#[test]
fn loom_work_in_hand_leaves_a_watchdog_awake_that_sees_none() {
    // W1 has just taken a task. W0 looks for work and may find none. Either W0 sees the work, or it is appointed.
    with_pool(4, (2, Waking::Watchdog), &[], |pool| {
        together(pool, &[|pool| pool.begin_task(W1)], || becomes_the_watchdog(pool, W0));
    });
}

#[test]
fn loom_work_in_hand_wakes_all_workers_of_an_always_awake_pool() {
    // The model ends in a deadlock unless the sleep is refused or ended.
    with_pool(4, (2, Waking::AlwaysAwake), &[], |pool| {
        together(pool, &[|pool| pool.begin_task(W1)], || _ = pool.sleep(W0));
    });
}

#[test]
fn loom_a_sleeper_that_is_called_away_does_not_hide_another() {
    // As in `thief::Spell`, business ends the spell, also if there are tasks.
    let is_called_away = |pool: &Pool| {
        while !pool.ended.load(Ordering::Acquire) && !Pool::take(&pool.deque) {
            let _ = pool.sleep(W1);
        }
        pool.begin_task(W1);
    };
    with_pool(3, (3, Waking::Hungry), &[W0], move |pool| {
        // W2 sleeps, and no worker but W2 will look for tasks.
        pool.falls_asleep(W2);
        together(pool, &[is_called_away, |pool| pool.end([W1])], || pool.push(W0));
        assert!(
            !pool.deques_have_task() || !pool.sleep.is_asleep(W2),
            "a task waits, a worker sleeps, and all workers that are awake are busy"
        );
    });
}

#[test]
fn loom_business_wakes_one_that_retires() {
    let retire = |pool: &Pool| {
        pool.sleep.retire(W1);
        assert_eq!(pool.rest_until_up(W1), Woken::Business);
    };
    with_pool(4, (2, Waking::Hungry), &[], move |pool| together(pool, &[retire], || pool.end([W1])));
}

/// Checks that a worker is woken once if two events happen at the same time: the coordinator gets a core for it, and
/// it gets business.
#[test]
fn loom_a_recall_and_business_wake_once() {
    with_pool(4, (2, Waking::Hungry), &[], |pool| {
        pool.sleep.retire(W1);
        let waiter = beside(pool, |pool| pool.rest_until_up(W1));
        let coordinator = beside(pool, |pool| pool.sleep.recall(W1));
        pool.end([W1]);
        let (woken, recalled) = (waiter.join().unwrap(), coordinator.join().unwrap());
        assert_eq!(recalled, woken == Woken::For(WakeReason::Coordinator));
        assert!(!pool.sleep.is_asleep(W1));
    });
}

/// Lets a push wake a retired worker again, because a core is free. A push at the same time must wake it.
#[test]
fn loom_a_push_beside_restored_hunger_wakes() {
    with_pool(4, (2, Waking::Hungry), &[W0], |pool| {
        pool.sleep.retire(W1);
        together(pool, &[|pool| pool.rest_and_find(W1), Pool::restore_hunger], || pool.push(W0));
        pool.assert_no_hunger();
    });
}

/// Lets a push wake a worker again that has just retired. At the same time, the worker takes its retirement back
/// because it has business.
#[test]
fn loom_one_that_comes_back_beside_restored_hunger_is_not_counted() {
    with_pool(4, (2, Waking::Hungry), &[], |pool| {
        pool.sleep.retire(W1);
        pool.ended.store(true, Ordering::Release);
        together(pool, &[Pool::restore_hunger], || _ = pool.rest_until_up(W1));
        assert!(!pool.sleep.is_asleep(W1));
        pool.assert_no_hunger();
    });
}

/// Retires a sleeper because it has no core. Either the push wakes it, or the coordinator recalls it.
#[test]
fn loom_a_push_wakes_a_sleeper_or_leaves_it_to_its_recall() {
    let wake_and_find = |pool: &Pool| {
        assert!(park(&pool.sleep, W1, None).is_some());
        pool.find(W1);
    };
    let retire_and_recall = |pool: &Pool| {
        if pool.sleep.retire_sleeper(W1) {
            assert!(pool.sleep.recall(W1), "nothing else wakes a worker that has retired");
        }
    };
    with_pool(4, (2, Waking::Hungry), &[W0], move |pool| {
        pool.sleep.announce(W1);
        together(pool, &[wake_and_find, retire_and_recall], || pool.push(W0));
        pool.assert_no_hunger();
    });
}

/// Retires a searching worker because it has no core. Another sleeper must be woken for the task that the searching
/// worker had to find.
#[test]
fn loom_a_searching_worker_that_retires_answers_for_its_tasks() {
    with_pool(3, (3, Waking::Hungry), &[W0], |pool| {
        [W1, W2].iter().for_each(|sleeper| pool.falls_asleep(*sleeper));
        let up = Arc::new(AtomicU32::new(0));
        let sleepers = [W1, W2].map(|me| {
            let up = up.clone();
            beside(pool, move |pool| {
                let _ = park(&pool.sleep, me, None).expect("no timeout");
                // The first worker that wakes retires, as if it had no core, until it has business.
                if up.fetch_add(1, Ordering::AcqRel) == 0 {
                    pool.sleep.retire(me);
                    let _ = pool.rest_until_up(me);
                } else {
                    assert!(Pool::take(&pool.deque), "it was woken for the task");
                    pool.end([W1, W2]);
                }
            })
        });
        pool.push(W0);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}
