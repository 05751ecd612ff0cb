//! Waits, with a time limit, for an effect of another thread that sends no notification.

use std::time::{Duration, Instant};

/// Waits until `condition` is true.
///
/// # Panics
/// With `sentence`, if `condition` is not true within two minutes. The limit is long, because it must tell a hang
/// from a slow machine.
pub fn wait_until(sentence: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "{sentence}: not within two minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
}
