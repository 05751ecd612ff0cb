//! The list of an adopted command's processes, in memory that the coordinator shares with its companion.
//!
//! If the coordinator of a `comity run` command is killed, the companion finds all processes by their mark. The
//! processes of an adopted command have no mark. If their parent has ended, only the coordinator knows them. So the
//! coordinator writes each process to this list before it first confines or stops the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use comity_os::writes;
use rustix::fs::{MemfdFlags, memfd_create};

/// The size of an entry: the number of a process, and its start.
const ENTRY: usize = 16;

/// The offset of the first entry. Before it is the number of entries.
const FIRST: u64 = 8;

/// The list may have this many entries more than twice the living processes, before the others are removed.
const SLACK: usize = 64;

/// The list of processes, each with its start.
pub struct Roster {
    file: File,
    listed: Vec<(u32, u64)>,
}

impl Roster {
    /// Creates an empty list.
    ///
    /// # Errors
    /// If the system cannot provide the memory.
    pub fn new() -> io::Result<Roster> {
        let file = File::from(memfd_create("comity-roster", MemfdFlags::CLOEXEC)?);
        writes::without_signals(|| file.set_len(FIRST))?;
        Ok(Roster { file, listed: Vec::new() })
    }

    /// Adds processes.
    pub fn add(&mut self, new: &[(u32, u64)]) {
        let first = self.listed.len();
        self.listed.extend(new);
        self.write(first);
    }

    /// Removes the other processes.
    pub fn keep(&mut self, is_kept: impl FnMut(&(u32, u64)) -> bool) {
        self.listed.retain(is_kept);
        self.write(0);
    }

    /// True if most processes of the list have ended, for a command with `living` processes.
    pub fn is_long(&self, living: usize) -> bool {
        self.listed.len() > 2 * living + SLACK
    }

    /// Writes the entries from `first` on. This process may be killed at any moment. An entry is complete before it is
    /// counted. [`Roster::keep`] moves entries to lower places in their order, so that each kept process is in the
    /// list at each moment.
    fn write(&self, first: usize) {
        let entries: Vec<u8> = self.listed[first..]
            .iter()
            .flat_map(|(process, start)| [u64::from(*process), *start])
            .flat_map(u64::to_le_bytes)
            .collect();
        let count = self.listed.len() as u64;
        // Without memory for the list, the companion finds the processes whose parents live.
        let _ = writes::without_signals(|| {
            self.file.write_all_at(&entries, FIRST + (first * ENTRY) as u64)?;
            self.file.write_all_at(&count.to_le_bytes(), 0)
        });
    }

    /// Returns the processes of the list. Some have ended.
    pub fn read(&self) -> Vec<(u32, u64)> {
        let word = |at: u64| {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, at).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let entry = |nth: u64| {
            let at = FIRST + nth * ENTRY as u64;
            Some((u32::try_from(word(at)?).ok()?, word(at + 8)?))
        };
        (0..word(0).unwrap_or(0)).map_while(entry).collect()
    }
}

impl AsRawFd for Roster {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_each_living_process_and_stays_short() {
        let roster = Roster::new().unwrap();
        let mut writer = Roster { file: roster.file.try_clone().unwrap(), listed: Vec::new() };
        assert_eq!(roster.read(), []);
        writer.add(&[(7, 1), (8, 2)]);
        assert_eq!(roster.read(), [(7, 1), (8, 2)]);
        for nth in 0..1000 {
            writer.add(&[(9, nth)]);
            if writer.is_long(1) {
                writer.keep(|(process, _)| *process == 7);
            }
            let all = roster.read();
            assert!(all.contains(&(7, 1)) && all.len() <= SLACK + 2, "{nth}: {all:?}");
        }
        writer.keep(|_| false);
        assert_eq!(roster.read(), []);
    }
}
