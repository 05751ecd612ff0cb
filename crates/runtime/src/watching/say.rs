//! What a program says of itself: lines on standard error.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// In one piece, and without a panic where standard error is closed.
pub(crate) fn say(sentence: &str) {
    let _ = std::io::stderr().write_all(format!("comity: {sentence}\n").as_bytes());
}

/// A process says a thing once, however many pools it has.
pub(crate) fn say_once(said: &AtomicBool, sentence: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        say(sentence);
    }
}
