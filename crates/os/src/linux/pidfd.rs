//! Watching and signalling a process through a descriptor (Linux 5.3). Not only the parent of the process can do it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::census::Stat;

/// A descriptor of a process. It stays valid if the process executes another program, and never refers to a later
/// process with the same number.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens the calling process. The descriptor is closed on `exec`.
    ///
    /// # Errors
    /// If the kernel is too old, or the process has too many open files.
    pub fn of_this_process() -> io::Result<Pidfd> {
        Ok(Pidfd(pidfd_open(getpid(), PidfdFlags::empty())?))
    }

    /// Opens a child of the calling process that was not waited for yet. The descriptor is closed on `exec`.
    ///
    /// # Errors
    /// See [`Pidfd::of_this_process`].
    pub fn of_child(child: &Child) -> io::Result<Pidfd> {
        Ok(Pidfd(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Opens the process that has the number `id` and began at `start`, as in [`Stat::start`]. `None` if the process
    /// has ended, or if the kernel is too old.
    pub fn of_process(id: u32, start: u64) -> Option<Pidfd> {
        let process = pidfd_open(Pid::from_raw(i32::try_from(id).ok()?)?, PidfdFlags::empty()).ok()?;
        // Check the start after opening: if the number still belongs to that process, the descriptor refers to it.
        Stat::of_process(id).filter(|stat| stat.start == start).map(|_| Pidfd(process))
    }

    /// Stops the process (`SIGSTOP`). Returns false if it has ended, or if this process may not signal it.
    pub fn stop(&self) -> bool {
        pidfd_send_signal(&self.0, Signal::STOP).is_ok()
    }

    /// Continues the process (`SIGCONT`). Returns false in the same cases as [`Pidfd::stop`].
    pub fn go_on(&self) -> bool {
        pidfd_send_signal(&self.0, Signal::CONT).is_ok()
    }

    /// Sends the process the signal HUP, INT, QUIT, USR1, USR2 or TERM, given by its number. Returns false for other
    /// signals and if the signal could not be sent, for example because the process has ended.
    pub fn send(&self, signal: i32) -> bool {
        let known = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TERM];
        let signal = known.into_iter().find(|known| known.as_raw() == signal);
        signal.is_some_and(|signal| pidfd_send_signal(&self.0, signal).is_ok())
    }

    /// Waits until all threads of the process have ended, `bound` has passed, or a signal arrives. Returns true if all
    /// threads have ended.
    pub fn has_ended_within(&self, bound: Duration) -> bool {
        let bound = Timespec::try_from(bound).ok();
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        matches!(poll(&mut polled, bound.as_ref()), Ok(1..))
    }
}

impl AsRawFd for Pidfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
