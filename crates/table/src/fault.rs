//! Deliberate deaths and stops of a process, for tests of the state that they leave in the table. Only this crate's
//! unit tests contain them (`cfg(test)`). A Cargo feature would be enabled for all programs of a workspace at once,
//! and an environment variable could then kill a user's program.

#[cfg(test)]
mod tests;

/// The transitions at which a test can make a process die or stop, in the order of a program's life.
#[cfg(test)]
const POINTS: &[&str] = &[
    "file-made",
    "file-named",
    "mapped",
    "slot-locked",
    "slot-marked",
    "joined",
    "desire-reported",
    "owners-half-written",
    "core-claimed",
    "core-taken-back",
    "core-lent",
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
    "unmapped",
    "table-replaced",
];

/// Kills this process (SIGKILL) if `COMITY_FAULT` is `POINT:N` and the process reaches this point for the N-th time.
/// If the variable is `POINT:N:FILE`, stops the process (SIGSTOP) instead. After SIGCONT, waits until FILE exists:
/// another thread may take the SIGSTOP, so this thread could otherwise run past the point before the process stops.
#[cfg(test)]
pub(crate) fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static CHOSEN: OnceLock<Option<(String, u64, Option<String>)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    assert!(POINTS.contains(&name), "{name}");
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var("COMITY_FAULT").ok()?;
        let parts = match *text.split(':').collect::<Vec<_>>() {
            [point, nth] => nth.parse().ok().map(|nth| (point.to_owned(), nth, None)),
            [point, nth, file] => nth.parse().ok().map(|nth| (point.to_owned(), nth, Some(file.to_owned()))),
            _ => None,
        };
        assert!(parts.as_ref().is_some_and(|(point, ..)| POINTS.contains(&point.as_str())), "COMITY_FAULT={text}");
        parts
    });
    if let Some((point, nth, file)) = chosen
        && point == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        let _ = kill_process(getpid(), if file.is_some() { Signal::STOP } else { Signal::KILL });
        while file.as_ref().is_some_and(|file| !std::path::Path::new(file).exists()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(not(test))]
pub(crate) fn point(_name: &str) {}
