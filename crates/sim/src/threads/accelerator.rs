//! Robinhood's Thread Accelerator: the guest's kernel gives the rest of a thief's turn to a preempted worker ([`crate::acceleration`]).
//!
//! A thread that is accelerated runs on the giver's core, and keeps its place in its own queue: it is in [`Core::away`] there, and as an
//! entity of that queue it neither moves nor pays. Who gave the turn pays when that is over.

use super::kernel::{Core, Place};
use super::{Host, Thread};
use crate::acceleration::{self, Next, Part, Refusal, Scheduler};

impl Scheduler for Host {
    type Entity = Thread;

    fn part(&self, thread: Thread) -> &Part<Thread> {
        &self.worker(thread).part
    }

    fn part_mut(&mut self, thread: Thread) -> &mut Part<Thread> {
        &mut self.worker_mut(thread).part
    }

    fn cpu(&self, thread: Thread) -> usize {
        match self.worker(thread).place {
            Place::On(core) | Place::Queued(core) => core,
            _ => self.worker(thread).last_core,
        }
    }

    fn set_cpu(&mut self, thread: Thread, core: usize) {
        let now = self.now;
        match self.worker(thread).place {
            // First migrate.
            Place::Queued(home) => {
                self.kernel.remove(home, thread);
                self.kernel.cores[home].away.push(thread);
            }
            // Then push back.
            place => {
                self.kernel.cores[core].away.retain(|other| *other != thread);
                if let Place::On(_) = place {
                    self.kernel.push_back(core, thread);
                    let worker = self.worker_mut(thread);
                    (worker.place, worker.last_core) = (Place::Queued(core), core);
                    worker.times.begin_to_wait(now);
                }
            }
        }
    }

    fn node(&self, core: usize) -> usize {
        self.kernel.linux.as_ref().map_or(0, |linux| linux.socket_of(core))
    }

    fn is_running(&self, thread: Thread) -> bool {
        matches!(self.worker(thread).place, Place::On(_))
    }

    fn waits(&self, thread: Thread) -> bool {
        matches!(self.worker(thread).place, Place::Queued(_))
    }

    fn slice_left(&self, thread: Thread) -> u64 {
        let Host { kernel, pools, now, .. } = self;
        match (&kernel.linux, self.worker(thread).place) {
            (Some(linux), Place::On(core)) => linux.left_of_slice(core, &kernel.cores[core], pools, thread, *now),
            _ => 0,
        }
    }

    fn burn(&mut self, thread: Thread, time: u64) {
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && time > 0
        {
            linux.pays(pools, thread, time);
        }
    }

    fn can_go_on(&self, thread: Thread) -> bool {
        matches!(self.worker(thread).place, Place::On(_) | Place::Queued(_))
    }

    fn insert(&mut self, thread: Thread) {
        let core = self.cpu(thread);
        self.pool_mut(thread.program).counts.preemptions += u64::from(!self.worker(thread).gives_way);
        self.push_back(core, thread);
    }

    fn remove(&mut self, thread: Thread) {
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux {
            linux.leave(&kernel.cores, pools, thread);
        }
    }

    fn take_first(&mut self, core: usize) -> Option<Thread> {
        if self.kernel.cores[core].queue.is_empty() {
            self.pull_to_idle(core);
        }
        self.kernel.take_next(core, &self.pools)
    }
}

impl Core {
    /// For how long an accelerated thread has run here, which is paid for when it leaves.
    fn unpaid(&self, now: u64) -> u64 {
        now - self.came
    }
}

impl Host {
    /// The system call of Algorithm 1, line 5: whether the thief's turn goes to the victim. If so the core switches at once.
    pub(super) fn accelerate_thread(
        &mut self,
        thief: Thread,
        victim: Thread,
        across_nodes: bool,
    ) -> Result<(), Refusal> {
        let core = self.cpu(thief);
        self.charge(core);
        acceleration::accelerate(self, thief, victim, across_nodes)?;
        self.worker_mut(thief).gives_way = true;
        self.pool_mut(thief.program).counts.accelerations += 1;
        self.resched(core);
        Ok(())
    }

    /// The core's next choice is made as soon as it can be.
    pub(super) fn resched(&mut self, core: usize) {
        if let Some(linux) = &mut self.kernel.linux {
            linux.resched(core);
        }
    }

    /// The thread gives its turn away, or has been given it.
    pub(super) fn is_of_acceleration(&self, thread: Thread) -> bool {
        let Part { initiator, candidate, .. } = self.worker(thread).part;
        initiator.is_some() || candidate.is_some()
    }

    /// The core's thread has been accelerated, or gives the rest of its turn to another: Algorithm 3.
    pub(super) fn switch_by_acceleration(&mut self, core: usize, current: Thread) {
        self.charge(core);
        self.charge_sibling(core);
        let Part { initiator, candidate, .. } = self.worker(current).part;
        let ran = if initiator.is_some() { self.kernel.cores[core].unpaid(self.now) } else { 0 };
        let waited = candidate.map(|candidate| self.cpu(candidate));
        self.kernel.set_running(core, None);
        let next = acceleration::switch(self, current, ran);
        self.grant(core, None);
        match next {
            Next::Regular(next) => self.switch_to(core, next),
            Next::Accelerated(next, left) => {
                self.grant(core, Some((next, self.now + left)));
                self.switch_to(core, next);
            }
            Next::Idle => {
                self.share_memory(core);
                self.plan_sibling(core);
            }
        }
        // The queue of one that was pushed back, or to which no turn was left to give, may have been idle.
        for core in [Some(self.cpu(current)), waited].into_iter().flatten() {
            self.attend(core);
        }
    }

    fn grant(&mut self, core: usize, granted: Option<(Thread, u64)>) {
        if let Some(linux) = &mut self.kernel.linux {
            linux.grant(core, granted);
        }
    }

    /// The thread is taken off its core or out of its queue: it neither gives a turn nor has one.
    pub(super) fn ends_acceleration(&mut self, thread: Thread) {
        let Part { initiator, candidate, home } = self.worker(thread).part;
        if let (Some(home), Place::On(core)) = (home, self.worker(thread).place) {
            self.charge(core);
            acceleration::pay(self, thread, self.kernel.cores[core].unpaid(self.now));
            self.kernel.cores[home].away.retain(|other| *other != thread);
            self.grant(core, None);
        }
        if let Some(candidate) = candidate
            && self.worker(candidate).part.initiator == Some(initiator.unwrap_or(thread))
            && self.worker(candidate).part.home.is_none()
        {
            self.worker_mut(candidate).part.initiator = None;
            self.attend(self.cpu(candidate));
        }
        self.worker_mut(thread).part = Part::default();
    }
}
