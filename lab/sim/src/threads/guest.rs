//! A host that is a virtual machine: its cores are virtual CPUs, which have a physical one or none. What a kernel
//! counts goes on meanwhile, as in one that is told no steal time (Xen's guests until Linux 4.8); a tick that was
//! missed comes late.

use std::cell::RefCell;
use std::rc::Rc;

use comity_policy::Level;
use comity_policy::row::Accelerates;
use comity_protocol::steal_time::Reading;

use super::{Host, Thread};
use crate::acceleration::Scheduler;
use crate::hypervisor::Hypervisor;

/// The hypervisor of a guest, and which of its machines this is.
pub(super) struct Calls {
    hypervisor: Rc<RefCell<Hypervisor>>,
    vm: usize,
    /// What a hypercall takes.
    pub(super) cost: u64,
}

impl Host {
    /// From now on the host is a virtual machine, and none of its cores runs until it is told to. Before any
    /// program comes.
    pub(crate) fn virtualize(&mut self, hypervisor: Rc<RefCell<Hypervisor>>, vm: usize) {
        let cost = hypervisor.borrow().hypercall();
        self.calls = Some(Calls { hypervisor, vm, cost });
        self.kernel.cores.iter_mut().for_each(|core| core.suspended = true);
        self.kernel.turned = Some(Vec::new());
    }

    /// The cores that have come to have a thread, or to have none.
    pub(crate) fn take_turned(&mut self) -> Vec<usize> {
        self.kernel.turned.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether a core has a thread.
    pub(crate) fn wants(&self, core: usize) -> bool {
        self.kernel.cores[core].running.is_some()
    }

    /// Whether it has a physical CPU.
    pub(crate) fn runs(&self, core: usize) -> bool {
        !self.kernel.cores[core].suspended
    }

    /// At that time the core has no physical CPU any more.
    pub(crate) fn suspend(&mut self, at: u64, core: usize) {
        self.pass(at);
        self.charge(core);
        self.kernel.cores[core].suspended = true;
        self.plan_core(core);
    }

    /// At that time it has one; its thread gets on after so many nanoseconds.
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

    /// Of a guest, how long its virtual CPUs ran and how long they wanted to in vain, in nanoseconds, summed over
    /// them: its run time and its steal time.
    pub fn run_and_steal_time(&self) -> Option<(u64, u64)> {
        let Calls { hypervisor, vm, .. } = self.calls.as_ref()?;
        Some(hypervisor.borrow().run_and_steal_time(*vm))
    }

    /// From now on the kernel tells the programs of a guest how much of its virtual CPUs' time was taken away, as
    /// Linux does under KVM.
    pub fn tell_steal_time(&mut self) {
        self.tells_steal = true;
    }

    /// What its cores have had of the hypervisor, if it is told.
    pub(super) fn stolen(&self) -> Option<Reading> {
        let Calls { hypervisor, .. } = self.calls.as_ref().filter(|_| self.tells_steal)?;
        hypervisor.borrow_mut().pass(self.now);
        self.run_and_steal_time().map(|(run_ns, steal_ns)| Reading { run_ns, steal_ns })
    }

    /// The request of Algorithm 1, lines 4 to 7. The rest of a thief's turn goes to the victim, or the rest of its
    /// virtual CPU's slice to the victim's virtual CPU. True: it does, and the thief's core switches at once.
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

    /// What such a request takes: a system call, or a hypercall.
    pub(super) fn cost_of_acceleration(&self, level: Level) -> u64 {
        match level {
            Level::Thread if self.accelerates() => self.costs.yield_core,
            Level::Thread => 0,
            Level::Vcpu => self.calls.as_ref().map_or(0, |calls| calls.cost),
        }
    }

    /// Whether the kernel has Robinhood's Thread Accelerator.
    fn accelerates(&self) -> bool {
        self.kernel.linux.as_ref().is_some_and(|linux| linux.accelerates())
    }
}
