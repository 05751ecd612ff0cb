//! The implementation for any system, with the standard library alone. Pools work, and all other services are missing.
//! A missing service makes Comity slower or coarser but changes no result, as on a Linux that refuses the service.
//!
//! Threads park on condition variables. There are no affinity masks, no run status, no barrier on other cores, no
//! slices, no quotas and no core table. Forks are not noticed, and `COMITY_WATCH` shows no call stacks.

pub(crate) mod calls;
pub mod file_lock;
pub mod fork;
pub mod slice;
pub mod stack;
pub mod task_group;
