//! A work-stealing runtime for machines that several parallel programs share.
//!
//! The interface is rayon's fork-join interface. A *policy* decides what a worker does when it has no task: the
//! policy of one of the papers ([`Policy`]), or `comity`, the default. This crate provides threads, queues, latches
//! and futexes, and carries out the decisions of the policy and of the protocol (`comity_protocol`). It refers to no
//! policy by name.
//!
//! ```
//! fn fib(n: u64) -> u64 {
//!     if n < 2 {
//!         return n;
//!     }
//!     let (left, right) = comity::join(|| fib(n - 1), || fib(n - 2));
//!     left + right
//! }
//! assert_eq!(fib(16), 987);
//! ```
//!
//! | in rayon | here |
//! |---|---|
//! | `join`, `scope`, `spawn`, `broadcast`, `ThreadPoolBuilder`, `install` | the same names and shapes |
//! | `ThreadPoolBuilder::spawn_handler(f)`, then `build()` | [`ThreadPoolBuilder::build_with`] |
//! | `par_iter`, `par_sort` and all of `rayon::prelude` | rayon's own, on these workers: `comity rayon enable` puts Comity below any program that uses rayon (`docs/guide`, "A rayon program") |
//! | `(0..n).into_par_iter().for_each(…)` | [`for_range`] |
//! | `(0..n).into_par_iter().map(…).reduce(…)`, `sum()` | [`map_reduce`] |
//! | `slice.par_chunks_mut(n)`, `par_iter_mut` | [`scope`], with a task for each of the slice's `chunks_mut` |
//!
//! The crate `comity-flow` provides tasks that wait, and calls that block.
//!
//! Outside of any pool, the free functions use a global pool, which is built at first use. [`ThreadPoolBuilder`]
//! lists the settings that the environment chooses. A panic in a task reaches the caller that waits for the task.
//! [`join`] and [`scope`] say when, and which one if several tasks panic. A panic in a detached task ([`spawn`]) goes
//! to the pool's panic handler. Without a panic handler, the process aborts.
//!
//! Further reading: `workers/worker.rs` is a worker's loop, `workers/thief.rs` carries out a thief's actions, and
//! `raw/deque.rs` is the deque. The crate's `README.md` lists the folders and proves the deque correct.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod api;
mod blocking;
mod cores;
mod fork;
mod raw;
mod sharing;
mod watching;
mod workers;

pub use comity_policy::{Policy, PolicyError};

pub use api::broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use api::builder::{BuildError, MAX_THREADS, ThreadBuilder, ThreadPoolBuilder};
pub use api::for_range::{for_range, map_reduce};
pub use api::join::{FnContext, join, join_context, on_worker};
pub use api::pool::{ActiveThreadsError, ThreadPool};
pub use api::scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use api::spawn::{spawn, spawn_fifo};
pub use api::this_thread::{
    current_num_threads, current_thread_has_pending_tasks, current_thread_index, yield_local, yield_now,
};
pub use watching::counters::{Refusal, Refusals, WorkerCounters};
pub use workers::registry::Worker;
pub use workers::worker::Yield;

/// Parts of an executor, for crates that run tasks that block on these workers, as `comity-flow` does. A program that
/// only uses such tasks does not need this module.
pub mod executor {
    pub use crate::blocking::parker::Parker;
    pub use crate::blocking::runnable::{BorrowedWaker, Resume, Runnable};
}

/// Items for the other crates of Comity. They are not part of this crate's interface: any version may change them.
#[doc(hidden)]
pub mod internal {
    pub use crate::api::builder::{default_num_threads, default_policy, lenient_builder};
    pub use crate::api::global::have_lenient_global_pool;
    pub use crate::fork::PerProcess;
    pub use crate::workers::mask::spawn_thread;
}
