//! Code for output and failures that the commands `comity` and `comity-lab` share.
//!
//! A verb (subcommand) that fails prints the reason on standard error. The exit code is 2 if the command line was
//! invalid and nothing has run, and 1 if a run failed.
//!
//! This crate depends on no verb, pool or policy. Read `failure.rs` and `output.rs` first.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod choices;
mod failure;
pub mod generate;
pub mod loudness;
pub mod machine;
pub mod output;
pub mod parse;

pub use comity_table::printable;
pub use failure::Failure;
