//! Calls of Linux's C library that the other files use. Only [`groups`], [`access_list`] and [`name_file`] allocate.

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

/// Affinity masks are exchanged with the kernel as its words: `CORES` bits of `unsigned long`.
const WORDS: usize = CORES / usize::BITS as usize;

fn done(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread's number.
pub(crate) fn thread() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// The cores that a thread may run on; 0 is the calling one.
///
/// # Errors
/// If there is no such thread, or the machine has more cores than fit.
pub(crate) fn affinity(thread: i32) -> io::Result<CoreSet> {
    let mut words = [0_usize; WORDS];
    // SAFETY: `words` has the size that is said, and the kernel writes no more. Its alignment is that of the kernel's own words.
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

/// Confines a thread to `cores`; 0 is the calling one.
pub(crate) fn set_affinity(thread: i32, cores: CoreSet) -> Result<(), NotSet> {
    let mut words = [0_usize; WORDS];
    for core in cores.iter() {
        words[core / usize::BITS as usize] |= 1 << (core % usize::BITS as usize);
    }
    // SAFETY: `words` has the size that is said, and the kernel only reads it.
    let set = done(unsafe { libc::sched_setaffinity(thread, size_of_val(&words), words.as_ptr().cast()) });
    set.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => NotSet::Gone,
        Some(libc::EINVAL) => NotSet::NoCore,
        _ => NotSet::Refused,
    })
}

/// The core that the calling thread is on.
pub(crate) fn core() -> usize {
    // SAFETY: it takes nothing.
    let core = unsafe { libc::sched_getcpu() };
    usize::try_from(core).unwrap_or(0)
}

/// Offers the core to another thread.
pub(crate) fn yield_core() {
    // SAFETY: it takes nothing, and does not fail on Linux.
    unsafe { libc::sched_yield() };
}

/// A clock of the kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(libc::clockid_t);

impl Clock {
    /// The same in all processes; stands while the machine is suspended.
    pub(crate) const MONOTONIC: Clock = Clock(libc::CLOCK_MONOTONIC);
    /// It goes from one of the kernel's ticks to the next.
    pub(crate) const COARSE: Clock = Clock(libc::CLOCK_MONOTONIC_COARSE);
    /// Since the machine began; goes on while it is suspended.
    pub(crate) const SINCE_BOOT: Clock = Clock(libc::CLOCK_BOOTTIME);

    /// The processor time of a thread of this process: the kernel's `CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED`.
    pub(crate) fn of_thread(thread: i32) -> Clock {
        Clock((!thread << 3) | 6)
    }

    /// The processor time of a process: the kernel's `CPUCLOCK_SCHED`.
    pub(crate) fn of_process(process: i32) -> Clock {
        Clock((!process << 3) | 2)
    }

    /// What it says. `None`: it is the clock of a thread or process that is gone.
    #[inline]
    pub(crate) fn read(self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to; a clock of what is gone is refused with EINVAL.
        (unsafe { libc::clock_gettime(self.0, &mut time) } == 0).then(|| duration(time))
    }

    /// How far it goes in one step.
    pub(crate) fn step(self) -> Duration {
        let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: as above.
        if unsafe { libc::clock_getres(self.0, &mut step) } == 0 { duration(step) } else { Duration::ZERO }
    }
}

/// The kernel's times are not negative, and their nanoseconds less than a second.
#[inline]
fn duration(time: libc::timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn timespec(duration: Duration) -> libc::timespec {
    let tv_sec = libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX);
    libc::timespec { tv_sec, tv_nsec: duration.subsec_nanos() as _ }
}

/// Which threads meet at a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of this process.
    Private,
    /// Those of all processes that map it.
    Shared,
}

impl Reach {
    fn flag(self) -> libc::c_int {
        if self == Reach::Private { libc::FUTEX_PRIVATE_FLAG } else { 0 }
    }
}

/// Ends that every caller expects: woken, no such value there, a signal, the timeout.
fn expected(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT))
}

/// Sleeps while `word` holds `value`, until woken or `timeout`, or for no reason.
pub(crate) fn futex_wait(reach: Reach, word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | reach.flag();
    // SAFETY: the word and the timeout live until the call returns, and the kernel reads them only.
    let code = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) };
    let error = io::Error::last_os_error();
    assert!(code == 0 || expected(&error), "futex wait: {error}");
}

/// Sleeps while both words hold their values, until either is woken or `timeout`, or for no reason. False: the kernel cannot do this.
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
    // Until a moment of the clock, unlike the plain wait.
    let until = timeout.and_then(|timeout| Clock::MONOTONIC.read()?.checked_add(timeout)).map(timespec);
    let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both entries, the words that they name, and the time live until the call returns; the kernel reads them only.
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

/// Of the same file: the word has 32 bits.
const FUTEX2_SIZE_U32: u32 = 2;

/// Wakes at most so many threads that wait on `word`.
pub(crate) fn futex_wake(reach: Reach, word: &AtomicU32, most: i32) {
    // SAFETY: the word lives until the call returns.
    let code = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | reach.flag(), most) };
    assert!(code >= 0, "futex wake: {}", io::Error::last_os_error());
}

/// Wakes one thread of this process that waits at an address, where no word need be any more.
pub(crate) fn futex_wake_at(word: *const AtomicU32) {
    // SAFETY: the kernel takes the address of a private word as a name and does not look there.
    unsafe { libc::syscall(libc::SYS_futex, word.addr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Most processes and threads that the user may have. `None`: as many as there can be.
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
    // SAFETY: all three are valid sets, two of them to write to.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, &mut blocked) };
    // SAFETY: as above.
    unsafe { libc::sigpending(&mut pending) };
    let written = write();
    if written.is_err() {
        for signal in WRITE_SIGNALS {
            // SAFETY: a valid set to read. A signal that was pending before is the program's.
            if unsafe { libc::sigismember(&pending, signal) } == 0 {
                let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: valid pointers to read, and none to write to.
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

/// In how many ticks a second `/proc` counts.
pub(crate) fn proc_ticks_per_second() -> u64 {
    // SAFETY: it takes a number and returns one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(0).max(1)
}

/// The user that the calling process acts for.
pub(crate) fn user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// All groups that the calling process acts for.
pub(crate) fn groups() -> Vec<u32> {
    // SAFETY: it takes nothing and cannot fail.
    let own = unsafe { libc::getegid() };
    // SAFETY: of no length, the list is not written to.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list has room for so many.
    let count = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups.push(own);
    groups
}

/// Opens a file for reading and writing, without waiting for a pipe's other end and without following a link.
pub(crate) fn open_itself(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Reads what fits in one call.
pub(crate) fn read_from_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.read_at(into, 0)
}

/// Whether [`open_itself`] has found a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// See [`crate::files::ARE_SHARED`].
pub(crate) const ARE_SHARED: bool = true;

pub(crate) fn owner(metadata: &Metadata) -> Owner {
    Owner { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 }
}

/// The access control list of a file, as the kernel stores it. `None`: the file has none.
pub(crate) fn access_list(file: &File) -> Option<Vec<u8>> {
    let mut list = vec![0; 4096];
    // SAFETY: the name has an end, and the kernel writes to `list` at most as many bytes as it has.
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

/// Makes a file without a name in a folder.
pub(crate) fn unnamed_file(folder: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder)
}

/// Gives a file a name, unless that is taken.
pub(crate) fn name_file(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // SAFETY: both are strings with an end.
    done(unsafe { libc::linkat(here, unnamed.as_ptr(), here, path.as_ptr(), libc::AT_SYMLINK_FOLLOW) })
}

/// What the calling process has used.
pub(crate) fn usage_of_this_process() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// What those children have used that have ended and were waited for.
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
    // SAFETY: the C library keeps a pointer to a function that lives as long as the program, and calls it without arguments, as its
    // type says.
    if unsafe { libc::atexit(hook) } == 0 { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

/// Whether the kernel has started the program as one that may do more than the process that started it.
pub(crate) fn is_secure() -> bool {
    // SAFETY: no pointers: it returns a number that the kernel left at the start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Has [`fence_all`] reach the threads of this process. False: the kernel refuses.
pub(crate) fn register_fences() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// A full fence on every running thread of this process. False: the kernel refuses.
pub(crate) fn fence_all() -> bool {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes two integers and touches no memory of the caller.
    cfg!(miri) || unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}
