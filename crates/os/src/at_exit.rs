//! Being told that the process ends.

/// Calls `hook` when this process ends by returning from `main` or by `exit`, on the thread that ends it, while the others go on. A
/// process that a signal ends, that aborts or that becomes another program calls nothing. A forked child inherits the call.
///
/// # Errors
/// If the C library has no memory for it.
pub fn call_at_exit(hook: extern "C" fn()) -> std::io::Result<()> {
    // SAFETY: the C library keeps a pointer to a function that lives as long as the program, and calls it without arguments, as its
    // type says.
    if unsafe { libc::atexit(hook) } == 0 { Ok(()) } else { Err(std::io::ErrorKind::OutOfMemory.into()) }
}
