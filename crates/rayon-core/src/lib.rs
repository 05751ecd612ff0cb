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
//! | `COMITY_TABLE` | the core table by which programs share cores: a path, or `off`; else the user's own (`comity table --help`) |
//! | `COMITY_CORES` | the most cores that the program uses beside others, and its number of threads where none is said; else all |
//! | `COMITY_WEIGHT` | how much the program counts there, 1 to 10000; else 100 |
//! | `COMITY_WATCH=SECS` | pools that stand still for so long with work to do say who waits where |
//! | `COMITY_TRACE=FILE` | what each worker did when is written there, for Perfetto; `%p` stands for the process's number |
//!
//! A bad value fails a builder; the global pool that is built by itself says so in a line and takes the default.
//!
//! # Recorded
//!
//! The folder `recording` is this same source over another crate, which has the names of `comity` (`crates/recording`):
//! what `comity rayon enable --record` puts in. There every pool has one thread, the program runs serially and writes
//! its task graph, and what follows differs again, as told there.
//!
//! # Where it differs
//!
//! - After a fork the child has a global pool of its own, with as many workers, as large stacks and the same policy, but without
//!   the handlers and names. Other pools of its parent's panic there when they are used.
//! - The threads of the global pool that is built by itself are called `comity-0` and so on. A message of an abort begins with
//!   `comity:`.
//! - The right half of a join comes back to its caller before what the left half has [spawned](spawn()): where nobody else takes
//!   that, it runs when the caller waits, yields or is done. In the stock crate it runs before the right half.
//! - [`yield_now()`] and [`yield_local()`] take what was spawned before the halves of joins, and of these the outermost.
//! - A pool under a policy that shares cores, as the default is, has one more thread, `comity-share`, which sleeps while the pool has
//!   no work. Beside other programs its threads may be confined to some of the cores for a while, and a task may then see fewer
//!   (`available_parallelism`); threads and processes that it starts are let go within a tenth of a second.
//! - A waiting thread lays at most 64 tasks on its stack that it does not need there; then it rests. (The stock crate has no
//!   bound.) A task may find that its thread has [pending tasks](current_thread_has_pending_tasks()) that came with it.
//! - [`ThreadPoolBuilder::build_global`] may be tried again after an error.
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
