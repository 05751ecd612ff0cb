//! Calls of Linux's C library, used by the other files of this crate. Only [`groups`], [`access_list`] and
//! [`name_file`] allocate.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::affinity::NotSet;
use crate::files::Owner;
use crate::usage::Usage;
use crate::{CORES, CoreSet};

/// The number of words of an affinity mask. The kernel exchanges masks as arrays of `unsigned long`, `CORES` bits.
const WORDS: usize = CORES / usize::BITS as usize;

fn done(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of the calling thread.
pub(crate) fn thread() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Returns the cores that a thread may run on. Number 0 means the calling thread.
///
/// # Errors
/// If the thread does not exist, or the machine has more than `CORES` cores.
pub(crate) fn affinity(thread: i32) -> io::Result<CoreSet> {
    let mut words = [0_usize; WORDS];
    // SAFETY: `words` has the size given, and the kernel writes no more. Its alignment is that of the kernel's own
    // words.
    done(unsafe { libc::sched_getaffinity(thread, size_of_val(&words), words.as_mut_ptr().cast()) })?;
    let mut cores = CoreSet::EMPTY;
    for (nth, word) in words.into_iter().enumerate() {
        let mut left = word;
        while left != 0 {
            cores.insert(nth * usize::BITS as usize + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
    Ok(cores)
}

/// Confines a thread to `cores`. Number 0 means the calling thread.
pub(crate) fn set_affinity(thread: i32, cores: CoreSet) -> Result<(), NotSet> {
    let mut words = [0_usize; WORDS];
    for core in cores.iter() {
        words[core / usize::BITS as usize] |= 1 << (core % usize::BITS as usize);
    }
    // SAFETY: `words` has the size given, and the kernel only reads it.
    let set = done(unsafe { libc::sched_setaffinity(thread, size_of_val(&words), words.as_ptr().cast()) });
    set.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => NotSet::Gone,
        Some(libc::EINVAL) => NotSet::NoCore,
        _ => NotSet::Refused,
    })
}

/// Returns the core that the calling thread is on.
pub(crate) fn core() -> usize {
    // SAFETY: the call takes nothing.
    let core = unsafe { libc::sched_getcpu() };
    usize::try_from(core).unwrap_or(0)
}

/// Offers the core to another thread.
pub(crate) fn yield_core() {
    // SAFETY: the call takes nothing, and does not fail on Linux.
    unsafe { libc::sched_yield() };
}

/// A clock of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(libc::clockid_t);

impl Clock {
    /// The clock that has the same value in all processes and stops while the machine is suspended.
    pub(crate) const MONOTONIC: Clock = Clock(libc::CLOCK_MONOTONIC);
    /// The clock of the time since the machine started. It continues while the machine is suspended.
    pub(crate) const SINCE_BOOT: Clock = Clock(libc::CLOCK_BOOTTIME);

    /// Returns the clock of the processor time of a thread of this process: the kernel's `CPUCLOCK_PERTHREAD |
    /// CPUCLOCK_SCHED`.
    pub(crate) fn of_thread(thread: i32) -> Clock {
        Clock((!thread << 3) | 6)
    }

    /// Returns the clock of the processor time of a process: the kernel's `CPUCLOCK_SCHED`.
    pub(crate) fn of_process(process: i32) -> Clock {
        Clock((!process << 3) | 2)
    }

    /// Reads the clock. `None` if it is the clock of a thread or process that has ended.
    #[inline]
    pub(crate) fn read(self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to. The clock of a thread or process that is gone is refused
        // with EINVAL.
        (unsafe { libc::clock_gettime(self.0, &mut time) } == 0).then(|| duration(time))
    }
}

/// Converts a time of the kernel, which is not negative and has less than 10⁹ ns.
#[inline]
fn duration(time: libc::timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn timespec(duration: Duration) -> libc::timespec {
    let tv_sec = libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX);
    libc::timespec { tv_sec, tv_nsec: duration.subsec_nanos() as _ }
}

/// The threads that may wait on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The threads of this process.
    Private,
    /// The threads of all processes that map the word.
    Shared,
}

impl Reach {
    fn flag(self) -> libc::c_int {
        if self == Reach::Private { libc::FUTEX_PRIVATE_FLAG } else { 0 }
    }
}

/// True for the results that every caller of a futex wait expects: the word has another value, a signal has arrived, or
/// the timeout has passed.
fn expected(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT))
}

/// Sleeps while `word` holds `value`, until another thread wakes it or `timeout` has passed. May return early without a
/// reason.
pub(crate) fn futex_wait(reach: Reach, word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | reach.flag();
    // SAFETY: the word and the timeout live until the call returns, and the kernel only reads them.
    let code = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) };
    let error = io::Error::last_os_error();
    assert!(code == 0 || expected(&error), "futex wait: {error}");
}

/// Sleeps while both words hold their values, until a thread wakes one of the words or `timeout` has passed. May return
/// early without a reason. Returns false if the kernel cannot wait on two words.
pub(crate) fn futex_wait_either(
    private: (&AtomicU32, u32),
    shared: (&AtomicU32, u32),
    timeout: Option<Duration>,
) -> bool {
    let on = |(word, value): (&AtomicU32, u32), reach: Reach| Waited {
        val: value.into(),
        uaddr: word.as_ptr().expose_provenance() as u64,
        flags: FUTEX2_SIZE_U32 | reach.flag() as u32,
        reserved: 0,
    };
    let both = [on(private, Reach::Private), on(shared, Reach::Shared)];
    // `futex_waitv` takes a deadline, while `futex_wait` takes a duration.
    let until = timeout.and_then(|timeout| Clock::MONOTONIC.read()?.checked_add(timeout)).map(timespec);
    let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both entries, their words, and the time live until the call returns. The kernel only reads them.
    let code =
        unsafe { libc::syscall(libc::SYS_futex_waitv, both.as_ptr(), both.len(), 0, until, libc::CLOCK_MONOTONIC) };
    code >= 0 || expected(&io::Error::last_os_error())
}

/// `struct futex_waitv` of `linux/futex.h`.
#[repr(C)]
struct Waited {
    val: u64,
    uaddr: u64,
    flags: u32,
    reserved: u32,
}

/// The flag for a word of 32 bits, from `linux/futex.h`.
const FUTEX2_SIZE_U32: u32 = 2;

/// Wakes at most `most` threads that wait on `word`.
pub(crate) fn futex_wake(reach: Reach, word: &AtomicU32, most: i32) {
    // SAFETY: the word lives until the call returns.
    let code = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | reach.flag(), most) };
    assert!(code >= 0, "futex wake: {}", io::Error::last_os_error());
}

/// Wakes one thread of this process that waits at an address. The word may no longer exist.
pub(crate) fn futex_wake_at(word: *const AtomicU32) {
    // SAFETY: the kernel uses the address of a private word only as a key and does not read the word.
    unsafe { libc::syscall(libc::SYS_futex, word.addr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Returns the maximum number of processes and threads of the user. `None`: there is no limit.
pub(crate) fn thread_limit() -> Option<u64> {
    // SAFETY: `limit` is a valid rlimit to write to.
    soft_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_NPROC, limit) })
}

/// Returns the maximum size, in bytes, of a file that this process writes. `None`: there is no limit.
pub(crate) fn file_size_limit() -> Option<u64> {
    // SAFETY: `limit` is a valid rlimit to write to.
    soft_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit) })
}

fn soft_limit(get: impl FnOnce(&mut libc::rlimit) -> libc::c_int) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let known = get(&mut limit) == 0;
    #[allow(clippy::unnecessary_cast, reason = "its type has another width on some targets")]
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
}

/// See [`crate::writes::without_signals`].
pub(crate) fn without_write_signals<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let signals = signal_set(&WRITE_SIGNALS);
    let (mut blocked, mut pending) = (signal_set(&[]), signal_set(&[]));
    // SAFETY: all three are valid sets. The call reads the first and writes the second.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, &mut blocked) };
    // SAFETY: `pending` is a valid set to write to.
    unsafe { libc::sigpending(&mut pending) };
    let written = write();
    if written.is_err() {
        for signal in WRITE_SIGNALS {
            // SAFETY: a valid set to read. A signal that was pending before the write belongs to the program and is
            // kept.
            if unsafe { libc::sigismember(&pending, signal) } == 0 {
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: the pointers are valid to read, and the call writes to none.
                unsafe { libc::sigtimedwait(&signal_set(&[signal]), std::ptr::null_mut(), &at_once) };
            }
        }
    }
    // SAFETY: a valid set to read.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut()) };
    written
}

/// The signals that a failed write raises, each in the thread that writes.
const WRITE_SIGNALS: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the call makes `set` an empty set.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in signals {
        // SAFETY: a valid set to write to.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

/// Returns the number of ticks per second, the unit of times in `/proc`.
pub(crate) fn proc_ticks_per_second() -> u64 {
    // SAFETY: the call takes a number and returns one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(0).max(1)
}

/// Returns the effective user of the calling process.
pub(crate) fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the effective group and all supplementary groups of the calling process.
pub(crate) fn groups() -> Vec<u32> {
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::getegid() };
    // SAFETY: a list of length 0 is not written to.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list has room for `count` groups.
    let count = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups.push(own);
    groups
}

/// Opens a file for reading and writing. Does not follow a symbolic link or wait for the other end of a pipe.
pub(crate) fn open_itself(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Reads from the start of a file, with one call.
pub(crate) fn read_from_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.read_at(into, 0)
}

/// True if [`open_itself`] failed because it found a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// See [`crate::files::ARE_SHARED`].
pub(crate) const ARE_SHARED: bool = true;

pub(crate) fn owner(metadata: &Metadata) -> Owner {
    Owner { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 }
}

/// Returns the access control list of a file, in the kernel's format. `None` if the file has none.
pub(crate) fn access_list(file: &File) -> Option<Vec<u8>> {
    let mut list = vec![0; 4096];
    // SAFETY: the name is a C string, and the kernel writes at most `list.len()` bytes to `list`.
    let bytes = unsafe {
        let name = c"system.posix_acl_access".as_ptr();
        libc::fgetxattr(file.as_raw_fd(), name, list.as_mut_ptr().cast(), list.len())
    };
    list.truncate(usize::try_from(bytes).ok()?);
    Some(list)
}

pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// Creates a file without a name in a folder.
pub(crate) fn unnamed_file(folder: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder)
}

/// Gives a name to a file of [`unnamed_file`]. Fails if the name is taken.
pub(crate) fn name_file(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // SAFETY: both paths are C strings.
    done(unsafe { libc::linkat(here, unnamed.as_ptr(), here, path.as_ptr(), libc::AT_SYMLINK_FOLLOW) })
}

/// Returns the resources that the calling process has used.
pub(crate) fn usage_of_this_process() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// Returns the resources that ended children have used, if they were waited for.
pub(crate) fn usage_of_ended_children() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(of: libc::c_int) -> Usage {
    // SAFETY: all-zero bytes are a valid `rusage`: it has integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid `rusage` to write to.
    let code = unsafe { libc::getrusage(of, &mut usage) };
    assert_eq!(code, 0, "getrusage of this process cannot fail");
    Usage::from(usage)
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Usage {
        let duration =
            |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
        Usage {
            cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}

/// Calls `hook` when the process ends by `exit`.
pub(crate) fn at_exit(hook: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the C library keeps a pointer to a function that lives as long as the program, and calls it without
    // arguments, as its type says.
    if unsafe { libc::atexit(hook) } == 0 { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

/// True if the kernel started the program with more rights than the process that started it.
pub(crate) fn is_secure() -> bool {
    // SAFETY: the call takes no pointers, and returns a number that the kernel stored at the start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Registers this process for [`fence_all`]. Returns false if the kernel refuses.
pub(crate) fn register_fences() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// Executes a full fence on every running thread of this process. Returns false if the kernel refuses.
pub(crate) fn fence_all() -> bool {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes two integers and touches no memory of the caller.
    cfg!(miri) || unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}
