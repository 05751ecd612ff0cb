//! The threads of this process as the kernel sees them.

/// The ids of this process' threads whose names begin with `prefix` (at most 15 bytes are kept of a name).
///
/// A thread names itself when it begins to run: before a pool's first broadcast some may have no name yet.
pub fn named(prefix: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process sees its threads");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| {
        // A thread that ends meanwhile has no name.
        std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).is_ok_and(|name| name.starts_with(prefix))
    })
    .collect()
}
