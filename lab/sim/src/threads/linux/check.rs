//! The invariants of Linux's queues, which must hold at any time.

use super::super::Thread;
use super::super::kernel::Core;
use super::super::pool::Pools;
use super::eevdf;
use super::entity::Entity;
use super::queues::Queues;

impl Queues {
    /// Checks that the queues know the present threads and their weights. Also checks that no thread has had much more
    /// or less than its part, and that no thread waits for ever.
    pub(in super::super) fn check(&self, cores: &[Core], pools: &Pools, now: u64) -> Result<(), String> {
        let mut loads = vec![0; self.loads.len()];
        for (nth, (root, core)) in self.roots.iter().zip(cores).enumerate() {
            for (group, queue) in root.groups.iter().enumerate() {
                let threads: Vec<(Thread, &Entity)> = self.threads(core, group, pools).collect();
                let load: i64 = threads.iter().map(|(_, entity)| entity.weight).sum();
                loads[group] += load;
                if (threads.len(), load) != (queue.members as usize, queue.load) {
                    return Err(format!(
                        "{threads:?} are on core {nth}, but its queue has {} threads of weight {}",
                        queue.members, queue.load
                    ));
                }
                if threads.is_empty() == root.present.contains(&group) {
                    return Err(format!("core {nth} notes wrongly whether group {group} has threads there"));
                }
                for (thread, entity) in &threads {
                    self.check_thread(nth, core, pools, *thread, entity, now)?;
                }
                if self.linux.is_eevdf() {
                    self.check_lags(nth, &threads)?;
                }
            }
        }
        if loads != self.loads {
            return Err(format!("the groups' loads are {loads:?}, but noted as {:?}", self.loads));
        }
        Ok(())
    }

    fn check_thread(
        &self,
        nth: usize,
        core: &Core,
        pools: &Pools,
        thread: Thread,
        entity: &Entity,
        now: u64,
    ) -> Result<(), String> {
        if !entity.queued || entity.home != nth {
            return Err(format!("{thread:?} is on core {nth}, but its entity differs: {entity:?}"));
        }
        let since = pools.worker(thread).times.waits_since();
        let waited = since.filter(|_| core.running != Some(thread)).map_or(0, |since| now - since);
        let most = self.longest_wait(nth, thread, entity);
        if waited > most {
            return Err(format!(
                "{thread:?} has waited for core {nth} for {waited} ns, more than {most} ns: {entity:?}"
            ));
        }
        Ok(())
    }

    /// Returns the longest time that a thread may wait: 16 · turn · (threads on its core + load of the core / weight).
    /// With task groups, the formula also includes the groups of the core and the weight of the thread's group. A turn
    /// includes two ticks. The factor 16 also covers the time by which the thread was ahead of others.
    fn longest_wait(&self, core: usize, thread: Thread, entity: &Entity) -> u64 {
        let root = &self.roots[core];
        let group = self.group_of(thread);
        let queue = &root.groups[group];
        let (mut heavier, mut others) = (queue.load / entity.weight, u64::from(queue.members));
        if self.has_groups() {
            let all: i64 = root.present.iter().map(|group| root.groups[*group].own.weight).sum();
            heavier *= 1 + all / queue.own.weight;
            others += root.present.len() as u64;
        }
        let turn = self.constants.latency.max(2 * self.constants.base_slice) + 2 * self.linux.tick();
        16 * turn * (others + heavier as u64)
    }

    /// Checks that the lags of a queue's threads are within bounds.
    fn check_lags(&self, nth: usize, threads: &[(Thread, &Entity)]) -> Result<(), String> {
        let Some(average) = eevdf::Average::of(threads.iter().copied()) else { return Ok(()) };
        let longest = threads.iter().map(|(_, entity)| entity.slice).max().unwrap_or(0).max(self.linux.tick() as i64);
        for (thread, entity) in threads {
            let lag = average.value() - entity.vruntime;
            let most = 4 * entity.as_virtual(2 * longest) * threads.len() as i64;
            if lag.abs() > most {
                return Err(format!("{thread:?} on core {nth} has a lag of {lag}, more than {most}: {entity:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Groups, Linux, Version};
    use crate::program::{Fork, ForkJoin};
    use crate::threads::kernel::Place;
    use crate::threads::{Costs, Host, Thread};

    /// Creates two programs of three threads each on two cores.
    fn host(groups: Groups) -> Host {
        let mut host = Host::new(2, Costs::default(), 1);
        host.use_linux(Linux { groups, ..Linux::new(Version::V6_18) });
        for program in 0..2 {
            let work = ForkJoin::new(1_000, 5_000_000, 600, 1, Fork::AtOnce);
            host.submit(0, Box::new(work), "abp".parse().unwrap(), 3, program);
        }
        host.run(50_000_000, 1).unwrap();
        host
    }

    /// Returns the first thread that waits.
    fn waiting(host: &Host) -> Thread {
        host.kernel.cores.iter().find_map(|core| core.queue.front().copied()).expect("six threads are on two cores")
    }

    #[test]
    fn what_is_not_as_it_should_be_is_noticed() {
        for (change, part) in [
            ((|host| host.used += 1) as fn(&mut Host), "but threads ran for"),
            (
                |host| {
                    let thread = waiting(host);
                    host.worker_mut(thread).entity.queued = false;
                },
                "but its entity differs",
            ),
            (
                |host| {
                    let thread = waiting(host);
                    host.worker_mut(thread).entity.weight += 1;
                },
                "but its queue has",
            ),
            (
                |host| {
                    let linux = host.kernel.linux.as_mut().unwrap();
                    linux.roots[0].present.clear();
                },
                "notes wrongly whether group",
            ),
            (|host| host.kernel.linux.as_mut().unwrap().loads[0] += 1, "but noted as"),
            (
                |host| {
                    let thread = waiting(host);
                    host.worker_mut(thread).entity.vruntime += 1_000_000_000;
                },
                "has a lag of",
            ),
            (
                |host| {
                    // The thread seems to have waited for all of this time.
                    let lasted = 100_000_000_000;
                    host.now += lasted;
                    host.used += 2 * lasted;
                },
                "has waited for core",
            ),
        ] {
            for groups in [Groups::Same, Groups::Separate] {
                let mut host = host(groups);
                assert_eq!(host.check(true), Ok(()));
                change(&mut host);
                let noticed = host.check(true).err().unwrap_or_default();
                assert!(noticed.contains(part), "{part:?} is not what is noticed: {noticed:?}");
            }
        }
        let host = host(Groups::Same);
        assert!(matches!(host.worker(waiting(&host)).place, Place::Queued(_)));
    }
}
