//! Plain values that the OS services and the protocol exchange: sets of cores, steal time, task groups.
//!
//! This crate uses no standard library and no system calls, and depends on no other crate.
#![no_std]
#![forbid(unsafe_code)]

mod core_set;
pub mod steal_time;
mod task_group;

pub use core_set::{CORES, CoreSet, SharedCoreSet};
pub use task_group::TaskGroup;
