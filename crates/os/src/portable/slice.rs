//! Time slices. Threads cannot have individual slices on this system.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// The shortest slice that Linux gives.
pub const SHORTEST: Duration = Duration::from_micros(100);
/// The longest slice that Linux gives.
pub const LONGEST: Duration = Duration::from_millis(100);

/// Returns `None`.
pub fn of(_thread: ThreadId) -> Option<Duration> {
    None
}

/// Returns false: no slice is set.
pub fn set(_length: Duration) -> bool {
    false
}

/// Returns `None`: no slice is set.
pub fn shorten(_length: Duration) -> Option<Shortened> {
    None
}

/// A guard of a thread with individual slices. No value of this type exists.
#[derive(Debug)]
pub enum Shortened {}
