//! Locks that end with their process: on the bytes of a file, through an open file description (`F_OFD_SETLK`).
//!
//! The kernel releases such a lock when the last descriptor of its description is closed, whatever the process died of, and
//! answers across PID namespaces and reused process numbers. A forked child has the descriptor too and would keep the lock
//! alive; so a lock has an `open` of its own, closed on `exec` and closed in the child after a fork. A mapping holds on to the
//! description that it was made from, in children too; so nothing is mapped from this one.
//!
//! A program may close descriptors that it does not know (as daemons do), and its next file then gets the number. So before a
//! descriptor is locked, unlocked or closed it is compared with the file that was opened, and after a lock once more: a lock on
//! another file counts for nothing. What remains is the moment between the comparison and the call, in which another thread would
//! have to close the descriptor and open a file: that file would have a byte locked until it is closed, or be closed itself.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::fork;

/// How many lock files a process may have open at a time.
const MOST: usize = 4096;

const NONE: u64 = 0;

/// A descriptor that a forked child closes.
#[derive(Debug)]
struct Entry {
    /// The descriptor, and the number of its opening above it: a child may get the same descriptor again for a file of its own.
    opened: AtomicU64,
    /// Which file it is.
    device: AtomicU64,
    inode: AtomicU64,
}

impl Entry {
    const fn new() -> Entry {
        Entry { opened: AtomicU64::new(NONE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Whether the descriptor is still that of the file that was opened.
    fn is_of_its_file(&self, descriptor: RawFd) -> bool {
        let identity = (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        status(descriptor).is_ok_and(|status| status == identity)
    }
}

static OPEN: [Entry; MOST] = [const { Entry::new() }; MOST];

static OPENINGS: AtomicU32 = AtomicU32::new(1);

/// No entry from this one on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn in_child() {
    for entry in &OPEN[..USED.load(Ordering::Relaxed)] {
        let opened = entry.opened.swap(NONE, Ordering::Relaxed);
        let descriptor = opened as u32 as RawFd;
        if opened != NONE && entry.is_of_its_file(descriptor) {
            // SAFETY: the descriptor is this process's copy of one that a `LockFile` owns; its entry is gone, so nothing uses
            // or closes it any more.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A file of its own description, on whose bytes this process can hold locks.
#[derive(Debug)]
pub struct LockFile {
    descriptor: RawFd,
    /// What its entry says as long as it is open.
    opened: u64,
    entry: &'static Entry,
}

impl LockFile {
    /// Opens the file at `path`, which must not be a symbolic link.
    ///
    /// # Errors
    /// As the system says; also if this process has very many open.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        // No `Once`, which a fork might leave half-way for ever. Two that come here at once are told of each fork twice.
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Relaxed) {
            fork::call_in_children(in_child);
            WATCHED.store(true, Ordering::Relaxed);
        }
        let name = CString::new(path.as_os_str().as_bytes())?;
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        // A child that came between the opening and its note would not know of it.
        let _no_fork = fork::hold_off();
        // SAFETY: `name` is a string with an end.
        let descriptor = unsafe { libc::open(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened above, and nothing else knows of it.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let (device, inode) = status(descriptor)?;
        let opened = u64::from(OPENINGS.fetch_add(1, Ordering::Relaxed)) << 32 | u64::from(descriptor as u32);
        let is_free =
            |entry: &&Entry| entry.opened.compare_exchange(NONE, opened, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // The kernel gives a number out once: the entry that had it lost it to something that closed it, and must not close this.
        for entry in &OPEN[..USED.load(Ordering::Relaxed)] {
            let before = entry.opened.load(Ordering::Relaxed);
            if before != NONE && before as u32 == descriptor as u32 {
                let _ = entry.opened.compare_exchange(before, NONE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        let found = OPEN.iter().enumerate().find(|(_, entry)| is_free(entry));
        let (nth, entry) = found.ok_or_else(|| io::Error::other(format!("this process has {MOST} lock files open")))?;
        USED.fetch_max(nth + 1, Ordering::Relaxed);
        // No fork comes in between.
        entry.device.store(device, Ordering::Relaxed);
        entry.inode.store(inode, Ordering::Relaxed);
        Ok(LockFile { descriptor: file.into_raw_fd(), opened, entry })
    }

    /// Locks a byte for this process alone, if no other description has it locked. Does not wait.
    ///
    /// # Errors
    /// As the system says, except that the byte is locked; and if the descriptor was closed, whatever file has its number since.
    pub fn try_lock(&self, byte: u64) -> io::Result<bool> {
        match self.control(libc::F_OFD_SETLK, libc::F_WRLCK, byte) {
            Ok(_) if self.is_open() => Ok(true),
            Ok(_) => Err(was_closed()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the descriptor is open and still that of this file. False in a forked child, for a value of its parent's.
    pub fn is_open(&self) -> bool {
        self.entry.opened.load(Ordering::Relaxed) == self.opened && self.entry.is_of_its_file(self.descriptor)
    }

    /// The file, told apart from all others: its device and its number there.
    pub fn identity(&self) -> (u64, u64) {
        (self.entry.device.load(Ordering::Relaxed), self.entry.inode.load(Ordering::Relaxed))
    }

    /// Releases a byte.
    pub fn unlock(&self, byte: u64) {
        // A descriptor without the lock loses nothing; nothing else can fail here.
        let _ = self.control(libc::F_OFD_SETLK, libc::F_UNLCK, byte);
    }

    /// Whether another description has the byte locked. Locks nothing.
    ///
    /// # Errors
    /// As the system says.
    pub fn is_locked_by_another(&self, byte: u64) -> io::Result<bool> {
        Ok(self.control(libc::F_OFD_GETLK, libc::F_WRLCK, byte)? != libc::F_UNLCK)
    }

    /// Returns the type of lock that the kernel wrote back.
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
        // In a forked child it is closed, and the number may be another's.
        let is_open = self.is_open();
        if self.entry.opened.compare_exchange(self.opened, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && is_open
        {
            // SAFETY: it is this value's own, and the entry was still there.
            drop(unsafe { OwnedFd::from_raw_fd(self.descriptor) });
        }
    }
}

fn was_closed() -> io::Error {
    io::Error::other("the descriptor was closed by something else in this process")
}

/// Which file a descriptor is of. May be called where only little may: in a child that a thread among several has forked.
fn status(descriptor: RawFd) -> io::Result<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` may be written to, and has its size by its type.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it is written.
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
        // SAFETY: what is tested: something in this process closes a descriptor that is not its own.
        unsafe { libc::close(lost.descriptor) };
        let other = temporary("other");
        let number = lost.descriptor;
        // The lowest free number is given out first; what other tests open may come in between.
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
            // SAFETY: as above.
            unsafe {
                libc::alarm(600);
                libc::pause();
                libc::_exit(0)
            }
        }
        drop(held);
        // The child may not have run yet.
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
                    // The last child's copy may be there until it has run.
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
                    // SAFETY: as above.
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
