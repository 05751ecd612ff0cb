//! How much a command says on standard error beside errors: `-q` and `-v`.

use std::sync::atomic::{AtomicU8, Ordering};

use clap::Args;
use comity_os::writes::to_stderr;

/// The options of every verb.
#[derive(Args, Clone, Copy)]
pub struct Loudness {
    /// Say more on standard error: what was chosen, by what, and what is done
    #[arg(short, long, global = true, conflicts_with = "quiet", display_order = 900)]
    verbose: bool,
    /// No progress, warnings or hints on standard error: only results and errors
    #[arg(short, long, global = true, display_order = 901)]
    quiet: bool,
}

const USUAL: u8 = 0;
const QUIET: u8 = 1;
const VERBOSE: u8 = 2;

/// One for the process: whatever has something to say looks here.
static LOUDNESS: AtomicU8 = AtomicU8::new(USUAL);

impl Loudness {
    /// Takes effect from here on. A verb without progress, hints or details prints the same with the options.
    pub fn choose(self) {
        let loudness = if self.quiet { QUIET } else { USUAL } | if self.verbose { VERBOSE } else { USUAL };
        LOUDNESS.store(loudness, Ordering::Relaxed);
    }
}

/// Whether only results and errors are wanted.
pub fn is_quiet() -> bool {
    LOUDNESS.load(Ordering::Relaxed) == QUIET
}

/// Whether all is to be told.
pub fn is_verbose() -> bool {
    LOUDNESS.load(Ordering::Relaxed) == VERBOSE
}

/// A line unless `--quiet` is given. The reader of standard error may have gone: no failure.
pub fn hint(line: impl AsRef<str>) {
    if !is_quiet() {
        to_stderr(&format!("{}\n", line.as_ref()));
    }
}

/// A line for users of `--verbose`.
pub fn detail(line: impl FnOnce() -> String) {
    if is_verbose() {
        to_stderr(&format!("{}\n", line()));
    }
}
