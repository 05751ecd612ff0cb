//! Comity's simulator: simulated machines on which the real policies run, for machine sizes that the user does not
//! have.
//!
//! There are two machines, each as detailed as its scale allows. Both drive `comity-policy` and `comity-protocol`, so
//! the code that decides in a simulation is the code that decides in real programs:
//!
//! - [`quanta`], the machine of the A-STEAL paper, with up to 10⁵ processors. A job scheduler allots processors to
//!   jobs for a quantum at a time. In each time step a processor works, steals, or mugs: it takes over the queue of a
//!   worker without a processor.
//! - [`threads`], a host with up to a thousand cores. Each core has a run queue, and the worker threads of several
//!   programs take turns on the cores and sleep. The programs share the cores through the core table, a memory in
//!   which they claim and release cores. In [`vms`] the cores of hosts are virtual CPUs of a [`hypervisor`].
//!
//! The simulator uses nothing of the machine that it runs on: no system call, no thread, no clock. One seed gives one
//! outcome, independent of other simulations and of optimisation (`lab/papers/tests/determinism.rs`). There is one
//! exception: `rand_distr` and `statrs` take logarithms and exponentials from the system's C library.
//!
//! Begin with [`scenario`], which combines a machine, programs and faults, then read `scenario/run.rs`. Each
//! machine's loop is at the top of its file: `threads.rs` and `quanta/job.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

/// The revision of the simulator. Every change of the simulator that changes the outcome of a seed increases it, so
/// that stored results of different revisions are not mixed.
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
