//! Comity's simulator: machines that one does not have, on which the same policies run.
//!
//! There are two machines, each as fine as its scale allows. Both drive `comity-policy` and `comity-protocol`, so what
//! decides is the code that runs on threads:
//!
//! - [`quanta`], the machine of the A-STEAL paper: in each time step a processor works, steals or mugs, and jobs get
//!   processors for a quantum at a time. For 10⁵ processors.
//! - [`threads`], a host: cores with run queues, on which the worker threads of several programs take turns, sleep,
//!   and share the cores by the core table. For a thousand cores. In [`vms`] the cores of such hosts are virtual
//!   CPUs of a [`hypervisor`].
//!
//! It knows nothing of the machine that it runs on: no system call, no thread, no clock. One seed gives one
//! outcome, whatever runs beside what, optimised or not (`lab/papers/tests/determinism.rs`). One exception is not ours
//! to mend: `rand_distr` and `statrs` take logarithms and exponentials from the system's C library.
//!
//! Begin with [`scenario`], which puts a machine, programs and faults together, then `scenario/run.rs`. Each machine's
//! loop is at the top of its file: `threads.rs` and `quanta/job.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

/// Changes whenever the same seed gives another outcome: what was filed before is not mixed with what comes after.
pub const REVISION: u32 = 9;

mod acceleration;
pub mod availability;
pub mod conversation;
pub mod hypervisor;
pub mod network;
pub mod program;
pub mod quanta;
pub mod random;
pub mod scenario;
pub mod threads;
pub mod turns;
pub mod vms;
pub mod workload;
