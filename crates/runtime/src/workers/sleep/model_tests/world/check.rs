//! The run of a world from its first step to its last, and the checks after each step.

use comity_policy::definition::Definition;
use comity_policy::{Sleeper, Waking, WorkerId};
use comity_protocol::activation::Pool;
use comity_protocol::activation::State;
use comity_protocol::sleep::{Roles, Work};
use proptest::prelude::TestCaseError;

use super::{At, Now, Worker, World};

/// The maximum number of steps of a pool: several times the largest number that a run has needed.
const BOUND: usize = 20_000;

/// The ids of workers, from 0.
fn ids() -> impl Iterator<Item = WorkerId> {
    (0..).map(WorkerId)
}

impl World {
    /// Checks the liveness invariant: if a worker is busy and a worker sleeps, then a thief is awake or will wake on
    /// a timeout. Under `Hungry` and `EveryPush`, a push wakes sleepers, so the invariant must hold only while a task
    /// waits.
    pub(super) fn check(&self) -> Result<(), String> {
        let now = self.now();
        if now.ended {
            return Ok(());
        }
        self.check_books(&now)?;
        let Roles { busy, thieves, sleepers } = self.sleep.roles();
        if Definition::of(&self.policy).counts_roles && (busy + thieves + sleepers) as usize != now.workers.len() {
            return Err(format!("{busy} busy, {thieves} thieves and {sleepers} sleepers are not all workers"));
        }
        // `sleeps` is true if a worker sleeps. `attends` is true if a worker looks for tasks, or is between a change
        // and the wake-up that the change causes.
        let (mut sleeps, mut attends) = (false, now.injecting.is_some());
        for (me, worker) in ids().zip(&now.workers) {
            let is_parked = self.is_parked(me, worker.at);
            sleeps |= is_parked && self.sleep.is_asleep(me);
            attends |= match worker.at {
                At::Waits { looks, .. } => looks || !is_parked,
                At::Tells(_) | At::Does(_) => !is_parked,
                At::Looks | At::Pushed(..) | At::Heard(..) | At::Placed(..) | At::WithinAStep => true,
                At::Runs(..) | At::Ended => false,
            };
        }
        if !sleeps || attends || now.reopening || self.is_closed() {
            return Ok(());
        }
        if self.deques_have_task() || self.injector_has_task() {
            return Err("a task waits, a worker sleeps, and no thread looks or will wake it".into());
        }
        if self.sleep.any_busy()
            && matches!(Definition::of(&self.policy).waking, Waking::AlwaysAwake | Waking::Watchdog)
        {
            return Err("a worker is busy, another sleeps, and no thief is awake".into());
        }
        Ok(())
    }

    fn check_books(&self, now: &Now) -> Result<(), String> {
        let Some(share) = &self.share else { return Ok(()) };
        let books = share.books();
        let (mut awake, mut retired) = (0, 0);
        for (me, worker) in ids().zip(&now.workers) {
            let is_awake = books.is(me, State::Awake);
            if is_awake && self.is_parked(me, worker.at) {
                return Err(format!("worker {} rests, and the books say that it is awake", me.0));
            }
            awake += u32::from(is_awake);
            retired += u32::from(books.is(me, State::Retired));
        }
        if (awake, retired) != (books.awake(), books.retired()) {
            return Err(format!("the books say {} awake and {} retired", books.awake(), books.retired()));
        }
        let workers = now.workers.len() as u32;
        if retired == workers && !share.is_closed() && !now.reopening {
            return Err("all workers have retired, and no task would wake one".into());
        }
        let lends = share.sharing.sleeper == Sleeper::LendsCore && !share.is_free();
        let has_room = lends && books.held() < share.most();
        let wants = share.member().is_some_and(|machine| machine.wants.get());
        // A closed pool waits for a core only if a worker sleeps in the middle of a task.
        let has_room = has_room && (!share.is_closed() || books.midway() > 0);
        if has_room && retired > 0 && awake + retired == workers && !wants {
            return Err(
                "workers have retired for want of a core, and no program would ring when one becomes free".into()
            );
        }
        if share.is_by_time() && books.held() > 0 {
            return Err("a core is held by a program that shares time".into());
        }
        Ok(())
    }

    /// Runs the program to its end, lets the pool fall asleep, and ends the pool.
    fn live(&self) -> Result<(), String> {
        let is_over = || {
            let now = self.now();
            let mut workers = ids().zip(&now.workers);
            now.done == self.program.len() && workers.all(|(me, worker)| self.is_parked(me, worker.at))
        };
        while !is_over() {
            if !self.step() {
                return Err("no worker can move, and tasks are left".into());
            }
            self.is_right()?;
            if self.steps.get() > BOUND {
                let left = self.program.len() - self.now().done;
                return Err(format!("{left} tasks are left, or a pool without work stays awake, after {BOUND} steps"));
            }
        }
        if self.now().taken_by.contains(&None) {
            return Err("not every task was taken".into());
        }
        self.end();
        while self.step() {}
        let all_ended = self.now().workers.iter().all(|worker| matches!(worker.at, At::Ended));
        if all_ended { Ok(()) } else { Err("the pool has ended and a worker sleeps".into()) }
    }

    fn is_right(&self) -> Result<(), String> {
        self.change().wrong.take().map_or(Ok(()), Err)
    }

    /// Ends the pool like `Registry::end`.
    fn end(&self) {
        if let Some(share) = &self.share {
            share.end();
        }
        self.change().ended = true;
        (0..Pool::workers(self)).for_each(|worker| self.sleep.wake_for_business(WorkerId(worker)));
    }

    fn explain(&self, what: &str) -> TestCaseError {
        let now = self.now();
        let tell = |worker: &Worker| {
            let Worker { at, deque, placed, found, midway, .. } = worker;
            format!("{at:?} with {deque:?}, placed {placed:?}, found {found:?}, midway {midway:?}")
        };
        let workers: Vec<String> = now.workers.iter().map(tell).collect();
        let outside = format!("injector {:?}, to come {:?}", now.injector, now.to_inject);
        let rest = format!("closed {}, reopening {}", self.is_closed(), now.reopening);
        let what = format!("{what}; now\n{}\n{outside}; {rest}; {:?}", workers.join("\n"), self.sleep);
        TestCaseError::fail(format!("{what}\nunder {}, after\n{}", self.policy, now.trace.join("\n")))
    }
}

/// Runs a world. After a failure, runs the same world again, to record the steps before the failure.
pub(in super::super) fn lives(new: impl Fn() -> World) -> Result<(), TestCaseError> {
    let world = new();
    if world.live().is_ok() {
        return Ok(());
    }
    let world = World { traced_from: world.steps.get().saturating_sub(60), ..new() };
    let what = world.live().expect_err("a world is the same each time");
    Err(world.explain(&what))
}
