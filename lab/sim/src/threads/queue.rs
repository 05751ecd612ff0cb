//! Run queues of workers: the cost of accessing a queue, and the place of unblocked tasks.
//!
//! A queue has a lock ([`super::Costs::queue`]), which workers get in the order in which they arrive. A change by the
//! queue's owner, or by a worker that places an unblocked task, becomes visible when this worker releases the lock. A
//! change by a thief becomes visible a little later, when the thief's attempt is over.

use comity_policy::{Unblocked, WorkerId};

use super::worker::Doing;
use super::{Host, Thread};
use crate::program::Strand;

impl Host {
    /// Returns the time that a worker needs to get the lock of `owner`'s queue, hold it for `accesses` accesses, and
    /// release it.
    pub(super) fn lock_queue(&mut self, owner: Thread, accesses: u64) -> u64 {
        let held = self.costs.queue * accesses;
        if held == 0 {
            return 0;
        }
        let (now, handover) = (self.now, self.costs.handover);
        let free = &mut self.worker_mut(owner).queue_free_at;
        let begins = if *free > now { *free + handover } else { now };
        *free = begins + held;
        *free - now
    }

    /// Returns the additional time that the worker's access to its own queue takes because thieves have tried to steal
    /// from this queue.
    pub(super) fn disturbance(&mut self, me: Thread) -> u64 {
        if self.costs.disturb == 0 {
            return 0;
        }
        self.catch_up(me.program);
        let is_disturbed = std::mem::take(&mut self.worker_mut(me).is_disturbed);
        if is_disturbed { self.costs.disturb } else { 0 }
    }

    /// Delays the release of the lock of `victim`'s queue because the thief has taken a task. A worker that already
    /// waits for the lock gets it at the time that was computed before. A worker that arrives later waits longer.
    pub(super) fn remove(&mut self, thief: Thread, victim: WorkerId) {
        let removal = self.costs.removal;
        if removal == 0 {
            return;
        }
        let now = self.now;
        let of_victim = self.worker_mut(Thread { worker: victim.0, ..thief });
        of_victim.queue_free_at = of_victim.queue_free_at.max(now) + removal;
        self.keep_in_kernel(thief, removal);
    }

    /// Returns the time that a thief needs to get the lock of a pool, count the roles of its workers, and release it.
    pub(super) fn lock_pool(&mut self, program: u32) -> u64 {
        let (now, held) = (self.now, self.costs.count);
        let free = &mut self.pool_mut(program).lock_free_at;
        *free = now.max(*free) + held;
        *free - now
    }

    fn access(&mut self, me: Thread, owner: u32, doing: Doing) {
        let mut left = self.lock_queue(Thread { worker: owner, ..me }, 1);
        if owner == me.worker {
            left += self.disturbance(me);
        }
        let worker = self.worker_mut(me);
        (worker.doing, worker.left) = (doing, left);
        if left == 0 {
            self.complete(me);
        }
    }

    /// Makes the worker take the newest task of its own queue, unless the pool is closed.
    pub(super) fn take_own(&mut self, me: Thread, leaves: bool) {
        let pool = self.pool_mut(me.program);
        if pool.is_closed() {
            pool.leaving -= u64::from(leaves);
            return self.rests(me);
        }
        self.access(me, me.worker, Doing::Taking { leaves });
    }

    pub(super) fn taken(&mut self, me: Thread, leaves: bool) {
        self.pool_mut(me.program).leaving -= u64::from(leaves);
        let newest = self.worker_mut(me).ready.pop_back();
        self.pool_mut(me.program).queued -= u64::from(newest.is_some());
        match newest {
            Some(strand) => self.begin_anew(me, strand),
            // The queue was empty, or a thief took the last task.
            None => self.becomes_thief(me),
        }
    }

    /// Places `task`, which the worker's task has unblocked, where the policy says. Then the worker continues with
    /// `next`.
    pub(super) fn carry(&mut self, me: Thread, task: Strand, next: Option<Strand>) {
        let pool = self.pool(me.program);
        let last = WorkerId(pool.ran_on[task.id as usize]);
        let unblocked = Unblocked {
            last_is_up: !pool.sleep().is_asleep(last),
            current_has_more: !self.worker(me).ready.is_empty(),
        };
        // A retired worker has no core and would wake only for this task, so the task is not placed at that worker.
        let goes_to_last = pool.policy.place().goes_to_last(unblocked) && !pool.sleep().is_retired(last);
        let at = if goes_to_last { last.0 } else { me.worker };
        self.pool_mut(me.program).carried += 1;
        self.access(me, at, Doing::Placing { task, at, next });
    }

    pub(super) fn placed(&mut self, me: Thread, task: Strand, at: u32, next: Option<Strand>) {
        self.catch_up(me.program);
        let pool = self.pool_mut(me.program);
        pool.counts.placed += u64::from(at != me.worker);
        pool.carried -= 1;
        pool.queued += 1;
        pool.workers[at as usize].ready.push_back(task);
        let (own, last) = (WorkerId(me.worker), WorkerId(at));
        self.step(me.program, |sleep, queues| {
            if last == own { sleep.after_spawn(own, queues) } else { sleep.after_placing(last, Some(own), queues) }
        });
        self.go_on(me, next);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use comity_policy::Event;

    use super::*;
    use crate::conversation::Line;
    use crate::network::Network;
    use crate::program::{Fork, ForkJoin};
    use crate::threads::Costs;

    fn host(policy: &str, costs: Costs) -> Host {
        let mut host = Host::new(4, costs, 1);
        host.submit_network(0, Network::scatter_gather(20, 50, 20_000, 200), policy.parse().unwrap(), 4, 1);
        host
    }

    #[test]
    fn workers_that_come_to_a_queue_wait_in_turn() {
        let mut host = host("ws-last", Costs { queue: 100, handover: 10, ..Costs::default() });
        host.run(100_000, 1).unwrap();
        let owner = Thread { program: 0, worker: 2 };
        host.worker_mut(owner).queue_free_at = host.now;
        assert_eq!([1, 1, 2].map(|accesses| host.lock_queue(owner, accesses)), [100, 210, 420]);
        host.now += 300;
        assert_eq!(host.lock_queue(owner, 1), 230);
        host.now += 230;
        assert_eq!(host.lock_queue(owner, 1), 100);
    }

    #[test]
    fn a_thief_that_counts_roles_waits_for_those_that_count() {
        let with = |policy: &str, workers, costs: Costs| {
            let mut host = Host::new(4, costs, 1);
            let program = ForkJoin::new(100_000, 20_000, 40, 5, Fork::AtOnce);
            host.submit(0, Box::new(program), policy.parse().unwrap(), workers, 1);
            host.run(u64::MAX, 1).unwrap();
            host.fate(0).ended.unwrap()
        };
        let ended = |policy, costs| with(policy, 4, costs);
        let (free, dear) = (Costs::default(), Costs { count: 20_000, bell: 5_000, ..Costs::default() });
        assert!(ended("wsgi", dear) > ended("wsgi", free) + 10_000);
        assert_eq!(ended("abp", Costs { bell: 0, ..dear }), ended("abp", free));
        // The only worker pushes 39 strands in each of the five phases.
        let tax = with("bws-busy-wakes", 1, Costs { count: 0, ..dear }) - with("bws-busy-wakes", 1, free);
        assert_eq!(tax, 5 * 39 * 5_000);
    }

    #[test]
    fn an_attempt_to_steal_costs_the_owner_of_the_queue_time() {
        let ended = |workers, disturb| {
            let mut host = Host::new(4, Costs { disturb, ..Costs::default() }, 1);
            let program = ForkJoin::new(100_000, 20_000, 40, 5, Fork::AtOnce);
            host.submit(0, Box::new(program), "abp".parse().unwrap(), workers, 1);
            host.run(u64::MAX, 1).unwrap();
            host.fate(0).ended.unwrap()
        };
        assert_eq!(ended(1, 5_000), ended(1, 0), "no thief steals from the only worker");
        // The serial part of each of the five phases ends with pushes, before which thieves have tried.
        assert!(ended(4, 5_000) >= ended(4, 0) + 5 * 5_000);
    }

    #[test]
    fn a_thief_hears_of_what_was_placed_at_its_own_worker() {
        let resumed = |policy: &str| {
            let mut host = host(policy, Costs { queue: 100, ..Costs::default() });
            let count = Rc::new(RefCell::new(0));
            let counter = Rc::clone(&count);
            host.record(move |line| {
                *counter.borrow_mut() += u32::from(matches!(line, Line::Turn { event: Event::Resumed, .. }));
            });
            host.run(u64::MAX, 1).unwrap();
            let count = *count.borrow();
            (count, host.fate(0).counts.placed)
        };
        let (last, placed) = resumed("ws-last");
        assert!(last > 50 && placed > u64::from(last), "{last}, {placed}");
        assert_eq!(resumed("ws-last:place=current"), (0, 0));
    }
}
