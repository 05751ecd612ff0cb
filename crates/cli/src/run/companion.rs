//! A process that sets a command free when its coordinator is killed or stopped, without the help of any neighbour.
//!
//! The coordinator notes when it last came by and where it has put the command's threads, before it puts them
//! there. Its companion, a copy of it without an account in the table, sleeps until the coordinator has ended, and
//! looks at the note twice a second. It lets every thread roam that is where the note says; the next look of a
//! coordinator that goes on puts them back. A thread that had bound itself to cores and was left a part of them
//! stays on that part, or roams too if just that part is noted. Both processes killed at once leave the threads
//! where they are.
//!
//! Before the coordinator halts a command, it notes until when the command rests. The companion thaws and continues the
//! command, and removes its control group, if the coordinator has ended, or if the coordinator itself is stopped at the
//! end of the rest. The companion does not know which processes the user had stopped before.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use comity_os::census::Stat;
use comity_os::clock::now_ns;
use comity_os::detached::{self, Beside};
use comity_os::freezer::Place;
use comity_os::pidfd::Pidfd;
use comity_os::writes;
use comity_table::{CORES, CoreSet, STOPPED_AFTER};
use rustix::fs::{MemfdFlags, memfd_create};

use super::terms::Terms;
use super::tree::Tree;

/// How often the companion looks whether the coordinator comes by.
const PERIOD: Duration = Duration::from_millis(500);

/// So many sets of cores may have threads on them at a time. Three are those where they were put before; the others
/// are where they are to go, and what of that is new.
const PLACES: usize = 5;

/// The time, until when the command rests or 0, and for each set of cores that threads may have been put on a bit
/// for each core. No bit is set where there is no set.
const BYTES: usize = TIMES + PLACES * (CORES / 8);
const TIMES: usize = 16;

/// What the coordinator has noted, in memory that both share.
pub struct Note {
    file: File,
    /// Until when the command rests, or 0.
    rests_until: Cell<u64>,
    /// The companion process. It ends when the coordinator drops this note. `None` in the companion itself.
    companion: Option<Beside>,
}

impl Note {
    fn new() -> io::Result<Note> {
        let file = File::from(memfd_create("comity-note", MemfdFlags::CLOEXEC)?);
        writes::without_signals(|| file.set_len(BYTES as u64))?;
        Ok(Note { file, rests_until: Cell::new(0), companion: None })
    }

    /// The command rests until then; 0: it does not. Noted at once, wherever the threads are.
    pub fn rests_until(&self, until_ns: u64) {
        self.rests_until.set(until_ns);
        let _ = self.file.write_all_at(&until_ns.to_le_bytes(), 8);
    }

    /// The coordinator comes by, and may have put threads of the command on these sets of cores.
    pub fn write(&self, places: [Option<CoreSet>; PLACES]) {
        let mut bytes = [0; BYTES];
        let (times, sets) = bytes.split_at_mut(TIMES);
        times[..8].copy_from_slice(&now_ns().to_le_bytes());
        times[8..].copy_from_slice(&self.rests_until.get().to_le_bytes());
        for (cores, place) in sets.chunks_exact_mut(CORES / 8).zip(places) {
            for core in place.iter().flat_map(CoreSet::iter) {
                cores[core / 8] |= 1 << (core % 8);
            }
        }
        // Memory that was set aside: nothing can fail.
        let _ = self.file.write_all_at(&bytes, 0);
    }

    /// How long ago that was, until when the command rests, and where threads may be.
    fn read(&self) -> (Duration, Option<u64>, Vec<CoreSet>) {
        let mut bytes = [0; BYTES];
        let _ = self.file.read_exact_at(&mut bytes, 0);
        let (times, sets) = bytes.split_at(TIMES);
        let [time, until] = [0, 8].map(|at| u64::from_le_bytes(times[at..at + 8].try_into().expect("eight bytes")));
        let set = |cores: &[u8]| (0..CORES).filter(|core| cores[core / 8] >> (core % 8) & 1 == 1).collect::<CoreSet>();
        let places = sets.chunks_exact(CORES / 8).map(set).filter(|place| !place.is_empty());
        let rests_until = Some(until).filter(|until| *until > 0);
        (Duration::from_nanos(now_ns().saturating_sub(time)), rests_until, places.collect())
    }
}

/// Starts the companion of this process, which must have one thread.
///
/// # Errors
/// If the system gives no process or no memory for it. Then nothing sets the command free but the coordinator.
pub fn start(terms: &Terms, roams: CoreSet) -> io::Result<Note> {
    let (coordinator, mut note) = (Pidfd::of_this_process()?, Note::new()?);
    note.write([None; PLACES]);
    let process = std::process::id();
    let kept = [coordinator.as_fd(), note.file.as_fd()];
    let work = || watch(process, &coordinator, &note, terms, roams);
    note.companion = Some(detached::start_child(&format!("comity+{}", terms.process), &kept, work)?);
    Ok(note)
}

fn watch(process: u32, coordinator: &Pidfd, note: &Note, terms: &Terms, roams: CoreSet) {
    let place = Place::of(terms.process, terms.start);
    // One that only gets no core goes on soon, and knows what each thread wants.
    let is_stopped = || Stat::of_process(process).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
    loop {
        let has_ended = coordinator.has_ended_within(PERIOD);
        let (silent, rests_until, places) = note.read();
        let is_over = |until: u64| has_ended || until < now_ns() && is_stopped();
        if has_ended || rests_until.is_some_and(is_over) {
            place.iter().for_each(Place::clear);
        }
        if rests_until.is_some_and(is_over) {
            Tree::new(terms, roams).go_on_all();
        }
        if !places.is_empty() && (has_ended || silent > STOPPED_AFTER && is_stopped()) {
            for place in places {
                // Dropped, it lets all threads roam that are on these cores.
                drop(Tree::confined(terms, roams, place));
            }
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
        let other: CoreSet = [1].into_iter().collect();
        note.write([Some(cores), None, Some(other), None, None]);
        assert_eq!((note.read().1, note.read().2), (None, vec![cores, other]));
        note.rests_until(7);
        note.write([None; PLACES]);
        let (silent, rests_until, places) = note.read();
        assert_eq!(rests_until, Some(7));
        assert!(places.is_empty() && silent < Duration::from_secs(60));
    }
}
