//! What the kernel knows and can do: parking, run status, cores, quota, task groups.
//!
//! One file per service, each with its cost. A service that this kernel refuses is reported by [`Capabilities`] and
//! degrades what is built on it; it never changes an outcome.

#[cfg(not(target_os = "linux"))]
compile_error!("Comity runs on Linux: it parks on futexes and reads the kernel's clocks and groups");

pub mod affinity;
pub mod at_exit;
pub mod barrier;
mod capabilities;
pub mod census;
mod cgroup;
pub mod clock;
pub mod cores;
pub mod cpu_clock;
pub mod detached;
pub mod environment;
pub mod file_lock;
pub mod fork;
pub mod futex;
pub mod idle_clock;
mod lock;
pub mod memory;
pub mod park;
pub mod pidfd;
pub mod process;
pub mod quota;
pub mod slice;
pub mod stack;
pub mod steal;
pub mod stopwatch;
pub mod task_group;
pub mod thread_limit;
pub mod throttle;
pub mod usage;

pub use capabilities::Capabilities;
pub use comity_protocol::{CORES, CoreSet, SharedCoreSet};

// No more fit into the masks that are exchanged with the kernel.
const _: () = assert!(CORES == rustix::thread::CpuSet::MAX_CPU);
pub use lock::lock;

/// Offers the core to whichever thread the kernel picks (`sched_yield`).
///
/// 0.4 µs when nobody else is there. Under EEVDF the caller forfeits its slice: a thread that yields before it sleeps
/// may wait 3 ms for the core at its next wake-up.
pub fn yield_core() {
    rustix::thread::sched_yield();
}
