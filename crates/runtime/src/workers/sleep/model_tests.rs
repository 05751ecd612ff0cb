//! The released code of the sleep protocol, the dialogue and the books, under each policy, in a model world. The
//! steps of up to four workers are interleaved at random, and the liveness invariant is checked after every step.
//!
//! The world is a driver of [`Dialogue`], like a pool of threads. It holds queues and cores, and draws at random
//! which thread takes the next step: a worker, a thread that is not a worker, or the coordinator. A worker's step is
//! one effect, or the dialogue's work between two effects. Other threads may take steps in the middle of a worker's
//! step: where the dialogue looks at the pool, or while the worker moves tasks. A worker is parked if its rest word
//! has a resting value.

mod machine;
mod program;
mod world;

use std::cell::Cell;

use comity_policy::definition::Definition;
use comity_policy::{Action, Event, Policy, SleepRefusal, Thief, Waking, WorkerId};
use comity_protocol::platform::Waker;
use comity_protocol::sleep::{Admission, Parking, Work};
use proptest::prelude::*;

use crate::raw::sync::{Sleep, Threads};
use program::programs;
use world::{World, lives};

/// Returns the policy with small thresholds, so that workers soon sleep.
fn hasty(policy: Policy) -> Policy {
    match policy.name() {
        "bws" => "bws:sleep_threshold=2".parse().unwrap(),
        "bws-busy-wakes" => "bws-busy-wakes:sleep_threshold=2".parse().unwrap(),
        "comity" => "comity:rounds=1,pause=0".parse().unwrap(),
        _ => policy,
    }
}

proptest! {
    // Set `PROPTEST_CASES` to run more cases.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(3000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_policy_keeps_the_pool_alive_and_lets_it_sleep(
        program in programs(),
        workers in 1..=4u32,
        seed in any::<u64>(),
    ) {
        let dozes = "comity:rounds=1,pause=0,accelerate=pull".parse().expect("a policy");
        for policy in Policy::all().map(hasty).chain([dozes]) {
            lives(|| World::new(policy, workers, &program, seed))?;
        }
    }

    /// Checks a policy that asks to sleep at each of its turns, and to run tasks that it does not have. The pool is
    /// then slow, but never stuck, under each way of waking.
    #[test]
    fn a_bad_policy_cannot_strand_a_task(program in programs(), workers in 1..=4u32, seed in any::<u64>()) {
        let sleepyhead = |me| Box::new(Sleepyhead { me, workers, turn: seed as u32 }) as Box<dyn Thief>;
        for policy in Policy::all() {
            lives(|| World::with(policy, (0..workers).map(sleepyhead).collect(), &program, seed))?;
        }
    }
}

/// The queues of a pool that can only hold tasks from outside.
struct FromOutside(Cell<bool>);

impl Work for FromOutside {
    fn deques_have_task(&self) -> bool {
        false
    }

    fn injector_has_task(&self) -> bool {
        self.0.get()
    }

    fn has_business(&self, _: WorkerId) -> bool {
        false
    }

    fn ring_bells(&self) {}
}

/// The queues of a pool in which a task waits. No worker may be asked about its business.
struct TaskWaits;

impl Work for TaskWaits {
    fn deques_have_task(&self) -> bool {
        true
    }

    fn injector_has_task(&self) -> bool {
        true
    }

    fn has_business(&self, _: WorkerId) -> bool {
        panic!("a task waits, so nothing depends on the answer")
    }

    fn ring_bells(&self) {}
}

#[test]
fn a_would_be_sleeper_is_asked_for_business_only_if_no_task_waits() {
    let hungry = Policy::all().filter(|policy| Definition::of(policy).waking == Waking::Hungry);
    for policy in hungry {
        let sleep = Sleep::new(Threads, 2, Definition::of(&policy).waking, Definition::of(&policy).counts_roles);
        let me = WorkerId(0);
        sleep.publish_thief(me);
        sleep.announce(me);
        let admission = sleep.admit(me, &TaskWaits);
        assert!(matches!(admission, Admission::Refused(SleepRefusal::WorkArrived)), "{policy}: {admission:?}");
    }
}

/// Checks a case that is too rare to occur by chance. A worker that was woken for a task from outside has no core,
/// and the other worker has looked for tasks before that task was injected.
#[test]
#[cfg_attr(comity_portable, ignore = "where barriers are refused, both look")]
fn one_that_retires_leaves_a_task_from_outside_to_another() {
    for policy in Policy::all().filter(Policy::shares_cores) {
        let sleep = Sleep::new(Threads, 2, Definition::of(&policy).waking, Definition::of(&policy).counts_roles);
        let queues = FromOutside(Cell::new(false));
        let workers = [WorkerId(0), WorkerId(1)];
        workers.iter().for_each(|me| sleep.publish_thief(*me));
        for me in workers {
            sleep.announce(me);
            assert!(matches!(sleep.admit(me, &queues), Admission::Park(_)), "{policy}: there is nothing to do");
        }
        queues.0.set(true);
        sleep.after_injection(Waker::GoesOn, &queues);
        let (woken, others) = workers.into_iter().partition::<Vec<_>, _>(|me| !sleep.is_asleep(*me));
        assert_eq!((woken.len(), others.len()), (1, 1), "{policy}: one task wakes one");
        assert!(matches!(sleep.park(woken[0]), Parking::Over(_)));
        sleep.retire(woken[0]);
        sleep.pass_on(woken[0], &queues);
        assert!(!sleep.is_asleep(others[0]), "{policy}: it has retired, and no worker comes for the task");
    }
}

/// A policy that asks to sleep between any two steals, and owes wake-ups that it never causes.
struct Sleepyhead {
    me: u32,
    workers: u32,
    turn: u32,
}

impl Thief for Sleepyhead {
    fn next(&mut self, event: Event) -> Action {
        self.turn = self.turn.wrapping_add(1);
        match event {
            Event::StealSucceeded(_) | Event::Mugged(_) | Event::Injected | Event::Resumed => {
                Action::Run { wakeups_owed: 7 }
            }
            Event::SleepRefused(SleepRefusal::WorkArrived | SleepRefusal::YouAreWatchdog | SleepRefusal::Alone)
            | Event::Woken(_) => Action::StealFrom(WorkerId((self.me + self.turn) % self.workers)),
            _ if self.turn.is_multiple_of(7) => Action::Run { wakeups_owed: 0 },
            _ => Action::Sleep,
        }
    }
}
