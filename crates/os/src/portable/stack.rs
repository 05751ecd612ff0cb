//! The call stack of another thread, which this system does not provide.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// Returns `None`.
pub fn of_blocked_thread(_thread: ThreadId, _patience: Duration) -> Option<String> {
    None
}
