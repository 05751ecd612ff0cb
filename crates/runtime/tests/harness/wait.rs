//! Waiting for what another thread does without telling, with a bound.

use std::time::{Duration, Instant};

/// Waits until `condition` holds.
///
/// # Panics
/// With `sentence`, if it does not within half a minute.
pub fn wait_until(sentence: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{sentence}: not within half a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}
