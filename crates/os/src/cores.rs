//! The cores that this process may use.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::system::calls;
use crate::{CORES, CoreSet};

/// A core (a logical processor) and its location. Package and node are 0 if the kernel does not report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// The kernel's number of the core.
    pub id: usize,
    /// The number of the physical package.
    pub package: usize,
    /// The number of the NUMA node.
    pub node: usize,
}

/// Returns the cores in the calling thread's affinity mask, by number. Empty only if the kernel does not answer.
pub fn allowed() -> Vec<Core> {
    of_this_thread()
        .iter()
        .map(|id| Core { id, package: package_of(id).unwrap_or(0), node: node_of(id).unwrap_or(0) })
        .collect()
}

fn of_this_thread() -> CoreSet {
    calls::affinity(0).unwrap_or(CoreSet::EMPTY)
}

/// Returns the core that runs the calling thread. The thread may have moved to another core by the time of the return.
pub fn current() -> usize {
    calls::core()
}

/// Returns the useful number of threads: `min(allowed cores, ⌈cgroup quota⌉)`, at least 1.
pub fn usable() -> NonZeroUsize {
    usable_of(of_this_thread().len())
}

/// Returns the useful number of threads, like [`usable`], if `allowed` cores are allowed. 0 means that the number of
/// allowed cores is unknown.
pub fn usable_of(allowed: usize) -> NonZeroUsize {
    limited(allowed, crate::quota::cores())
}

/// Returns the useful number of threads of another process, like [`usable_of`]. Takes about 50 µs.
pub fn usable_by(process: u32, allowed: usize) -> NonZeroUsize {
    limited(allowed, crate::quota::cores_of(process))
}

fn limited(allowed: usize, quota: Option<f64>) -> NonZeroUsize {
    let allowed =
        NonZeroUsize::new(allowed).or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    quota.map_or(allowed, |quota| limit(allowed, quota))
}

fn limit(allowed: NonZeroUsize, quota: f64) -> NonZeroUsize {
    NonZeroUsize::new(quota.ceil() as usize).unwrap_or(NonZeroUsize::MIN).min(allowed)
}

/// Returns the NUMA node of a core, or 0 if the kernel does not report it. The node is read once for each core.
pub fn node(core: usize) -> usize {
    const UNKNOWN: usize = usize::MAX;
    // Atomics instead of a lock: a child that is forked while another thread holds the lock would wait forever.
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
