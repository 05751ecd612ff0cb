//! Task graphs of real runs, which the simulator unfolds on machines that one does not have.
//!
//! A [`Graph`] is series-parallel. A task is a list of steps, one after another: a serial stretch, a fork of tasks
//! that run in parallel and are joined, or a task that is repeated. It is compact: equal tasks are kept once. A phase
//! that recurs is kept once too, with how often it does and how the lengths of each of its stretches are distributed.
//!
//! ```text
//! graph.rs     what a graph is, and what it may not be
//! measure.rs   its work, its span, its number of tasks, the lengths of its leaves
//! file.rs      a graph in a file, and what is said of a file that has none
//! recorder.rs  what a run says while it forks and joins
//! fold.rs      from a run's tree to a graph: what recurs becomes a repetition
//! merge.rs     short tasks become part of their parents, or several of one fork become one
//! scale.rs     the graph of a larger input
//! beside.rs    several graphs that begin together
//! ```
//!
//! All lengths are in nanoseconds of processor time. This crate knows no runtime, thread or clock: a driver tells a
//! [`Recorder`] what the time is. Begin with `graph.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod beside;
mod file;
mod fold;
mod graph;
mod measure;
mod merge;
mod recorder;
mod scale;

pub use graph::{About, Graph, Step, Stretch, Task, TaskId};
pub use measure::{Leaves, Measures};
pub use recorder::Recorder;
pub use scale::Scale;
