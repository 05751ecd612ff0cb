//! Forks. The standard library cannot report them, so a forked child finds no working pool.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Does nothing: the hook is never called.
pub fn call_in_children(_hook: extern "C" fn()) {}

/// Does nothing: the hooks are never called.
pub fn call_before_and_in_children(_before: extern "C" fn(), _hook: extern "C" fn()) {}

/// A guard that delays no fork.
#[derive(Debug)]
pub struct HoldOff(());

/// Returns a guard that delays no fork, without waiting.
pub fn hold_off() -> HoldOff {
    HoldOff(())
}

/// Starts a thread that runs `body`.
///
/// # Errors
/// If the system cannot start the thread.
pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread.spawn(body)
}
