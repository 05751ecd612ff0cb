//! The interface of rayon-core 1.13 over Comity's runtime.
//!
//! With this crate in the place of the one of its name (`comity rayon enable`), every program that uses rayon runs on
//! Comity, with no change to its source. There is no scheduling in here: each item passes on to its namesake in `comity`.
//!
//! # What chooses from outside
//!
//! | variable | |
//! |---|---|
//! | `COMITY_NUM_THREADS`, `RAYON_NUM_THREADS`, `RAYON_RS_NUM_CPUS` | threads of a pool that is not told how many: the first that is set; else the usable cores |
//! | `COMITY_POLICY` | what a worker does that has no task, as `comity policies` lists; else `comity` |
//! | `COMITY=off` | plain work stealing, whatever `COMITY_POLICY` says |
//! | `COMITY_WATCH=SECS` | pools that stand still for so long with work to do say who waits where |
//!
//! # Where it differs
//!
//! - The global pool survives a fork: the child gets one of its own, with as many workers.
//! - A thread without a name is one here too, but a message of an abort begins with `comity:`.
//! - A closure that runs where a join waits is one that the join does not have to wait for, at most 64 deep: beyond that the
//!   waiting worker rests.
//! - Linux only; so the fallback for platforms without threads is not there.
//!
//! # Restricting multiple versions
//!
//! As with the stock crate, a program can link only one rayon-core.

mod broadcast;
mod builder;
mod configuration;
mod join;
mod private;
mod registry;
mod scope;
mod thread_pool;

pub use self::broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use self::builder::{ThreadPoolBuildError, ThreadPoolBuilder};
#[allow(deprecated)]
pub use self::configuration::{Configuration, initialize};
pub use self::join::{FnContext, join, join_context};
pub use self::registry::ThreadBuilder;
pub use self::scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use self::thread_pool::{
    ThreadPool, Yield, current_num_threads, current_thread_has_pending_tasks, current_thread_index, max_num_threads,
    spawn, spawn_fifo, yield_local, yield_now,
};
