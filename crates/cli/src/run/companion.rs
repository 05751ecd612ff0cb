//! The companion of a coordinator: a process that releases the command when the coordinator is killed or stopped,
//! without the help of other programs.
//!
//! Before the coordinator confines threads to a set of cores (a *place*), it notes the place and the time of its last
//! look. The companion is a copy of the coordinator that is not a member of the core table. It waits for the end of
//! the coordinator, and reads the note twice a second.
//!
//! The companion gives every thread whose mask is a noted place the affinity of the command. If a stopped coordinator
//! continues, its next look confines the threads again. The companion does not know which affinity a thread had
//! chosen. If the coordinator has confined such a thread to a part of its affinity, and this part is not a noted
//! place, the thread stays confined. If coordinator and companion are killed together, all threads stay confined.
//!
//! Before the coordinator halts a command (freezes or stops its processes), it notes the end of the halt. The
//! companion continues the command, and removes its control group, if the coordinator has ended, or if the
//! coordinator is itself stopped at the noted end. The companion does not know which processes the user had stopped
//! before.
//!
//! If the coordinator has ended, the companion also keeps the FIFO of the jobserver open until the command ends.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
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

use super::roster::Roster;
use super::terms::Terms;
use super::tokens::Tokens;
use super::tree::Tree;

/// The interval at which the companion checks the coordinator's note.
const PERIOD: Duration = Duration::from_millis(500);

/// The maximum number of places at a time: three earlier places ([`Tree::places`]), the new place, and the cores that
/// are new in it.
const PLACES: usize = 5;

/// The size of the note in bytes: the time of the last look, the end of the halt or 0, and for each place one bit per
/// core. No bit is set for a missing place.
const BYTES: usize = TIMES + PLACES * (CORES / 8);
const TIMES: usize = 16;

/// The coordinator's note, in memory that both processes share.
pub struct Note {
    file: File,
    /// The time until which the command is halted. 0: it is not halted.
    rests_until: Cell<u64>,
    /// The list of processes, if the command was adopted. The coordinator's tree takes it.
    pub roster: Option<Roster>,
    /// The companion process. It ends when the coordinator drops this note. `None` in the companion itself.
    companion: Option<Beside>,
}

impl Note {
    fn new() -> io::Result<Note> {
        let file = File::from(memfd_create("comity-note", MemfdFlags::CLOEXEC)?);
        writes::without_signals(|| file.set_len(BYTES as u64))?;
        Ok(Note { file, rests_until: Cell::new(0), roster: None, companion: None })
    }

    /// Notes immediately, not only at the next look, that the command is halted until `until_ns`. 0: it is not
    /// halted.
    pub fn rests_until(&self, until_ns: u64) {
        self.rests_until.set(until_ns);
        let _ = self.file.write_all_at(&until_ns.to_le_bytes(), 8);
    }

    /// Notes the present time as that of the last look, and the places to which the coordinator may have confined
    /// threads.
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
        // The file has its full size already, so the write cannot fail.
        let _ = self.file.write_all_at(&bytes, 0);
    }

    /// Returns the time since the last look, the end of the halt, and the places of threads.
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
/// If the system cannot create a process or memory for it. Then only the coordinator releases the command.
pub fn start(terms: &Terms, roams: CoreSet, command: &Pidfd, tokens: Option<&Tokens>) -> io::Result<Note> {
    let (coordinator, mut note) = (Pidfd::of_this_process()?, Note::new()?);
    note.write([None; PLACES]);
    let roster = terms.mark.is_none().then(Roster::new).transpose()?;
    let process = std::process::id();
    let kept = [coordinator.as_raw_fd(), note.file.as_raw_fd(), command.as_raw_fd()];
    let others = [tokens.map(Tokens::as_raw_fd), roster.as_ref().map(AsRawFd::as_raw_fd)];
    let kept: Vec<RawFd> = kept.into_iter().chain(others.into_iter().flatten()).collect();
    let work = || {
        watch(process, &coordinator, &note, roster.as_ref(), terms, roams);
        if let Some(tokens) = tokens {
            tokens.outlive_coordinator(command);
        }
    };
    let companion = detached::start_child(&format!("comity+{}", terms.process), &kept, work)?;
    (note.companion, note.roster) = (Some(companion), roster);
    Ok(note)
}

fn watch(process: u32, coordinator: &Pidfd, note: &Note, roster: Option<&Roster>, terms: &Terms, roams: CoreSet) {
    let place = Place::of(terms.process, terms.start);
    // The companion acts only if the coordinator is stopped. A coordinator that only waits for a core soon continues,
    // and it knows the affinity of each thread.
    let of_all = |mut tree: Tree| {
        roster.iter().for_each(|roster| tree.include(&roster.read()));
        tree
    };
    let is_stopped = || Stat::of_process(process).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
    loop {
        let has_ended = coordinator.has_ended_within(PERIOD);
        let (silent, rests_until, places) = note.read();
        let is_over = |until: u64| has_ended || until < now_ns() && is_stopped();
        if has_ended || rests_until.is_some_and(is_over) {
            place.iter().for_each(Place::clear);
        }
        if rests_until.is_some_and(is_over) {
            of_all(Tree::new(terms, roams)).go_on_all();
        }
        if !places.is_empty() && (has_ended || silent > STOPPED_AFTER && is_stopped()) {
            for place in places {
                // The tree restores the affinity of all threads that are confined to `place`, when it is dropped.
                drop(of_all(Tree::confined(terms, roams, place)));
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
