//! Being told that the process ends.

use crate::system::calls;

/// Calls `hook` when this process ends by returning from `main` or by `exit`, on the thread that ends it, while the others go on. A
/// process that a signal ends, that aborts or that becomes another program calls nothing. A forked child inherits the call.
///
/// # Errors
/// If the C library has no memory for it, or the system does not tell.
pub fn call_at_exit(hook: extern "C" fn()) -> std::io::Result<()> {
    calls::at_exit(hook)
}
