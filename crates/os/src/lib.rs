//! What the kernel knows and can do: parking, run status, cores, quota, task groups.
//!
//! One file per service, each with its cost. A service that this kernel refuses is reported by [`Capabilities`] and
//! degrades what is built on it; it never changes an outcome.

pub mod affinity;
pub mod at_exit;
pub mod barrier;
#[cfg(feature = "commands")]
mod capabilities;
pub mod census;
mod cgroup;
pub mod clock;
pub mod cores;
pub mod cpu_clock;
#[cfg(feature = "commands")]
pub mod detached;
pub mod environment;
pub mod files;
pub mod futex;
pub mod idle_clock;
mod lock;
pub mod memory;
pub mod park;
#[cfg(feature = "commands")]
pub mod pidfd;
#[cfg(feature = "commands")]
pub mod process;
pub mod quota;
pub mod steal;
pub mod stopwatch;
#[cfg(feature = "commands")]
pub mod task_group;
pub mod thread_limit;
pub mod throttle;
pub mod usage;

#[cfg(feature = "commands")]
pub use capabilities::Capabilities;
pub use comity_protocol::{CORES, CoreSet, SharedCoreSet};

pub use lock::lock;
pub use system::{file_lock, fork, slice, stack};

/// What differs from system to system. Both have the same interface.
#[cfg_attr(all(target_os = "linux", target_pointer_width = "64", not(comity_portable)), path = "linux/mod.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(comity_portable))), path = "portable/mod.rs")]
mod system;

/// Offers the core to whichever thread the kernel picks (`sched_yield`).
///
/// 0.4 µs when nobody else is there. Under EEVDF the caller forfeits its slice: a thread that yields before it sleeps
/// may wait 3 ms for the core at its next wake-up.
pub fn yield_core() {
    system::calls::yield_core();
}
