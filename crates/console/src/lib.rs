//! Output and failures that the commands `comity` and `comity-lab` have in common.
//!
//! A verb that fails says why in one sentence on standard error. The exit code is 2 if the command line was invalid
//! and nothing has run, and 1 if a run failed.
//!
//! This crate knows no verb, no pool and no policy. Begin with `failure.rs` and `output.rs`.
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
