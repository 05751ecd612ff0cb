//! The amount of detail on standard error: `-q` and `-v`.

use std::sync::atomic::{AtomicU8, Ordering};

use clap::Args;
use comity_os::writes::to_stderr;

/// The options of every verb.
#[derive(Args, Clone, Copy)]
pub struct Loudness {
    /// Print more detail on standard error: each choice, the setting that caused it, and each step
    #[arg(short, long, global = true, conflicts_with = "quiet", display_order = 900)]
    verbose: bool,
    /// Print no progress, warnings or hints on standard error, only results and errors
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
}

const USUAL: u8 = 0;
const QUIET: u8 = 1;
const VERBOSE: u8 = 2;

/// The amount of detail that this process prints. Each function that prints a hint or a detail reads it.
static LOUDNESS: AtomicU8 = AtomicU8::new(USUAL);

impl Loudness {
    /// Sets the amount of detail that this process prints from now on.
    pub fn choose(self) {
        let loudness = if self.quiet { QUIET } else { USUAL } | if self.verbose { VERBOSE } else { USUAL };
        LOUDNESS.store(loudness, Ordering::Relaxed);
    }
}

/// True if `--quiet` is given: print only results and errors.
pub fn is_quiet() -> bool {
    LOUDNESS.load(Ordering::Relaxed) == QUIET
}

/// True if `--verbose` is given: print every detail.
pub fn is_verbose() -> bool {
    LOUDNESS.load(Ordering::Relaxed) == VERBOSE
}

/// Prints a line on standard error unless `--quiet` is given. Ignores errors, for example if standard error is closed.
pub fn hint(line: impl AsRef<str>) {
    if !is_quiet() {
        to_stderr(&format!("{}\n", line.as_ref()));
    }
}

/// Prints a line on standard error if `--verbose` is given.
pub fn detail(line: impl FnOnce() -> String) {
    if is_verbose() {
        to_stderr(&format!("{}\n", line()));
    }
}
