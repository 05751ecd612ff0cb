//! What the kernel knows and can do: parking, run status, cores, quota, task groups.
//!
//! One file per service, each with its cost. A service that this kernel refuses degrades what is built on it; it never changes an
//! outcome. This crate knows no policy, no pool and no table.
//!
//! What differs from system to system is in two folders with one interface: `linux`, and `portable` for all other systems, on the
//! standard library alone. Begin with `futex` and `park`, over `linux/calls.rs`.

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

// By the flag, Linux is tested as the other systems are.
#[cfg_attr(all(target_os = "linux", target_pointer_width = "64", not(comity_portable)), path = "linux/mod.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64", not(comity_portable))), path = "portable/mod.rs")]
mod system;

pub use comity_values::{CORES, CoreSet, SharedCoreSet};
pub use lock::lock;
pub use system::*;

/// Offers the core to whichever thread the kernel picks (`sched_yield`).
///
/// 0.4 µs when no other thread is there. Under EEVDF the caller forfeits its slice: a thread that yields before it sleeps
/// may wait 3 ms for the core at its next wake-up.
pub fn yield_core() {
    system::calls::yield_core();
}
