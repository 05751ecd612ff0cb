//! What the file holds, byte for byte. Layout 2.
//!
//! Everything is an atomic word, so any bytes are a valid value. A table that another program writes nonsense into can
//! mislead about which program should use which core, but break nothing else. A reader checks every index and bounds
//! every loop.
//!
//! # How it grows
//!
//! A field is added in the spare words of a slot or of the header, and gets a bit, as [`CPU_TIME`] is; nothing else
//! moves. Spare words are 0. A program says in [`Slot::features`] what it fills in. So a newer program knows which
//! fields of an older one to leave unread, and an older one leaves the words of a newer one alone. Anything else is
//! another layout, with another number, in a file of another name. From layout 2 on the header's [`Directory`] lies at
//! the same place in every layout, and the lock of slot n is that of byte n. So each program can tell which programs
//! use a table of another layout.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use comity_os::SharedCoreSet;
use comity_protocol::orders::Words;
pub use comity_protocol::{CORES, SLOTS};

use crate::thieves;

/// The first eight bytes of a table.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"COMITY\0\x01");

/// Counts up with every change of the layout.
pub(crate) const VERSION: u32 = 2;

/// A program fills in `cpu_ns`.
pub(crate) const CPU_TIME: u64 = 1;

/// A program fills in `voluntary` and `involuntary`.
pub(crate) const SWITCHES: u64 = 2;

/// A program obeys `asked_weight`, `asked_cores` and `asked_pause`.
pub(crate) const OBEYS: u64 = 4;

/// A program computes the owner of each core as `comity_protocol::partition` does in frames, and fills in `correction`
/// and `due_ns`. What is left over rotates so only among programs that all do.
pub(crate) const FRAMES: u64 = 8;

/// A program fills in `proposal`, and divides cores as all programs propose.
pub(crate) const PROPOSES: u64 = 16;

/// A program fills in `steals`, `accelerations` and `refusals`.
pub(crate) const THIEVES: u64 = 32;

/// A program fills in `shortfall`.
pub(crate) const SHORTFALL: u64 = 64;

/// The feature bit of programs that fill in `way`.
pub(crate) const WAY: u64 = 128;

/// The feature bit of programs that fill in `group`.
pub(crate) const GROUP: u64 = 256;

/// The feature bit of commands that can take turns with a team, as `Report::takes_turns` says.
pub(crate) const TAKES_TURNS: u64 = 512;

/// Letters of a name, in bytes.
pub(crate) const NAME: usize = 32;

/// The whole file.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) header: Header,
    /// See [`CoreWord`](crate::CoreWord).
    pub(crate) cores: [AtomicU64; CORES],
    /// When the holder last changed, but for what was taken from the dead, by [`now_ns`](comity_os::clock::now_ns).
    /// For show, and a core that another program owns is not claimed before it has been free for a while.
    pub(crate) since: [AtomicU64; CORES],
    pub(crate) slots: [Slot; SLOTS],
}

#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// The size of the whole.
    pub(crate) bytes: AtomicU32,
    pub(crate) directory: Directory,
    /// A bit for each slot that may be in use: where to look.
    pub(crate) used: [AtomicU64; SLOTS / 64],
    /// A bit for each program that waits for a core to become free.
    pub(crate) wanting: [AtomicU64; SLOTS / 64],
    spare: [AtomicU64; 112],
}

/// Where programs of any layout find out which programs use a table. In bytes.
#[repr(C)]
pub(crate) struct Directory {
    /// Where the first slot is, and how far the next is from it.
    pub(crate) slots_at: AtomicU32,
    pub(crate) slot_bytes: AtomicU32,
    pub(crate) slots: AtomicU32,
    /// Where in a slot the number of the process is, of four bytes.
    pub(crate) pid_at: AtomicU32,
    /// Where in a slot the name is, and how long.
    pub(crate) name_at: AtomicU32,
    pub(crate) name_bytes: AtomicU32,
    spare: [AtomicU32; 6],
}

/// What the directory of this layout says.
pub(crate) const DIRECTORY: [u32; 6] = [
    offset_of!(Layout, slots) as u32,
    size_of::<Slot>() as u32,
    SLOTS as u32,
    offset_of!(Slot, pid) as u32,
    offset_of!(Slot, name) as u32,
    NAME as u32,
];

/// One program. Written by it, but for `bell`, which any program rings, and the three words of what it is asked, and
/// by the one that reaps it.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// [`FREE`] or [`TAKEN`]. Changed only by the holder of the slot's lock.
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
    pub(crate) may_use: SharedCoreSet,
    /// What it fills in of that which follows: bits, as [`CPU_TIME`].
    pub(crate) features: AtomicU64,
    /// What it has used since it began, all its processes together: processor time, and context switches.
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) voluntary: AtomicU64,
    pub(crate) involuntary: AtomicU64,
    /// Counts the programs that have had this slot, but for those of older builds, which obey nothing.
    pub(crate) tenure: AtomicU64,
    /// What the program is asked, as a [`RequestWord`](comity_protocol::orders::RequestWord) of its tenure each: see
    /// [`Words`].
    pub(crate) asked_weight: AtomicU64,
    pub(crate) asked_cores: AtomicU64,
    pub(crate) asked_pause: AtomicU64,
    /// The futex for that alone, on which a program waits that has nothing to do: no other news wakes it.
    pub(crate) asks: AtomicU32,
    /// How much the program counts beside its weight, in thousandths, as it has computed.
    pub(crate) correction: AtomicU32,
    /// Processor time that it was due since it began. Only for show.
    pub(crate) due_ns: AtomicU64,
    /// How it proposes that cores are divided, as a [`Proposal`](comity_policy::allotment::Proposal).
    pub(crate) proposal: AtomicU32,
    /// Why it uses less than it holds or is due, as a [`Shortfall`](comity_protocol::Shortfall). Only for show.
    pub(crate) shortfall: AtomicU32,
    /// What its thieves have done since its first pool began, in all of them. Only for show.
    pub(crate) steals: AtomicU64,
    pub(crate) accelerations: AtomicU64,
    /// By the reasons of [`REFUSALS`](crate::REFUSALS).
    pub(crate) refusals: thieves::Words,
    /// The way in which a command is limited to its share, as a [`Way`](comity_protocol::Way).
    pub(crate) way: AtomicU64,
    /// The task group that all of the program's work is in, as a [`TaskGroup`](comity_protocol::TaskGroup).
    pub(crate) group: AtomicU64,
    spare: [AtomicU64; 62],
}

impl Slot {
    /// Those by which its program is asked.
    pub(crate) fn words(&self) -> Words<'_, AtomicU64> {
        Words { tenure: &self.tenure, asked: [&self.asked_weight, &self.asked_cores, &self.asked_pause] }
    }
}

pub(crate) const FREE: u32 = 0;
pub(crate) const TAKEN: u32 = 1;

pub(crate) const BYTES: usize = size_of::<Layout>();

// Programs of different builds map the same file.
const _: () = {
    assert!(offset_of!(Header, version) == 8 && offset_of!(Header, bytes) == 12);
    assert!(offset_of!(Header, directory) == 16 && size_of::<Directory>() == 48);
    assert!(offset_of!(Directory, slot_bytes) == 4 && offset_of!(Directory, slots) == 8);
    assert!(offset_of!(Directory, pid_at) == 12 && offset_of!(Directory, name_at) == 16);
    assert!(offset_of!(Directory, name_bytes) == 20);
    assert!(offset_of!(Header, used) == 64 && offset_of!(Header, wanting) == 96 && offset_of!(Header, spare) == 128);
    assert!(size_of::<Header>() == 1024);
    assert!(offset_of!(Layout, cores) == 1024 && offset_of!(Layout, since) == 1024 + 8 * CORES);
    assert!(offset_of!(Layout, slots) == 1024 + 16 * CORES);
    assert!(offset_of!(Slot, program) == 8 && offset_of!(Slot, desire) == 16 && offset_of!(Slot, weight) == 20);
    assert!(offset_of!(Slot, heartbeat) == 24 && offset_of!(Slot, bell) == 32 && offset_of!(Slot, pid) == 36);
    assert!(offset_of!(Slot, joined) == 40 && offset_of!(Slot, workers) == 48 && offset_of!(Slot, awake) == 52);
    assert!(offset_of!(Slot, claimed) == 56 && offset_of!(Slot, taken_back) == 64);
    assert!(offset_of!(Slot, released) == 72 && offset_of!(Slot, lost) == 80);
    assert!(offset_of!(Slot, name) == 88 && offset_of!(Slot, policy) == 120 && offset_of!(Slot, may_use) == 152);
    assert!(offset_of!(Slot, features) == 280 && offset_of!(Slot, cpu_ns) == 288);
    assert!(offset_of!(Slot, voluntary) == 296 && offset_of!(Slot, involuntary) == 304);
    assert!(offset_of!(Slot, tenure) == 312 && offset_of!(Slot, asked_weight) == 320);
    assert!(offset_of!(Slot, asked_cores) == 328 && offset_of!(Slot, asked_pause) == 336);
    assert!(offset_of!(Slot, asks) == 344 && offset_of!(Slot, correction) == 348 && offset_of!(Slot, due_ns) == 352);
    assert!(offset_of!(Slot, proposal) == 360 && offset_of!(Slot, shortfall) == 364);
    assert!(offset_of!(Slot, steals) == 368 && offset_of!(Slot, accelerations) == 376);
    assert!(offset_of!(Slot, refusals) == 384 && offset_of!(Slot, way) == 512);
    assert!(offset_of!(Slot, group) == 520);
    assert!(size_of::<Slot>() == 1024);
    assert!(BYTES == 1024 + 16 * CORES + 1024 * SLOTS);
    // The lock of a slot is that of the byte of its number: see `lock`.
    assert!(SLOTS <= BYTES);
};
