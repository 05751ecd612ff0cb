//! Sharing of the machine with other programs: a process has one program per policy, and each program has a
//! coordinator that manages its cores.

pub(crate) mod coordinator;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod observer;
pub(crate) mod program;
#[cfg(all(test, loom))]
mod watch_loom_tests;
