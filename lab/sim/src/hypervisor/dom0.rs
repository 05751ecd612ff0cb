//! Domain 0: the machine from which the others are managed. Each of its virtual CPUs wakes now and then, boosted,
//! for a short while.
//!
//! What counts is that it interrupts: a virtual CPU that is interrupted goes behind the others of its priority. So
//! the machines' slices, which begin in step on all physical CPUs, do not stay so.

use rand::RngExt;

use super::{Due, Hypervisor, Share};

impl Hypervisor {
    /// Its part of the machine.
    pub(super) fn dom0_share(pcpus: usize) -> Share {
        Share { vcpus: pcpus, weight: 256, cap: None }
    }

    pub(super) fn start_dom0(&mut self) {
        let Some(vm) = self.dom0 else { return };
        let first = self.firsts[vm];
        (first..first + self.shares[vm].vcpus).for_each(|vcpu| self.sleep_in_dom0(vcpu));
    }

    /// A virtual CPU of Domain 0 has nothing to do for a while.
    fn sleep_in_dom0(&mut self, vcpu: usize) {
        let after = self.random.random_range(1..=2 * self.vmm.dom0_every);
        self.plan(self.now + after, Due::Dom0 { vcpu, wakes: true });
    }

    /// It has something to do, or has done it. One that was interrupted does it again.
    pub(super) fn dom0(&mut self, vcpu: usize, wakes: bool) {
        let is_done = !wakes && self.vcpus[vcpu].on.is_some();
        if !wakes && !is_done {
            return;
        }
        self.vcpus[vcpu].wants = wakes;
        if wakes {
            return self.wakes(vcpu);
        }
        self.halts(vcpu);
        self.sleep_in_dom0(vcpu);
    }

    /// It runs, if it is one of Domain 0.
    pub(super) fn runs_in_dom0(&mut self, vcpu: usize) {
        if Some(self.vcpus[vcpu].vm) == self.dom0 {
            self.plan(self.now + self.vmm.switch + self.vmm.dom0_work, Due::Dom0 { vcpu, wakes: false });
        }
    }
}
