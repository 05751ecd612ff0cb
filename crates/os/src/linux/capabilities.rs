//! What this kernel offers this process, found by trying.

use crate::cpu_clock::ThreadId;
use crate::{barrier, task_group};

/// The services that Comity uses and whether they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `membarrier`: a sleeper can make every push visible. Without it sleepers look again every millisecond.
    pub membarrier: bool,
    /// Reading a peer thread's processor clock: run status. Without it a preempted worker is not noticed.
    pub thread_cpu_clock: bool,
    /// Autogroup: a session is a task group of its own.
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

    /// The tier of kernel support that results were taken with. 0: nothing but what every process may use.
    pub fn tier(self) -> u8 {
        0
    }
}
