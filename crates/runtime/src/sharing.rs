//! Sharing of the machine with other programs. All pools of a process that have the same policy form one *program*.
//! Each program has a coordinator thread, which manages the program's cores.

pub(crate) mod coordinator;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod observer;
pub(crate) mod program;
#[cfg(all(test, loom))]
mod watch_loom_tests;
