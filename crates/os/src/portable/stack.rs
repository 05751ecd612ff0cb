//! The call stack of another thread, which no thread can be asked for here.

use std::time::Duration;

use crate::cpu_clock::ThreadId;

/// `None`.
pub fn of_blocked_thread(_thread: ThreadId, _patience: Duration) -> Option<String> {
    None
}
