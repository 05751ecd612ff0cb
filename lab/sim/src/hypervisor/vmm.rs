//! The parameters of a hypervisor: its scheduler, and the costs of its operations.

use serde::{Deserialize, Serialize};

/// The rule by which virtual CPUs take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Xen's Credit scheduler.
    #[default]
    Credit,
    /// Xen's Credit scheduler, with at most one virtual CPU of a machine in the queue of each physical CPU (Sukwong
    /// and Kim, EuroSys 2011).
    Balance,
    /// Co-scheduling: all virtual CPUs of a machine have physical CPUs in the same time slices (Robinhood §6.2, its
    /// reference 24). A physical CPU idles if its virtual CPU has nothing to do.
    CoScheduling,
}

/// The entity to which a weight applies when credits are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightOf {
    /// The weight applies to each active virtual CPU of the machine.
    #[default]
    Vcpu,
    /// The weight applies to the machine, independent of the number of its active virtual CPUs.
    Machine,
}

/// A hypervisor, and the costs of its operations in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vmm {
    /// The rule by which virtual CPUs take turns.
    pub scheduler: Scheduling,
    /// The entity to which a weight applies.
    pub weight_of: WeightOf,
    /// The number of NUMA nodes, among which the physical CPUs are divided evenly.
    pub nodes: u32,
    /// The time slice. Credits are handed out once in each slice, and three ticks are one slice.
    pub slice: u64,
    /// The minimum time that a virtual CPU runs before a virtual CPU that wakes may preempt it (`sched_ratelimit_us`).
    pub ratelimit: u64,
    /// The cost of a hypercall, for the thread that makes it.
    pub hypercall: u64,
    /// The cost of a switch from one virtual CPU to another on a physical CPU.
    pub switch: u64,
    /// The additional cost if the virtual CPU ran on another physical CPU of the node last: the core's caches are
    /// filled again.
    pub near: u64,
    /// The additional cost if the virtual CPU ran on another node last: its data in the node's caches and memory is
    /// fetched again, too.
    pub far: u64,
    /// The mean time between two wake-ups of each virtual CPU of Domain 0. With 0, or under co-scheduling, there is
    /// no Domain 0.
    pub dom0_every: u64,
    /// The time for which a virtual CPU of Domain 0 runs after a wake-up.
    pub dom0_work: u64,
}

impl Default for Vmm {
    fn default() -> Vmm {
        Vmm {
            scheduler: Scheduling::Credit,
            weight_of: WeightOf::Vcpu,
            nodes: 1,
            slice: 30_000_000,
            ratelimit: 1_000_000,
            hypercall: 1_000,
            switch: 2_000,
            near: 0,
            far: 0,
            dom0_every: 0,
            dom0_work: 50_000,
        }
    }
}

impl Vmm {
    /// Checks that a machine of `pcpus` physical CPUs can have this hypervisor.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub fn check(&self, pcpus: u32) -> Result<(), String> {
        let Vmm { nodes, slice, ratelimit, hypercall, switch, near, far, dom0_every, dom0_work, .. } = *self;
        if nodes == 0 || !pcpus.is_multiple_of(nodes) {
            return Err(format!("machine.vmm.nodes: {pcpus} processors cannot be divided evenly among {nodes} nodes"));
        }
        if !(300_000..=1_000_000_000).contains(&slice) {
            return Err(format!("machine.vmm.slice is {slice}; it must be at least 300000 and at most 1000000000"));
        }
        if ratelimit > slice {
            return Err(format!("machine.vmm.ratelimit is {ratelimit}; it must be at most machine.vmm.slice, {slice}"));
        }
        if dom0_every > 1 << 40 || dom0_every > 0 && !(1..=dom0_every).contains(&dom0_work) {
            return Err(format!(
                "machine.vmm.dom0_work is {dom0_work} in each {dom0_every}; it must be at least 1 and at most machine.vmm.dom0_every, and \
                 that at most {}",
                1u64 << 40
            ));
        }
        match [hypercall, switch, near, far].into_iter().max() {
            Some(most) if most > 1_000_000_000 => {
                Err(format!("a cost of machine.vmm is {most}; it must be at most 1000000000"))
            }
            _ => Ok(()),
        }
    }
}
