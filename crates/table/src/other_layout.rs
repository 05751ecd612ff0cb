//! Programs of another build, whose table this one cannot read.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use comity_os::file_lock::LockFile;

use crate::layout::BYTES;
use crate::map::Location;
use crate::text;

/// More slots than a table of any layout is believed to have.
const MOST_SLOTS: u32 = 4096;

/// Names that are said.
const MOST_NAMES: usize = 4;

/// A table of another layout at the same place, and the programs that use it: they and those of this layout share no cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLayout {
    /// Where it is.
    pub path: PathBuf,
    /// The layout's number.
    pub layout: u32,
    /// The programs, each as `name (process N)`.
    pub programs: Vec<String>,
}

impl fmt::Display for OtherLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherLayout { path, layout, programs } = self;
        let named = programs.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
        let more = match programs.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        write!(f, "the core table '{}' has layout {layout} and is used by {named}{more}: ", path.display())?;
        write!(f, "these were built with another version of comity, and share no cores with programs of this one")
    }
}

/// The tables of other layouts at `location` that living programs use. Empty where they cannot be read.
pub fn other_layouts(location: &Location) -> Vec<OtherLayout> {
    let others = location.others().into_iter();
    let others =
        others.map(|(path, layout)| OtherLayout { programs: programs(&path).unwrap_or_default(), path, layout });
    others.filter(|other| !other.programs.is_empty()).collect()
}

/// The programs that use a table, by its directory: see `layout.rs`.
fn programs(path: &Path) -> Option<Vec<String>> {
    let lock = LockFile::open(path).ok()?;
    if fs::metadata(path).ok()?.len() > 64 * BYTES as u64 {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let mut directory = [0; 6];
    for (nth, number) in directory.iter_mut().enumerate() {
        *number = word(16 + 4 * nth)?;
    }
    let [slots_at, slot_bytes, slots, pid_at, name_at, name_bytes] = directory;
    let used = (0..slots.min(MOST_SLOTS)).filter(|slot| matches!(lock.is_locked_by_another((*slot).into()), Ok(true)));
    let of_slot = |slot: u32| {
        let slot = (slots_at as usize).checked_add(slot as usize * slot_bytes as usize)?;
        let at = slot.checked_add(name_at as usize)?;
        let name = text::of_bytes(bytes.get(at..at.checked_add(name_bytes as usize)?)?);
        Some(format!("{name} (process {})", word(slot.checked_add(pid_at as usize)?)?))
    };
    Some(used.map(|slot| of_slot(slot).unwrap_or_else(|| "a program".to_owned())).collect())
}
