//! Messages of a program about itself: lines on standard error.

use std::sync::atomic::{AtomicBool, Ordering};

use comity_os::writes::say;

/// Prints a sentence once per process, for any number of pools.
pub(crate) fn say_once(said: &AtomicBool, sentence: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        say(sentence);
    }
}
