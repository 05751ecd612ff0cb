//! Task graphs of real runs, which the simulator replays on machines that the user does not have.
//!
//! A [`Graph`] is series-parallel. A task is a list of steps, one after another: a serial stretch, a fork of tasks
//! that run in parallel and are joined, or a task that is repeated. The graph is compact: equal tasks are kept once.
//! A recurring phase is kept once too, with its number of repetitions and the distribution of the lengths of each of
//! its stretches.
//!
//! ```text
//! graph.rs     graphs and their limits
//! measure.rs   the work, span, number of tasks and leaf lengths of a graph
//! file.rs      writing and reading a graph file, and the messages about invalid files
//! recorder.rs  the recorder, which a run tells about its forks and joins
//! fold.rs      from the tree of a run to a graph: recurring parts become repetitions
//! merge.rs     merging short tasks into their parents, or several tasks of one fork into one
//! scale.rs     the graph of a larger input
//! beside.rs    several graphs that start at the same time
//! ```
//!
//! All lengths are nanoseconds of processor time. This crate knows no runtime, thread or clock: a driver passes the
//! time to a [`Recorder`]. Begin with `graph.rs`.
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
