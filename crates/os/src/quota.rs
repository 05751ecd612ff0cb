//! The processor-time quota of the cgroups that contain this process.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cgroup::{self, Version};

/// The time for which a known quota stays valid, in milliseconds. A program may build many pools, and each pool reads
/// the quota.
const MEMORY_MS: u32 = 100;

/// The quota that was read last. The low half is the time of the reading, in ms. The high half is the quota in
/// thousandths of a core, or 0 without a quota. An atomic, because a fork could leave a lock locked in the child.
static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns the lowest quota, in cores, of all groups from this process's own group up to the root. `None` without a
/// quota. Reads cgroup v2 (`cpu.max`) and v1 (`cpu.cfs_quota_us`).
///
/// Takes about 50 µs, at most once in 0.1 s, so a change is seen up to 0.1 s late. The resolution is 0.001 cores.
pub fn cores() -> Option<f64> {
    // `crate::clock` would end the program under valgrind. If the system time is set back, the quota is read once more.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u32);
    // Relaxed, because no other data depends on the word.
    let last = LAST.load(Ordering::Relaxed);
    let known = last != u64::MAX && now.wrapping_sub(last as u32) < MEMORY_MS;
    let milli = if known {
        (last >> 32) as u32
    } else {
        find("/proc/self/cgroup").map_or(0, |cores| (cores * 1000.0).max(1.0) as u32)
    };
    if !known {
        LAST.store(u64::from(milli) << 32 | u64::from(now), Ordering::Relaxed);
    }
    (milli > 0).then(|| f64::from(milli) / 1000.0)
}

/// Returns the lowest quota, in cores, of the groups of another process, like [`cores`].
pub fn cores_of(process: u32) -> Option<f64> {
    find(&format!("/proc/{process}/cgroup"))
}

fn find(membership: &str) -> Option<f64> {
    let membership = fs::read_to_string(membership).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    cores_in(&membership, &mounts)
}

fn cores_in(membership: &str, mounts: &str) -> Option<f64> {
    cgroup::groups_in("cpu", membership, mounts)
        .into_iter()
        .filter_map(|(version, group)| quota(version, &group))
        .reduce(f64::min)
}

pub(crate) fn quota(version: Version, group: &Path) -> Option<f64> {
    match version {
        Version::Two => parse_cpu_max(&fs::read_to_string(group.join("cpu.max")).ok()?),
        Version::One => {
            let read = |name| fs::read_to_string(group.join(name)).ok();
            ratio(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
        }
    }
}

/// Parses `max 100000` or `150000 100000`: quota and period in µs.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

/// Returns quota divided by period. `None` for `max` (v2) and −1 (v1), which mean no quota.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.trim().parse().ok()?;
    let period: f64 = period.trim().parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_a_quota_are_read() {
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(ratio("-1\n", "100000\n"), None);
        assert_eq!(ratio("50000\n", "100000\n"), Some(0.5));
        assert_eq!(parse_cpu_max("garbage"), None);
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("comity-quota-{}", std::process::id()));
        let own = root.join("pod/container");
        fs::create_dir_all(&own).unwrap();
        fs::write(root.join("pod/cpu.max"), "150000 100000").unwrap();
        fs::write(own.join("cpu.max"), "max 100000").unwrap();
        let mounts = format!("30 1 0:26 / {} rw shared:1 - cgroup2 cgroup2 rw,nsdelegate", root.display());
        let found = cores_in("0::/pod/container\n", &mounts);
        // The mount shows a container that sees only its own part of the hierarchy.
        let inner = format!("30 1 0:26 /pod/container {} rw - cgroup2 cgroup2 rw", own.display());
        let inner_found = cores_in("0::/pod/container\n", &inner);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, inner_found), (Some(1.5), None));
    }

    #[test]
    fn version_one_is_found_by_its_controller() {
        let root = std::env::temp_dir().join(format!("comity-quota1-{}", std::process::id()));
        fs::create_dir_all(root.join("job")).unwrap();
        fs::write(root.join("job/cpu.cfs_quota_us"), "25000").unwrap();
        fs::write(root.join("job/cpu.cfs_period_us"), "100000").unwrap();
        let mounts = format!("31 1 0:27 / {} rw - cgroup cgroup rw,cpu,cpuacct", root.display());
        let found = cores_in("4:memory:/x\n2:cpu,cpuacct:/job\n", &mounts);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(0.25));
    }
}
