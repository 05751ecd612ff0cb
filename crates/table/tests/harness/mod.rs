//! Helpers for tests: tables in separate folders, their members, the content of their files, and processes that join.
#![allow(dead_code, reason = "not every test program uses all of it")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use comity_os::file_lock::LockFile;
use comity_protocol::table;
use comity_table::{CORES, CoreSet, CoreWord, Location, Member, Profile, SLOTS, SlotId, Snapshot};
use tempfile::TempDir;

pub use comity_table::Seat;

pub mod roles;

/// The time limit of a wait. It is long, so that only a hang exceeds it, and not a slow machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A table that no other test uses.
pub struct Table {
    folder: TempDir,
}

impl Table {
    pub fn new() -> Table {
        Table { folder: TempDir::new().unwrap() }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("table")
    }

    pub fn location(&self) -> Location {
        Location::At(self.path())
    }

    /// Joins as a member that may use the cores from 0 to `cores` − 1. These cores need not exist.
    pub fn join(&self, program: u64, cores: usize) -> Member {
        self.join_as(&profile(program, 0..cores))
    }

    pub fn join_as(&self, profile: &Profile) -> Member {
        Member::join(&self.location(), profile).unwrap()
    }

    pub fn file(&self) -> TableFile {
        TableFile::read(&self.path())
    }
}

pub fn profile(program: u64, cores: impl IntoIterator<Item = usize>) -> Profile {
    Profile {
        program,
        name: format!("program {program}"),
        policy: "test".to_owned(),
        weight: 100,
        workers: 4,
        may_use: cores.into_iter().collect(),
        lend_after: Duration::ZERO,
    }
}

pub fn set(cores: impl IntoIterator<Item = usize>) -> CoreSet {
    cores.into_iter().collect()
}

/// The steps of a program on the table. Each step uses the table as it is at that time.
pub trait Steps: Seat {
    fn claim(&self, own_only: bool) -> Option<usize> {
        table::claim(&self.view()?, own_only).map(|(core, _)| core)
    }

    fn take_back(&self) -> Option<usize> {
        table::take_back(&self.view()?).map(|(core, _)| core)
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        table::release(&self.view()?, core).map(|(core, _)| core)
    }

    fn decline(&self) {
        self.view().iter().for_each(table::decline);
    }

    fn any_free(&self) -> bool {
        self.view().is_some_and(|view| table::any_free(&view))
    }
}

impl Steps for Member {}

/// Claims all free cores.
pub fn claim_all(member: &Member, own_only: bool) -> Vec<usize> {
    (0..CORES).map_while(|_| member.claim(own_only)).collect()
}

/// Calls `condition` until it holds.
pub fn wait_until(sentence: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{sentence}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

// The file, as `layout.rs` defines it.

const USED_AT: usize = 64;
pub const CORES_AT: usize = 1024;
pub const SLOTS_AT: usize = CORES_AT + 16 * CORES;
pub const SLOT_BYTES: usize = 1024;
pub const BYTES: usize = SLOTS_AT + SLOT_BYTES * SLOTS;

/// The bytes of a table at one time.
pub struct TableFile {
    bytes: Vec<u8>,
}

impl TableFile {
    pub fn read(path: &Path) -> TableFile {
        TableFile { bytes: std::fs::read(path).unwrap() }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub fn core(&self, core: usize) -> CoreWord {
        CoreWord::from_bits(self.word(CORES_AT + 8 * core))
    }

    pub fn is_used(&self, slot: SlotId) -> bool {
        self.word(USED_AT + slot.index() / 64 * 8) >> (slot.index() % 64) & 1 == 1
    }

    pub fn is_taken(&self, slot: SlotId) -> bool {
        self.word(SLOTS_AT + SLOT_BYTES * slot.index()) & 0xffff_ffff == 1
    }

    pub fn held_by(&self, slot: SlotId) -> CoreSet {
        (0..CORES).filter(|core| self.core(*core).holder() == Some(slot)).collect()
    }
}

pub fn slots() -> impl Iterator<Item = SlotId> {
    (0..SLOTS).filter_map(SlotId::new)
}

/// Returns the cores that dead programs hold.
pub fn held_by_the_dead(path: &Path) -> Vec<String> {
    named_dead(path, |word| [None, word.holder()])
}

/// Returns all traces of dead programs in a table. Traces may remain while other programs reap a dead program, or grant
/// it cores because they read the table before its death.
pub fn unsound(path: &Path) -> Vec<String> {
    let lock = LockFile::open(path).unwrap();
    let lives = |slot: SlotId| lock.is_locked_by_another(slot.index() as u64).unwrap();
    let file = TableFile::read(path);
    let wrong_slots = slots().filter_map(|slot| {
        let (used, taken, lives) = (file.is_used(slot), file.is_taken(slot), lives(slot));
        (used != taken || used != lives)
            .then(|| format!("slot {}: used {used}, taken {taken}, living {lives}", slot.index()))
    });
    let names = named_dead(path, |word| [word.owner(), word.holder()]);
    wrong_slots.chain(names).collect()
}

/// Checks that after a death, one round of any program frees all cores that the dead program held. Returns the number
/// of rounds until no word names the dead program.
pub fn reap(member: &Member, table: &Table, desire: u32) -> u32 {
    let path = table.path();
    member.round(desire, 0);
    assert_eq!(held_by_the_dead(&path), [""; 0]);
    let mut rounds = 1;
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = unsound(&path);
        if left.is_empty() {
            return rounds;
        }
        assert!(Instant::now() < deadline, "{left:?}");
        std::thread::sleep(Duration::from_micros(200));
        member.round(desire, 0);
        rounds += 1;
    }
}

/// Returns the number of cores that each process has claimed. A process that has not joined has 0.
pub fn claims(table: &Table, processes: &[roles::Process]) -> Vec<u64> {
    let programs = Snapshot::take(&table.location()).unwrap().map_or(Vec::new(), |snapshot| snapshot.programs);
    let of = |process: &roles::Process| programs.iter().find(|program| program.pid == process.pid());
    processes.iter().map(|process| of(process).map_or(0, |program| program.claimed)).collect()
}

fn named_dead(path: &Path, names: impl Fn(CoreWord) -> [Option<SlotId>; 2]) -> Vec<String> {
    let lock = LockFile::open(path).unwrap();
    let dead = |slot: SlotId| !lock.is_locked_by_another(slot.index() as u64).unwrap();
    let before = TableFile::read(path);
    let suspects: Vec<usize> =
        (0..CORES).filter(|core| names(before.core(*core)).into_iter().flatten().any(dead)).collect();
    // Ignore words that changed since `before`: another program may have reaped the dead program meanwhile.
    let after = TableFile::read(path);
    let same = suspects.into_iter().filter(|core| before.core(*core) == after.core(*core));
    same.map(|core| format!("core {core}: {:?}", after.core(core))).collect()
}
