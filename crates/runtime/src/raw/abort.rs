//! Guards for code that must not unwind.

use comity_os::writes;

/// Aborts the process with a message when it is dropped. Code that must not unwind forgets it when it succeeds.
pub(crate) struct AbortOnDrop(pub(crate) &'static str);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        writes::say(&format!("{}. The program aborts.", self.0));
        std::process::abort();
    }
}

/// Drops a value that a panic left behind and that no caller will receive. The drop may run any code. If it panics,
/// the process aborts: no caller can learn of the panic, and the threads that wait for this one would wait for ever.
pub(crate) fn drop_lost<T>(lost: T) {
    let abort = AbortOnDrop("a value that a panic left behind panicked when it was dropped");
    drop(lost);
    std::mem::forget(abort);
}
