//! Tables of other layouts, which programs of another build use. Through the directory of such a table, this build can
//! read the names of the programs, and nothing else.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use comity_os::file_lock::LockFile;

use crate::layout::BYTES;
use crate::map::{Location, open_trusted};
use crate::text;

/// The maximum number of slots that a table of another layout may have.
const MOST_SLOTS: u32 = 4096;

/// The maximum number of listed names, and the maximum number of bytes of a name.
const MOST_NAMES: usize = 4;
const LONGEST_NAME: u32 = 64;

/// The maximum size of a table of another layout, in bytes.
const MOST_BYTES: u64 = 64 * BYTES as u64;

/// A table of another layout at the same location, and the programs that use it. These programs share no cores with
/// programs of this layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLayout {
    /// The path of the table.
    pub path: PathBuf,
    /// The layout's number.
    pub layout: u32,
    /// The first programs, each as `name (process N)`.
    pub programs: Vec<String>,
    /// The number of further programs.
    pub more: usize,
}

impl fmt::Display for OtherLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherLayout { path, layout, programs, more } = self;
        let named = programs.join(", ");
        let more = if *more == 0 { String::new() } else { format!(" and {more} more") };
        write!(f, "the core table '{}' has layout {layout} and is used by {named}{more}. ", path.display())?;
        write!(f, "These programs use another version of Comity and share no cores with programs of this version")
    }
}

/// Returns the tables of other layouts at `location` that living programs use. Skips tables that cannot be read.
pub fn other_layouts(location: &Location) -> Vec<OtherLayout> {
    let others = location.others().into_iter();
    let others = others.map(|(path, layout)| {
        let (programs, more) = programs(&path).unwrap_or_default();
        OtherLayout { path, layout, programs, more }
    });
    others.filter(|other| !other.programs.is_empty()).collect()
}

/// Returns the first programs that use a table, and the number of further programs. Reads the table's directory (see
/// `layout.rs`).
fn programs(path: &Path) -> Option<(Vec<String>, usize)> {
    let mut bytes = Vec::new();
    open_trusted(path, MOST_BYTES)?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let lock = LockFile::open(path).ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let mut directory = [0; 6];
    for (nth, number) in directory.iter_mut().enumerate() {
        *number = word(16 + 4 * nth)?;
    }
    let [slots_at, slot_bytes, slots, pid_at, name_at, name_bytes] = directory;
    let name_bytes = name_bytes.min(LONGEST_NAME);
    let used = (0..slots.min(MOST_SLOTS)).filter(|slot| matches!(lock.is_locked_by_another((*slot).into()), Ok(true)));
    let of_slot = |slot: u32| {
        let slot = (slots_at as usize).checked_add(slot as usize * slot_bytes as usize)?;
        let at = slot.checked_add(name_at as usize)?;
        let name = text::of_bytes(bytes.get(at..at.checked_add(name_bytes as usize)?)?);
        Some(format!("{name} (process {})", word(slot.checked_add(pid_at as usize)?)?))
    };
    let used: Vec<u32> = used.collect();
    let named = used.iter().take(MOST_NAMES).map(|slot| of_slot(*slot).unwrap_or_else(|| "a program".to_owned()));
    Some((named.collect(), used.len().saturating_sub(MOST_NAMES)))
}
