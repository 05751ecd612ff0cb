//! The maximum number of threads that this process can have.

use std::fs;
use std::path::Path;

use crate::cgroup;
use crate::system::calls;

/// The number of new threads below which limits are not read: with few threads, a failure to start one shows early
/// enough.
const FEW: u64 = 16;

/// A limit on the number of threads, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of threads, including the existing threads that the kernel counts for this limit.
    pub threads: u64,
    /// The name of the kernel's setting, for example `kernel.pid_max`.
    pub name: String,
}

/// Returns the lowest limit if `threads` exceeds it. Existing threads are not added to `threads`.
///
/// Takes about 50 µs, and nothing for fewer than 16 threads.
pub fn exceeded_by(threads: u64) -> Option<Limit> {
    if threads < FEW {
        return None;
    }
    let limits = [of_user(), of_groups(), of_system("threads-max"), of_system("pid_max")];
    let lowest = limits.into_iter().flatten().min_by_key(|limit| limit.threads);
    lowest.filter(|limit| threads > limit.threads)
}

/// Returns the limit of the user. It does not apply to a process with CAP_SYS_ADMIN or CAP_SYS_RESOURCE.
fn of_user() -> Option<Limit> {
    const SYS_ADMIN: u64 = 1 << 21;
    const SYS_RESOURCE: u64 = 1 << 24;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let is_bound = u64::from_str_radix(capabilities.trim(), 16).ok()? & (SYS_ADMIN | SYS_RESOURCE) == 0;
    let most = calls::thread_limit().filter(|_| is_bound);
    most.map(|threads| Limit { threads, name: "RLIMIT_NPROC (ulimit -u)".to_owned() })
}

fn of_groups() -> Option<Limit> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    of_groups_in(&membership, &mounts)
}

fn of_groups_in(membership: &str, mounts: &str) -> Option<Limit> {
    let groups = cgroup::groups_in("pids", membership, mounts).into_iter();
    let limits = groups.filter_map(|(_, group)| {
        let file = group.join("pids.max");
        Some(Limit { threads: number(&file)?, name: file.display().to_string() })
    });
    limits.min_by_key(|limit| limit.threads)
}

fn of_system(name: &str) -> Option<Limit> {
    let threads = number(&Path::new("/proc/sys/kernel").join(name))?;
    Some(Limit { threads, name: format!("kernel.{name}") })
}

/// Reads a number from a file. `None` for `max`, which means no limit in a control group's file.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_counts_and_is_named() {
        let root = std::env::temp_dir().join(format!("comity-pids-{}", std::process::id()));
        let own = root.join("pod/container");
        fs::create_dir_all(&own).unwrap();
        fs::write(root.join("pod/pids.max"), "150\n").unwrap();
        fs::write(own.join("pids.max"), "max\n").unwrap();
        let mounts = format!("30 1 0:26 / {} rw shared:1 - cgroup2 cgroup2 rw,nsdelegate", root.display());
        let found = of_groups_in("0::/pod/container\n", &mounts);
        fs::remove_dir_all(&root).unwrap();
        let name = root.join("pod/pids.max").display().to_string();
        assert_eq!(found, Some(Limit { threads: 150, name }));
        assert_eq!(exceeded_by(2), None);
        let above_all = exceeded_by(1 << 40).unwrap();
        assert!(above_all.threads < 1 << 40 && !above_all.name.is_empty());
    }
}
