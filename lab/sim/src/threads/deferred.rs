//! Deferred attempts of thieves: attempts to steal that find nothing are simulated in bulk.
//!
//! If a thief never sleeps, is alone on its core, and its program has no task to steal, the thief only repeats its
//! attempts. Such attempts are no events. They are simulated later, all at once, just before a change that could affect
//! an attempt: a task is pushed, a thread joins the core's queue, or the thief leaves the core. They are also simulated
//! before an access of a queue that an attempt may have disturbed. The outcome is the same as with an event for each
//! attempt, except if an attempt and a change happen in the same nanosecond.

use comity_policy::Waking;
use comity_policy::definition::Definition;
use comity_protocol::dialogue::Effect;

use super::kernel::Place;
use super::worker::Doing;
use super::{Host, Thread};

/// The value of `Worker::left` while the worker's attempts are deferred, in ns: longer than any simulation.
const FAR: u64 = 1 << 50;
/// The number of successive effects that concern only the thief itself, after which its attempts are deferred.
const ENOUGH: u32 = 16;

/// True if the effect concerns no other thread while no task can be stolen and no thread waits for the core.
fn is_local(effect: Effect) -> bool {
    matches!(effect, Effect::StealFrom(_) | Effect::Yield(None) | Effect::Pause { .. })
}

impl Host {
    /// Makes each attempt of a thief a separate event from now on.
    pub fn step_through(&mut self) {
        self.defers = false;
    }

    /// Counts the successive effects of a thief that concern no other thread.
    pub(super) fn note_local(&mut self, thread: Thread, effect: Effect) {
        let local = &mut self.worker_mut(thread).local;
        *local = if is_local(effect) { *local + 1 } else { 0 };
    }

    /// Defers the thief's attempts from now on, if it only repeats them.
    pub(super) fn defer(&mut self, thread: Thread) {
        let worker = self.worker(thread);
        let (Doing::Acting(effect), Place::On(core)) = (worker.doing, worker.place) else { return };
        // Hosts without a Linux kernel are excluded, so that their outcomes stay the same to the nanosecond.
        // Attempts at a queue with a lock delay other workers.
        let are_free = self.costs.queue == 0;
        let may_defer = self.defers && self.kernel.linux.is_some() && self.record.is_none() && are_free;
        if worker.local < ENOUGH || !is_local(effect) || !may_defer {
            return;
        }
        let pool = self.pool(thread.program);
        let is_plain =
            Definition::of(&pool.policy).waking == Waking::AlwaysAwake && pool.share.is_none() && pool.quota.is_none();
        if !is_plain
            || pool.shows_task()
            || pool.ledger.is_empty()
            || pool.is_over()
            || !self.kernel.cores[core].queue.is_empty()
        {
            return;
        }
        self.pool_mut(thread.program).deferred += 1;
        let worker = self.worker_mut(thread);
        worker.doing = Doing::Deferred(effect, worker.left);
        worker.left = FAR;
    }

    /// Simulates the deferred attempts of the program's thieves.
    pub(super) fn catch_up(&mut self, program: u32) {
        if self.pool(program).deferred > 0 {
            for worker in 0..self.pool(program).workers.len() as u32 {
                self.catch_up_with(Thread { program, worker });
            }
        }
    }

    /// Simulates the deferred attempts of the thieves of all programs.
    pub(super) fn catch_up_all(&mut self) {
        (0..self.pools.0.len() as u32).for_each(|program| self.catch_up(program));
    }

    /// Simulates the deferred attempts of one thief, if there are any.
    pub(super) fn catch_up_with(&mut self, thread: Thread) {
        let worker = self.worker(thread);
        let (Doing::Deferred(effect, left), Place::On(core)) = (worker.doing, worker.place) else { return };
        self.charge(core);
        self.pool_mut(thread.program).deferred -= 1;
        let worker = self.worker_mut(thread);
        let mut time = FAR - worker.left;
        (worker.doing, worker.left) = (Doing::Acting(effect), left);
        let acting = self.acting.replace(thread);
        loop {
            let worker = self.worker_mut(thread);
            if time < worker.left {
                worker.left -= time;
                break;
            }
            time -= std::mem::take(&mut worker.left);
            worker.gives_way = false;
            match worker.doing {
                Doing::Acting(effect) if is_local(effect) => self.acted(thread, effect),
                doing => {
                    self.expect(Err(format!("{thread:?} should only repeat an action, but does {doing:?}")));
                    break;
                }
            }
        }
        self.acting = acting;
        self.plan_core(core);
    }
}
