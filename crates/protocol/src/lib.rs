//! The protocol steps that a thread pool takes around its policy: how its workers sleep and wake, and how its program
//! shares cores with others. The runtime's threads and the simulated machines execute the same steps.
//!
//! This crate uses no standard library, no threads, no clock and no system calls; nothing here waits or sleeps. A
//! [`Platform`](platform::Platform) provides the words that the steps read and write. A driver carries out the
//! effects of each step: the runtime with atomics and futexes, the tests with loom's atomics, the simulator with
//! cells.
//!
//! Begin with `sleep.rs`: which worker sleeps, and which step wakes it. `dialogue.rs` is the conversation of a thief
//! with its policy, `activation.rs` decides which workers are awake on which cores, and `quantum.rs` is the work of a
//! coordinator. The crate's `README.md` has the claims and their proofs.
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
