//! Time slices, which threads have none of their own here.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// The shortest slice that Linux gives.
pub const SHORTEST: Duration = Duration::from_micros(100);
/// The longest one.
pub const LONGEST: Duration = Duration::from_millis(100);

/// `None`.
pub fn of(_thread: ThreadId) -> Option<Duration> {
    None
}

/// False: nothing is set.
pub fn set(_length: Duration) -> bool {
    false
}

/// `None`: nothing is set.
pub fn shorten(_length: Duration) -> Option<Shortened> {
    None
}

/// A thread with slices of its own. There is none.
#[derive(Debug)]
pub enum Shortened {}
