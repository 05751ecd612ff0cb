//! Functions about child processes: their resource usage, ending them together with their parent, and ending all of
//! them.
//!
//! A process can leave its process group or session by creating a new one. So neither groups nor sessions are a
//! reliable way to find all processes that a command has started. Here a process adopts its orphaned descendants
//! ([`adopt_orphans`]). Every descendant becomes its child as soon as the processes between the two have ended, and
//! [`end_children`] then reaches the descendant.

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::census::{self, Stat};
use crate::signals::{self, Signals};
use crate::task_group;
use crate::usage::Usage;

/// The interval between two checks in a wait with a time limit.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The maximum time for which [`end_children`] kills. A killed process ends when it next returns from the kernel, so
/// a process that remains is stuck inside the kernel.
const KILL_BOUND: Duration = Duration::from_secs(10);

/// True if this process ignores `signal`, because the process that started it arranged this. `nohup` and a shell's `&`
/// do so.
pub fn ignores(signal: i32) -> bool {
    Signals::of_process(std::process::id()).is_some_and(|signals| Signals::has(signals.ignored, signal))
}

/// Makes `command` start its program with a nice value of at least `nice`. Also applies if `command` replaces this
/// process.
pub fn start_nice(command: &mut Command, nice: i32) {
    let raise = move || {
        if rustix::process::getpriority_process(None)? < nice {
            rustix::process::setpriority_process(None, nice)?;
        }
        Ok(())
    };
    if nice > 0 {
        // SAFETY: the closure makes system calls only, which is allowed between fork and exec.
        unsafe { command.pre_exec(raise) };
    }
}

/// Makes the program that `command` starts the leader of a new session. If the session is a task group, gives it the
/// nice value `nice`. This process must have one thread when it starts the command.
pub fn start_session(command: &mut Command, nice: i32) {
    let begin = move || {
        rustix::process::setsid()?;
        if nice != 0 {
            // If the kernel refuses, the command has the default weight.
            let _ = task_group::set_nice_of(std::process::id(), nice);
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls, and allocates a path. The process has one thread, so no lock of the
    // allocator was held when it forked.
    unsafe { command.pre_exec(begin) };
}

/// True if process 1 waits for ended orphans, as far as this process can see. In a container, process 1 can be any
/// program. If it does not wait, ended orphans remain as zombies.
pub fn orphans_are_waited_for() -> bool {
    /// The programs that often keep an idle container running.
    const IDLE: [&str; 3] = ["sleep", "tail", "cat"];
    let name = || fs::read_to_string("/proc/1/comm").unwrap_or_default();
    signals::waits_for_any_child(1).unwrap_or_else(|| !IDLE.contains(&name().trim()))
}

/// Lets the kernel kill (`SIGKILL`) the calling process when the thread that started it ends.
///
/// # Errors
/// If `parent` is no longer the parent. The kernel would then never send the signal.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if u32::try_from(now) == Ok(parent) { Ok(()) } else { Err(io::Error::other("the parent process has ended")) }
}

/// Lets the kernel kill the process that `command` starts, when the thread that started the process ends. Has no effect
/// after that process executes a set-user-id program.
pub fn die_with_this_thread(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure makes two system calls and builds an error without allocating.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
            if now as u32 == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
        })
    }
}

/// Makes this process the new parent of every descendant whose parent ends.
///
/// # Errors
/// If the kernel refuses. No kernel since Linux 3.4 refuses.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Makes the calling process the leader of a new process group in its current session.
///
/// # Errors
/// If the process leads a session.
pub fn new_group() -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    Ok(())
}

/// Confines the calling thread, and the threads and processes that it starts from now on, to one core.
///
/// # Errors
/// If this process may not use that core.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only)?;
    Ok(())
}

/// Waits for the child `leader` to end, kills the rest of the process group that it leads, and returns its exit status
/// and resource usage. The usage includes the descendants that `leader` waited for.
///
/// # Errors
/// If `leader` is not a child, or another thread has waited for it.
pub fn wait_and_end_group(leader: u32) -> io::Result<(ExitStatus, Usage)> {
    let child = pid(leader).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    // The first wait does not free the child's number, so that the number cannot belong to another group at the kill.
    while let Err(error) = rustix::process::waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    signal_group(leader, Signal::KILL);
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`: it has integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `status` and `usage` are valid to write to for the length of the call.
        if unsafe { libc::wait4(child.as_raw_nonzero().get(), &mut status, 0, &mut usage) } != -1 {
            return Ok((ExitStatus::from_raw(status), Usage::from(usage)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits at most `bound` for the child `id` to end. `None` if it has not ended, or is no child of this process.
pub fn wait_at_most(id: u32, bound: Duration) -> Option<ExitStatus> {
    let pid = pid(id)?;
    let start = Instant::now();
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return Some(ExitStatus::from_raw(status.as_raw())),
            Ok(None) if start.elapsed() < bound => thread::sleep(LOOK_AGAIN),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Asks every process of the group that `leader` leads to end (`SIGTERM`). Does nothing if the group does not exist.
pub fn ask_group_to_end(leader: u32) {
    signal_group(leader, Signal::TERM);
}

/// Sends a signal to every process of the group that `leader` leads. Does nothing if the group does not exist or the
/// signal number is unknown. The caller must not have waited for `leader` yet, so that the number cannot belong to
/// another group.
pub fn send_to_group(leader: u32, signal: i32) {
    Signal::from_named_raw(signal).into_iter().for_each(|signal| signal_group(leader, signal));
}

fn signal_group(leader: u32, signal: Signal) {
    // `kill` takes the negated number of a group's leader. −1 stands for every process, so skip leader 1.
    if let Some(leader) = pid(leader).filter(|pid| !pid.is_init()) {
        let _gone = rustix::process::kill_process_group(leader, signal);
    }
}

/// Ends every child. Asks each child to end (`SIGTERM`), waits up to `grace`, then kills the remaining children and
/// newly adopted children until this process has no child. The call waits for all children, so no other thread may wait
/// for a child.
///
/// # Errors
/// If a child remains ten seconds after it was killed.
pub fn end_children(grace: Duration) -> io::Result<()> {
    let start = Instant::now();
    for child in children() {
        let _gone = rustix::process::kill_process(child, Signal::TERM);
    }
    while start.elapsed() < grace {
        if reap_children() {
            return Ok(());
        }
        thread::sleep(LOOK_AGAIN);
    }
    let start = Instant::now();
    while !reap_children() {
        if start.elapsed() > KILL_BOUND {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        for child in children() {
            let _gone = rustix::process::kill_process(child, Signal::KILL);
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Takes the exit statuses of all ended children. Returns true if no child is left.
fn reap_children() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_no_child) => return true,
        }
    }
}

/// Returns the children of this process. No returned number can be reused before this process waits for the child.
fn children() -> Vec<Pid> {
    let me = std::process::id();
    let is_own = |id: &u32| Stat::of_process(*id).is_some_and(|stat| stat.parent == me);
    census::processes().into_iter().filter(is_own).filter_map(pid).collect()
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        assert!(pin_to_core(usize::MAX).is_err());
    }
}
