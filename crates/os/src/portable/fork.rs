//! Forks, of which the standard library does not tell: a child that is forked finds no pool that works.

use std::io;
use std::thread::{Builder, JoinHandle};

/// It is not called.
pub fn call_in_children(_hook: extern "C" fn()) {}

/// Neither is called.
pub fn call_before_and_in_children(_before: extern "C" fn(), _hook: extern "C" fn()) {}

/// It holds nothing off.
#[derive(Debug)]
pub struct HoldOff(());

/// It waits for nothing.
pub fn hold_off() -> HoldOff {
    HoldOff(())
}

/// Starts a thread that runs `body`.
///
/// # Errors
/// If the system gives no thread.
pub fn spawn(thread: Builder, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread.spawn(body)
}
