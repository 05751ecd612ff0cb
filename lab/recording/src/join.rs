//! `join`: a fork of two tasks.

use crate::pool;
use crate::session::{fork_join, is_quiet};

/// Runs `a` and then `b`, and returns both results.
///
/// # Panics
/// With the panic of `a` or of `b`, after both have ended. If both panic, with that of `a`.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(|_| a(), |_| b())
}

/// [`join`], with closures that are told whether they run on another thread than the one that called.
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // What is quiet is on a worker.
    if !is_quiet() && !pool::begin() {
        return outside(a, b);
    }
    fork_join(|| a(FnContext { migrated: false }), || b(FnContext { migrated: false }))
}

/// Both move to the global pool.
#[cold]
#[inline(never)]
fn outside<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    pool::on_worker(|| fork_join(|| a(FnContext { migrated: true }), || b(FnContext { migrated: true })))
}

/// Where a closure of [`join_context`] runs.
#[derive(Clone, Copy, Debug)]
pub struct FnContext {
    migrated: bool,
}

impl FnContext {
    /// Whether this is another thread than the one that called [`join_context`].
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}
