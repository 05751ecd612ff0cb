//! Co-scheduling: the machines take turns, each with all of its virtual CPUs at once (Ousterhout's gang scheduling,
//! without alternates).
//!
//! The turn of a machine with the default weight lasts one slice. The length of other turns is in proportion to the
//! weight. A turn ends early if no virtual CPU of the machine has anything to do. The nth virtual CPU of a machine runs
//! on the nth physical CPU, so a machine has at most one virtual CPU for each physical CPU.

use super::{Due, Hypervisor};

/// The machine that has its turn, the machine that had the last turn, and the number of planned turns.
#[derive(Debug, Default)]
pub(super) struct Gang {
    current: Option<usize>,
    /// The machine that began a turn last.
    last: usize,
    plan: u32,
}

/// Xen's default weight.
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

    /// Begins the turn of the next machine that has something to do.
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
            // After physical CPUs went offline, two virtual CPUs of a machine may take turns on one physical CPU.
            let is_over = |vcpu: usize| Some(self.vcpus[vcpu].vm) != next || self.first_of_gang(pcpu).is_some();
            if self.pcpus[pcpu].running.is_some_and(is_over) {
                self.schedule(pcpu);
            }
            self.attend(Some(pcpu));
        }
    }
}
