//! Notification of the end of the process.

use crate::system::calls;

/// Registers `hook`, which is called when this process ends by returning from `main` or by `exit`. The thread that ends
/// the process calls it, while other threads still run. The hook is not called if a signal ends the process, if the
/// process aborts, or if it executes another program. A forked child inherits the registration.
///
/// # Errors
/// If the C library has no memory for the registration, or the system does not support it.
pub fn call_at_exit(hook: extern "C" fn()) -> std::io::Result<()> {
    calls::at_exit(hook)
}
