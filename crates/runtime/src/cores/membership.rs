//! The program that a pool belongs to, as the pool sees it.

use comity_os::CoreSet;

/// What a pool asks of its program, and tells it.
pub(crate) trait Membership: Send + Sync {
    /// The cores that the system lets the program use; none until that is known.
    fn granted(&self) -> CoreSet;

    /// A worker of the pool is up, or is about to be woken for a task: a coordinator that sleeps because no pool had work is to be woken.
    fn worker_is_up(&self);

    /// The worker that calls this ends: the program counts where its time went.
    fn worker_ends(&self);

    /// The pool has ended.
    fn leave(&self);

    /// Waits until the coordinator has ended, if there is no pool for it any more.
    fn join_coordinator_if_unused(&self);
}
