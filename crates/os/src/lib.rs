//! Services of the kernel: parking, run status (is a thread on a core?), cores, quotas, task groups.
//!
//! Each file is one service, documented with its cost. If the kernel refuses a service, the features that use it get
//! slower or coarser, but no result changes. This crate depends on no policy, pool or core table.
//!
//! System-dependent code is in two folders with the same interface: `linux`, and `portable` for all other systems. The
//! code in `portable` uses only the standard library. Read `futex` and `park` first, then `linux/calls.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod affinity;
pub mod at_exit;
pub mod barrier;
pub mod census;
mod cgroup;
pub mod clock;
pub mod cores;
pub mod cpu_clock;
pub mod environment;
pub mod files;
pub mod futex;
pub mod idle_clock;
mod lock;
pub mod memory;
pub mod park;
pub mod priority;
pub mod quota;
pub mod steal_time;
pub mod stopwatch;
pub mod thread_limit;
pub mod throttle;
pub mod usage;
pub mod writes;

// With the flag `comity_portable`, tests on Linux use the code for other systems.
#[cfg_attr(all(target_os = "linux", target_pointer_width = "64", not(comity_portable)), path = "linux/mod.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(comity_portable))), path = "portable/mod.rs")]
mod system;

pub use comity_values::{CORES, CoreSet, SharedCoreSet};
pub use lock::lock;
pub use system::*;

/// Offers the core to another thread, which the kernel picks (`sched_yield`).
///
/// Takes 0.4 µs when no other thread is runnable. With the EEVDF scheduler (Linux 6.6 and later), the caller loses the
/// rest of its slice. A thread that yields before it sleeps may then wait 3 ms for the core at its next wake-up.
pub fn yield_core() {
    system::calls::yield_core();
}
