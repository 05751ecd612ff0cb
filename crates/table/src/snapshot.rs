//! Snapshots of the table, for processes that are not members.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use comity_os::census;
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

/// The state of a program's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The program holds the lock of its slot. Its coordinator looks at the table regularly, or the program has no
    /// work.
    Living,
    /// The program holds the lock of its slot and has work, but its heartbeat is older than
    /// [`STOPPED_AFTER`](crate::STOPPED_AFTER). The program is stopped, or gets no processor time.
    Stopped,
    /// The lock of the program's slot is free. The next program that looks at the table frees the cores and the slot.
    Dead,
}

/// The [policy](Program::policy) of a command of `comity run`.
pub const COMMAND: &str = "run";

/// The [policy](Program::policy) of a command of `comity adopt`.
pub const ADOPTED: &str = "adopt";

/// A program in the table.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's slot.
    pub slot: SlotId,
    /// The number of the process. All members of one process have the same number.
    pub program: u64,
    /// The process's number in its own PID namespace.
    pub pid: u32,
    /// The name that the program gives itself.
    pub name: String,
    /// The policy by which the program shares cores.
    pub policy: String,
    /// The program's weight.
    pub weight: u32,
    /// The number of cores that the program can use. 0: it has no work.
    pub desire: u32,
    /// The number of the program's workers at the coordinator's last look.
    pub workers: u32,
    /// The number of workers that were awake at the coordinator's last look.
    pub awake: u32,
    /// The state of the program's life.
    pub life: Life,
    /// True if the program's heartbeat is older than [`STOPPED_AFTER`](crate::STOPPED_AFTER): the program is stopped,
    /// or has no work.
    pub silent: bool,
    /// The time since the program joined.
    pub age: Duration,
    /// The cores that the program's affinity allows.
    pub may_use: CoreSet,
    /// The cores that the program is entitled to.
    pub owned: CoreSet,
    /// The cores that the program holds.
    pub held: CoreSet,
    /// The number of times that the program began to use a core that no program used.
    pub claimed: u64,
    /// The number of times that the program took back a core.
    pub taken_back: u64,
    /// The number of times that the program released a core.
    pub released: u64,
    /// The number of times that the program lost a core to the core's owner.
    pub lost: u64,
    /// Processor time that the program has used since it began, at the coordinator's last look. `None`: not
    /// published.
    pub cpu: Option<Duration>,
    /// Processor time that the program was entitled to since it began. For periods in which it held cores or waited for
    /// its turn, this is its share. For other periods, it is the time that the program used. `None`: not published.
    pub due: Option<Duration>,
    /// The division of cores that the program proposes. `None`: the program's build is too old, or it has just joined.
    pub proposal: Option<Proposal>,
    /// True if the program is a command that can take turns with a multi-threaded command: see [`Proposal::Together`].
    pub takes_turns: bool,
    /// The program's voluntary and involuntary context switches since it began. `None`: not published.
    pub switches: Option<[u64; 2]>,
    /// The counters of the program's thieves at the coordinator's last look. `None`: not published, because the
    /// program is a command, its build is too old, or it has just joined.
    pub thieves: Option<Thieves>,
    /// The reason why the program used less than it held or was entitled to, at the coordinator's last look. `None`:
    /// the program used everything, or publishes no reason.
    pub shortfall: Option<Shortfall>,
    /// The way in which a command is limited to its share. `None` if the program is not a command, is of an older
    /// build, or has just joined.
    pub way: Option<Way>,
    /// The requests to the program from other processes. `None`: the program does not follow requests, because its
    /// build is too old or it has just joined.
    pub requests: Option<Requests>,
    /// The number of programs that have had this slot, including this program. [`request`](crate::request()) uses it to
    /// address no other program. `None`: another program took the slot while the snapshot was taken.
    pub tenure: Option<u64>,
}

impl Program {
    /// Returns the program's weight for `division`, in thousandths.
    fn weighs(&self, division: Division) -> u32 {
        self.weight.clamp(1, MOST_WEIGHT) * self.proposal.unwrap_or_default().factor(division)
    }

    /// Returns the process that keeps this membership: the coordinator of a command, or the program itself. `None` if
    /// the process has ended, or is in another PID namespace. Then the numbers of the program's processes are of that
    /// namespace, too.
    pub fn keeper(&self) -> Option<u32> {
        census::process_with_number(self.program)
    }

    /// True for a command of `comity run` or `comity adopt`. Its coordinator is another process.
    pub fn is_command(&self) -> bool {
        self.policy == COMMAND || self.policy == ADOPTED
    }
}

/// A core that at least one program may use, owns or holds.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// The kernel's number of the core.
    pub id: usize,
    /// The program that is entitled to the core.
    pub owner: Option<SlotId>,
    /// The program that uses the core.
    pub holder: Option<SlotId>,
    /// The time since the holder last changed. `None`: no program has used the core yet.
    pub since: Option<Duration>,
}

/// A copy of the table. Its words are read one after the other, and programs may change them meanwhile.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The programs, in the order of their slots.
    pub programs: Vec<Program>,
    /// The cores, in the order of their numbers.
    pub cores: Vec<Core>,
}

impl Snapshot {
    /// Reads the table without changing it. Returns `None` if there is no table.
    ///
    /// # Errors
    /// If the table cannot be used.
    pub fn take(location: &Location) -> Result<Option<Snapshot>, TableError> {
        let Some(map) = Map::open_existing(location)? else { return Ok(None) };
        let lock = map.open_to_lock();
        let lock = lock.map_err(|cause| TableError::new(&map.path(), format!("cannot be opened: {cause}")))?;
        // The table was removed or replaced meanwhile.
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
                // The word is 0 until the program has written it.
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
            // A program that takes a slot increases the tenure first. If the tenure is unchanged, all values belong
            // to one program.
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

    /// Returns the command that a process of this PID namespace belongs to. On the way from the process to its
    /// ancestors, it is the first program. `None` if that is a pool, which does not manage the processes that it
    /// starts.
    pub fn command_of(&self, process: u32) -> Option<&Program> {
        let is_of = |id: u32| self.programs.iter().find(|program| program.pid == id && program.keeper().is_some());
        census::with_ancestors(process).find_map(is_of).filter(|program| program.is_command())
    }

    /// Returns the command of `comity adopt` that a process of this PID namespace belongs to. Fast if the table has no
    /// such command.
    pub fn adopted_around(&self, process: u32) -> Option<&Program> {
        self.programs.iter().find(|program| program.policy == ADOPTED)?;
        self.command_of(process).filter(|program| program.policy == ADOPTED)
    }

    /// Returns the program's share among all programs that have work, in thousandths of a core. 0 if the program
    /// itself has no work.
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

    /// Returns the current division of cores.
    pub fn division(&self) -> Division {
        let claims = |program: &&Program| program.life == Life::Living && !program.silent && program.desire > 0;
        let claiming = || self.programs.iter().filter(claims);
        let proposals = || claiming().map(|program| program.proposal);
        let cores = claiming().fold(CoreSet::EMPTY, |all, program| all.union(program.may_use)).len() as u32;
        let takes_turns = |program: &Program| program.takes_turns && program.desire.max(program.awake) >= cores;
        Division::among(proposals(), claiming().all(takes_turns)).beside_probes(proposals().flatten())
    }

    /// Returns the share that a new program would get if it joined now, in thousandths of a core. The new program has
    /// the given weight and can use `desire` of the cores `may_use`. It proposes the same division as the other
    /// programs, and has never run alone. Shares need not be whole cores, because the remaining cores rotate.
    ///
    /// A program that shares time has a desire of 0 and holds no core. Its number of awake workers is used instead.
    pub fn entitled(&self, weight: u32, desire: u32, may_use: CoreSet) -> u32 {
        let free =
            (0..SLOTS).filter_map(SlotId::new).find(|slot| self.programs.iter().all(|other| other.slot != *slot));
        // A program that cannot join a full table does not share: it uses its cores without a limit.
        let Some(slot) = free else { return desire.min(may_use.len() as u32) * 1000 };
        let active = self.programs.iter().filter(|program| program.life == Life::Living && !program.silent);
        let division = self.division();
        let others = active.map(|program| {
            let desire = if program.desire > 0 { program.desire } else { program.awake };
            let weight = program.weighs(division);
            let claim = Claim { program: program.program, weight, desire: desire.min(program.may_use.len() as u32) };
            Party { slot: program.slot, claim, may_use: program.may_use }
        });
        // No other program has the number 0: `this_program` returns at least 1.
        let claim =
            Claim { program: 0, weight: weight.saturating_mul(LINEAR), desire: desire.min(may_use.len() as u32) };
        let mut parties = vec![Party { slot, claim, may_use }];
        parties.extend(others.filter(|party| party.claim.desire > 0));
        if parties.iter().all(|party| party.may_use == may_use) {
            let claims: Vec<Claim> = parties.iter().map(|party| party.claim).collect();
            return due_milli(division, may_use.len() as u32, &claims)[0];
        }
        // If the programs may use different cores, `partition` decides. The result is the average over a frame, the
        // period in which the remaining cores rotate once.
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

/// The number of times in a frame at which `entitled` computes the owners. It is a multiple of 2, 3, 4, 5 and 6, so
/// that the average is exact for up to six equal turns.
const TURNS: u64 = 60;

/// The result of [`clean`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// There was no table.
    NoTable,
    /// No program used the table, and it was removed. The table may have had another layout, or may have been damaged.
    Removed,
    /// Programs use the table, so it was not removed. These programs free the slots of dead programs themselves.
    InUse {
        /// The number of locked slots.
        programs: usize,
    },
}

/// The maximum number of slots of a table of any layout.
const MOST_SLOTS: u64 = 4096;

/// Returns the path that [`clean`] would remove: the table at `location`, or if it does not exist, a table of another
/// layout at the same location.
pub fn path_to_clean(location: &Location) -> PathBuf {
    let path = location.path();
    let other = || location.others().into_iter().next().map(|(other, _)| other);
    if path.exists() { path } else { other().unwrap_or(path) }
}

/// Removes a table that no program uses, even if the table is damaged. Does not remove a file that is not a table.
///
/// # Errors
/// If the file is not a table, or cannot be opened or removed.
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
            return Err(error("is not a regular file, and was not removed".to_owned()));
        }
        Err(cause) => return Err(error(format!("cannot be opened: {cause}"))),
    };
    let metadata = file.metadata().map_err(|cause| error(format!("cannot be examined: {cause}")))?;
    if !metadata.is_file() {
        return Err(error("is not a regular file, and was not removed".to_owned()));
    }
    if metadata.len() > 64 * BYTES as u64 {
        return Err(error("is much larger than a core table, and was not removed".to_owned()));
    }
    if let Some(what) = not_to_clean(&metadata, location) {
        return Err(error(what.to_owned()));
    }
    if *location != Location::Own && !begins_like_a_table(file) {
        return Err(error("is not a core table, and was not removed. Use `rm` to remove it".to_owned()));
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
    // This process holds the locks of all slots, so no program joins meanwhile. A program that has already opened the
    // file finds that its path is gone, and creates another table.
    let there = LockFile::open(&path).ok();
    if there.is_none_or(|there| [there.identity(), files::identity(&metadata)] != [lock.identity(); 2]) {
        return Err(error("was replaced by another process. Try again".to_owned()));
    }
    std::fs::remove_file(&path).map_err(|cause| error(format!("cannot be removed: {cause}")))?;
    Ok(Cleaned::Removed)
}

/// True for a table of any layout, even if the file was truncated.
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
        // If one program proposes equal shares, shares depend on the cores that each may use, and not on `desire`.
        assert_eq!(shares(&[gang(0, 2, 0..8), program(1, 100, 8, 0..8)]), [4000, 4000]);
        assert_eq!(entitled(&[gang(0, 2, 0..8)], 100, 8, 0..8), 7000);
        // If the programs may use different cores, `partition` divides the cores.
        let apart = entitled(&[gang(0, 2, 0..9)], 100, 8, 0..8);
        assert!((6000..=8000).contains(&apart), "{apart}");
    }

    #[test]
    fn a_newcomer_gets_its_part_of_what_the_living_leave() {
        assert_eq!(entitled(&[], 100, 8, 0..8), 8000);
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 100, 8, 0..8), 4000);
        // A program with a small desire leaves the rest to the newcomer, and a program that waits leaves everything.
        assert_eq!(entitled(&[program(0, 100, 1, 0..8)], 100, 8, 0..8), 7000);
        assert_eq!(entitled(&[program(0, 100, 0, 0..8)], 100, 8, 0..8), 8000);
        // Cases: weights; a quota of the newcomer; more programs than cores.
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 300, 8, 0..8), 6000);
        assert_eq!(entitled(&[program(0, 100, 8, 0..8)], 100, 2, 0..8), 2000);
        let crowd: Vec<Program> = (0..15).map(|slot| program(slot, 100, 8, 0..8)).collect();
        assert_eq!(entitled(&crowd, 100, 8, 0..8), 500);
        // For a program that shares time, its awake workers are its desire. Dead and stopped programs get no share.
        let in_time = Program { awake: 4, ..program(0, 100, 0, 0..8) };
        assert_eq!(entitled(std::slice::from_ref(&in_time), 100, 8, 0..8), 4000);
        for life in [Life::Dead, Life::Stopped] {
            assert_eq!(entitled(&[Program { life, ..program(0, 100, 8, 0..8) }], 100, 8, 0..8), 8000);
        }
        // A silent program, and a program with an extreme weight.
        assert_eq!(entitled(&[Program { silent: true, ..in_time }], 100, 8, 0..8), 8000);
        assert!(entitled(&[program(0, u32::MAX, 8, 0..8)], 100, 8, 0..8) > 0);
        // The newcomer gets nothing from cores that only another program may use.
        let apart = [program(0, 100, 4, 0..4), program(1, 100, 1, 4..8)];
        assert!(entitled(&apart, 100, 4, 0..4) <= 2000);
        // The newcomer never gets more than its affinity allows.
        assert_eq!(entitled(&[program(0, 100, 1, 0..8)], 100, 8, [3]), 1000);
    }
}
