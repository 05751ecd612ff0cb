//! `join`: running two closures, potentially in parallel.

use std::marker::PhantomData;

use comity::internal::have_lenient_global_pool;

/// Runs both closures, potentially in parallel, and returns both results. See [`comity::join`].
///
/// # Panics
/// If `oper_a` or `oper_b` panics, with that panic, after both closures have ended. If both closures panic, with the
/// panic of `oper_a`.
#[inline(always)]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    have_lenient_global_pool();
    comity::join(oper_a, oper_b)
}

/// Runs both closures like [`join`], and passes each a context: it tells whether the closure runs on the thread of the
/// caller.
///
/// # Panics
/// See [`join`].
#[inline(always)]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    have_lenient_global_pool();
    comity::join_context(|context| oper_a(FnContext::new(context)), |context| oper_b(FnContext::new(context)))
}

/// The context of a closure of [`join_context`].
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// Makes the type neither `Send` nor `Sync`.
    _marker: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline(always)]
    fn new(context: comity::FnContext) -> FnContext {
        FnContext { migrated: context.migrated(), _marker: PhantomData }
    }

    /// True if another thread than this thread called [`join_context`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}
