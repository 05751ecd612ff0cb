//! What a process has used so far.

use std::time::Duration;

/// Resources used by a process and all its threads, ended ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel took the core away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// This process, from its start.
    pub fn of_this_process() -> Usage {
        Usage::of(libc::RUSAGE_SELF)
    }

    /// All children of this process that have ended and were waited for, and theirs.
    pub fn of_ended_children() -> Usage {
        Usage::of(libc::RUSAGE_CHILDREN)
    }

    /// `whose` is one of the kernel's constants for this process.
    fn of(whose: libc::c_int) -> Usage {
        // SAFETY: all-zero bytes are a valid `rusage`: it has integers only.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid `rusage` to write to.
        let code = unsafe { libc::getrusage(whose, &mut usage) };
        assert_eq!(code, 0, "getrusage of this process cannot fail");
        Usage::from(usage)
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Usage {
        let duration =
            |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
        Usage {
            cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_a_voluntary_switch() {
        let before = Usage::of_this_process();
        std::thread::sleep(Duration::from_millis(2));
        assert!(Usage::of_this_process().since(before).voluntary_switches >= 1);
    }

    #[test]
    fn a_child_counts_when_it_was_waited_for() {
        let before = Usage::of_ended_children();
        let busy = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
        // A test beside this one ends all children of the process, this one too. What it used counts all the same.
        while Usage::of_ended_children().since(before).cpu.is_zero() {
            let _ended_by_another = std::process::Command::new("sh").args(busy).status();
        }
    }
}
