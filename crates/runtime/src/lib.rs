//! A work-stealing runtime for machines that several parallel programs share.
//!
//! Fork-join as rayon's users know it, with the question *what does a worker do that has no task?* taken out of the
//! runtime and answered by a policy: one of the papers' ([`Policy`]), or `comity`, the default.
//!
//! ```
//! fn sum(numbers: &[u64]) -> u64 {
//!     if numbers.len() <= 1024 {
//!         return numbers.iter().sum();
//!     }
//!     let (left, right) = numbers.split_at(numbers.len() / 2);
//!     let (left, right) = comity::join(|| sum(left), || sum(right));
//!     left + right
//! }
//!
//! let numbers: Vec<u64> = (1..=100_000).collect();
//! assert_eq!(sum(&numbers), 5_000_050_000);
//! ```
//!
//! | in rayon | here |
//! |---|---|
//! | `join`, `scope`, `spawn`, `broadcast`, `ThreadPoolBuilder`, `install` | the same names and shapes |
//! | `par_iter`, `par_sort` and all of `rayon::prelude` | rayon's own, on these workers: `comity rayon enable` puts Comity below any program that uses rayon (`docs/use.md`) |
//! | `(0..n).into_par_iter().for_each(…)` | [`for_range`] |
//! | `(0..n).into_par_iter().map(…).reduce(…)`, `sum()` | [`map_reduce`] |
//! | `slice.par_chunks_mut(n)`, `par_iter_mut` | [`scope`], with a task for each of the slice's `chunks_mut` |
//!
//! Tasks that wait, and calls that block, are the crate `comity-flow`'s.
//!
//! Outside of any pool the free functions use a global one, built at first use. From outside of the program,
//! `COMITY_POLICY` and `COMITY_NUM_THREADS` choose what its builder does not; `COMITY_CORES` bounds the cores that a program uses; `COMITY_TABLE` and `COMITY_WEIGHT` (1 to 10000, else 100)
//! say by which table it shares cores with other programs, and how much it counts there; `COMITY=off` asks for plain work stealing; and
//! with `COMITY_WATCH=SECS` a pool that has stood still for so long, with something to do, says who waits where. `COMITY_TRACE=FILE` has what
//! each worker did when written there, in the Trace Event Format that Perfetto opens, with the process's number for `%p`. A bad value fails a
//! builder; where the global pool meets it at its first use, the program ends with a line that says so and the exit code 2. After a
//! fork the child gets a global pool of its own; other pools of its parent's are of no use there, and say so. Pools hold a fork
//! off while their threads start and end. Threads that the program starts itself do not: a child forked at the very moment in
//! which the standard library notes one can start no thread at all.
//!
//! # Panics
//!
//! A panic in a task reaches whoever waits for the task, after everything else that it waits for has finished: no other
//! task is lost. If both halves of a [`join`] panic, the left one's panic wins; of several in a [`scope`], the first.
//! A task that nobody waits for ([`spawn`]) reports to the pool's panic handler; without one, the process aborts.

mod api;
mod blocking;
#[cfg(all(test, not(loom)))]
mod conformance;
mod cores;
mod fork;
mod raw;
mod seam;
mod sharing;
mod watching;
mod workers;

pub use comity_policy::{Policy, PolicyError};

pub use api::broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use api::builder::{
    BuildError, MAX_THREADS, ThreadBuilder, ThreadPoolBuilder, default_num_threads, default_policy,
};
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

/// What an executor is made of: for crates that run tasks which block on these workers, as `comity-flow` does. A program that
/// only has such tasks needs nothing of it.
pub mod executor {
    pub use crate::blocking::parker::Parker;
    pub use crate::blocking::runnable::{BorrowedWaker, Resume, Runnable};
    pub use crate::fork::PerProcess;
    pub use crate::workers::mask::spawn_thread;
}
