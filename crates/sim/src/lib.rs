//! Comity's simulator: machines that one does not have, on which the same policies run.
//!
//! Two machines stay apart, for each is as fine as its scale allows, and both drive `comity-policy` and `comity-protocol`:
//!
//! - [`quanta`], the machine of the A-STEAL paper: in each time step a processor works, steals or mugs, and jobs get processors for a
//!   quantum at a time. For 10⁵ processors.
//! - [`threads`], a host: cores with run queues, on which the worker threads of several programs take turns, sleep, and share the
//!   cores by the core table. For a thousand cores. [`vms`] are such hosts whose cores are virtual CPUs of a [`hypervisor`].
//!
//! Deterministic: one seed gives one outcome, whatever runs beside what, optimised or not (`tests/determinism.rs`). What is
//! not ours to fix: `rand_distr` and `statrs` take logarithms and exponentials from the system's C library.
#![forbid(unsafe_code)]

/// Changes whenever the same seed gives another outcome: what was filed before is not mixed with what comes after.
pub const REVISION: u32 = 9;

mod acceleration;
pub mod availability;
pub mod conversation;
pub mod experiments;
pub mod hypervisor;
pub mod network;
pub mod program;
pub mod quanta;
pub mod random;
pub mod scenario;
pub mod threads;
pub mod vms;
pub mod workload;
