//! Locks of a guest's run queues whose holder has no physical CPU.
//!
//! A yield takes the lock of its core's run queue. A yield to a peer, and an acceleration in the guest's kernel, also
//! take the lock of the other thread's run queue. If the core loses its physical CPU at this moment, the locks stay
//! taken until it has one again ([`super::linux::Linux::queue_lock`]). Meanwhile a core that needs such a lock spins in
//! the kernel: it uses its physical CPU, and its thread makes no progress. A core needs a lock
//!
//! - of its own run queue, for its next tick,
//! - for a call of its thread as above,
//! - of the run queue where a thread ran last, to wake this thread.
//!
//! The locks are ticket locks, as in Linux until 4.1: cores get a lock in the order in which they began to wait. If the
//! next core in this order has no physical CPU either, all others wait for it.
//!
//! Cores that have a physical CPU hold a lock for less than a microsecond. The cost of the call contains this time, and
//! waiting for such a core is not simulated.

use std::collections::VecDeque;

use comity_policy::Level;
use comity_protocol::dialogue::Effect;

use super::kernel::{Kernel, Place};
use super::worker::Doing;
use super::{Host, Thread};

/// The lock of a core's run queue.
#[derive(Clone, Default)]
pub(super) struct Lock {
    /// The core that has the lock and no physical CPU.
    holder: Option<usize>,
    /// The cores that spin, in the order of their tickets.
    waiting: VecDeque<usize>,
}

impl Kernel {
    /// Checks that each core waits for as many locks as noted, and that only cores without a physical CPU hold a lock.
    pub(super) fn check_locks(&self) -> Result<(), String> {
        for (core, state) in self.cores.iter().enumerate() {
            let waits = self.locks.iter().flat_map(|lock| &lock.waiting).filter(|other| **other == core).count();
            if waits != state.spins {
                return Err(format!("core {core} spins for {} run queues, but waits for {waits}", state.spins));
            }
        }
        for (queue, Lock { holder, waiting }) in self.locks.iter().enumerate() {
            let is_held = holder.is_some_and(|core| self.cores[core].suspended);
            if is_held != (holder.is_some() || !waiting.is_empty()) {
                return Err(format!("run queue {queue} is locked by {holder:?}, and {waiting:?} wait"));
            }
        }
        Ok(())
    }
}

impl Host {
    /// Called when a core loses its physical CPU. The core keeps the locks that its thread's call has taken.
    pub(super) fn hold_locks(&mut self, core: usize) {
        if self.kernel.locks.is_empty() {
            return;
        }
        let Some(thread) = self.kernel.cores[core].running.filter(|_| self.kernel.cores[core].spins == 0) else {
            return;
        };
        self.catch_up_with(thread);
        for queue in self.locked_by(thread, core).into_iter().flatten() {
            let lock = &mut self.kernel.locks[queue];
            if lock.holder.is_none() {
                lock.holder = Some(core);
                if queue != core {
                    self.spin(queue, queue);
                }
            }
        }
    }

    /// Returns the run queues that the call of the core's thread has locked at present.
    fn locked_by(&self, thread: Thread, core: usize) -> [Option<usize>; 2] {
        let worker = self.worker(thread);
        let held = self.kernel.linux.as_ref().map_or(0, |linux| linux.queue_lock());
        let peer = match worker.doing {
            _ if worker.left > held => return [None; 2],
            Doing::Acting(Effect::Yield(peer)) => peer.filter(|_| self.directed_yield),
            Doing::Acting(Effect::Accelerate { candidate, level: Level::Thread }) => Some(candidate),
            _ => return [None; 2],
        };
        let other = peer.and_then(|peer| self.queue_of(Thread { worker: peer.0, ..thread }));
        [Some(core), other.filter(|other| *other != core)]
    }

    /// Returns the core in whose run queue a thread is.
    fn queue_of(&self, thread: Thread) -> Option<usize> {
        match self.worker(thread).place {
            Place::Queued(core) | Place::On(core) => Some(core),
            Place::Nowhere | Place::Blocked | Place::Throttled => None,
        }
    }

    /// Makes the thread's core spin while another core holds the lock of its run queue or of the peer's.
    pub(super) fn lock_run_queues(&mut self, thread: Thread, peer: Option<Thread>) {
        if self.kernel.locks.is_empty() {
            return;
        }
        let Place::On(core) = self.worker(thread).place else { return };
        let other = peer.and_then(|peer| self.queue_of(peer)).filter(|other| *other != core);
        [Some(core), other].into_iter().flatten().for_each(|queue| self.wait_for_lock(core, queue));
    }

    /// Makes the waker's core spin while another core holds the lock of the run queue where `thread` ran last.
    pub(super) fn lock_to_wake(&mut self, waker: Thread, thread: Thread) {
        if !self.kernel.locks.is_empty()
            && let Place::On(core) = self.worker(waker).place
        {
            self.wait_for_lock(core, self.worker(thread).last_core);
        }
    }

    fn wait_for_lock(&mut self, core: usize, queue: usize) {
        if self.kernel.locks[queue].holder.is_some_and(|holder| holder != core) {
            self.spin(core, queue);
        }
    }

    fn spin(&mut self, core: usize, queue: usize) {
        self.charge(core);
        self.kernel.locks[queue].waiting.push_back(core);
        self.kernel.cores[core].spins += 1;
        self.plan_core(core);
    }

    /// Called when a core has a physical CPU again, or has lost its thread. The core passes its locks on.
    pub(super) fn release_locks(&mut self, core: usize) {
        for queue in 0..self.kernel.locks.len() {
            if self.kernel.locks[queue].holder == Some(core) {
                self.pass_lock_on(queue);
            }
        }
    }

    fn pass_lock_on(&mut self, queue: usize) {
        self.kernel.locks[queue].holder = None;
        while let Some(next) = self.kernel.locks[queue].waiting.pop_front() {
            self.charge(next);
            let state = &mut self.kernel.cores[next];
            state.spins -= 1;
            if state.suspended && state.running.is_some() {
                self.kernel.locks[queue].holder = Some(next);
                break;
            }
            self.plan_core(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Endless;
    use crate::threads::Costs;
    use crate::threads::linux::{Linux, Version};

    /// Creates a guest of three cores with a thread on each. Thread `n` is on core `n`.
    fn guest() -> Host {
        let mut host = Host::new(3, Costs::default(), 1);
        host.use_linux(Linux { queue_lock: 300, ..Linux::new(Version::V3_9) });
        host.kernel.locks = vec![Lock::default(); 3];
        host.directed_yield = true;
        host.submit(0, Box::new(Endless::new(3)), "bws".parse().unwrap(), 3, 1);
        host.run(1_000_000, 1).unwrap();
        for core in 0..3 {
            assert_eq!(host.kernel.cores[core].running, Some(thread(core)));
        }
        host
    }

    fn thread(worker: usize) -> Thread {
        Thread { program: 0, worker: worker as u32 }
    }

    /// Makes the core lose its physical CPU `left` nanoseconds before its thread has yielded to `peer`.
    fn suspend_in_yield(host: &mut Host, core: usize, peer: Option<u32>, left: u64) {
        host.charge_all();
        let worker = host.worker_mut(thread(core));
        let (doing, remaining) = (worker.doing, worker.left);
        worker.doing = Doing::Acting(Effect::Yield(peer.map(comity_policy::WorkerId)));
        worker.left = left;
        host.suspend(host.now, core);
        let worker = host.worker_mut(thread(core));
        (worker.doing, worker.left) = (doing, remaining);
        host.kernel.check_locks().unwrap();
    }

    fn resume(host: &mut Host, core: usize) {
        host.resume(host.now, core, 0);
        host.kernel.check_locks().unwrap();
    }

    /// Returns the nanoseconds of work that each thread does in the next millisecond.
    fn work(host: &mut Host) -> [u64; 3] {
        let left = |host: &mut Host| {
            host.charge_all();
            [0, 1, 2].map(|core| host.worker(thread(core)).left)
        };
        let before = left(host);
        host.run(host.now + 1_000_000, 1).unwrap();
        let after = left(host);
        [0, 1, 2].map(|core| before[core] - after[core])
    }

    #[test]
    fn a_core_whose_run_queue_is_locked_by_a_core_without_a_cpu_spins_until_that_core_continues() {
        let mut host = guest();
        suspend_in_yield(&mut host, 0, Some(1), 300);
        assert_eq!(work(&mut host), [0, 0, 1_000_000]);
        resume(&mut host, 0);
        assert_eq!(work(&mut host), [1_000_000; 3]);
    }

    #[test]
    fn a_core_holds_only_the_locks_of_its_call_and_only_at_the_end_of_the_call() {
        let mut host = guest();
        suspend_in_yield(&mut host, 0, Some(1), 301);
        assert_eq!(work(&mut host), [0, 1_000_000, 1_000_000]);
        resume(&mut host, 0);
        suspend_in_yield(&mut host, 0, None, 100);
        host.lock_run_queues(thread(1), Some(thread(2)));
        assert_eq!(work(&mut host), [0, 1_000_000, 1_000_000]);
        host.lock_run_queues(thread(1), Some(thread(0)));
        host.lock_to_wake(thread(2), thread(0));
        assert_eq!(work(&mut host), [0; 3]);
        resume(&mut host, 0);
        assert_eq!(work(&mut host), [1_000_000; 3]);
    }

    #[test]
    fn a_core_that_is_next_and_has_no_cpu_makes_those_behind_it_wait() {
        let mut host = guest();
        suspend_in_yield(&mut host, 0, None, 100);
        host.lock_run_queues(thread(1), Some(thread(0)));
        host.lock_run_queues(thread(2), Some(thread(0)));
        host.suspend(host.now, 1);
        resume(&mut host, 0);
        assert_eq!(work(&mut host), [1_000_000, 0, 0]);
        resume(&mut host, 1);
        assert_eq!(work(&mut host), [1_000_000; 3]);
    }

    #[test]
    fn a_core_that_loses_its_thread_passes_its_locks_on() {
        let mut host = guest();
        suspend_in_yield(&mut host, 0, Some(1), 300);
        host.deactivate(thread(0));
        host.kernel.check_locks().unwrap();
        host.charge_all();
        let before = host.worker(thread(1)).left;
        host.now += 1_000;
        host.charge_all();
        assert_eq!(before - host.worker(thread(1)).left, 1_000);
    }
}
