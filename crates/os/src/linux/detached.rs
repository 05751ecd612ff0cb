//! Starting a process that is not a child of its starter. The two processes do not affect each other, and either may
//! end first.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::census;

/// Starts a copy of the calling process that calls `work` and ends. The copy is not a child of the caller. It has its
/// own session, and its current folder is `/`. Of the caller's descriptors, it keeps only `kept` and standard error.
/// Its name in `/proc/ID/comm` is the first 15 bytes of `name`.
///
/// Takes 0.3 ms, because without an `exec` no program has to be loaded.
///
/// # Errors
/// If the caller has several threads, because the copy would have only one of them. Also if the system cannot start a
/// process.
pub fn start(name: &str, kept: &[RawFd], work: impl FnOnce()) -> io::Result<()> {
    check_threads()?;
    let cores = sched_getaffinity(None)?;
    // Confine this thread to its core. The intermediate process inherits the mask, and runs here as soon as the caller
    // waits for it. On another core, it might wait for other threads.
    let _slower = stay_here();
    let started = start_by_another(&cores, || {
        stand_apart(name, kept);
        work();
    });
    sched_setaffinity(None, &cores)?;
    started
}

/// A child that [`start_child`] has started. Dropping the value kills the child. If the caller is killed, the child
/// continues.
pub struct Beside(Pid);

impl Drop for Beside {
    fn drop(&mut self) {
        // No other code waits for the child, so its number cannot belong to another process yet.
        let _gone = rustix::process::kill_process(self.0, Signal::KILL);
        while let Err(Errno::INTR) = rustix::process::waitpid(Some(self.0), WaitOptions::empty()) {}
    }
}

/// Starts a copy of the calling process that calls `work` and ends. Unlike the copy of [`start`], this copy is a child
/// of the caller. Its standard error is `/dev/null`.
///
/// # Errors
/// See [`start`].
pub fn start_child(name: &str, kept: &[RawFd], work: impl FnOnce()) -> io::Result<Beside> {
    check_threads()?;
    // SAFETY: the process has one thread, so the copy finds no lock held and no data half changed.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let work = AssertUnwindSafe(|| {
                stand_apart(name, kept);
                fall_silent();
                work();
            });
            end(i32::from(catch_unwind(work).is_err()))
        }
        child => {
            Pid::from_raw(child).map(Beside).ok_or_else(|| io::Error::other("fork returned an invalid process number"))
        }
    }
}

fn check_threads() -> io::Result<()> {
    if census::threads(std::process::id()).len() == 1 {
        return Ok(());
    }
    Err(io::Error::other("a process with several threads cannot be copied"))
}

fn stay_here() -> io::Result<()> {
    let mut here = CpuSet::new();
    let core = sched_getcpu();
    if core < CpuSet::MAX_CPU {
        here.set(core);
    }
    Ok(sched_setaffinity(None, &here)?)
}

/// Copies this process as fork(2) does, but the end of the child raises no SIGCHLD.
///
/// # Safety
/// The conditions of `fork` must hold. Also, the child must not use the thread number that the C library stores,
/// because only the library's `fork` updates that number.
unsafe fn fork_silently() -> libc::pid_t {
    // The order of the arguments differs between processors, but all are 0: there is no exit signal.
    // SAFETY: as the caller promises.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) } as libc::pid_t;
    // QEMU's user-mode emulation refuses a `clone` without an exit signal.
    if child == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // SAFETY: as the caller promises.
        return unsafe { libc::fork() };
    }
    child
}

/// Starts a child of this process, which starts the copy and then ends. The copy is therefore not a child of the
/// caller. The copy may use `cores`.
fn start_by_another(cores: &CpuSet, work: impl FnOnce()) -> io::Result<()> {
    // Raise no SIGCHLD: if this process blocks SIGCHLD, the signal would stay pending in the program that it executes.
    // SAFETY: this process has one thread, so the child finds no lock held and no data half changed. The child does not
    // use its thread number.
    let between = match unsafe { fork_silently() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            let _stays = sched_setaffinity(None, cores);
            // SAFETY: this process has one thread, so the child finds no lock held and no data half changed.
            match unsafe { libc::fork() } {
                -1 => end(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)),
                0 => end(i32::from(catch_unwind(AssertUnwindSafe(work)).is_err())),
                _ => end(0),
            }
        }
        child => child,
    };
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid to write to for the length of the call.
        if unsafe { libc::waitpid(between, &mut status, libc::__WALL) } == between {
            let code = libc::WEXITSTATUS(status);
            return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

/// Separates the copy from the caller. Errors are ignored: each step can fail only on an unusual system, and the other
/// steps still have their effect.
fn stand_apart(name: &str, kept: &[RawFd]) {
    let _stays = CString::new(name).is_ok_and(|name| rustix::thread::set_name(&name).is_ok());
    let _stays = rustix::process::setsid();
    let _stays = std::env::set_current_dir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _stays = rustix::stdio::dup2_stdin(&null);
        let _stays = rustix::stdio::dup2_stdout(&null);
    }
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut first = libc::STDERR_FILENO + 1;
    for kept in kept {
        close(first, kept - 1);
        first = kept + 1;
    }
    close(first, RawFd::MAX);
}

fn close(first: RawFd, last: RawFd) {
    // SAFETY: the call takes no pointers, and the copy does not use the descriptors from `first` to `last`:
    // `stand_apart` leaves out the kept descriptors and the standard streams.
    if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
        // Linux before 5.9 lacks the call. Closing a number that is no descriptor fails without harm.
        for descriptor in first..=last.min(4096) {
            // SAFETY: the call takes no pointers, and the copy does not use this descriptor.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Ends this process without running the exit handlers of the copied program.
fn end(code: i32) -> ! {
    // SAFETY: the call takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Replaces standard error by `/dev/null`, because a reader of the old file waits until all writers have closed it.
pub fn fall_silent() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _stays = rustix::stdio::dup2_stderr(&null);
    }
}
