//! What the commands `comity` and `comity-lab` print and how they fail, the same in both.
//!
//! A verb that fails says why in one sentence on standard error. The exit code is 2 where the command line was at
//! fault and nothing has run, and 1 where something ran and failed.
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
