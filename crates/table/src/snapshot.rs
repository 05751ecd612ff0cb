//! The table as a process sees it that takes no part.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use comity_os::clock::now_ns;
use comity_os::file_lock::LockFile;
use comity_os::files;
use comity_policy::allotment::{Claim, Division, LINEAR, Proposal, due_milli};

use crate::layout::{
    BYTES, CORES, CPU_TIME, FRAMES, OBEYS, PROPOSES, SHORTFALL, SLOTS, SWITCHES, TAKEN, TAKES_TURNS, THIEVES, WAY,
};
use crate::map::{Location, Map, TableError, has_folder, not_to_clean};
use crate::member::{MOST_WEIGHT, byte, is_stopped, load};
use crate::{CoreSet, SlotId, Thieves, text, thieves};
use comity_protocol::orders::Requests;
use comity_protocol::{Party, Shortfall, Way, partition};

/// Whether a program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has its lock, and its coordinator comes by, or has no work.
    Living,
    /// It has its lock, but its coordinator has not come by for long although it has work: it is stopped, or gets no
    /// time.
    Stopped,
    /// Its lock is free: the next program that looks reaps it.
    Dead,
}

/// A program in the table.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its slot.
    pub slot: SlotId,
    /// Its process: parties of one process have the same.
    pub program: u64,
    /// The process's number in its own PID namespace.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// The policy that it shares by.
    pub policy: String,
    /// How much it counts.
    pub weight: u32,
    /// How many cores it can use; 0 without work.
    pub desire: u32,
    /// Its workers, and those that were awake when its coordinator last came by.
    pub workers: u32,
    /// See `workers`.
    pub awake: u32,
    /// Whether it lives.
    pub life: Life,
    /// Its coordinator has not come by for long: it is stopped, or has nothing to do.
    pub silent: bool,
    /// How long ago it joined.
    pub age: Duration,
    /// The cores that its affinity allows.
    pub may_use: CoreSet,
    /// The cores that it is entitled to.
    pub owned: CoreSet,
    /// The cores that it holds.
    pub held: CoreSet,
    /// How often it began to use a core that no program used.
    pub claimed: u64,
    /// How often it took one back.
    pub taken_back: u64,
    /// How often it released one.
    pub released: u64,
    /// How often it lost one to its owner.
    pub lost: u64,
    /// Processor time that it has used since it began, when its coordinator last came by. `None`: it does not publish
    /// that.
    pub cpu: Option<Duration>,
    /// The same that it was due: its share, while it held cores or waited for its turn, and what it used otherwise.
    /// `None`: it does not publish that.
    pub due: Option<Duration>,
    /// How it proposes that cores are divided. `None`: it is of an older build, or has joined a moment ago.
    pub proposal: Option<Proposal>,
    /// True if the program is a command that can take turns with a team: see [`Proposal::Together`].
    pub takes_turns: bool,
    /// Its context switches, voluntary and involuntary, as `cpu`.
    pub switches: Option<[u64; 2]>,
    /// What its thieves had done then. `None`: it does not publish that, for it is a command or of an older build, or
    /// has joined a moment ago.
    pub thieves: Option<Thieves>,
    /// Why it used less than it held or was due when its coordinator last looked. `None`: it used that, or does not
    /// publish a reason.
    pub shortfall: Option<Shortfall>,
    /// The way in which a command is limited to its share. `None` if the program is not a command, is of an older build,
    /// or has just joined.
    pub way: Option<Way>,
    /// What it is asked from outside. `None`: it obeys nothing, for it is of an older build, or has joined a moment
    /// ago.
    pub requests: Option<Requests>,
    /// Which of the programs that have had this slot: see [`request`](crate::request()). `None`: another has come
    /// while it was read.
    pub tenure: Option<u64>,
}

impl Program {
    /// How much it counts where cores are divided so, in thousandths.
    fn weighs(&self, division: Division) -> u32 {
        self.weight.clamp(1, MOST_WEIGHT) * self.proposal.unwrap_or_default().factor(division)
    }
}

/// A core that has an owner or a holder.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// The kernel's number.
    pub id: usize,
    /// The program that is entitled to it.
    pub owner: Option<SlotId>,
    /// The program that uses it.
    pub holder: Option<SlotId>,
    /// For how long it has been used by that program, or by none. `None`: no program has used it yet.
    pub since: Option<Duration>,
}

/// A moment of the table. The words are read one after the other, while programs change them.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The programs, by their slots.
    pub programs: Vec<Program>,
    /// The cores, by number.
    pub cores: Vec<Core>,
}

impl Snapshot {
    /// Reads the table. `None` if there is none. Changes nothing.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn take(location: &Location) -> Result<Option<Snapshot>, TableError> {
        let Some(map) = Map::open_existing(location)? else { return Ok(None) };
        let lock = map.open_to_lock();
        let lock = lock.map_err(|cause| TableError::new(&map.path(), format!("cannot be looked into: {cause}")))?;
        // It was removed or replaced meanwhile.
        let Some(lock) = lock else { return Ok(None) };
        let (layout, now) = (map.layout(), now_ns());
        let ago = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        let of = |wanted: &dyn Fn(usize) -> bool| (0..CORES).filter(|core| wanted(*core)).collect::<CoreSet>();
        let words: Vec<_> = layout.cores.iter().map(load).collect();
        let taken = (0..SLOTS)
            .filter_map(SlotId::new)
            .filter(|slot| layout.slots[slot.index()].state.load(Ordering::Acquire) == TAKEN);
        let programs = taken.map(|id| {
            let slot = &layout.slots[id.index()];
            let tenure = slot.tenure.load(Ordering::Acquire);
            let desire = slot.desire.load(Ordering::Relaxed);
            let owned = of(&|core| words[core].owner() == Some(id));
            let held = of(&|core| words[core].holder() == Some(id));
            let features = slot.features.load(Ordering::Acquire);
            let publishes = |feature: u64| features & feature != 0;
            let life = match lock.is_locked_by_another(byte(id)) {
                Ok(false) => Life::Dead,
                _ if (desire > 0 || !held.is_empty()) && is_stopped(layout, id, now) => Life::Stopped,
                _ => Life::Living,
            };
            let mut program = Program {
                slot: id,
                program: slot.program.load(Ordering::Relaxed),
                pid: slot.pid.load(Ordering::Relaxed),
                name: text::read(&slot.name),
                policy: text::read(&slot.policy),
                weight: slot.weight.load(Ordering::Relaxed),
                desire,
                workers: slot.workers.load(Ordering::Relaxed),
                awake: slot.awake.load(Ordering::Relaxed),
                life,
                silent: is_stopped(layout, id, now),
                // It is 0 as long as the program has not said it.
                age: Some(slot.joined.load(Ordering::Relaxed)).filter(|joined| *joined > 0).map_or(Duration::ZERO, ago),
                may_use: CoreSet::load(&slot.may_use),
                owned,
                held,
                claimed: slot.claimed.load(Ordering::Relaxed),
                taken_back: slot.taken_back.load(Ordering::Relaxed),
                released: slot.released.load(Ordering::Relaxed),
                lost: slot.lost.load(Ordering::Relaxed),
                cpu: publishes(CPU_TIME).then(|| Duration::from_nanos(slot.cpu_ns.load(Ordering::Relaxed))),
                due: publishes(FRAMES).then(|| Duration::from_nanos(slot.due_ns.load(Ordering::Relaxed))),
                takes_turns: publishes(TAKES_TURNS),
                proposal: publishes(PROPOSES).then(|| Proposal::from_bits(slot.proposal.load(Ordering::Relaxed))),
                switches: publishes(SWITCHES)
                    .then(|| [&slot.voluntary, &slot.involuntary].map(|switches| switches.load(Ordering::Relaxed))),
                thieves: publishes(THIEVES).then(|| Thieves {
                    steals: slot.steals.load(Ordering::Relaxed),
                    accelerations: slot.accelerations.load(Ordering::Relaxed),
                    refusals: thieves::read(&slot.refusals),
                }),
                shortfall: Shortfall::from_bits(slot.shortfall.load(Ordering::Relaxed))
                    .filter(|_| publishes(SHORTFALL)),
                way: publishes(WAY).then(|| Way::from_bits(slot.way.load(Ordering::Relaxed))),
                requests: publishes(OBEYS).then(|| slot.words().read(tenure).at(now)),
                tenure: None,
            };
            // A program that takes a slot counts the tenure up first: if it is the same, all that was read is of one
            // program.
            fence(Ordering::Acquire);
            program.tenure = Some(tenure).filter(|tenure| slot.tenure.load(Ordering::Relaxed) == *tenure);
            program
        });
        let programs: Vec<Program> = programs.collect();
        let known = programs.iter().fold(CoreSet::EMPTY, |all, program| all.union(program.may_use));
        let cores = (0..CORES)
            .filter(|core| known.contains(*core) || words[*core].owner().is_some() || words[*core].holder().is_some());
        let cores = cores.map(|id| Core {
            id,
            owner: words[id].owner(),
            holder: words[id].holder(),
            since: Some(layout.since[id].load(Ordering::Relaxed)).filter(|since| *since > 0).map(ago),
        });
        Ok(Some(Snapshot { cores: cores.collect(), programs }))
    }

    /// What the program is entitled to beside all others that have work, in thousandths of a core; 0 if it has none
    /// itself.
    pub fn share_milli(&self, program: &Program) -> u32 {
        let has_work = |program: &&Program| {
            program.life == Life::Living && !program.silent && (program.desire > 0 || program.awake > 0)
        };
        let division = self.division();
        let claim = |program: &Program| Claim {
            program: program.program,
            weight: program.weighs(division),
            desire: division.could_use(program.desire, program.may_use.len() as u32),
        };
        let active: Vec<&Program> = self.programs.iter().filter(has_work).collect();
        let cores = active.iter().fold(CoreSet::EMPTY, |all, other| all.union(other.may_use)).len() as u32;
        let shares = due_milli(division, cores, &active.iter().map(|other| claim(other)).collect::<Vec<_>>());
        let own = active.iter().zip(shares).find(|(other, _)| other.slot == program.slot);
        own.map_or(0, |(_, share)| share)
    }

    /// How cores are divided now.
    pub fn division(&self) -> Division {
        let claims = |program: &&Program| program.life == Life::Living && !program.silent && program.desire > 0;
        let claiming = || self.programs.iter().filter(claims);
        let proposals = || claiming().map(|program| program.proposal);
        let cores = claiming().fold(CoreSet::EMPTY, |all, program| all.union(program.may_use)).len() as u32;
        let takes_turns = |program: &Program| program.takes_turns && program.desire.max(program.awake) >= cores;
        Division::among(proposals(), claiming().all(takes_turns)).beside_probes(proposals().flatten())
    }

    /// What a program would be entitled to that joined now, proposed what the others propose and had never been alone.
    /// It could use `desire` of the cores `may_use` and counted `weight`. In thousandths of a core, since cores that
    /// cannot be divided go round.
    ///
    /// Programs that share time hold no core; each counts as if it wanted a core for each worker that is awake.
    pub fn entitled(&self, weight: u32, desire: u32, may_use: CoreSet) -> u32 {
        let free =
            (0..SLOTS).filter_map(SlotId::new).find(|slot| self.programs.iter().all(|other| other.slot != *slot));
        // A full table takes no further program.
        let Some(slot) = free else { return desire.min(may_use.len() as u32) * 1000 };
        let active = self.programs.iter().filter(|program| program.life == Life::Living && !program.silent);
        let division = self.division();
        let others = active.map(|program| {
            let desire = if program.desire > 0 { program.desire } else { program.awake };
            let weight = program.weighs(division);
            let claim = Claim { program: program.program, weight, desire: desire.min(program.may_use.len() as u32) };
            Party { slot: program.slot, claim, may_use: program.may_use }
        });
        // In all likelihood no program has drawn 0.
        let claim =
            Claim { program: 0, weight: weight.saturating_mul(LINEAR), desire: desire.min(may_use.len() as u32) };
        let mut parties = vec![Party { slot, claim, may_use }];
        parties.extend(others.filter(|party| party.claim.desire > 0));
        if parties.iter().all(|party| party.may_use == may_use) {
            let claims: Vec<Claim> = parties.iter().map(|party| party.claim).collect();
            return due_milli(division, may_use.len() as u32, &claims)[0];
        }
        // Where some may use other cores only, it gets what the table's rule gives it, on average over a frame.
        parties.sort_by_key(|party| party.slot.index());
        let end = parties.iter().filter_map(|party| party.may_use.iter().last()).max().map_or(0, |last| last + 1);
        let of = |core: usize| self.cores.iter().find(|known| known.id == core);
        let owners: Vec<Option<SlotId>> = (0..end).map(|core| of(core)?.owner).collect();
        let gets = |turn| {
            let after = partition(&parties, division, &owners, |core| of(core)?.holder, u64::MAX / TURNS * turn);
            after.owners.iter().filter(|owner| **owner == Some(slot)).count()
        };
        (0..TURNS).map(gets).sum::<usize>() as u32 * 1000 / TURNS as u32
    }
}

/// At so many times of a frame it is looked which program has its turn: a multiple of 2 to 6.
const TURNS: u64 = 60;

/// What [`clean`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// There was no table.
    NoTable,
    /// No program used it, and it is gone. It may have been of another version, or broken.
    Removed,
    /// Programs use it, so it stays: they reap their dead by themselves.
    InUse {
        /// The slots that are locked.
        programs: usize,
    },
}

/// More slots than a table of any layout has.
const MOST_SLOTS: u64 = 4096;

/// What [`clean`] looks at: the table at `location`; where there is none, one of another layout in its place.
pub fn path_to_clean(location: &Location) -> PathBuf {
    let path = location.path();
    let other = || location.others().into_iter().next().map(|(other, _)| other);
    if path.exists() { path } else { other().unwrap_or(path) }
}

/// Removes a table that no program uses, broken ones included. A file that is no table at all stays.
///
/// # Errors
/// If it is no table, or cannot be opened or removed.
pub fn clean(location: &Location) -> Result<Cleaned, TableError> {
    if !has_folder(location)? {
        return Ok(Cleaned::NoTable);
    }
    let path = path_to_clean(location);
    let error = |what: String| TableError::new(&path, what);
    let file = match files::open_itself(&path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Cleaned::NoTable),
        Err(cause) if files::is_link(&cause) || cause.kind() == io::ErrorKind::IsADirectory => {
            return Err(error("is not a regular file, so it stays".to_owned()));
        }
        Err(cause) => return Err(error(format!("cannot be opened: {cause}"))),
    };
    let metadata = file.metadata().map_err(|cause| error(format!("cannot be looked at: {cause}")))?;
    if !metadata.is_file() {
        return Err(error("is not a regular file, so it stays".to_owned()));
    }
    if metadata.len() > 64 * BYTES as u64 {
        return Err(error("is far larger than any core table, so it stays".to_owned()));
    }
    if let Some(what) = not_to_clean(&metadata, location) {
        return Err(error(what.to_owned()));
    }
    if *location != Location::Own && !begins_like_a_table(file) {
        return Err(error("does not begin as a core table does, so it stays; remove it by hand".to_owned()));
    }
    let lock = match LockFile::open(&path) {
        Ok(lock) => lock,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Cleaned::NoTable),
        Err(cause) => return Err(error(format!("cannot be opened: {cause}"))),
    };
    let locked: usize = (0..MOST_SLOTS).filter(|byte| !matches!(lock.try_lock(*byte), Ok(true))).count();
    if locked > 0 {
        return Ok(Cleaned::InUse { programs: locked });
    }
    // All slots are locked by this process, so no program joins meanwhile; one that has opened it already finds it
    // gone and makes another.
    let there = LockFile::open(&path).ok();
    if there.is_none_or(|there| [there.identity(), files::identity(&metadata)] != [lock.identity(); 2]) {
        return Err(error("was replaced meanwhile; try again".to_owned()));
    }
    std::fs::remove_file(&path).map_err(|cause| error(format!("cannot be removed: {cause}")))?;
    Ok(Cleaned::Removed)
}

/// Also one that was cut short; also of another version.
fn begins_like_a_table(file: File) -> bool {
    let mut bytes = Vec::new();
    let magic = crate::layout::MAGIC.to_le_bytes();
    file.take(magic.len() as u64).read_to_end(&mut bytes).is_ok() && magic.starts_with(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(slot: usize, weight: u32, desire: u32, cores: impl IntoIterator<Item = usize>) -> Program {
        Program {
            slot: SlotId::new(slot).unwrap(),
            program: slot as u64 + 1,
            pid: 1,
            name: String::new(),
            policy: String::new(),
            weight,
            desire,
            workers: 8,
            awake: 0,
            life: Life::Living,
            silent: false,
            age: Duration::ZERO,
            may_use: cores.into_iter().collect(),
            owned: CoreSet::EMPTY,
            held: CoreSet::EMPTY,
            claimed: 0,
            taken_back: 0,
            released: 0,
            lost: 0,
            cpu: None,
            due: None,
            proposal: None,
            takes_turns: true,
            switches: None,
            thieves: None,
            shortfall: None,
            way: None,
            requests: None,
            tenure: None,
        }
    }

    fn entitled(programs: &[Program], weight: u32, desire: u32, cores: impl IntoIterator<Item = usize>) -> u32 {
        let snapshot = Snapshot { programs: programs.to_vec(), cores: Vec::new() };
        snapshot.entitled(weight, desire, cores.into_iter().collect())
    }

    #[test]
    fn a_gang_is_entitled_to_what_it_can_use_of_its_turns_and_of_what_others_leave() {
        let gang =
            |slot, desire, cores| Program { proposal: Some(Proposal::Time), ..program(slot, 100, desire, cores) };
        let shares = |programs: &[Program]| {
            let snapshot = Snapshot { programs: programs.to_vec(), cores: Vec::new() };
            programs.iter().map(|program| snapshot.share_milli(program)).collect::<Vec<_>>()
        };
        assert_eq!(shares(&[gang(0, 8, 0..8), gang(1, 8, 0..8)]), [4000, 4000]);
        assert_eq!(shares(&[gang(0, 2, 0..8), gang(1, 8, 0..8)]), [1000, 7000]);
        assert_eq!(shares(&[gang(0, 4, 0..4), gang(1, 4, 4..8)]), [4000, 4000]);
        // Beside one that proposes equal parts it is asked what they could use.
        assert_eq!(shares(&[gang(0, 2, 0..8), program(1, 100, 8, 0..8)]), [4000, 4000]);
        assert_eq!(entitled(&[gang(0, 2, 0..8)], 100, 8, 0..8), 7000);
        // As the table divides them, where the sets of cores differ.
        let apart = entitled(&[gang(0, 2, 0..9)], 100, 8, 0..8);
        assert!((6000..=8000).contains(&apart), "{apart}");
    }

    #[test]
    fn a_newcomer_gets_its_part_of_what_the_living_leave() {
        assert_eq!(entitled(&[], 100, 8, 0..8), 8000);
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 100, 8, 0..8), 4000);
        // One that desires little leaves the rest, and one that waits all.
        assert_eq!(entitled(&[program(0, 100, 1, 0..8)], 100, 8, 0..8), 7000);
        assert_eq!(entitled(&[program(0, 100, 0, 0..8)], 100, 8, 0..8), 8000);
        // Weights; a quota of its own; more programs than cores.
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 300, 8, 0..8), 6000);
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 100, 2, 0..8), 2000);
        let crowd: Vec<Program> = (0..15).map(|slot| program(slot, 100, 8, 0..8)).collect();
        assert_eq!(entitled(&crowd, 100, 8, 0..8), 500);
        // A program that shares time counts by its workers that are awake; the dead and the stopped do not.
        let in_time = Program { awake: 4, ..program(0, 100, 0, 0..8) };
        assert_eq!(entitled(std::slice::from_ref(&in_time), 100, 8, 0..8), 4000);
        for life in [Life::Dead, Life::Stopped] {
            assert_eq!(entitled(&[Program { life, ..program(0, 100, 8, 0..8) }], 100, 8, 0..8), 8000);
        }
        // One that is silent, and one that says that it counts for everything.
        assert_eq!(entitled(&[Program { silent: true, ..in_time }], 100, 8, 0..8), 8000);
        assert!(entitled(&[program(0, u32::MAX, 8, 0..8)], 100, 8, 0..8) > 0);
        // Where another may use other cores only, they are no help.
        let apart = [program(0, 100, 4, 0..4), program(1, 100, 1, 4..8)];
        assert!(entitled(&apart, 100, 4, 0..4) <= 2000);
        // Never more than its affinity allows.
        assert_eq!(entitled(&[program(0, 100, 1, 0..8)], 100, 8, [3]), 1000);
    }
}
