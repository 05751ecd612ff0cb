//! A work-stealing runtime for machines that several parallel programs share.
//!
//! The interface is rayon's fork-join interface. A *policy* ([`Policy`]) decides what a worker does when it has no
//! task. Each paper that Comity implements has a policy; the default is `comity`. This crate provides threads,
//! queues, latches and futexes. It carries out the decisions of the policy, and of the rules by which workers sleep,
//! wake and share cores (crate `comity_protocol`). The same code serves every policy.
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
//! | `par_iter`, `par_sort` and all of `rayon::prelude` | rayon's own functions, on Comity's workers: `comity rayon enable` makes any program that uses rayon run on Comity (`docs/guide`, "A rayon program") |
//! | `(0..n).into_par_iter().for_each(…)` | [`for_range`] |
//! | `(0..n).into_par_iter().map(…).reduce(…)`, `sum()` | [`map_reduce`] |
//! | `slice.par_chunks_mut(n)`, `par_iter_mut` | [`scope`], with a task for each of the slice's `chunks_mut` |
//!
//! The crate `comity-flow` provides tasks that can wait (futures), and threads for calls that block.
//!
//! Outside of any pool, the free functions use a global pool, which is built at first use. [`ThreadPoolBuilder`]
//! lists the environment variables that set up a pool. A panic in a task reaches the caller that waits for the task.
//! The docs of [`join`] and [`scope`] say when. They also say which panic reaches the caller if several tasks panic.
//! A panic in a detached task ([`spawn`]) goes to the pool's panic handler. Without a panic handler, the process
//! aborts.
//!
//! Further reading: `workers/worker.rs` has a worker's loop, `workers/thief.rs` carries out a thief's actions, and
//! `raw/deque.rs` has the deque. The crate's `README.md` lists the folders and proves the deque correct.

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

/// Parts of an executor, for a crate that runs futures on a pool's workers, like `comity-flow`. A program that uses
/// such a crate does not need this module.
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
