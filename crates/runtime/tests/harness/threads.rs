//! The threads of this process as the kernel sees them.

use std::collections::BTreeSet;

/// The number of times that the folder is read. If a thread ends while the folder is read, the reading may miss other
/// threads.
const READINGS: usize = 5;

/// Returns the ids of this process' threads whose names begin with `prefix` (the kernel keeps at most 15 bytes of a
/// name).
///
/// A thread names itself when it begins to run. So before a pool's first broadcast, some threads may have no name
/// yet.
pub fn named(prefix: &str) -> BTreeSet<u32> {
    let ids: BTreeSet<u32> = (0..READINGS).flat_map(|_| all()).collect();
    // A thread that has ended meanwhile has no name.
    let name = |id: &u32| std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    ids.into_iter().filter(|id| name(id).is_ok_and(|name| name.starts_with(prefix))).collect()
}

fn all() -> impl Iterator<Item = u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process sees its threads");
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
}
