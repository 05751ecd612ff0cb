//! Domain 0: the virtual machine that manages the other machines. Each of its virtual CPUs wakes at random times, with
//! the highest priority, and runs for a short while.
//!
//! Domain 0 is simulated because it interrupts the other machines. An interrupted virtual CPU goes behind the other
//! virtual CPUs of its priority. The slices begin at the same times on all physical CPUs, and the interruptions shift
//! them against each other.

use rand::RngExt;

use super::{Due, Hypervisor, Share};

impl Hypervisor {
    /// Returns Domain 0's share of the machine.
    pub(super) fn dom0_share(pcpus: usize) -> Share {
        Share { vcpus: pcpus, weight: 256, cap: None }
    }

    pub(super) fn start_dom0(&mut self) {
        let Some(vm) = self.dom0 else { return };
        let first = self.firsts[vm];
        (first..first + self.shares[vm].vcpus).for_each(|vcpu| self.sleep_in_dom0(vcpu));
    }

    /// Plans the next wake-up of a virtual CPU of Domain 0, which has nothing to do until then.
    fn sleep_in_dom0(&mut self, vcpu: usize) {
        let after = self.random.random_range(1..=2 * self.vmm.dom0_every);
        self.plan(self.now + after, Due::Dom0 { vcpu, wakes: true });
    }

    /// Handles [`Due::Dom0`]: a virtual CPU of Domain 0 wakes, or its work is due to end. If it was interrupted before
    /// the end, it repeats the work when it runs again.
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

    /// Plans the end of the work of a virtual CPU that begins to run, if it belongs to Domain 0.
    pub(super) fn runs_in_dom0(&mut self, vcpu: usize) {
        if Some(self.vcpus[vcpu].vm) == self.dom0 {
            self.plan(self.now + self.vmm.switch + self.vmm.dom0_work, Due::Dom0 { vcpu, wakes: false });
        }
    }
}
