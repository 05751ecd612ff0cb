//! Comity's simulator: machines that one does not have, on which the same policies run.
//!
//! The machine of the A-STEAL paper ([`machine`]) has processors that work, steal or mug in each time step, and gives them to
//! jobs for a quantum at a time. Its thieves, its feedback and its allotments are those of `comity-policy`, which also run on
//! threads.
//!
//! Deterministic: one seed gives one outcome, whatever runs beside what, optimised or not (`tests/determinism.rs`). What is
//! not ours to fix: `rand_distr` and `statrs` take logarithms and exponentials from the system's C library.
#![forbid(unsafe_code)]

/// Changes whenever the same seed gives another outcome: what was filed before is not mixed with what comes after.
pub const REVISION: u32 = 3;

pub mod availability;
pub mod conversation;
pub mod experiments;
pub mod host;
pub mod job;
pub mod machine;
pub mod network;
pub mod program;
pub mod random;
pub mod scenario;
pub mod workload;
