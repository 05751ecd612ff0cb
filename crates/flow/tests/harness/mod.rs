//! Helpers that the tests of tasks and of networks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time that a test waits for an event before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `holds` returns true. Panics with `what` after [`PATIENCE`].
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A guard that counts in `count` the guards that exist.
#[allow(dead_code, reason = "not every test program counts")]
pub struct Alive(Arc<AtomicUsize>);

impl Alive {
    /// Creates a guard and increments `count` until the guard is dropped.
    #[allow(dead_code, reason = "not every test program counts")]
    pub fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
