//! The layout of the file, byte for byte. Layout 2.
//!
//! Every field is an atomic word for which any bytes are valid. A program that writes invalid data into the table can
//! mislead others about which program should use which core, but can break nothing else. A reader checks every index
//! and bounds every loop.
//!
//! # Extensions
//!
//! A new field takes spare words of a slot or of the header, and gets a feature bit, for example [`CPU_TIME`]. No other
//! field moves. Spare words are 0. In [`Slot::features`], a program sets the bits of the fields that it fills in. A
//! newer program therefore knows which fields of an older program it must not read, and an older program never touches
//! the fields of a newer program. Any other change makes another layout, with another number and another file name.
//!
//! From layout 2 on, the header's [`Directory`] is at the same place in every layout, and the lock of slot n is the
//! lock of byte n. So each program can find out which programs use a table of another layout.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use comity_os::SharedCoreSet;
use comity_protocol::orders::Words;
pub use comity_protocol::{CORES, SLOTS};

use crate::thieves;

/// The first eight bytes of a table.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"COMITY\0\x01");

/// The number of this layout. It increases with every change that is not an extension.
pub(crate) const VERSION: u32 = 2;

/// The feature bit of programs that fill in `cpu_ns`.
pub(crate) const CPU_TIME: u64 = 1;

/// The feature bit of programs that fill in `voluntary` and `involuntary`.
pub(crate) const SWITCHES: u64 = 2;

/// The feature bit of programs that follow the requests in `asked_weight`, `asked_cores` and `asked_pause`.
pub(crate) const OBEYS: u64 = 4;

/// The feature bit of programs that fill in `correction` and `due_ns`, and compute the owners of cores per frame, as
/// `comity_protocol::partition` does. Cores that remain after the division rotate in frames only if all programs have
/// this bit.
pub(crate) const FRAMES: u64 = 8;

/// The feature bit of programs that fill in `proposal`, and use the division that all programs propose, if they agree.
pub(crate) const PROPOSES: u64 = 16;

/// The feature bit of programs that fill in `steals`, `accelerations` and `refusals`.
pub(crate) const THIEVES: u64 = 32;

/// The feature bit of programs that fill in `shortfall`.
pub(crate) const SHORTFALL: u64 = 64;

/// The feature bit of programs that fill in `way`.
pub(crate) const WAY: u64 = 128;

/// The feature bit of programs that fill in `group`.
pub(crate) const GROUP: u64 = 256;

/// The feature bit of commands that can take turns with a multi-threaded command. See `Report::takes_turns`.
pub(crate) const TAKES_TURNS: u64 = 512;

/// The length of a name, in bytes.
pub(crate) const NAME: usize = 32;

/// The whole file.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) header: Header,
    /// The word of each core. See [`CoreWord`](crate::CoreWord).
    pub(crate) cores: [AtomicU64; CORES],
    /// The time at which the holder of each core last changed, from [`now_ns`](comity_os::clock::now_ns). A program
    /// that frees the cores of a dead program does not set it. It is displayed. Programs also read how long a core has
    /// been free before they claim it.
    pub(crate) since: [AtomicU64; CORES],
    pub(crate) slots: [Slot; SLOTS],
}

#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// The size of the file, in bytes.
    pub(crate) bytes: AtomicU32,
    pub(crate) directory: Directory,
    /// A bit for each slot that may be in use. Readers skip the other slots.
    pub(crate) used: [AtomicU64; SLOTS / 64],
    /// A bit for each program that waits for a core to become free.
    pub(crate) wanting: [AtomicU64; SLOTS / 64],
    spare: [AtomicU64; 112],
}

/// The directory: offsets and sizes, in bytes, by which programs of any layout find the programs that use a table.
#[repr(C)]
pub(crate) struct Directory {
    /// The offset of the first slot, and the distance between two slots.
    pub(crate) slots_at: AtomicU32,
    pub(crate) slot_bytes: AtomicU32,
    pub(crate) slots: AtomicU32,
    /// The offset of the process number within a slot. The number has four bytes.
    pub(crate) pid_at: AtomicU32,
    /// The offset of the name within a slot, and its length.
    pub(crate) name_at: AtomicU32,
    pub(crate) name_bytes: AtomicU32,
    spare: [AtomicU32; 6],
}

/// The directory of this layout.
pub(crate) const DIRECTORY: [u32; 6] = [
    offset_of!(Layout, slots) as u32,
    size_of::<Slot>() as u32,
    SLOTS as u32,
    offset_of!(Slot, pid) as u32,
    offset_of!(Slot, name) as u32,
    NAME as u32,
];

/// The slot of one program. The program writes it, and after the program's death another program clears it. Any
/// program may increment `bell` and `asks`, write the three `asked` words, and set `heartbeat` to 0 if the process is
/// stopped.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// [`FREE`] or [`TAKEN`]. Changed only by the holder of the slot's lock.
    pub(crate) state: AtomicU32,
    /// The number of the process, as [`this_program`](crate::this_program) returns it.
    pub(crate) program: AtomicU64,
    /// The number of cores that the program can use. 0: the program has no work, and gets no cores.
    pub(crate) desire: AtomicU32,
    pub(crate) weight: AtomicU32,
    /// The time at which the program's coordinator thread last looked at the table.
    pub(crate) heartbeat: AtomicU64,
    /// The futex that the coordinator waits on.
    pub(crate) bell: AtomicU32,
    /// The process's number in its own PID namespace. Displayed, and used to find out whether a silent program is
    /// stopped.
    pub(crate) pid: AtomicU32,
    pub(crate) joined: AtomicU64,
    pub(crate) workers: AtomicU32,
    /// The number of workers that are awake. For a command, the number of runnable threads. 0: no thread runs.
    pub(crate) awake: AtomicU32,
    /// The numbers of cores that the program began to use, took back, stopped using, and lost to their owners. Only
    /// displayed.
    pub(crate) claimed: AtomicU64,
    pub(crate) taken_back: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) name: [AtomicU64; NAME / 8],
    pub(crate) policy: [AtomicU64; NAME / 8],
    /// The cores that the program's affinity allows.
    pub(crate) may_use: SharedCoreSet,
    /// Feature bits, for example [`CPU_TIME`]: the fields below that the program fills in.
    pub(crate) features: AtomicU64,
    /// Processor time and context switches of all the program's processes since the program began.
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) voluntary: AtomicU64,
    pub(crate) involuntary: AtomicU64,
    /// The number of programs that have had this slot, without programs of builds too old to follow requests.
    pub(crate) tenure: AtomicU64,
    /// The requests to the program, each as a [`RequestWord`](comity_protocol::orders::RequestWord) that contains the
    /// tenure of the addressed program. See [`Words`].
    pub(crate) asked_weight: AtomicU64,
    pub(crate) asked_cores: AtomicU64,
    pub(crate) asked_pause: AtomicU64,
    /// The futex for requests alone. A program without work waits on it, so that a ring of `bell` does not wake it.
    pub(crate) asks: AtomicU32,
    /// The factor on the program's weight, in thousandths. The program itself computes it, from the processor time
    /// that it is owed.
    pub(crate) correction: AtomicU32,
    /// Processor time that the program was entitled to since it began, in nanoseconds. Only displayed.
    pub(crate) due_ns: AtomicU64,
    /// The division of cores that the program proposes, as a [`Proposal`](comity_policy::allotment::Proposal).
    pub(crate) proposal: AtomicU32,
    /// The reason why the program uses less than it holds or is entitled to, as a
    /// [`Shortfall`](comity_protocol::Shortfall). Only displayed.
    pub(crate) shortfall: AtomicU32,
    /// The counters of the program's thieves since its first pool began, over all its pools. Only displayed.
    pub(crate) steals: AtomicU64,
    pub(crate) accelerations: AtomicU64,
    /// The number of refused accelerations for each reason of [`REFUSALS`](crate::REFUSALS).
    pub(crate) refusals: thieves::Words,
    /// The way in which a command is limited to its share, as a [`Way`](comity_protocol::Way).
    pub(crate) way: AtomicU64,
    /// The task group that all of the program's work is in, as a [`TaskGroup`](comity_protocol::TaskGroup).
    pub(crate) group: AtomicU64,
    spare: [AtomicU64; 62],
}

impl Slot {
    /// Returns the words through which other processes send requests to the program.
    pub(crate) fn words(&self) -> Words<'_, AtomicU64> {
        Words { tenure: &self.tenure, asked: [&self.asked_weight, &self.asked_cores, &self.asked_pause] }
    }
}

pub(crate) const FREE: u32 = 0;
pub(crate) const TAKEN: u32 = 1;

pub(crate) const BYTES: usize = size_of::<Layout>();

// These offsets must never change, because programs of different builds map the same file.
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
    // The lock of a slot is the lock of the byte with its number: see `member::byte`.
    assert!(SLOTS <= BYTES);
};
