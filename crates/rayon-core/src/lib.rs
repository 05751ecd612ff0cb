//! The interface of rayon-core 1.13, implemented with Comity's runtime.
//!
//! If this crate replaces the stock rayon-core (`comity rayon enable`), every program that uses rayon runs on Comity,
//! without a change to its source. This crate does not schedule tasks: each item calls the item of the same name in
//! `comity`. So it depends on no deque, policy or core.
//!
//! If an environment variable is invalid, the process prints one line on standard error, and its pools use the default.
//! A pool of `comity` would report an error instead. So `comity::internal` has a builder for this crate, and a
//! function that each free function calls before it uses the global pool. The crate's `README.md` lists the variables
//! and the differences from the stock crate.
//!
//! The folder `recording` compiles the same source with `lab/recording`, a crate with the same item names as `comity`.
//! `comity rayon enable --record` uses the result.
//!
//! Read `builder.rs` and `thread_pool.rs` first. As with the stock crate, a program can link only one rayon-core.

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
