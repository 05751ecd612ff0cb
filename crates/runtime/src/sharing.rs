//! How a process's pools share the machine with other programs: one program per policy, and the coordinator that looks
//! after its cores.

pub(crate) mod coordinator;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod observer;
pub(crate) mod program;
#[cfg(all(test, loom))]
mod watch_loom_tests;
