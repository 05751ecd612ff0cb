//! The hypervisor's invariants, which must hold after every event.

use super::{Hypervisor, Scheduling, Vcpu};
use crate::acceleration::Part;

impl Hypervisor {
    /// Checks that every virtual CPU is in a place where it may be, and that all credits are accounted for.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.vcpus.iter().enumerate().try_for_each(|(nth, vcpu)| {
            let wrong = |what| format!("virtual CPU {nth}: {what}: {vcpu:?}");
            self.check_vcpu(nth, vcpu).map_err(wrong)
        })?;
        self.check_pcpus()?;
        let credits: i128 = self.vcpus.iter().map(|vcpu| i128::from(vcpu.credit)).sum();
        if credits != self.accounts.sum() {
            return Err(format!("the sum of the credits is {credits}, but the accounts are {:?}", self.accounts));
        }
        let unpaid = |pcpu: &super::Pcpu| pcpu.running.map_or(0, |_| self.now - pcpu.charged);
        let ran: u64 = self.vcpus.iter().map(|vcpu| vcpu.ran).chain(self.pcpus.iter().map(unpaid)).sum();
        if ran != self.used {
            return Err(format!("physical CPUs were in use for {} ns, but virtual CPUs ran for {ran} ns", self.used));
        }
        Ok(())
    }

    fn check_vcpu(&self, nth: usize, vcpu: &Vcpu) -> Result<(), &'static str> {
        let Vcpu { wants, parked, on, queued, part, waits_since, .. } = *vcpu;
        let Part { initiator, candidate, home } = part;
        let may_run = wants && !parked;
        if may_run != (on.is_some() || queued.is_some()) {
            return Err("it has a CPU or a queue although it cannot run, or can run and has neither");
        }
        // A virtual CPU keeps its place in a queue while it is accelerated. While it runs on its own slice, it has no
        // place in a queue.
        if on.is_some() && (queued.is_some() != initiator.is_some() || queued != home) {
            return Err("it runs, but its place in a queue is wrong");
        }
        if on.is_none() && (initiator.is_some() || home.is_some()) || candidate.is_some() {
            return Err("it is still marked for an acceleration that has ended");
        }
        if waits_since.is_some() != (wants && on.is_none()) {
            return Err("its wait is noted wrongly");
        }
        if queued.is_some_and(|pcpu| self.pcpus[pcpu].queue.iter().filter(|other| **other == nth).count() != 1) {
            return Err("it is in its queue more than once, or not at all");
        }
        if on.is_some_and(|pcpu| self.pcpus[pcpu].running != Some(nth)) {
            return Err("its physical CPU runs another virtual CPU");
        }
        if let (Some(on), Some(queued)) = (on, queued)
            && self.node_of(on) != self.node_of(queued)
            && !self.crosses_nodes
        {
            return Err("it is accelerated on another node");
        }
        let from = |initiator: usize| self.vcpus[initiator].vm != vcpu.vm;
        if initiator.is_some_and(from) {
            return Err("a virtual CPU of another machine accelerates it");
        }
        Ok(())
    }

    fn check_pcpus(&self) -> Result<(), String> {
        let queued: usize = self.pcpus.iter().map(|pcpu| pcpu.queue.len()).sum();
        let noted = self.vcpus.iter().filter(|vcpu| vcpu.queued.is_some()).count();
        if queued != noted {
            return Err(format!("{queued} virtual CPUs are in queues, but {noted} are noted"));
        }
        for (nth, pcpu) in self.pcpus.iter().enumerate() {
            if pcpu.running.is_some_and(|vcpu| self.vcpus[vcpu].on != Some(nth)) {
                return Err(format!(
                    "physical CPU {nth} has {pcpu:?}, but this virtual CPU is noted at another physical CPU"
                ));
            }
            if pcpu.offline && (pcpu.running.is_some() || !pcpu.queue.is_empty()) {
                return Err(format!("physical CPU {nth} is offline, but has {pcpu:?}"));
            }
            let could = match self.vmm.scheduler {
                Scheduling::CoScheduling => self.first_of_gang(nth),
                _ => self.first_by_credit(nth),
            };
            if pcpu.running.is_none() && could.is_some() {
                return Err(format!("physical CPU {nth} idles, but virtual CPU {could:?} could run there"));
            }
        }
        Ok(())
    }
}
