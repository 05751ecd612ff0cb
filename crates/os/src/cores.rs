//! The cores that this process may use.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::system::calls;
use crate::{CORES, CoreSet};

/// One core (a logical processor) and where it sits. Package and node are 0 where the kernel does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// The kernel's number.
    pub id: usize,
    /// The physical package.
    pub package: usize,
    /// The NUMA node.
    pub node: usize,
}

/// The cores that the calling thread's affinity mask allows, by number. Empty only if the kernel does not answer.
pub fn allowed() -> Vec<Core> {
    of_this_thread()
        .iter()
        .map(|id| Core { id, package: package_of(id).unwrap_or(0), node: node_of(id).unwrap_or(0) })
        .collect()
}

fn of_this_thread() -> CoreSet {
    calls::affinity(0).unwrap_or(CoreSet::EMPTY)
}

/// The core that the calling thread is on. It may be on another when this returns.
pub fn current() -> usize {
    calls::core()
}

/// How many threads it makes sense to run: the allowed cores, or fewer where a cgroup quota gives fewer cores' worth
/// of time (rounded up). At least one.
pub fn usable() -> NonZeroUsize {
    usable_of(of_this_thread().len())
}

/// The same where so many cores are allowed; 0: it is not known how many.
pub fn usable_of(allowed: usize) -> NonZeroUsize {
    let allowed =
        NonZeroUsize::new(allowed).or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    match crate::quota::cores() {
        Some(quota) => limit(allowed, quota),
        None => allowed,
    }
}

fn limit(allowed: NonZeroUsize, quota: f64) -> NonZeroUsize {
    NonZeroUsize::new(quota.ceil() as usize).unwrap_or(NonZeroUsize::MIN).min(allowed)
}

/// The NUMA node of a core; 0 where the kernel does not say. It is asked once for each core.
pub fn node(core: usize) -> usize {
    const UNKNOWN: usize = usize::MAX;
    // No lock: a child that is forked while another thread asks would find it taken for ever.
    static NODES: [AtomicUsize; CORES] = [const { AtomicUsize::new(UNKNOWN) }; CORES];
    let Some(node) = NODES.get(core) else { return 0 };
    let known = node.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let found = node_of(core).unwrap_or(0);
    node.store(found, Ordering::Relaxed);
    found
}

fn package_of(id: usize) -> Option<usize> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{id}/topology/physical_package_id")).ok()?;
    text.trim().parse().ok()
}

fn node_of(id: usize) -> Option<usize> {
    fs::read_dir(format!("/sys/devices/system/cpu/cpu{id}")).ok()?.find_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn never_more_usable_cores_than_allowed_ones() {
        let allowed = allowed();
        assert!(!allowed.is_empty());
        assert!(usable().get() <= allowed.len());
    }

    #[test]
    fn a_quota_rounds_up_and_never_adds_cores() {
        let four = NonZeroUsize::new(4).unwrap();
        for (quota, expected) in [(0.1, 1), (1.0, 1), (1.5, 2), (4.0, 4), (64.0, 4), (f64::INFINITY, 4)] {
            assert_eq!(limit(four, quota).get(), expected, "{quota}");
        }
    }
}
