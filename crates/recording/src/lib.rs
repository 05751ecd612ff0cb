//! The runtime's interface for a run that is recorded: every pool has one worker, on which the program runs serially, and each
//! stretch between its forks and joins is measured.
//!
//! What is public here has its namesake in `comity`. The drop-in for rayon-core is compiled against either of the two;
//! `comity rayon enable --record` chooses this one, and `comity-lab record -- COMMAND` runs what was built.
//!
//! # What chooses from outside
//!
//! | variable | |
//! |---|---|
//! | `COMITY_RECORD=FILE` | the task graph is written there when the program ends; `%p` stands for the process's number |
//! | `COMITY_RECORD_MERGE_NS` | tasks shorter than this become part of their parents, or several of one fork become one; else 2000 |
//! | `COMITY_RECORD_TIME=FILE` | nothing is measured but the program's processor time, which is written there when it ends |
//! | `COMITY_NUM_THREADS`, `RAYON_NUM_THREADS` | for how many workers the program divides its work, as on a pool that has them |
//!
//! Without the first and the third the program runs serially, and nothing is written. All pools are under plain work stealing,
//! whatever `COMITY_POLICY` says.
//!
//! # What the graph has
//!
//! - **Threads.** Each thread that forks has a graph, from the processor time that it has had before its first fork on: for the main
//!   thread since the process began. Where it hands over to a pool ([`ThreadPool::install`], [`join()`] from outside) its graph goes
//!   along and comes back; what the handing over costs is not in it. Graphs of several threads are beside each other, as children of one
//!   fork: that one thread waits for another is not in them.
//! - **[`join()`]** is a fork of two children. Neither half says that it has migrated, but for those that came from outside, so
//!   rayon divides work as a pool does in which nothing is stolen.
//! - **[`scope()`]**: what a body spawns waits until the body is done, and then runs: the newest first, the oldest first in
//!   [`scope_fifo()`]. The first spawn is a fork, whose children are the rest of the body and all that it spawns: a later one is
//!   taken to be there from the first on. What is spawned from within a join in the body is a fork after the body.
//! - **[`broadcast()`]** is a fork with a child for each thread that the pool would have; all run on its one worker, each under its index.
//! - **[`spawn()`]**: a detached task is in a graph of its own beside the others, as children of one fork.
//! - A thread or a detached task that is still running when the program ends is not in the graph; how many there are is said in a line.
//!
//! A program whose tasks wait for one another (barriers, channels, a lock that another task lets go) stands still here, as it would
//! on a pool of one thread. So does a search of a range that only ends because threads look at several ends of it. A scope within a
//! scope runs its own tasks before those of the outer. [`yield_now()`] runs nothing that a scope holds back. Handlers are called for the
//! one thread that there is.
#![forbid(unsafe_code)]

mod broadcast;
mod builder;
mod children;
mod costs;
mod detached;
mod join;
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
