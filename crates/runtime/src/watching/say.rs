//! What a program says of itself: lines on standard error.

use std::sync::atomic::{AtomicBool, Ordering};

use comity_os::writes::say;

/// A process says a thing once, however many pools it has.
pub(crate) fn say_once(said: &AtomicBool, sentence: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        say(sentence);
    }
}
