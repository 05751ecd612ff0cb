//! Any system, by the standard library alone: a pool works, and that is all. A service that is missing degrades an action, never an
//! outcome, as on a Linux that refuses it.
//!
//! Threads park on condition variables. There are no masks, no run status, no barrier on other cores, no slices, no quotas, and no core
//! table; forks are not noticed, and `COMITY_WATCH` shows no call stacks.

pub(crate) mod calls;
pub mod file_lock;
pub mod fork;
pub mod slice;
pub mod stack;
pub mod task_group;
