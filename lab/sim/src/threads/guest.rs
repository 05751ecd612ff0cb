//! A host that is a virtual machine: its cores are virtual CPUs, and a virtual CPU may have no physical CPU. The clocks
//! of the guest's kernel continue while a core has no physical CPU. Kernels that do not know the steal time behave like
//! this (Xen's guests until Linux 4.8). A missed tick comes as soon as the core has a physical CPU again.

use std::cell::RefCell;
use std::rc::Rc;

use comity_policy::Level;
use comity_policy::definition::Accelerates;
use comity_protocol::steal_time::Reading;

use super::{Host, Thread};
use crate::acceleration::Scheduler;
use crate::hypervisor::Hypervisor;

/// The hypervisor of a guest, and the guest's number there.
pub(super) struct Calls {
    hypervisor: Rc<RefCell<Hypervisor>>,
    vm: usize,
    /// The cost of a hypercall, in nanoseconds.
    pub(super) cost: u64,
}

impl Host {
    /// Makes the host a virtual machine. None of its cores has a physical CPU until [`Host::resume`]. Called before any
    /// program begins.
    pub(crate) fn virtualize(&mut self, hypervisor: Rc<RefCell<Hypervisor>>, vm: usize) {
        let cost = hypervisor.borrow().hypercall();
        self.calls = Some(Calls { hypervisor, vm, cost });
        self.kernel.cores.iter_mut().for_each(|core| core.suspended = true);
        self.kernel.turned = Some(Vec::new());
    }

    /// Takes the cores that got a thread, or lost their thread, since the last call.
    pub(crate) fn take_turned(&mut self) -> Vec<usize> {
        self.kernel.turned.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// True if a core has a thread.
    pub(crate) fn wants(&self, core: usize) -> bool {
        self.kernel.cores[core].running.is_some()
    }

    /// True if a core has a physical CPU.
    pub(crate) fn runs(&self, core: usize) -> bool {
        !self.kernel.cores[core].suspended
    }

    /// Takes the core's physical CPU away at the time `at`.
    pub(crate) fn suspend(&mut self, at: u64, core: usize) {
        self.pass(at);
        self.charge(core);
        self.kernel.cores[core].suspended = true;
        self.plan_core(core);
    }

    /// Gives the core a physical CPU at the time `at`. Its thread continues `after` nanoseconds later.
    pub(crate) fn resume(&mut self, at: u64, core: usize, after: u64) {
        self.pass(at);
        self.charge(core);
        self.kernel.cores[core].suspended = false;
        self.kernel.delay(core, after);
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux {
            linux.tick_is_late(core, &kernel.cores[core], pools);
        }
        self.plan_core(core);
    }

    /// Returns the run time and the steal time of a guest in nanoseconds, summed over its virtual CPUs. In its run
    /// time, a virtual CPU has a physical CPU. In its steal time, it wants a physical CPU and has none. `None` if the
    /// host is not a guest.
    pub fn run_and_steal_time(&self) -> Option<(u64, u64)> {
        let Calls { hypervisor, vm, .. } = self.calls.as_ref()?;
        Some(hypervisor.borrow().run_and_steal_time(*vm))
    }

    /// Makes the guest's kernel tell its programs the steal time, as Linux does under KVM.
    pub fn tell_steal_time(&mut self) {
        self.tells_steal = true;
    }

    /// Returns the run time and the steal time of the guest's cores, if the kernel tells them to programs.
    pub(super) fn stolen(&self) -> Option<Reading> {
        let Calls { hypervisor, .. } = self.calls.as_ref().filter(|_| self.tells_steal)?;
        hypervisor.borrow_mut().pass(self.now);
        self.run_and_steal_time().map(|(run_ns, steal_ns)| Reading { run_ns, steal_ns })
    }

    /// The request of Algorithm 1, lines 4 to 7: gives the rest of the thief's turn to the victim. At [`Level::Vcpu`],
    /// gives the rest of the slice of the thief's virtual CPU to the victim's virtual CPU. Returns true if the request
    /// is granted. Then the thief's core switches at once.
    pub(super) fn accelerate(&mut self, thief: Thread, victim: Thread, level: Level) -> bool {
        let Some(Accelerates { threads, vcpus }) = self.pool(thief.program).policy.accelerates() else { return false };
        let across_nodes = threads.is_some_and(|pull| pull.across_nodes);
        match level {
            Level::Thread if self.accelerates() => self.accelerate_thread(thief, victim, across_nodes).is_ok(),
            Level::Vcpu if vcpus => self.hypercall(thief, victim, across_nodes),
            Level::Thread | Level::Vcpu => false,
        }
    }

    fn hypercall(&mut self, thief: Thread, victim: Thread, across_nodes: bool) -> bool {
        let (from, to) = (self.cpu(thief), self.cpu(victim));
        let Some(Calls { hypervisor, vm, .. }) = &self.calls else { return false };
        let mut hypervisor = hypervisor.borrow_mut();
        hypervisor.pass(self.now);
        let granted = from != to && hypervisor.accelerate(*vm, from, to, across_nodes);
        drop(hypervisor);
        self.pool_mut(thief.program).counts.accelerations += u64::from(granted);
        granted
    }

    /// Returns the cost of a request for an acceleration: the cost of a system call or of a hypercall.
    pub(super) fn cost_of_acceleration(&self, level: Level) -> u64 {
        match level {
            Level::Thread if self.accelerates() => self.costs.yield_core,
            Level::Thread => 0,
            Level::Vcpu => self.calls.as_ref().map_or(0, |calls| calls.cost),
        }
    }

    /// True if the kernel has Robinhood's Thread Accelerator.
    fn accelerates(&self) -> bool {
        self.kernel.linux.as_ref().is_some_and(|linux| linux.accelerates())
    }
}
