//! What a pool does around its policy, as steps: each is decided here once, for threads and for simulated machines.
//!
//! This crate knows no standard library, no threads, no clock and no system calls; nothing here waits or sleeps. A
//! [`Platform`](platform::Platform) has the words that the steps read and write. Its driver carries out what a step
//! says: the runtime with atomics and futexes, the tests with loom's atomics, the simulator with cells.
//!
//! Begin with `sleep.rs`: which worker sleeps, which step wakes it. `dialogue.rs` is a thief's conversation with its
//! policy, `activation.rs` says which workers are awake on which cores, and `quantum.rs` is what a coordinator does.
//! The crate's `README.md` has the claims and their proofs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod activation;
pub mod command;
mod core_word;
mod demand;
pub mod dialogue;
pub mod look;
pub mod observer;
pub mod orders;
mod partition;
pub mod platform;
pub mod program;
pub mod quantum;
mod shortfall;
pub mod sleep;
mod standing;
pub mod steal_time;
pub mod table;

pub use comity_values::{CORES, CoreSet, SharedCoreSet, TaskGroup};
pub use core_word::{CoreWord, SlotId};
pub use demand::{Demand, Look};
pub use partition::{Partition, Party, partition};
pub use shortfall::Shortfall;
pub use standing::{SLOTS, STOPPED_AFTER, Standing, TURN, Way};
