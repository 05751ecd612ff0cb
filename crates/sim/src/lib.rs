//! Comity's simulator: machines that one does not have, on which the same policies run.
//!
//! The machine of the A-STEAL paper ([`machine`]) has processors that work, steal or mug in each time step, and gives them to
//! jobs for a quantum at a time. Its thieves, its feedback and its allotments are those of `comity-policy`, which also run on
//! threads.
//!
//! Deterministic: one seed gives one outcome, whatever runs beside what, optimised or not (`tests/determinism.rs`). The one thing that is
//! not ours to fix is that `rand_distr` takes logarithms and exponentials from the system's C library.
#![forbid(unsafe_code)]

pub mod availability;
pub mod experiments;
pub mod job;
pub mod machine;
pub mod program;
pub mod random;
pub mod scenario;
pub mod workload;
