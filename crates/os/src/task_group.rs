//! Task groups: whether the kernel shares cores between programs or between threads.
//!
//! With autogroup on, every session is a group of its own and the groups share the cores equally, however many threads
//! each has. Whether two programs share a group changes a co-run more than any mechanism, so every report states it.

use std::fs;
use std::io;

/// Whether new sessions become task groups of their own.
pub fn autogroup_enabled() -> bool {
    fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// How nice this session's task group is, −20 to 19. `None` if the session is none.
pub fn nice() -> Option<i32> {
    // `/autogroup-12 nice 0`
    fs::read_to_string("/proc/self/autogroup").ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// Makes this session's task group so nice.
///
/// # Errors
/// If the session is none, or the value is less than it was and the process has no right to that.
pub fn set_nice(nice: i32) -> io::Result<()> {
    fs::write("/proc/self/autogroup", nice.to_string())
}

/// Makes the calling process the leader of a new session, and so of a task group of its own where
/// [`autogroup_enabled`]. Unprivileged.
///
/// # Errors
/// If the process already leads a process group.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_as_nice_as_a_thread_can_be() {
        // None where the kernel has no autogroups.
        assert!(nice().is_none_or(|nice| (-20..=19).contains(&nice)));
    }
}
