//! The interface of rayon-core 1.13 over Comity's runtime.
//!
//! With this crate in the place of the one of its name (`comity rayon enable`), every program that uses rayon runs on
//! Comity, with no change to its source. There is no scheduling in here: each item passes on to its namesake in
//! `comity`. So this crate knows no deque, policy or core.
//!
//! A bad value in the environment costs the process one line on standard error, and the pools take the default. So
//! `comity::internal` has a builder for this crate, and a function that each free function calls before it uses the
//! global pool. The crate's `README.md` has the variables, and says where this crate differs from the stock one.
//!
//! The folder `recording` is this same source over another crate, which has the names of `comity`
//! (`lab/recording`): what `comity rayon enable --record` puts in.
//!
//! Begin with `builder.rs` and `thread_pool.rs`. As with the stock crate, a program can link only one rayon-core.

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
