//! How a hypervisor is to be, and what things cost there.

use serde::{Deserialize, Serialize};

/// How virtual CPUs take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Xen's Credit scheduler.
    #[default]
    Credit,
    /// The same, and no physical CPU has two virtual ones of a machine in its queue (Sukwong and Kim, EuroSys 2011).
    Balance,
    /// All virtual CPUs of a machine have physical ones at the same time, or none has (Robinhood §6.2, its
    /// reference 24). A physical CPU idles if its virtual one has nothing to do.
    CoScheduling,
}

/// What a weight is of, among those that want credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightOf {
    /// Each active virtual CPU counts as much as its machine's weight.
    #[default]
    Vcpu,
    /// A machine counts so much, however few of its virtual CPUs are active.
    Machine,
}

/// A hypervisor, and what things cost there, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vmm {
    /// How virtual CPUs take turns.
    pub scheduler: Scheduling,
    /// What a weight is of.
    pub weight_of: WeightOf,
    /// NUMA nodes, among which the physical CPUs are divided evenly.
    pub nodes: u32,
    /// A time slice; credits are handed out as often. Three ticks are one slice.
    pub slice: u64,
    /// For so long a virtual CPU is left alone, whichever wakes (`sched_ratelimit_us`).
    pub ratelimit: u64,
    /// A hypercall, for the thread that makes it.
    pub hypercall: u64,
    /// From one virtual CPU to another on a physical one.
    pub switch: u64,
    /// More than that where a virtual CPU ran on another physical one of the node last: what it had in the core's
    /// caches is fetched again.
    pub near: u64,
    /// The same where it ran on another node: what it had in the node's caches and memory, too.
    pub far: u64,
    /// From one time to the next in the mean that each virtual CPU of Domain 0 has something to do; 0: there is no
    /// Domain 0. Under co-scheduling there is none.
    pub dom0_every: u64,
    /// How long that takes.
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
    /// Looks whether a machine of so many physical CPUs can have it.
    ///
    /// # Errors
    /// Says in a sentence what cannot be.
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
