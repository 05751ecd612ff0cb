//! What must not unwind.

use comity_os::writes;

/// Aborts the process with a sentence unless it is forgotten: for code that must not unwind.
pub(crate) struct AbortOnDrop(pub(crate) &'static str);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        writes::say(&format!("{}; aborting", self.0));
        std::process::abort();
    }
}

/// Drops what a panic left that no caller will hear of. That may run anything. If it panics, the process ends: no
/// caller can be told, and the threads that wait for this one would wait for ever.
pub(crate) fn drop_lost<T>(lost: T) {
    let abort = AbortOnDrop("what a panic left behind panicked when it was dropped, after another panic");
    drop(lost);
    std::mem::forget(abort);
}
