//! Standard streams that were closed when this program began.
//!
//! Before `main`, the standard library (`std::rt`) opens `/dev/null` in place of a closed stream. A program that this
//! process starts would then write to `/dev/null` instead of getting an error.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit n is set if descriptor n was closed, for n from 0 to 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// The function that records which streams are closed. The loader calls it before the standard library starts.
// SAFETY: `.init_array` holds pointers to C functions. The loader calls each once, while the process has one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn look() {
        for stream in 0..3 {
            // SAFETY: the call takes numbers only, and fails if the number is not a descriptor.
            if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
                CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
            }
        }
    }
    look
};

/// Closes these streams again in the program that `command` starts, also if it replaces this process.
pub fn stay_closed(command: &mut Command) {
    let closed = CLOSED.load(Ordering::Relaxed);
    if closed == 0 {
        // The standard library starts a command without `pre_exec` faster (`posix_spawn`).
        return;
    }
    let close = move || {
        for stream in (0..3).filter(|stream| closed >> stream & 1 == 1) {
            // SAFETY: the call takes a number only. No code uses this descriptor: it is `/dev/null`, opened by the
            // library.
            unsafe { libc::close(stream) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only, which is allowed between fork and exec.
    unsafe { command.pre_exec(close) };
}
