//! Quotas: limits of the processor time that a program may use in each period. When the quota is used up, all threads
//! of the program stop until the next period, like the threads of a Linux cgroup that has used its `cpu.max`.

use super::kernel::Place;
use super::{Due, Host, Thread};

/// The length of a period in nanoseconds: Linux's default.
pub(super) const PERIOD: u64 = 100_000_000;

/// A program's quota.
pub(super) struct Quota {
    /// Nanoseconds on a core in each period.
    each: u64,
    /// Nanoseconds on a core that are left in this period.
    left: u64,
    /// True if the program's threads are stopped.
    throttled: bool,
    /// The time at which the quota last stopped the threads.
    last: Option<u64>,
}

impl Quota {
    /// Creates a quota of `cores` · [`PERIOD`] in each period.
    pub(super) fn new(cores: f64) -> Quota {
        let each = ((cores * PERIOD as f64) as u64).max(1);
        Quota { each, left: each, throttled: false, last: None }
    }

    /// Returns the maximum processor time that the program can use in `lasted` ns. `None` if the quota has not stopped
    /// the program within the last second. This is the rule of `comity_os::throttle`.
    pub(super) fn most(&self, lasted: u64, now: u64) -> Option<u64> {
        let is_active = self.last.is_some_and(|last| now - last < 10 * PERIOD);
        is_active.then(|| (u128::from(lasted) * u128::from(self.each) / u128::from(PERIOD)) as u64)
    }

    pub(super) fn spend(&mut self, elapsed: u64) {
        self.left = self.left.saturating_sub(elapsed);
    }

    /// Returns the nanoseconds for which `threads` threads may continue to run at the same time.
    fn left_for(&self, threads: usize) -> u64 {
        self.left.div_ceil(threads.max(1) as u64)
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Begins the next period. Returns true if the threads were stopped.
    fn begin_period(&mut self) -> bool {
        self.left = self.each;
        std::mem::take(&mut self.throttled)
    }

    /// Notes that the quota is used up: the threads stop.
    fn stop(&mut self, now: u64) {
        (self.throttled, self.last) = (true, Some(now));
    }

    /// Returns the number of cores that the program can use with this quota, rounded up as in `comity_os::cores`.
    pub(super) fn usable(&self) -> u32 {
        self.each.div_ceil(PERIOD) as u32
    }
}

impl Host {
    /// Begins the first or the next period of a program with a quota.
    pub(super) fn begin_period(&mut self, program: u32) {
        self.charge_all();
        let now = self.now;
        let pool = self.pool_mut(program);
        let is_there = pool.is_there();
        let Some(quota) = pool.quota.as_mut().filter(|_| is_there) else { return };
        if quota.begin_period() {
            let stopped = self.threads(program).filter(|thread| self.worker(*thread).place == Place::Throttled);
            stopped.collect::<Vec<_>>().into_iter().for_each(|thread| self.enqueue(thread));
        }
        self.plan(now + PERIOD, Due::Period(program));
    }

    /// Returns the time for which the program's threads may continue to run if the number of running threads stays the
    /// same. `None` if the program has no quota.
    pub(super) fn time_left(&mut self, program: u32) -> Option<u64> {
        self.pool(program).quota.as_ref()?;
        self.charge_all();
        let running = self.threads(program).filter(|thread| matches!(self.worker(*thread).place, Place::On(_)));
        let running = running.count();
        Some(self.pool(program).quota.as_ref()?.left_for(running))
    }

    /// Stops the program's threads if the quota is used up.
    pub(super) fn throttle_if_spent(&mut self, program: u32) {
        if self.time_left(program) != Some(0) || self.pool(program).is_throttled() {
            return;
        }
        for thread in self.threads(program).collect::<Vec<_>>() {
            if matches!(self.worker(thread).place, Place::Queued(_) | Place::On(_)) {
                self.deactivate(thread);
                self.throttle(thread);
            }
        }
        let now = self.now;
        if let Some(quota) = &mut self.pool_mut(program).quota {
            quota.stop(now);
        }
        (0..self.kernel.len()).for_each(|core| self.dispatch(core));
    }

    /// Makes a runnable thread stop until the next period.
    pub(super) fn throttle(&mut self, thread: Thread) {
        let now = self.now;
        let worker = self.worker_mut(thread);
        worker.place = Place::Throttled;
        worker.times.begin_to_wait(now);
    }

    fn threads(&self, program: u32) -> impl Iterator<Item = Thread> + use<> {
        (0..self.pool(program).workers.len() as u32).map(move |worker| Thread { program, worker })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Fork, ForkJoin};
    use crate::threads::Costs;

    #[test]
    fn a_program_has_its_quota_in_each_period_and_no_more() {
        for (cores, quota) in [(1, 0.5), (2, 0.5), (4, 2.5)] {
            let mut host = Host::new(4, Costs::default(), 1);
            let work = ForkJoin::new(1_000, 100_000, 100_000, 1, Fork::AtOnce);
            let program = host.submit(0, Box::new(work), "plain".parse().unwrap(), cores, 1);
            host.limit(program, quota);
            let (mut had, each) = (0, (quota * PERIOD as f64) as u64);
            for period in 1..10 {
                host.run(period * PERIOD - 1, 100).unwrap();
                let used =
                    host.fate(program).spent.total() - std::mem::replace(&mut had, host.fate(program).spent.total());
                // A switch between threads shifts the time of the other threads by the length of the switch.
                assert!(used.abs_diff(each) < 10_000, "{used} of {each} in period {period}");
                assert!(host.pool(program).is_throttled());
            }
        }
    }

    #[test]
    fn a_throttled_program_is_started_again_by_its_next_period() {
        let mut host = Host::new(1, Costs::default(), 1);
        let work = ForkJoin::new(1_000, 1_000_000, 100, 1, Fork::AtOnce);
        let program = host.submit(0, Box::new(work), "comity".parse().unwrap(), 3, 1);
        host.limit(program, 0.25);
        host.run(u64::MAX, 1).unwrap();
        // 100 ms of work is done in the first 25 ms of four periods. Thieves need a little more time.
        let ended = host.fate(program).ended.unwrap();
        assert!((3 * PERIOD + 25_000_000..4 * PERIOD + 25_000_000).contains(&ended), "{ended}");
        assert_eq!(host.fate(program).spent.work, 100_001_000);
    }
}
