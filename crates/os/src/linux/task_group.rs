//! Task groups: whether the kernel shares cores between programs or between threads.
//!
//! With autogroup on, every session is a group of its own and the groups share the cores equally, however many threads
//! each has. Whether two programs share a group changes a co-run more than any mechanism, so every report states it.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::cgroup::{self, Version};

/// Whether new sessions become task groups of their own.
pub fn autogroup_enabled() -> bool {
    fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// The control group, not the root, that is this process's task group: sessions make none within it, autogroup or not
/// (`task_wants_autogroup` of `kernel/sched/autogroup.c`).
pub fn control_group() -> Option<PathBuf> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    control_group_in(&membership, &mounts)
}

fn control_group_in(membership: &str, mounts: &str) -> Option<PathBuf> {
    let groups = cgroup::groups_in("cpu", membership, mounts);
    // The last of a hierarchy is its root. Of version 2 only those have a weight in which the controller is on.
    let below = groups.windows(2).filter(|pair| pair[0].1.starts_with(&pair[1].1));
    let weighs = |version: Version, group: &PathBuf| version == Version::One || group.join("cpu.weight").exists();
    below.map(|pair| &pair[0]).find(|(version, group)| weighs(*version, group)).map(|(_, group)| group.clone())
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

/// The same, as nice as the session was that is left: a measurement that was given weight keeps it.
///
/// # Errors
/// As [`new_session`] and [`set_nice`].
pub fn stand_apart() -> io::Result<()> {
    let nice = nice().unwrap_or(0);
    new_session()?;
    if nice == 0 { Ok(()) } else { set_nice(nice) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_a_task_group_where_it_weighs() {
        let root = std::env::temp_dir().join(format!("comity-task-group-{}", std::process::id()));
        let own = root.join("slice/scope");
        fs::create_dir_all(&own).unwrap();
        let place = root.display();
        let two = format!("30 1 0:26 / {place} rw - cgroup2 cgroup2 rw");
        assert_eq!(control_group_in("0::/slice/scope\n", &two), None);
        fs::write(root.join("slice/cpu.weight"), "100").unwrap();
        assert_eq!(control_group_in("0::/slice/scope\n", &two), Some(root.join("slice")));
        assert_eq!(control_group_in("0::/\n", &two), None);
        let one = format!("30 1 0:26 / {place} rw - cgroup cgroup rw,cpu");
        assert_eq!(control_group_in("1:cpu:/slice/scope\n", &one), Some(own));
        assert_eq!(control_group_in("1:cpu:/\n", &one), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_session_is_as_nice_as_a_thread_can_be() {
        // None where the kernel has no autogroups.
        assert!(nice().is_none_or(|nice| (-20..=19).contains(&nice)));
    }
}
