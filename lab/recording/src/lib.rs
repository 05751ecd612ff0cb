//! The runtime's interface for recorded runs. Every pool has one worker, on which the program runs serially. This
//! crate measures each *stretch*: the serial code between two forks or joins.
//!
//! Each public item has the name of an item of `comity`. The drop-in for rayon-core is compiled against `comity` or
//! against this crate. `comity rayon enable --record` chooses this crate, and `comity-lab record -- COMMAND` runs the
//! result.
//!
//! This crate schedules nothing and knows no policy. It reports the begin and end of each task, and `comity_graph`
//! makes a graph from the reports. The crate's `README.md` describes its environment variables, the contents of the
//! graph, and the programs that hang under this crate. Begin reading with `session.rs`: a session is a recorder and a
//! thread's clock. When a run moves from a thread to a pool, its session moves too.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod broadcast;
mod builder;
mod children;
mod costs;
mod detached;
mod join;
mod place;
mod pool;
mod process;
mod scope;
mod session;

pub use comity::{
    BuildError, MAX_THREADS, ThreadBuilder, Yield, current_thread_has_pending_tasks, yield_local, yield_now,
};

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::ThreadPoolBuilder;
pub use costs::Costs;
pub use detached::{spawn, spawn_fifo};
pub use join::{FnContext, join, join_context};
pub use pool::{ThreadPool, current_num_threads, current_thread_index};
pub use process::MERGE_NS;
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use session::{fork_join, record};

/// Items for the drop-in, as in `comity`. These items are not part of this crate's interface: any version may change
/// them.
#[doc(hidden)]
pub mod internal {
    pub use crate::builder::lenient_builder;

    /// Does nothing: the global pool of this crate is always lenient.
    #[inline(always)]
    pub fn have_lenient_global_pool() {}
}
