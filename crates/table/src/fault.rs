//! Deaths on purpose, for tests of what they leave behind. Only this crate's own tests are built with them. A feature
//! would be switched on for all programs of a workspace at once, and no program that people run should die because of
//! a variable.

#[cfg(test)]
mod tests;

/// The transitions at which a process can be made to die, in the order of a program's life.
#[cfg(test)]
const POINTS: &[&str] = &[
    "slot-locked",
    "slot-marked",
    "joined",
    "desire-reported",
    "owners-half-written",
    "core-claimed",
    "core-taken-back",
    "core-released",
    "core-lost",
    "asking",
    "asked",
    "reaping",
    "reaped-half",
    "slot-freed",
    "reaped",
    "leaving",
    "left",
];

/// Dies here, by SIGKILL, if `COMITY_FAULT` is `POINT:N` and this is the N-th time that this process comes by.
#[cfg(test)]
pub(crate) fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    assert!(POINTS.contains(&name), "{name}");
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var("COMITY_FAULT").ok()?;
        let parts = text.split_once(':').and_then(|(point, nth)| Some((point.to_owned(), nth.parse().ok()?)));
        assert!(parts.as_ref().is_some_and(|(point, _)| POINTS.contains(&point.as_str())), "COMITY_FAULT={text}");
        parts
    });
    if let Some((point, nth)) = chosen
        && point == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(test))]
pub(crate) fn point(_name: &str) {}
