//! The portable counterparts of `linux/calls.rs`, or stubs where the standard library has no counterpart.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::affinity::NotSet;
use crate::files::Owner;
use crate::usage::Usage;
use crate::{CoreSet, lock};

fn missing() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Returns a number that no other thread of this process has had.
pub(crate) fn thread() -> i32 {
    static LAST: AtomicI32 = AtomicI32::new(0);
    thread_local!(static OWN: Cell<i32> = const { Cell::new(0) });
    if OWN.get() == 0 {
        OWN.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    OWN.get()
}

pub(crate) fn affinity(_thread: i32) -> io::Result<CoreSet> {
    Err(missing())
}

pub(crate) fn set_affinity(_thread: i32, _cores: CoreSet) -> Result<(), NotSet> {
    Err(NotSet::Refused)
}

pub(crate) fn core() -> usize {
    0
}

pub(crate) fn yield_core() {
    std::thread::yield_now();
}

/// A clock. Only the monotonic clock exists here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Monotonic,
    Missing,
}

impl Clock {
    pub(crate) const MONOTONIC: Clock = Clock::Monotonic;
    pub(crate) const SINCE_BOOT: Clock = Clock::Missing;

    pub(crate) fn of_thread(_thread: i32) -> Clock {
        Clock::Missing
    }

    pub(crate) fn of_process(_process: i32) -> Clock {
        Clock::Missing
    }

    /// Reads the clock. The monotonic clock begins at its first reading.
    pub(crate) fn read(self) -> Option<Duration> {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        (self == Clock::Monotonic).then(|| BEGAN.get_or_init(Instant::now).elapsed())
    }
}

/// The threads that may wait on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Private,
    Shared,
}

/// The lock and the condition variable on which threads wait for any word of this bucket.
struct Bucket {
    gate: Mutex<()>,
    changed: Condvar,
}

/// The number of buckets. A wake-up of a word also wakes the waiters of other words in its bucket.
const BUCKETS: usize = 64;

/// Returns the bucket of the word at an address.
fn bucket(address: usize) -> &'static Bucket {
    static ALL: [Bucket; BUCKETS] = [const { Bucket { gate: Mutex::new(()), changed: Condvar::new() } }; BUCKETS];
    // After multiplication by 2⁶⁴ / golden ratio, the upper bits depend on all lower bits.
    let mixed = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &ALL[(mixed >> (u64::BITS - BUCKETS.ilog2())) as usize]
}

/// Waits for a word. A waker changes the word and then locks the gate. If the waker locks the gate before the waiter,
/// the waiter finds the new value. If the waker locks it after the waiter, the waiter already waits and is notified.
pub(crate) fn futex_wait(_reach: Reach, word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let bucket = bucket(word.as_ptr().addr());
    let gate = lock(&bucket.gate);
    if word.load(Ordering::SeqCst) != value {
        return;
    }
    // Ignore poisoning: the gate protects no data, and callers expect early returns.
    match timeout {
        None => drop(bucket.changed.wait(gate)),
        Some(timeout) => drop(bucket.changed.wait_timeout(gate, timeout)),
    }
}

pub(crate) fn futex_wait_either(
    _private: (&AtomicU32, u32),
    _shared: (&AtomicU32, u32),
    _timeout: Option<Duration>,
) -> bool {
    false
}

/// Wakes all waiters of the word's bucket: if only one were woken, it could be the waiter of another word.
pub(crate) fn futex_wake(_reach: Reach, word: &AtomicU32, _most: i32) {
    futex_wake_at(word);
}

pub(crate) fn futex_wake_at(word: *const AtomicU32) {
    let bucket = bucket(word.addr());
    drop(lock(&bucket.gate));
    bucket.changed.notify_all();
}

pub(crate) fn without_write_signals<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    write()
}

pub(crate) fn file_size_limit() -> Option<u64> {
    None
}

pub(crate) fn thread_limit() -> Option<u64> {
    None
}

pub(crate) fn proc_ticks_per_second() -> u64 {
    100
}

pub(crate) fn user() -> u32 {
    0
}

pub(crate) fn groups() -> Vec<u32> {
    Vec::new()
}

pub(crate) const ARE_SHARED: bool = false;

pub(crate) fn open_itself(_path: &Path) -> io::Result<File> {
    Err(missing())
}

pub(crate) fn read_from_start(mut file: &File, into: &mut [u8]) -> io::Result<usize> {
    file.rewind()?;
    file.read(into)
}

pub(crate) fn is_link(_error: &io::Error) -> bool {
    false
}

pub(crate) fn owner(_metadata: &Metadata) -> Owner {
    Owner { user: 0, group: 0, mode: 0 }
}

pub(crate) fn access_list(_file: &File) -> Option<Vec<u8>> {
    None
}

pub(crate) fn identity(_metadata: &Metadata) -> (u64, u64) {
    (0, 0)
}

pub(crate) fn make_folder(_path: &Path, _mode: u32) -> io::Result<()> {
    Err(missing())
}

pub(crate) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Err(missing())
}

pub(crate) fn unnamed_file(_folder: &Path, _mode: u32) -> io::Result<File> {
    Err(missing())
}

pub(crate) fn name_file(_file: &File, _path: &Path) -> io::Result<()> {
    Err(missing())
}

pub(crate) fn usage_of_this_process() -> Usage {
    Usage::default()
}

pub(crate) fn usage_of_ended_children() -> Usage {
    Usage::default()
}

pub(crate) fn at_exit(_hook: extern "C" fn()) -> io::Result<()> {
    Err(missing())
}

pub(crate) fn is_secure() -> bool {
    false
}

pub(crate) fn register_fences() -> bool {
    false
}

pub(crate) fn fence_all() -> bool {
    false
}
