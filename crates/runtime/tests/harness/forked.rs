//! Forked children, without an `exec`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Forks, and returns true if `body` returned true in the child. No thread of this process may start or end during
/// the fork, because the standard library then holds a lock. Threads of pools wait for the fork automatically.
///
/// # Panics
/// If this process cannot fork, or the child takes longer than two minutes.
#[allow(dead_code, reason = "not every test program waits for the child")]
pub fn in_a_fork(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body` and ends without returning into the parent's frames. The test checks that other
    // threads of this process hold no lock that `body` needs.
    match unsafe { libc::fork() } {
        -1 => panic!("this process cannot fork"),
        0 => {
            let right = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if right { 7 } else { 1 }) }
        }
        child => {
            let deadline = Instant::now() + Duration::from_secs(120);
            let mut status = 0;
            // SAFETY: `status` is an integer to write to; the child is this process's own.
            while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } != child {
                if Instant::now() > deadline {
                    // SAFETY: the child is this process's own, and has not been waited for.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                    panic!("the forked child {child} hangs");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
        }
    }
}

/// Forks a child that runs `body` and ends, and does not wait for it. Returns its number.
#[allow(dead_code, reason = "not every test program leaves a child behind")]
pub fn leave_a_fork(body: impl FnOnce()) -> u32 {
    // SAFETY: as in `in_a_fork`.
    match unsafe { libc::fork() } {
        -1 => panic!("this process cannot fork"),
        0 => {
            let _ = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        child => child as u32,
    }
}

/// Kills a child of [`leave_a_fork`] for which this process has not waited yet.
#[allow(dead_code, reason = "not every test program leaves a child behind")]
pub fn kill(child: u32) {
    // SAFETY: the child is this process's own, and nothing is written of its status.
    let waited_for = unsafe {
        libc::kill(child as i32, libc::SIGKILL);
        libc::waitpid(child as i32, std::ptr::null_mut(), 0)
    };
    assert_eq!(waited_for, child as i32);
}

/// Makes this process continue after its parent has ended. Only the calling thread is left.
#[allow(dead_code, reason = "not every test program becomes a daemon")]
pub fn become_a_daemon() {
    // SAFETY: the folder and the streams stay the same. The other threads are gone, as after any fork.
    assert_eq!(unsafe { libc::daemon(1, 1) }, 0, "this process cannot become a daemon");
}

/// Makes the standard library start this command by `fork`, and not by `posix_spawn`.
#[allow(dead_code, reason = "not every test program asks for it")]
pub fn with_a_fork(command: &mut std::process::Command) -> &mut std::process::Command {
    // SAFETY: nothing is done between the fork and the `exec`.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, || Ok(())) }
}

/// Ends the process at once: nothing is dropped.
#[allow(dead_code, reason = "not every test program ends so")]
pub fn end_at_once() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}
