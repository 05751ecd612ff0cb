//! Notification of the end of the process.

use crate::system::calls;

/// Calls `hook` when this process ends by returning from `main` or by `exit`. The thread that ends the process calls
/// it, while other threads still run. A process that a signal ends, that aborts or that executes another program does
/// not call it. A forked child inherits the call.
///
/// # Errors
/// If the C library has no memory for the call, or the system does not support it.
pub fn call_at_exit(hook: extern "C" fn()) -> std::io::Result<()> {
    calls::at_exit(hook)
}
