//! Deaths on purpose, for tests of what they leave behind.

/// The transitions at which a process can be made to die, in the order of a program's life.
pub const POINTS: &[&str] = &[
    "slot-locked",
    "slot-taken",
    "joined",
    "desire-reported",
    "owners-half-written",
    "core-claimed",
    "core-taken-back",
    "core-released",
    "core-lost",
    "reaping",
    "reaped-half",
    "reaped",
    "leaving",
    "left",
];

/// Dies here, by SIGKILL, if `COMITY_FAULT` is `POINT:N` and this is the N-th time that this process comes by.
#[cfg(feature = "faults")]
pub(crate) fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    debug_assert!(POINTS.contains(&name), "{name}");
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var("COMITY_FAULT").ok()?;
        let (point, nth) = text.split_once(':')?;
        assert!(POINTS.contains(&point), "COMITY_FAULT={text}: there is no such point");
        Some((point.to_owned(), nth.parse().ok()?))
    });
    if let Some((point, nth)) = chosen
        && point == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "faults"))]
pub(crate) fn point(_name: &str) {}
