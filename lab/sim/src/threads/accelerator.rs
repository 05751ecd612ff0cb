//! Robinhood's Thread Accelerator: the guest's kernel gives the rest of a thief's turn to a preempted worker
//! ([`crate::acceleration`]).
//!
//! An accelerated thread runs on the giver's core, keeps its place in its own queue, and is in [`Core::away`] of that
//! queue's core. As an entity of its own queue, it neither moves nor pays for the time. The giver pays when the turn
//! is over.

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
            // This is the step "first migrate".
            Place::Queued(home) => {
                self.kernel.remove(home, thread);
                self.kernel.cores[home].away.push(thread);
            }
            // This is the step "then push back".
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
    /// Returns the nanoseconds for which an accelerated thread has run here. They are paid for when the thread
    /// leaves.
    fn unpaid(&self, now: u64) -> u64 {
        now - self.came
    }
}

impl Host {
    /// The system call of Algorithm 1, line 5: gives the rest of the thief's turn to the victim. If the request is
    /// granted, the core switches at once.
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

    /// Makes the core choose its next thread as soon as possible.
    pub(super) fn resched(&mut self, core: usize) {
        if let Some(linux) = &mut self.kernel.linux {
            linux.resched(core);
        }
    }

    /// True if the thread gives its turn away, or runs on a given turn.
    pub(super) fn is_of_acceleration(&self, thread: Thread) -> bool {
        let Part { initiator, candidate, .. } = self.worker(thread).part;
        initiator.is_some() || candidate.is_some()
    }

    /// Algorithm 3: ends the turn of the core's thread, which is accelerated or gives the rest of its turn away.
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
        // The core to which `current` was pushed back may be idle, and so may the core of a candidate without a turn.
        for core in [Some(self.cpu(current)), waited].into_iter().flatten() {
            self.attend(core);
        }
    }

    fn grant(&mut self, core: usize, granted: Option<(Thread, u64)>) {
        if let Some(linux) = &mut self.kernel.linux {
            linux.grant(core, granted);
        }
    }

    /// Ends the accelerations of a thread that leaves its core or queue: it gives its turn to no thread any more, and
    /// no longer runs on the turn of another thread.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Endless, Fork, ForkJoin};
    use crate::threads::Costs;
    use crate::threads::linux::{Linux, Version};

    /// Creates a program that steals, together with a LOOP program, on four cores in two nodes.
    fn host(policy: &str, accelerates: bool) -> Host {
        let mut host = Host::new(4, Costs::default(), 1);
        host.use_linux(Linux { sockets: 2, accelerates, ..Linux::new(Version::V3_9) });
        let work = ForkJoin::new(2_000_000, 3_000_000, 6, 1_000, Fork::AtOnce);
        host.submit(0, Box::new(work), policy.parse().unwrap(), 6, 1);
        host.submit(0, Box::new(Endless::new(4)), "abp".parse().unwrap(), 4, 2);
        host
    }

    /// Returns a thread that runs on a given turn, the core on which it runs, and the core to which it returns.
    fn accelerated(host: &Host) -> Option<(Thread, usize, usize)> {
        host.kernel.cores.iter().enumerate().find_map(|(core, state)| {
            let thread = state.running?;
            Some((thread, core, host.worker(thread).part.home?))
        })
    }

    #[test]
    fn a_turn_that_is_given_is_paid_by_its_giver_and_the_other_keeps_its_place() {
        let mut host = host("robinhood", true);
        let (mut seen, mut ran) = (0, 0);
        while seen < 100 {
            host.handle_next(1).unwrap();
            let Some((thread, core, home)) = accelerated(&host) else { continue };
            let giver = host.worker(thread).part.initiator.unwrap();
            let vruntime = |host: &Host, thread| host.worker(thread).entity.vruntime();
            let before = [thread, giver].map(|one| vruntime(&host, one));
            let began = host.now;
            assert_eq!(core / 2, home / 2, "in its node");
            assert!(host.kernel.cores[home].away.contains(&thread));
            while host.worker(thread).part.home.is_some() {
                host.handle_next(1).unwrap();
            }
            seen += 1;
            let lasted = host.now - began;
            // If the thread is in its queue again and has not slept, its virtual run time has not changed.
            if host.worker(thread).place == Place::Queued(home) {
                assert_eq!(vruntime(&host, thread), before[0]);
                ran += lasted;
            }
            if host.worker(giver).place == Place::Queued(core) {
                assert!(vruntime(&host, giver) >= before[1] + lasted as i64);
            }
        }
        assert!(ran > 1_000_000, "most lose their turns at once: {ran}");
    }

    #[test]
    fn a_kernel_without_it_gives_no_turns_and_robinhood_s_asks_for_none() {
        for (policy, accelerates) in [("robinhood", false), ("robinhood-s", true), ("bws", true)] {
            let mut host = host(policy, accelerates);
            host.run(500_000_000, 1).unwrap();
            assert_eq!(host.fate(0).counts.accelerations, 0, "{policy}");
        }
    }

    #[test]
    fn a_turn_comes_from_another_node_under_robinhood_u_alone() {
        let across = |policy: &str| {
            let mut host = host(policy, true);
            let (mut across, mut within) = (0, 0);
            for _ in 0..50_000 {
                host.handle_next(1_000).unwrap();
                let Some((_, core, home)) = accelerated(&host) else { continue };
                let count = if core / 2 == home / 2 { &mut within } else { &mut across };
                *count += 1;
            }
            assert!(within > 0, "{policy}");
            across
        };
        assert_eq!(across("robinhood"), 0);
        assert!(across("robinhood-u") > 0);
    }
}
