//! Locks that end with their process: on the bytes of a file, through an open file description (`F_OFD_SETLK`).
//!
//! The kernel releases such a lock when the last descriptor of the open file description is closed, however the process
//! ended. Such locks also work across PID namespaces, and do not depend on process numbers, which are reused.
//!
//! A forked child inherits the descriptor and would keep the lock. So each lock file has its own open file description,
//! whose descriptor is closed on `exec` and in the child after a fork. A memory mapping keeps open the description from
//! which it was made, also in a child. So no memory is mapped through this description.
//!
//! Some programs, for example daemons, close descriptors that they do not know, and the next file that they open gets
//! the number. So each operation first checks that the descriptor still belongs to the file that was opened.
//! [`LockFile::try_lock`] checks it again after the lock, and fails if it has locked another file. One race remains:
//! between the check and the operation, another thread may close the descriptor and open another file. Then a byte of
//! that file may stay locked until the file is closed, or the operation closes that file.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::fork;

/// The maximum number of lock files that a process may have open.
const MOST: usize = 4096;

const NONE: u64 = 0;

/// A descriptor that a forked child closes.
#[derive(Debug)]
struct Entry {
    /// The descriptor in the low half, and the number of its opening in the high half. The number distinguishes two
    /// openings with the same descriptor, for example of a parent and its child.
    opened: AtomicU64,
    /// The device of the file. Device and inode together identify the file.
    device: AtomicU64,
    inode: AtomicU64,
}

impl Entry {
    const fn new() -> Entry {
        Entry { opened: AtomicU64::new(NONE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// True if the descriptor still belongs to the file that was opened.
    fn is_of_its_file(&self, descriptor: RawFd) -> bool {
        let identity = (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        status(descriptor).is_ok_and(|status| status == identity)
    }
}

static OPEN: [Entry; MOST] = [const { Entry::new() }; MOST];

static OPENINGS: AtomicU32 = AtomicU32::new(1);

/// The end of the used entries: no entry from this index on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn in_child() {
    for entry in &OPEN[..USED.load(Ordering::Relaxed)] {
        let opened = entry.opened.swap(NONE, Ordering::Relaxed);
        let descriptor = opened as u32 as RawFd;
        if opened != NONE && entry.is_of_its_file(descriptor) {
            // SAFETY: the descriptor is this process's copy of one that a `LockFile` owns. Its entry is removed, so
            // no other code uses or closes it.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A file with its own open file description, on whose bytes this process can hold locks.
#[derive(Debug)]
pub struct LockFile {
    descriptor: RawFd,
    /// The value of `Entry::opened` while the file is open.
    opened: u64,
    entry: &'static Entry,
}

impl LockFile {
    /// Opens the file at `path`, which must not be a symbolic link.
    ///
    /// # Errors
    /// Errors of the system. Also if this process has 4096 lock files open.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        // An atomic, because a fork could leave a `Once` half done in the child. If two threads register the hook,
        // its second call in the child finds no entries.
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Relaxed) {
            fork::call_in_children(in_child);
            WATCHED.store(true, Ordering::Relaxed);
        }
        let name = CString::new(path.as_os_str().as_bytes())?;
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        // Delay forks: a child that is forked before the entry is written would not close the descriptor.
        let _no_fork = fork::hold_off();
        // SAFETY: `name` is a C string.
        let descriptor = unsafe { libc::open(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened above, and no other code has it.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let (device, inode) = status(descriptor)?;
        let opened = u64::from(OPENINGS.fetch_add(1, Ordering::Relaxed)) << 32 | u64::from(descriptor as u32);
        let is_free =
            |entry: &&Entry| entry.opened.compare_exchange(NONE, opened, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // If another entry has the same descriptor, other code has closed that entry's file. Remove that entry, so
        // that it does not close this file.
        for entry in &OPEN[..USED.load(Ordering::Relaxed)] {
            let before = entry.opened.load(Ordering::Relaxed);
            if before != NONE && before as u32 == descriptor as u32 {
                let _ = entry.opened.compare_exchange(before, NONE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let found = OPEN.iter().enumerate().find(|(_, entry)| is_free(entry));
        let (nth, entry) =
            found.ok_or_else(|| io::Error::other(format!("this process has {MOST} lock files open, the maximum")))?;
        USED.fetch_max(nth + 1, Ordering::Relaxed);
        // While `_no_fork` exists, no child can be forked with a half-written entry.
        entry.device.store(device, Ordering::Relaxed);
        entry.inode.store(inode, Ordering::Relaxed);
        Ok(LockFile { descriptor: file.into_raw_fd(), opened, entry })
    }

    /// Locks a byte exclusively, without waiting. Returns true if this file now has the lock, and false if another open
    /// file description has it.
    ///
    /// # Errors
    /// Errors of the system. Also if other code has closed the descriptor, even if another file has its number now.
    pub fn try_lock(&self, byte: u64) -> io::Result<bool> {
        match self.control(libc::F_OFD_SETLK, libc::F_WRLCK, byte) {
            Ok(_) if self.is_open() => Ok(true),
            Ok(_) => Err(was_closed()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if the descriptor is open and still belongs to this file. False in a forked child if the parent has created
    /// the value.
    pub fn is_open(&self) -> bool {
        self.entry.opened.load(Ordering::Relaxed) == self.opened && self.entry.is_of_its_file(self.descriptor)
    }

    /// Returns the identity of the file: its device and its inode number.
    pub fn identity(&self) -> (u64, u64) {
        (self.entry.device.load(Ordering::Relaxed), self.entry.inode.load(Ordering::Relaxed))
    }

    /// Releases a byte.
    pub fn unlock(&self, byte: u64) {
        // The only possible error is that other code has closed the descriptor, and then the lock is already gone.
        let _ = self.control(libc::F_OFD_SETLK, libc::F_UNLCK, byte);
    }

    /// True if another open file description has locked the byte. Does not lock the byte.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_locked_by_another(&self, byte: u64) -> io::Result<bool> {
        Ok(self.control(libc::F_OFD_GETLK, libc::F_WRLCK, byte)? != libc::F_UNLCK)
    }

    /// Executes a lock command on a byte. Returns the type of lock that the kernel wrote back.
    fn control(&self, command: libc::c_int, kind: libc::c_int, byte: u64) -> io::Result<libc::c_int> {
        if !self.is_open() {
            return Err(was_closed());
        }
        // SAFETY: all-zero bytes are a valid `flock`: it has integers only. `l_pid` must be 0 here.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = byte.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        lock.l_len = 1;
        // SAFETY: `lock` is a valid `flock`, which these commands read and write.
        if unsafe { libc::fcntl(self.descriptor, command, &mut lock) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(lock.l_type.into())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _no_fork = fork::hold_off();
        // In a forked child the descriptor is already closed, and its number may belong to another file.
        let is_open = self.is_open();
        if self.entry.opened.compare_exchange(self.opened, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && is_open
        {
            // SAFETY: the descriptor belongs to this value, because its entry was still there.
            drop(unsafe { OwnedFd::from_raw_fd(self.descriptor) });
        }
    }
}

fn was_closed() -> io::Error {
    io::Error::other("other code in this process closed the descriptor")
}

/// Returns the identity of a descriptor's file. It is safe to call in a forked child of a process with several threads.
fn status(descriptor: RawFd) -> io::Result<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid to write to and has the size of its type.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `status` is initialized.
    let status = unsafe { status.assume_init() };
    Ok((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn temporary(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("comity-lock-{name}-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn a_byte_has_one_holder_and_is_free_when_that_is_gone() {
        let path = temporary("holder");
        let (one, other) = (LockFile::open(&path).unwrap(), LockFile::open(&path).unwrap());
        assert!(one.try_lock(3).unwrap() && one.try_lock(3).unwrap());
        assert!(!other.try_lock(3).unwrap() && other.try_lock(4).unwrap());
        assert!(other.is_locked_by_another(3).unwrap() && !one.is_locked_by_another(3).unwrap());
        one.unlock(3);
        assert!(other.try_lock(3).unwrap());
        drop(other);
        assert!(one.try_lock(3).unwrap() && one.try_lock(4).unwrap());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_link_is_not_followed() {
        let path = temporary("link");
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let refused = LockFile::open(&link).unwrap_err();
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn a_descriptor_that_something_else_closed_and_opened_again_locks_nothing() {
        let path = temporary("closed");
        let (lost, witness) = (LockFile::open(&path).unwrap(), LockFile::open(&path).unwrap());
        assert!(lost.try_lock(1).unwrap());
        // SAFETY: this is the case under test: code of this process closes a descriptor that it does not own.
        unsafe { libc::close(lost.descriptor) };
        let other = temporary("other");
        let number = lost.descriptor;
        // The lowest free number is used first. Other tests may open files in between.
        let files: Vec<_> =
            std::iter::repeat_with(|| std::fs::File::options().read(true).write(true).open(&other).unwrap())
                .take(50)
                .collect();
        assert!(!lost.is_open());
        assert!(lost.try_lock(1).is_err() && lost.is_locked_by_another(1).is_err());
        lost.unlock(1);
        drop(lost);
        assert!(witness.try_lock(1).unwrap(), "the lock went with the descriptor");
        let taken_over = files.iter().find(|file| std::os::fd::AsRawFd::as_raw_fd(*file) == number);
        assert!(taken_over.is_none_or(|file| file.metadata().is_ok()), "the other file is still open");
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&other).unwrap();
    }

    #[test]
    fn a_forked_child_that_lives_on_does_not_keep_the_lock() {
        let path = temporary("fork");
        let held = LockFile::open(&path).unwrap();
        assert!(held.try_lock(0).unwrap());
        // SAFETY: the child calls nothing but `pause` and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: these calls are allowed after a fork.
            unsafe {
                libc::alarm(600);
                libc::pause();
                libc::_exit(0)
            }
        }
        drop(held);
        // Until the child has run, it still has the descriptor.
        let other = LockFile::open(&path).unwrap();
        let free = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            other.try_lock(0).unwrap()
        });
        // SAFETY: the child was forked above and not waited for yet.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(child > 0 && free);
    }

    #[test]
    fn a_child_that_is_forked_while_a_lock_ends_does_not_keep_it() {
        let path = temporary("fork-end");
        let other = LockFile::open(&path).unwrap();
        let end = AtomicBool::new(false);
        let mut children = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    let held = LockFile::open(&path).unwrap();
                    assert!(held.try_lock(0).unwrap());
                    drop(held);
                    // The newest child has a copy of the descriptor until it has run.
                    while !other.try_lock(0).unwrap() && !end.load(Ordering::Relaxed) {
                        crate::yield_core();
                    }
                    other.unlock(0);
                }
            });
            for _ in 0..150 {
                // SAFETY: the child calls nothing but `alarm`, `pause` and `_exit`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: these calls are allowed after a fork.
                    unsafe {
                        libc::alarm(600);
                        libc::pause();
                        libc::_exit(0)
                    }
                }
                children.push(child);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            end.store(true, Ordering::Relaxed);
        });
        let free = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            other.try_lock(0).unwrap()
        });
        for child in children {
            // SAFETY: the child was forked above and not waited for yet.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(free);
    }
}
