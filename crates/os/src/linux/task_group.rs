//! Task groups: the groups of threads among which the kernel divides processor time.
//!
//! With the kernel's autogroup feature, each session is a task group. Exception: if a control group below the root has
//! a weight, that control group is the task group of its processes. The kernel divides time among groups with the same
//! parent by their weights, independent of their numbers of threads. Within a group it divides time among threads. So
//! the result of running two programs together depends most of all on whether they are in the same group.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use comity_values::TaskGroup;

use crate::cgroup::{self, Version};
use crate::{census, priority, writes};

/// The first control group namespace of a machine (`PROC_CGROUP_INIT_INO` in the kernel). Its root is the root of all
/// control groups.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// The default weights of a control group: in cgroup v1 (`cpu.shares`), then in cgroup v2 (`cpu.weight`).
const DEFAULT_SHARES: u32 = 1024;
const DEFAULT_WEIGHT: u32 = 100;

/// True if each new session becomes a separate task group.
pub fn autogroup_enabled() -> bool {
    fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// Returns the control group below the root that is the task group of this process, or `None` if there is no such
/// control group. Sessions inside such a control group are not task groups, even with autogroup (`task_wants_autogroup`
/// in `kernel/sched/autogroup.c`).
pub fn control_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    control_group_in(&groups(&membership, &mounts)).map(|(_, group)| group.clone())
}

/// Returns all control groups of the `cpu` controller that contain a process, from its own group up to the root that
/// this process sees.
fn groups(membership: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    cgroup::groups_in("cpu", membership, mounts)
}

fn control_group_in(groups: &[(Version, PathBuf)]) -> Option<&(Version, PathBuf)> {
    // The last group of a hierarchy is its root. In version 2, only groups in which the controller is on have a weight.
    let below = groups.windows(2).filter(|pair| pair[0].1.starts_with(&pair[1].1));
    let weighs = |version: Version, group: &PathBuf| version == Version::One || group.join("cpu.weight").exists();
    below.map(|pair| &pair[0]).find(|(version, group)| weighs(*version, group))
}

/// Returns the task group of a process. `None` in these cases:
/// - The process has ended.
/// - The process is in the root group, where the kernel divides time among threads.
/// - The task group is unknown, for example in a container that sees only its own part of the control groups.
pub fn of_process(process: u32) -> Option<TaskGroup> {
    match group_of(process)? {
        Group::Control(version, group) => of_control_group(version, &group),
        Group::Session => {
            let (id, nice) = autogroup(process)?;
            Some(TaskGroup { id, parent: 0, milli: milli(priority::milli_of(nice)) })
        }
    }
}

/// True if the session of a process is a task group.
pub fn is_session(process: u32) -> bool {
    matches!(group_of(process), Some(Group::Session)) && autogroup(process).is_some()
}

/// The task group of a process.
enum Group {
    Control(Version, PathBuf),
    Session,
}

fn group_of(process: u32) -> Option<Group> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let membership = census::control_groups(process).unwrap_or_default();
    if let Some((version, group)) = control_group_in(&groups(&membership, &mounts)) {
        return Some(Group::Control(*version, group.clone()));
    }
    // A kernel without control groups has no such link.
    let namespace = fs::read_link("/proc/self/ns/cgroup");
    let sees_all = namespace.is_ok_and(|link| link == Path::new(FIRST_NAMESPACE)) || membership.is_empty();
    (sees_all && is_root_or_mounted(&membership, &mounts) && autogroup_enabled()).then_some(Group::Session)
}

/// True if each hierarchy that could give the process a weight is mounted here, or contains the process in its root.
fn is_root_or_mounted(membership: &str, mounts: &str) -> bool {
    let is_root = |line: &str| {
        let path = line.splitn(3, ':').nth(2).unwrap_or("/");
        path == "/" || !groups(line, mounts).is_empty()
    };
    let decides = |line: &&str| {
        let controllers = line.split(':').nth(1).unwrap_or_default();
        controllers.is_empty() || controllers.split(',').any(|controller| controller == "cpu")
    };
    membership.lines().filter(decides).all(is_root)
}

fn of_control_group(version: Version, group: &Path) -> Option<TaskGroup> {
    // The inode number is the kernel's unique number of the control group.
    let number = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.ino());
    let word = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u32>().ok();
    let (weight, usual) = match version {
        Version::One => (word("cpu.shares")?, DEFAULT_SHARES),
        Version::Two => (word("cpu.weight")?, DEFAULT_WEIGHT),
    };
    let id = number(group)? as u32;
    let parent = number(group.parent()?)? as u16;
    let milli = milli(weight.saturating_mul(1000) / usual);
    (id != 0).then_some(TaskGroup { id, parent, milli })
}

fn milli(milli: u32) -> u16 {
    milli.clamp(1, u16::MAX.into()) as u16
}

/// Returns the number and the nice value of the autogroup of a process. `None` if the process has ended, or if the
/// kernel has no autogroups.
fn autogroup(process: u32) -> Option<(u32, i32)> {
    // Example: `/autogroup-12 nice 0`.
    let line = fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?;
    let (id, nice) = line.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some((id.parse().ok().filter(|id| *id != 0)?, nice.parse().ok()?))
}

/// Returns the nice value of this session's task group, −20 to 19. `None` if the session is not a task group.
pub fn nice() -> Option<i32> {
    nice_of(std::process::id())
}

/// Returns the nice value of the task group of a process's session, −20 to 19. `None` if the session is not a task
/// group.
pub fn nice_of(process: u32) -> Option<i32> {
    autogroup(process).map(|(_, nice)| nice)
}

/// Sets the nice value of the task group of a process's session. The values 0 to 19 need no privilege, even if the new
/// value is lower than the old value.
///
/// # Errors
/// If the session is not a task group, or the value needs a privilege. Also (`EAGAIN`) if unprivileged processes have
/// together set ten values in the last second.
pub fn set_nice_of(process: u32, nice: i32) -> io::Result<()> {
    writes::to_file(format!("/proc/{process}/autogroup"), nice.to_string())
}

/// Makes the calling process the leader of a new session. If [`autogroup_enabled`] returns true, the session is a new
/// task group. Needs no privilege.
///
/// # Errors
/// If the process already leads a process group.
#[cfg(feature = "commands")]
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Makes the calling process the leader of a new session, and gives the new session the nice value of the old session.
/// A measurement therefore keeps its weight.
///
/// # Errors
/// If [`new_session`] or [`set_nice_of`] fails.
#[cfg(feature = "commands")]
pub fn stand_apart() -> io::Result<()> {
    let nice = nice().unwrap_or(0);
    new_session()?;
    if nice == 0 { Ok(()) } else { set_nice_of(std::process::id(), nice) }
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
        let found = |membership, mounts: &str| control_group_in(&groups(membership, mounts)).cloned();
        let place_of = |membership, mounts: &str| found(membership, mounts).map(|(_, group)| group);
        assert_eq!(place_of("0::/slice/scope\n", &two), None);
        fs::write(root.join("slice/cpu.weight"), "900").unwrap();
        assert_eq!(place_of("0::/slice/scope\n", &two), Some(root.join("slice")));
        assert_eq!(place_of("0::/\n", &two), None);
        let one = format!("30 1 0:26 / {place} rw - cgroup cgroup rw,cpu");
        assert_eq!(place_of("1:cpu:/slice/scope\n", &one), Some(own.clone()));
        assert_eq!(place_of("1:cpu:/\n", &one), None);
        // Check the number and the weight of the group.
        let group = of_control_group(Version::Two, &root.join("slice")).unwrap();
        assert_eq!((group.id, group.milli), (fs::metadata(root.join("slice")).unwrap().ino() as u32, 9000));
        assert_eq!(of_control_group(Version::One, &own), None);
        fs::write(own.join("cpu.shares"), "512\n").unwrap();
        let below = of_control_group(Version::One, &own).unwrap();
        assert!(below.milli == 500 && below.id != group.id && below.parent != group.parent, "{below:?} {group:?}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_session_is_as_nice_as_a_thread_can_be() {
        // `nice` returns `None` if the kernel has no autogroups.
        assert!(nice().is_none_or(|nice| (-20..=19).contains(&nice)));
    }
}
