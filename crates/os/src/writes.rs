//! Writes that cannot end the process by a signal.
//!
//! A write to a pipe without a reader raises SIGPIPE, and a write beyond `ulimit -f` raises SIGXFSZ. By default, both
//! signals end the process. The standard library ignores SIGPIPE only in programs whose `main` is in Rust. It does not
//! do so in a library that a program in another language loads.

use std::io::{self, Write as _};
use std::path::Path;

use crate::system::calls;

/// Calls `write` and returns its result. `write` gets an error where the kernel would also send SIGPIPE or SIGXFSZ to
/// the thread.
///
/// # Errors
/// The error of `write`. If the file would exceed the limit of file sizes, the error names the limit.
pub fn without_signals<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    calls::without_write_signals(write).map_err(|error| match calls::file_size_limit() {
        Some(most) if error.kind() == io::ErrorKind::FileTooLarge => {
            io::Error::other(format!("{error}: the limit of file sizes (`ulimit -f`) is {most} bytes"))
        }
        _ => error,
    })
}

/// Writes `bytes` to a file, which is created or truncated first.
///
/// # Errors
/// Errors of the system. See [`without_signals`].
pub fn to_file(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "other code writes files by this function")]
    without_signals(|| std::fs::write(path, bytes))
}

/// Writes `text` to standard error in one piece. Ignores errors, for example if a pipe has no reader.
pub fn to_stderr(text: &str) {
    #[expect(clippy::disallowed_methods, reason = "other code writes to standard error by this function")]
    let _ = without_signals(|| io::stderr().write_all(text.as_bytes()));
}

/// Writes a message of Comity as a line to standard error.
pub fn say(sentence: &str) {
    to_stderr(&format!("comity: {sentence}\n"));
}

#[cfg(all(test, target_os = "linux", not(comity_portable)))]
mod tests {
    use std::process::{Command, Stdio};
    use std::{env, fs};

    use super::*;

    /// The environment variable that is set in the child process that writes.
    const WITHIN: &str = "COMITY_TEST_WRITES";

    /// Returns the pending signals of the calling thread, as `/proc` shows them.
    fn pending() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let set = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap();
        u64::from_str_radix(set("SigPnd:"), 16).unwrap()
    }

    /// Runs `test` again after `setup`, in a process whose standard error has no reader.
    fn again(test: &str, setup: &str) -> std::process::Output {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]).arg(env::current_exe().unwrap());
        command.args(["--exact", &format!("writes::tests::{test}"), "--nocapture"]).env(WITHIN, "1");
        command.stderr(writer).stdout(Stdio::piped()).output().unwrap()
    }

    #[test]
    fn a_write_without_a_reader_or_beyond_the_limit_ends_no_program() {
        if env::var_os(WITHIN).is_none() {
            let output = again("a_write_without_a_reader_or_beyond_the_limit_ends_no_program", "ulimit -f 0");
            assert!(output.status.success(), "{output:?}");
            return;
        }
        // SAFETY: no handler is set. The standard library ignores SIGPIPE before `main`; a host in another language
        // does not.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        say("no reader");
        let path = env::temp_dir().join(format!("comity-writes-{}", std::process::id()));
        let error = to_file(&path, "more than nothing").unwrap_err();
        fs::remove_file(path).unwrap();
        assert!(error.to_string().ends_with("the limit of file sizes (`ulimit -f`) is 0 bytes"), "{error}");
        assert_eq!(pending(), 0);
    }

    #[test]
    fn a_signal_that_was_pending_before_stays_pending() {
        if env::var_os(WITHIN).is_none() {
            let output = again("a_signal_that_was_pending_before_stays_pending", ":");
            assert!(output.status.success(), "{output:?}");
            return;
        }
        // SAFETY: the set is initialized before it is read, and the signal is sent to this thread, which blocks it.
        unsafe {
            let mut signals = std::mem::zeroed();
            libc::sigemptyset(&mut signals);
            libc::sigaddset(&mut signals, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
            say("no reader");
            assert_eq!(pending(), 0);
            libc::raise(libc::SIGPIPE);
        }
        say("no reader");
        assert_eq!(pending(), 1 << (libc::SIGPIPE - 1));
    }
}
