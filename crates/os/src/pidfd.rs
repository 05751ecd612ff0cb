//! The end of a process, told to others than its parent (Linux 5.3).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

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
