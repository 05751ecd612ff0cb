//! The kernel services that this process can use, found by trying them.

use crate::cpu_clock::ThreadId;
use crate::{barrier, task_group};

/// The availability of each service that Comity uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// True if `membarrier` works. With it, a worker that goes to sleep sees every task that was pushed. Without it,
    /// sleeping workers look for tasks every millisecond.
    pub membarrier: bool,
    /// True if the processor clock of another thread can be read. The clock shows whether that thread is on a core.
    /// Without it, preempted workers are not noticed.
    pub thread_cpu_clock: bool,
    /// True if autogroup is on, so that the kernel divides processor time among sessions.
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

    /// Returns the tier of kernel support that results of this program have. Tier 0: only services that every process
    /// may use.
    pub fn tier(self) -> u8 {
        0
    }
}
