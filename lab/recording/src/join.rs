//! `join`: a fork of two tasks.

use crate::pool;
use crate::session::{fork_join, is_quiet};

/// Runs `a` and then `b`, and returns both results.
///
/// # Panics
/// If `a` or `b` panics, with that panic, after both have ended. If both panic, with the panic of `a`.
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

/// Runs both closures like [`join`]. The context that a closure receives tells whether the closure was moved to another
/// thread.
///
/// # Panics
/// See [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // A quiet fork is always on a worker.
    if !is_quiet() && !pool::begin() {
        return outside(a, b);
    }
    fork_join(|| a(FnContext { migrated: false }), || b(FnContext { migrated: false }))
}

/// Runs both closures on the worker of the global pool.
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

/// The context of a closure of [`join_context`].
#[derive(Clone, Copy, Debug)]
pub struct FnContext {
    migrated: bool,
}

impl FnContext {
    /// True if this thread is not the one that called [`join_context`].
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}
