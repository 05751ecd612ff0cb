//! What the file holds, byte for byte. Version 1.
//!
//! Everything is an atomic word, so any bytes are a valid value, and a table that somebody else writes nonsense into can
//! mislead about who should use which core, but break nothing else. Whoever reads checks every index and bounds every loop.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The first eight bytes of a table.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"COMITY\0\x01");

/// Counts up with every change of the layout.
pub(crate) const VERSION: u32 = 1;

/// How many cores a table knows.
pub const CORES: usize = 1024;

/// How many programs can be in a table at a time.
pub const SLOTS: usize = 256;

/// Letters of a name, in bytes.
pub(crate) const NAME: usize = 32;

/// The whole file.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) header: Header,
    /// See [`CoreWord`](crate::CoreWord).
    pub(crate) cores: [AtomicU64; CORES],
    /// When the holder last changed, by [`now_ns`](comity_os::clock::now_ns). Only for show.
    pub(crate) since: [AtomicU64; CORES],
    pub(crate) slots: [Slot; SLOTS],
}

#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// The size of the whole.
    pub(crate) bytes: AtomicU32,
    /// A bit for each slot that may be in use: where to look.
    pub(crate) used: [AtomicU64; SLOTS / 64],
    /// A bit for each program that waits for a core to become free.
    pub(crate) wanting: [AtomicU64; SLOTS / 64],
}

/// One program. Written by it, but for `bell`, which anybody rings, and by whoever buries it.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// [`FREE`] or [`TAKEN`]. Changed only by whoever holds the slot's lock.
    pub(crate) state: AtomicU32,
    /// Which process: a number that it drew.
    pub(crate) program: AtomicU64,
    /// How many cores it can use. 0: it has no work, and no share.
    pub(crate) desire: AtomicU32,
    pub(crate) weight: AtomicU32,
    /// When its coordinator last came by.
    pub(crate) heartbeat: AtomicU64,
    /// The futex that its coordinator waits on.
    pub(crate) bell: AtomicU32,
    /// The process's number in its own PID namespace. Only for show, as all below but `awake` and `may_use`.
    pub(crate) pid: AtomicU32,
    pub(crate) joined: AtomicU64,
    pub(crate) workers: AtomicU32,
    /// Workers, or threads that can run. 0: nothing of it runs.
    pub(crate) awake: AtomicU32,
    /// Cores that it began to use, took back, stopped using, and lost to their owners.
    pub(crate) claimed: AtomicU64,
    pub(crate) taken_back: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) name: [AtomicU64; NAME / 8],
    pub(crate) policy: [AtomicU64; NAME / 8],
    /// The cores that its affinity allows.
    pub(crate) may_use: [AtomicU64; CORES / 64],
}

pub(crate) const FREE: u32 = 0;
pub(crate) const TAKEN: u32 = 1;

pub(crate) const BYTES: usize = size_of::<Layout>();

// Programs of different builds map the same file.
const _: () = {
    assert!(offset_of!(Header, version) == 8 && offset_of!(Header, bytes) == 12);
    assert!(offset_of!(Header, used) == 16 && offset_of!(Header, wanting) == 48);
    assert!(size_of::<Header>() == 128);
    assert!(offset_of!(Layout, cores) == 128 && offset_of!(Layout, since) == 128 + 8 * CORES);
    assert!(offset_of!(Layout, slots) == 128 + 16 * CORES);
    assert!(offset_of!(Slot, program) == 8 && offset_of!(Slot, desire) == 16 && offset_of!(Slot, weight) == 20);
    assert!(offset_of!(Slot, heartbeat) == 24 && offset_of!(Slot, bell) == 32 && offset_of!(Slot, pid) == 36);
    assert!(offset_of!(Slot, joined) == 40 && offset_of!(Slot, workers) == 48 && offset_of!(Slot, awake) == 52);
    assert!(offset_of!(Slot, claimed) == 56 && offset_of!(Slot, taken_back) == 64);
    assert!(offset_of!(Slot, released) == 72 && offset_of!(Slot, lost) == 80);
    assert!(offset_of!(Slot, name) == 88 && offset_of!(Slot, policy) == 120 && offset_of!(Slot, may_use) == 152);
    assert!(size_of::<Slot>() == 320);
    assert!(BYTES == 128 + 16 * CORES + 320 * SLOTS);
    // The lock of a slot is that of the byte of its number: see `lock`.
    assert!(SLOTS <= BYTES);
};
