//! The resources that a process has used.

use std::time::Duration;

use crate::system::calls;

/// Resources used by a process and all its threads, including ended threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// The number of context switches in which a thread began to wait.
    pub voluntary_switches: u64,
    /// The number of context switches in which the kernel took the core from a thread.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Returns the usage of this process since its start.
    pub fn of_this_process() -> Usage {
        calls::usage_of_this_process()
    }

    /// Returns the usage of all children of this process that have ended and were waited for, and of their descendants.
    pub fn of_ended_children() -> Usage {
        calls::usage_of_ended_children()
    }

    /// Returns the usage since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_sleep_is_a_voluntary_switch() {
        let before = Usage::of_this_process();
        std::thread::sleep(Duration::from_millis(2));
        assert!(Usage::of_this_process().since(before).voluntary_switches >= 1);
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_child_counts_when_it_was_waited_for() {
        let before = Usage::of_ended_children();
        let busy = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
        // A concurrent test may end this child and wait for it. The child's usage is counted anyway.
        while Usage::of_ended_children().since(before).cpu.is_zero() {
            let _ended_by_another = std::process::Command::new("sh").args(busy).status();
        }
    }
}
