//! The memory that this process can still allocate.

use std::fs;
use std::path::Path;

use crate::cgroup::{Version, groups_in};

/// Returns the number of bytes that can be allocated without swapping. It is the minimum of the machine's available
/// memory and the memory that the limits of the process's control groups leave. `None` if the kernel does not report
/// it.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = groups_in("memory", &membership, &mounts).into_iter();
    Some(groups.filter_map(|(version, group)| left(version, &group)).fold(machine, u64::min))
}

/// Returns the bytes that a group's limit leaves. `None` if it has no limit.
fn left(version: Version, group: &Path) -> Option<u64> {
    let [limit, used] = match version {
        Version::One => ["memory.limit_in_bytes", "memory.usage_in_bytes"],
        Version::Two => ["memory.max", "memory.current"],
    };
    let bytes = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (bytes(limit)?, bytes(used)?);
    // Do not count the file cache as used: the kernel frees it before it kills a process for lack of memory.
    let kept = match version {
        Version::One => ["total_active_file", "total_inactive_file"],
        Version::Two => ["active_file", "inactive_file"],
    };
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let of_files: u64 =
        pairs.filter(|(name, _)| kept.contains(name)).filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum();
    Some(limit.saturating_sub(used.saturating_sub(of_files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_limit_leaves_what_is_not_used() {
        let folder = std::env::temp_dir().join(format!("comity-memory-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        write("memory.current", "300\n");
        write("memory.max", "max\n");
        assert_eq!(left(Version::Two, &folder), None);
        write("memory.max", "1000\n");
        assert_eq!(left(Version::Two, &folder), Some(700));
        write("memory.stat", "anon 100\nactive_file 50\ninactive_file 100\nfile 170\n");
        assert_eq!(left(Version::Two, &folder), Some(850));
        write("memory.stat", "");
        write("memory.max", "200\n");
        assert_eq!((left(Version::Two, &folder), left(Version::One, &folder)), (Some(0), None));
        fs::remove_dir_all(&folder).unwrap();
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
