//! The kernel services that this process can use, found by trying them.

use crate::cpu_clock::ThreadId;
use crate::{barrier, task_group};

/// The services that Comity uses, each true if it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// True if `membarrier` works, with which a sleeper makes every push visible. Without it, sleepers look every
    /// millisecond.
    pub membarrier: bool,
    /// True if a peer thread's processor clock can be read: its run status. Without it, preempted workers are not
    /// noticed.
    pub thread_cpu_clock: bool,
    /// True if autogroup is on: each session is a task group.
    pub autogroup: bool,
}

impl Capabilities {
    /// Tries each service once.
    pub fn detect() -> Capabilities {
        Capabilities {
            membarrier: barrier::heavy(),
            thread_cpu_clock: ThreadId::current().is_running().is_some(),
            autogroup: task_group::autogroup_enabled(),
        }
    }

    /// Returns the tier of kernel support of the results. 0: only services that every process may use.
    pub fn tier(self) -> u8 {
        0
    }
}
