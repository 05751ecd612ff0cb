//! The interface through which a pool calls the program to which it belongs.

use comity_os::CoreSet;

/// The calls of a pool to its program.
pub(crate) trait Membership: Send + Sync {
    /// The cores that the system lets the program use. Empty until they are known.
    fn granted(&self) -> CoreSet;

    /// Called when a worker of the pool is awake, or is about to be woken for a task. Wakes a coordinator that sleeps
    /// because no pool had work.
    fn worker_is_up(&self);

    /// Called by a worker that ends, so that the program keeps the worker's processor time.
    fn worker_ends(&self);

    /// Called when the pool has ended.
    fn leave(&self);

    /// Waits until the coordinator has ended, if no pool needs it any more.
    fn join_coordinator_if_unused(&self);
}
