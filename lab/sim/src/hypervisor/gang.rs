//! Co-scheduling: the machines take turns, each with all of its virtual CPUs at once (Ousterhout's gang scheduling,
//! without alternates).
//!
//! A turn lasts a slice for a machine of the usual weight, and in proportion to that; it ends early if nothing in
//! the machine has anything to do. The nth virtual CPU of a machine runs on the nth physical one, so a machine has
//! no more of them than there are.

use super::{Due, Hypervisor};

/// The machine that has its turn, and its turns so far.
#[derive(Debug, Default)]
pub(super) struct Gang {
    current: Option<usize>,
    /// The machine that had the last turn.
    last: usize,
    plan: u32,
}

/// Xen's usual weight.
const USUAL: u64 = 256;

impl Hypervisor {
    pub(super) fn first_of_gang(&self, pcpu: usize) -> Option<usize> {
        let current = self.gang.current.filter(|_| !self.pcpus[pcpu].offline)?;
        self.pcpus[pcpu].queue.iter().find(|vcpu| self.vcpus[**vcpu].vm == current).copied()
    }

    pub(super) fn gang_wakes(&mut self, vcpu: usize) {
        match self.gang.current {
            None => self.next_turn(),
            Some(current) if current == self.vcpus[vcpu].vm => self.attend(self.vcpus[vcpu].queued),
            Some(_) => {}
        }
    }

    pub(super) fn gang_halts(&mut self, vcpu: usize) {
        let vm = self.vcpus[vcpu].vm;
        if self.gang.current == Some(vm) && !self.is_awake(vm) {
            self.next_turn();
        }
    }

    fn is_awake(&self, vm: usize) -> bool {
        let first = self.firsts[vm];
        self.vcpus[first..first + self.shares[vm].vcpus].iter().any(|vcpu| vcpu.wants)
    }

    pub(super) fn turn_is_over(&mut self, plan: u32) {
        if plan == self.gang.plan {
            self.next_turn();
        }
    }

    /// The turn of the next machine that has something to do.
    fn next_turn(&mut self) {
        let count = self.shares.len();
        let next = (1..=count).map(|away| (self.gang.last + away) % count).find(|vm| self.is_awake(*vm));
        self.gang.plan += 1;
        self.gang.current = next;
        if let Some(vm) = next {
            self.gang.last = vm;
            let turn = (self.vmm.slice * u64::from(self.shares[vm].weight) / USUAL).max(1);
            let plan = self.gang.plan;
            self.plan(self.now + turn, Due::Turn(plan));
        }
        for pcpu in 0..self.pcpus.len() {
            // With fewer physical CPUs than there were, two of a machine may take turns.
            let is_over = |vcpu: usize| Some(self.vcpus[vcpu].vm) != next || self.first_of_gang(pcpu).is_some();
            if self.pcpus[pcpu].running.is_some_and(is_over) {
                self.schedule(pcpu);
            }
            self.attend(Some(pcpu));
        }
    }
}
