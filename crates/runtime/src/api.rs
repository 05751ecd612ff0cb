//! The interface for users: a pool, its builder, and the functions that give tasks to a pool. A free function uses
//! the current worker's pool. On a thread that is not a worker, it uses the global pool.

pub(crate) mod broadcast;
pub(crate) mod builder;
pub(crate) mod for_range;
pub(crate) mod global;
pub(crate) mod join;
pub(crate) mod pool;
pub(crate) mod scope;
pub(crate) mod spawn;
pub(crate) mod this_thread;
