//! The benchmark programs of the papers. Each is written once for all [`ForkJoin`] backends, and checks its result on
//! every run.
//!
//! A program is a [`Kernel`]: its input is built once, [`Kernel::compute`] is the timed part, and [`Kernel::verify`]
//! compares the output with a known result. [`catalog::DEFINITIONS`] lists all programs. [`catalog::prepare`] turns the
//! text `NAME[:key=value,…]` into a [`Program`] that is ready to run on any [`Backend`].
//!
//! A program must not know its backend, its policy, or the number of workers, because the backends are compared on
//! the same task graph. No kernel reads a clock to decide what to do.
//!
//! Begin with `fork_join.rs` and `program.rs`, then read one kernel, for example `kernels/mergesort.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod abp;
pub mod catalog;
pub mod definition;
mod difference;
mod fork_join;
pub mod joins;
mod parameters;
mod plate;
mod program;
mod randlc;
mod random;
pub mod record;
mod recurrence;
pub mod scaling;

pub mod kernels;

pub use fork_join::{ForkJoin, OnComity, OnRayon, Serial};
pub use parameters::{Parameter, ParameterError, Parameters};
pub use program::{Backend, Kernel, Program, Run, Verdict};
