//! A process that sets a command free when its coordinator is killed or stopped, without the help of any neighbour.
//!
//! The coordinator notes when it last came by and where it has put the command's threads, before it puts them there. Its companion,
//! a copy of it without an account in the table, sleeps until the coordinator has ended, and looks at the note twice a second. It
//! lets every thread roam that is where the note says; the next look of a coordinator that goes on puts them back. Both killed at
//! once leave the threads where they are.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use comity_os::clock::now_ns;
use comity_os::detached;
use comity_os::pidfd::Pidfd;
use comity_table::{CORES, CoreSet, STOPPED_AFTER};
use rustix::fs::{MemfdFlags, memfd_create};

use super::coordinate::Terms;
use super::tree::Tree;

/// How often the companion looks whether the coordinator comes by.
const PERIOD: Duration = Duration::from_millis(500);

/// The time, and a bit for each core that threads were put on: none while they roam.
const BYTES: usize = 8 + CORES / 8;

/// What the coordinator has noted, in memory that both share.
pub struct Note(File);

impl Note {
    fn new() -> io::Result<Note> {
        let file = File::from(memfd_create("comity-note", MemfdFlags::CLOEXEC)?);
        file.set_len(BYTES as u64)?;
        Ok(Note(file))
    }

    /// The coordinator comes by, and puts the command's threads on these cores; `None`: they roam.
    pub fn write(&self, confined: Option<CoreSet>) {
        let mut bytes = [0; BYTES];
        let (time, cores) = bytes.split_at_mut(8);
        time.copy_from_slice(&now_ns().to_le_bytes());
        for core in confined.iter().flat_map(CoreSet::iter) {
            cores[core / 8] |= 1 << (core % 8);
        }
        // Memory that was set aside: nothing can fail.
        let _ = self.0.write_all_at(&bytes, 0);
    }

    /// How long ago that was, and where the threads are.
    fn read(&self) -> (Duration, Option<CoreSet>) {
        let mut bytes = [0; BYTES];
        let _ = self.0.read_exact_at(&mut bytes, 0);
        let (time, cores) = bytes.split_at(8);
        let time = u64::from_le_bytes(time.try_into().expect("eight bytes"));
        let confined: CoreSet = (0..CORES).filter(|core| cores[core / 8] >> (core % 8) & 1 == 1).collect();
        (Duration::from_nanos(now_ns().saturating_sub(time)), Some(confined).filter(|confined| !confined.is_empty()))
    }
}

/// Starts the companion of this process, which must have one thread.
///
/// # Errors
/// If the system gives no process or no memory for it. Then nothing sets the command free but the coordinator.
pub fn start(terms: &Terms, roams: CoreSet) -> io::Result<Note> {
    let (coordinator, note) = (Pidfd::of_this_process()?, Note::new()?);
    note.write(None);
    detached::start_child(&format!("comity+{}", terms.process), &[coordinator.as_fd(), note.0.as_fd()], || {
        watch(&coordinator, &note, terms, roams);
    })?;
    Ok(note)
}

fn watch(coordinator: &Pidfd, note: &Note, terms: &Terms, roams: CoreSet) {
    loop {
        let has_ended = coordinator.has_ended_within(PERIOD);
        let (silent, confined) = note.read();
        if let Some(confined) = confined
            && (has_ended || silent > STOPPED_AFTER)
        {
            // Dropped, it lets all threads roam that are on these cores.
            drop(Tree::confined(terms.process, terms.start, roams, confined));
        }
        if has_ended {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read() {
        let note = Note::new().unwrap();
        let cores: CoreSet = [0, 7, 8, 1023].into_iter().collect();
        note.write(Some(cores));
        assert_eq!(note.read().1, Some(cores));
        note.write(None);
        let (silent, confined) = note.read();
        assert!(confined.is_none() && silent < Duration::from_secs(60));
    }
}
