//! The end of a process, told to others than its parent (Linux 5.3).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::census::Stat;

/// A process, whatever program it runs, and never another that has its number later.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// The calling process. Closed on `exec`.
    ///
    /// # Errors
    /// If the kernel is too old, or the process has too many files open.
    pub fn of_this_process() -> io::Result<Pidfd> {
        Ok(Pidfd(pidfd_open(getpid(), PidfdFlags::empty())?))
    }

    /// A child of the calling process that nothing has waited for yet. Closed on `exec`.
    ///
    /// # Errors
    /// As with [`Pidfd::of_this_process`].
    pub fn of_child(child: &Child) -> io::Result<Pidfd> {
        Ok(Pidfd(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// The process of this number that began at `start`, as [`Stat::start`] has it. `None`: it has ended, or the kernel is too old.
    pub fn of_process(id: u32, start: u64) -> Option<Pidfd> {
        let process = pidfd_open(Pid::from_raw(i32::try_from(id).ok()?)?, PidfdFlags::empty()).ok()?;
        // Afterwards: if it is that one now, it was when it was opened.
        Stat::of_process(id).filter(|stat| stat.start == start).map(|_| Pidfd(process))
    }

    /// Stops the process (`SIGSTOP`); `false` if it has ended, or this one may not signal it.
    pub fn stop(&self) -> bool {
        pidfd_send_signal(&self.0, Signal::STOP).is_ok()
    }

    /// Has it go on (`SIGCONT`); `false` as with [`Pidfd::stop`].
    pub fn go_on(&self) -> bool {
        pidfd_send_signal(&self.0, Signal::CONT).is_ok()
    }

    /// Sends the process HUP, INT, QUIT, USR1, USR2 or TERM, by its number, unless it has ended; `false` if it has, or if the signal is
    /// another.
    pub fn send(&self, signal: i32) -> bool {
        let known = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TERM];
        let signal = known.into_iter().find(|known| known.as_raw() == signal);
        signal.is_some_and(|signal| pidfd_send_signal(&self.0, signal).is_ok())
    }

    /// Waits until all threads of the process have ended, but for no longer than `bound` or until a signal comes. Whether they
    /// have.
    pub fn has_ended_within(&self, bound: Duration) -> bool {
        let bound = Timespec::try_from(bound).ok();
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        matches!(poll(&mut polled, bound.as_ref()), Ok(1..))
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
