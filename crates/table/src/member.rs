//! Membership: a program's slot in the table.
//!
//! # What can go wrong
//!
//! - *A program dies*, at any instruction. The kernel then frees the lock of its slot. The next [`Member::round`] of
//!   any other program takes that lock and *reaps* the dead program: it frees the cores and the slot. If the reaping
//!   program dies too, the next program reaps both.
//! - *A program is stopped*: it holds its lock, but its heartbeat is old. Other programs may use its cores after
//!   [`STOPPED_AFTER`]. If the kernel reports that the process is stopped, they may use its cores a tenth of a second
//!   after its last heartbeat. When the program continues, its writes fail because the generation in the core's word
//!   has changed. It takes back the cores that it owns, as any owner does.
//! - *A program writes invalid data*, by accident or malice. Only programs that may write to the file can do this.
//!   Meanwhile, programs may get too few or too many cores. No value makes a program crash, wait without a timeout or
//!   write outside of the table.
//! - *A program truncates the file* while other programs have mapped it. Only programs that may write to the file can
//!   do this. Programs then die of SIGBUS, because the mapping is shared. Share a table only with users who may also
//!   kill your programs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use comity_os::census::{Stat, number_of_this_process};
use comity_os::clock::now_ns;
use comity_os::file_lock::LockFile;
use comity_os::files;
use comity_os::{SharedCoreSet, futex, lock};
use comity_policy::UNCORRECTED;
use comity_policy::allotment::{Claim, Proposal};

use crate::fault;
use crate::layout::{
    CORES, CPU_TIME, FRAMES, FREE, GROUP, Layout, OBEYS, PROPOSES, SHORTFALL, SLOTS, SWITCHES, Slot, TAKEN,
    TAKES_TURNS, THIEVES, WAY,
};
use crate::map::{ELSEWHERE, Location, Make, Map, TableError};
use crate::{CoreSet, CoreWord, SlotId, Thieves};
use crate::{text, thieves};
use comity_protocol::orders::Requests;
use comity_protocol::table::{self, Report, Seat, Table as _};
use comity_protocol::{Party, STOPPED_AFTER, Shortfall, Standing, TaskGroup, Way};

mod view;

pub use view::View;

/// The maximum number of other programs for which each round tests all locks. Each test is a system call.
const FEW: usize = 8;

/// The age of a heartbeat above which a program is silent: it may be dead or stopped. In a table with more than `FEW`
/// other programs, a round tests few locks of programs that are not silent.
const SILENT_AFTER: Duration = Duration::from_millis(100);

/// The largest effective weight. A larger weight has the same effect.
pub(crate) const MOST_WEIGHT: u32 = 1_000_000;

/// The number of attempts to remove a dead program from a core's word while another process keeps writing it there.
const MOST_TRIES: u32 = 64;

/// The description of a program that joins the table.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The number of the process, from [`this_program`]. Members with the same number share the cores that their
    /// process gets.
    pub program: u64,
    /// The name that other programs display.
    pub name: String,
    /// The policy by which the program shares cores.
    pub policy: String,
    /// The program's weight, 1 or more.
    pub weight: u32,
    /// The number of the program's workers.
    pub workers: u32,
    /// The cores that the program's affinity allows.
    pub may_use: CoreSet,
    /// The time for which a core of another owner must have been free before this program claims it.
    pub lend_after: Duration,
}

/// Returns the number by which the table identifies this process. All copies of this crate in a process return the same
/// number, and another process almost certainly has another number. Without a readable `/proc`, each call returns a new
/// random number.
pub fn this_program() -> u64 {
    number_of_this_process().unwrap_or_else(|| RandomState::new().hash_one(std::process::id())).max(1)
}

/// The other members in the table that belong to the same process as this member. They use other policies, or other
/// copies of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// The sum of the processor times that the siblings have published.
    pub cpu: Duration,
    /// True if the member joined before all its siblings.
    pub joined_first: bool,
    /// The number of siblings that have work.
    at_work: u32,
    /// The number of siblings with work that joined before the member.
    before: u32,
}

impl Siblings {
    /// Divides `cores`, a limit on the whole process, among its members with work. Returns this member's part, at
    /// least 1.
    pub fn part(&self, cores: u32) -> u32 {
        (cores.saturating_add(self.at_work - self.before) / (self.at_work + 1)).max(1)
    }
}

/// A program's membership of the table. Dropping it leaves the table. If the process dies first, the other programs
/// free its cores and its slot (they *reap* it).
///
/// Any thread may call every method. No method waits for another program, except [`Member::wait`], which has a
/// timeout, and [`Member::wait_for_requests`].
///
/// Other code in the process may close the descriptor that holds the lock of the program's slot. The other programs
/// then take the program for dead, reap it, and ring its bell. Its next [`Member::round`] notices this and takes
/// another slot. A claim in progress may still write the number of the old slot into a core's word. Other programs can
/// use that core once the old slot has been silent for [`STOPPED_AFTER`].
pub struct Member {
    location: Location,
    /// The effective user of the process when it joined.
    user: u32,
    map: Map,
    profile: Profile,
    /// The slot that the program took last.
    slot: AtomicU32,
    /// The time when the program took the slot.
    joined: AtomicU64,
    /// The slot's tenure since then: the number of programs that have had the slot.
    tenure: AtomicU64,
    /// The feature bits of the fields that the program has filled in, as in the slot's `features`.
    features: AtomicU64,
    /// True if `slot` belongs to the program. False after the program has lost its slot and before it takes another.
    is_in: AtomicBool,
    /// True if the program can take turns with a multi-threaded command. Kept when the program takes another slot.
    takes_turns: AtomicBool,
    /// The division of cores that the program proposes. Kept when the program takes another slot.
    proposal: AtomicU32,
    /// The task group of the program's work. Kept when the program takes another slot.
    group: AtomicU64,
    /// True if the program waits for a core.
    waits: AtomicBool,
    /// True if the program has found a free core that it may claim only later. Until then it is not notified of other
    /// free cores.
    watches: AtomicBool,
    lock: Mutex<LockFile>,
    may_use: SharedCoreSet,
    /// The process that is displayed as the program.
    stands_for: AtomicU32,
    /// The process that joined. In a forked child, the copy of this value is not a member.
    process: u32,
    /// The number of rounds so far.
    rounds: AtomicU32,
    /// True if the program has left the table because it may no longer use it. It takes a slot again when it may use
    /// the table again.
    keeps_out: AtomicBool,
    has_left: AtomicBool,
}

impl Member {
    /// Takes a slot in the table. Creates the table if it does not exist.
    ///
    /// # Errors
    /// If the table cannot be used, or is full.
    pub fn join(location: &Location, profile: &Profile) -> Result<Member, TableError> {
        let location = location.rooted();
        let mut is_locked = false;
        for attempt in 0..10 {
            let map = Map::open(&location, Make::Any)?;
            let path = map.path();
            let lock = map.open_to_lock();
            let lock =
                lock.map_err(|cause| TableError::new(&path, format!("cannot be locked: {cause}. {ELSEWHERE}")))?;
            // `lock` is `None` if the table was removed or replaced meanwhile.
            let slot = match &lock {
                Some(lock) => take_slot(map.layout(), &path, lock)?,
                None => None,
            };
            is_locked = lock.is_some() && slot.is_none() && map.is_in_place(&location);
            // Do not join a table that was removed meanwhile, because no other program would join it.
            if let Some((slot, lock)) = slot.zip(lock).filter(|_| map.is_in_place(&location)) {
                let process = std::process::id();
                let member = Member {
                    location,
                    user: files::user(),
                    map,
                    profile: profile.clone(),
                    slot: AtomicU32::new(0),
                    joined: AtomicU64::new(0),
                    tenure: AtomicU64::new(0),
                    features: AtomicU64::new(0),
                    is_in: AtomicBool::new(false),
                    takes_turns: AtomicBool::new(false),
                    proposal: AtomicU32::new(Proposal::Equal.to_bits()),
                    group: AtomicU64::new(0),
                    waits: AtomicBool::new(false),
                    watches: AtomicBool::new(false),
                    lock: Mutex::new(lock),
                    may_use: SharedCoreSet::default(),
                    stands_for: AtomicU32::new(process),
                    process,
                    rounds: AtomicU32::new(0),
                    keeps_out: AtomicBool::new(false),
                    has_left: AtomicBool::new(false),
                };
                profile.may_use.store(&member.may_use);
                member.introduce(slot);
                return Ok(member);
            }
            if is_locked && used(map.layout()).count() == SLOTS {
                let what = format!("is full: {SLOTS} programs use it. Set COMITY_TABLE to another file");
                return Err(TableError::new(&path, what).full());
            }
            // All slots are locked, but not by programs: another process is removing the table, and that process may
            // have to wait for a core.
            std::thread::sleep(Duration::from_millis(1 << attempt));
        }
        let what = if is_locked {
            "has locks on all slots but no programs in them. End the process that holds the locks (see `lslocks`), or \
             remove the file"
        } else {
            "is removed by another process as soon as it is created"
        };
        Err(TableError::new(&location.path(), format!("{what}. {ELSEWHERE}")))
    }

    /// Writes the program's description into a slot. The caller must hold the slot's lock.
    fn introduce(&self, id: SlotId) {
        let (slot, profile, now) = (&self.layout().slots[id.index()], &self.profile, now_ns());
        // The tenure changes first, so that a reader notices if it mixes values of two programs.
        let tenure = slot.words().begin();
        fence(Ordering::Release);
        self.tenure.store(tenure, Ordering::Relaxed);
        slot.program.store(profile.program, Ordering::Relaxed);
        slot.desire.store(0, Ordering::Relaxed);
        slot.weight.store(profile.weight, Ordering::Relaxed);
        slot.correction.store(UNCORRECTED, Ordering::Relaxed);
        slot.due_ns.store(0, Ordering::Relaxed);
        slot.proposal.store(self.proposal.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.heartbeat.store(now, Ordering::Relaxed);
        slot.pid.store(self.stands_for.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.joined.store(now, Ordering::Relaxed);
        slot.workers.store(profile.workers, Ordering::Relaxed);
        slot.awake.store(0, Ordering::Relaxed);
        for counter in [&slot.claimed, &slot.taken_back, &slot.released, &slot.lost] {
            counter.store(0, Ordering::Relaxed);
        }
        text::write(&slot.name, &profile.name);
        text::write(&slot.policy, &profile.policy);
        self.may_use().store(&slot.may_use);
        slot.features.store(0, Ordering::Relaxed);
        self.features.store(0, Ordering::Relaxed);
        self.joined.store(now, Ordering::Relaxed);
        self.slot.store(id.index() as u32, Ordering::Relaxed);
        // The bit in `used` is set before `state` and cleared after it, so that other programs find a program that dies
        // in between.
        set_bit(&self.layout().header.used, id);
        fault::point("slot-marked");
        slot.state.store(TAKEN, Ordering::Release);
        self.is_in.store(true, Ordering::Release);
        self.publish_group(TaskGroup::from_bits(self.group.load(Ordering::Relaxed)));
        fault::point("joined");
        if table::is_joining_told(id, &reports(self.layout(), now)) {
            let others = used(self.layout()).filter(|slot| *slot != id);
            others.for_each(|slot| self.ring(slot));
        }
    }

    /// Takes another slot in the same file. If all slots are taken, the next round tries again.
    fn rejoin(&self) {
        self.is_in.store(false, Ordering::Release);
        let mut own = lock(&self.lock);
        let Some(lock) = self.open_anew() else { return };
        if let Ok(Some(slot)) = take_slot(self.layout(), &self.map.path(), &lock) {
            *own = lock;
            self.introduce(slot);
            self.want(self.waits.load(Ordering::Relaxed));
        }
    }

    /// Checks that the location still names this table, and that the program may still use the table. If the location
    /// names another table, or if a table can be created there, the member moves to that table: its next
    /// [`Member::round`] takes a slot there. The thread that calls [`Member::round`] must call this function every few
    /// seconds.
    ///
    /// A table may be removed while programs use it: by `rm`, by a cleaner of `/dev/shm`, or by the system when a
    /// user logs out (`RemoveIPC` of systemd-logind). If no other table can be opened, the programs keep sharing the
    /// removed table, which they have mapped.
    ///
    /// # Errors
    /// If the path still names this table, but the program may no longer use it. The member leaves the table. It joins
    /// again after a later call of this function finds that the program may use the table.
    pub fn follow(&self) -> Result<(), TableError> {
        // Do nothing in a forked child, or after the process has changed its user.
        let is_another = std::process::id() != self.process || files::user() != self.user;
        if is_another || self.has_left.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.map.is_in_place(&self.location) {
            self.keeps_out.store(false, Ordering::Relaxed);
            return Ok(());
        }
        match Map::open(&self.location, Make::Alike(self.map.mode())) {
            Ok(map) => {
                self.vacate();
                self.map.replace(map);
                fault::point("table-replaced");
                self.keeps_out.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if self.open_anew().is_some() => {
                self.keeps_out.store(true, Ordering::Relaxed);
                self.vacate();
                Err(error)
            }
            Err(_) => Ok(()),
        }
    }

    /// Releases the program's cores, clears its slot, and releases the slot's lock.
    fn vacate(&self) {
        if !self.has_its_place() {
            return;
        }
        self.own().desire.store(0, Ordering::Release);
        let releases = |_: &usize| self.view().is_some_and(|view| table::release(&view, None).is_some());
        (0..CORES).take_while(releases).for_each(drop);
        self.is_in.store(false, Ordering::Release);
        reap(self.layout(), self.slot());
        lock(&self.lock).unlock(byte(self.slot()));
    }

    /// Opens the table with a new descriptor, which no other code in the process can have closed yet. `None`: the path
    /// does not name this table, or cannot be opened.
    fn open_anew(&self) -> Option<LockFile> {
        self.map.open_to_lock().ok().flatten()
    }

    fn layout(&self) -> &Layout {
        self.map.layout()
    }

    /// Returns the program's own slot, or `None` if another program has reaped this program. Callers check it before
    /// they write, so that they do not overwrite the words of the slot's next program.
    fn own_slot(&self) -> Option<SlotId> {
        let is_in = self.is_in.load(Ordering::Acquire) && self.is_named_there();
        is_in.then(|| self.slot())
    }

    fn is_named_there(&self) -> bool {
        let words = self.own();
        words.program.load(Ordering::Relaxed) == self.profile.program
            && words.joined.load(Ordering::Relaxed) == self.joined.load(Ordering::Relaxed)
    }

    /// Returns the words of the slot that the program took last.
    fn own(&self) -> &Slot {
        &self.layout().slots[self.slot().index()]
    }

    /// Makes the table display `process` instead of the caller's process, which is a member on behalf of `process`.
    pub fn stand_for(&self, process: u32) {
        self.stands_for.store(process, Ordering::Relaxed);
        self.own().pid.store(process, Ordering::Relaxed);
    }

    /// Returns the program's slot. If the program has lost its slot, returns the slot that it had last.
    pub fn slot(&self) -> SlotId {
        SlotId::new(self.slot.load(Ordering::Relaxed) as usize).expect("only the number of a slot is stored there")
    }

    /// Returns the cores that the program may use.
    pub fn may_use(&self) -> CoreSet {
        CoreSet::load(&self.may_use)
    }

    /// Sets the cores that the program may use from now on. Returns true if the set changes, or if the program had to
    /// release a core.
    pub fn set_may_use(&self, cores: CoreSet) -> bool {
        let changes = cores != self.may_use();
        if changes {
            // Store the set before releasing cores, so that later claims use only cores of the set.
            cores.store(&self.may_use);
            if self.own_slot().is_some() {
                cores.store(&self.own().may_use);
            }
        }
        // Release cores even if the set does not change: a claim may have been in progress during the previous call.
        let Some(view) = self.view() else { return changes };
        let me = view.me;
        let lost = (0..CORES).filter(|core| !cores.contains(*core));
        let released = lost.filter(|core| {
            let word = load(&self.layout().cores[*core]);
            let released = word.released(me).is_some_and(|next| view.exchange(*core, word, next));
            if released {
                count(&self.own().released);
                table::offer(&view, *core, word.owner());
            }
            released
        });
        released.count() > 0 || changes
    }

    // Functions that the coordinator calls once per quantum.

    /// Publishes the processor time that the program was entitled to.
    pub fn publish_due(&self, due: Duration) {
        if self.own_slot().is_some() {
            self.own().due_ns.store(due.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Returns the other members of this process in the table, or `None` if this is the only member.
    pub fn siblings(&self) -> Option<Siblings> {
        let (layout, me) = (self.layout(), self.own_slot()?);
        let order = |id: SlotId| (layout.slots[id.index()].joined.load(Ordering::Relaxed), id);
        let is_sibling = |id: &SlotId| {
            let slot = &layout.slots[id.index()];
            *id != me
                && slot.state.load(Ordering::Acquire) == TAKEN
                && slot.program.load(Ordering::Relaxed) == self.profile.program
        };
        used(layout).filter(is_sibling).fold(None, |all: Option<Siblings>, id| {
            let all = all.unwrap_or(Siblings { cpu: Duration::ZERO, joined_first: true, at_work: 0, before: 0 });
            let slot = &layout.slots[id.index()];
            let publishes = slot.features.load(Ordering::Acquire) & CPU_TIME != 0;
            let cpu = if publishes { slot.cpu_ns.load(Ordering::Relaxed) } else { 0 };
            let is_at_work = slot.desire.load(Ordering::Relaxed) > 0 || slot.awake.load(Ordering::Relaxed) > 0;
            let is_later = order(me) < order(id);
            Some(Siblings {
                cpu: all.cpu.saturating_add(Duration::from_nanos(cpu)),
                joined_first: all.joined_first && is_later,
                at_work: all.at_work + u32::from(is_at_work),
                before: all.before + u32::from(is_at_work && !is_later),
            })
        })
    }

    /// Publishes the processor time that the program has used since it began, and its voluntary and involuntary
    /// context switches if they are known. Each member of a process publishes its part of the process's time.
    pub fn publish(&self, cpu: Duration, switches: Option<[u64; 2]>) {
        if self.own_slot().is_none() {
            return;
        }
        let slot = self.own();
        slot.cpu_ns.store(cpu.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        let [voluntary, involuntary] = switches.unwrap_or_default();
        slot.voluntary.store(voluntary, Ordering::Relaxed);
        slot.involuntary.store(involuntary, Ordering::Relaxed);
        self.fills_in(CPU_TIME | if switches.is_some() { SWITCHES } else { 0 });
    }

    /// Publishes the counters of the thieves of the program's pools.
    pub fn publish_thieves(&self, done: &Thieves) {
        if self.own_slot().is_none() {
            return;
        }
        let slot = self.own();
        slot.steals.store(done.steals, Ordering::Relaxed);
        slot.accelerations.store(done.accelerations, Ordering::Relaxed);
        thieves::write(&slot.refusals, &done.refusals);
        self.fills_in(THIEVES);
    }

    /// Publishes the reason why the program used less than it held or was entitled to in the last quantum.
    pub fn publish_shortfall(&self, reason: Option<Shortfall>) {
        if self.own_slot().is_some() {
            self.own().shortfall.store(Shortfall::to_bits(reason), Ordering::Relaxed);
            self.fills_in(SHORTFALL);
        }
    }

    /// Publishes the way in which the program is limited to its share. Only commands call it.
    pub fn publish_way(&self, way: Way) {
        if self.own_slot().is_some() {
            self.own().way.store(way.to_bits(), Ordering::Relaxed);
            self.fills_in(WAY);
        }
    }

    /// Sets whether the program can take turns with a multi-threaded command from now on. The initial value is false.
    pub fn take_turns(&self, takes_turns: bool) {
        self.takes_turns.store(takes_turns, Ordering::Relaxed);
    }

    /// Publishes the task group that all of the program's work is in. `None`: it is unknown, or there are several.
    pub fn publish_group(&self, group: Option<TaskGroup>) {
        self.group.store(TaskGroup::to_bits(group), Ordering::Relaxed);
        if self.own_slot().is_some() {
            self.own().group.store(TaskGroup::to_bits(group), Ordering::Relaxed);
            self.fills_in(GROUP);
        }
    }

    /// Sets the feature bits of fields that have been filled in.
    fn fills_in(&self, features: u64) {
        let all = self.features.fetch_or(features, Ordering::Relaxed) | features;
        if self.own().features.load(Ordering::Relaxed) != all {
            self.own().features.store(all, Ordering::Release);
        }
    }

    /// Clears feature bits. The opposite of [`Member::fills_in`].
    fn withdraws(&self, features: u64) {
        let before = self.features.fetch_and(!features, Ordering::Relaxed);
        if before & features != 0 {
            self.own().features.store(before & !features, Ordering::Release);
        }
    }

    /// Returns the requests of other processes, which the caller must follow. The first call publishes that this
    /// program follows requests. To miss no request, call this function after [`Member::bell`] or [`Member::asks`], and
    /// before a wait.
    ///
    /// A program that has lost its slot and takes another slot does not get the requests to the old slot.
    pub fn requests(&self) -> Requests {
        if self.own_slot().is_none() {
            return Requests::default();
        }
        self.fills_in(OBEYS);
        self.own().words().read(self.tenure.load(Ordering::Relaxed)).at(now_ns())
    }

    /// Sets the program's weight from now on.
    pub fn set_weight(&self, weight: u32) {
        if self.own_slot().is_some() {
            self.own().weight.store(weight, Ordering::Relaxed);
        }
    }

    /// Frees the cores and slots of dead programs. The lock of a slot is free if its program is dead, or has just left.
    ///
    /// Each test of a lock is a system call. With more than `FEW` other programs, a round therefore tests the silent
    /// programs that have a desire or a core, and one further program in turn. A program with a recent heartbeat is
    /// alive.
    ///
    /// The test uses a new descriptor, because other code may have closed the program's long-lived descriptor. The
    /// number of that descriptor could now belong to another file, in which every lock is free.
    fn reap_the_dead(&self, now: u64) {
        let turn = self.rounds.fetch_add(1, Ordering::Relaxed);
        let others: Vec<SlotId> = used(self.layout()).filter(|slot| *slot != self.slot()).collect();
        let in_turn = others.get(turn as usize % others.len().max(1)).copied();
        let is_silent = |slot: &SlotId| {
            let heartbeat = self.layout().slots[slot.index()].heartbeat.load(Ordering::Relaxed);
            now.abs_diff(heartbeat) > SILENT_AFTER.as_nanos() as u64
        };
        let has_something = |slot: &SlotId| {
            let desires = self.layout().slots[slot.index()].desire.load(Ordering::Relaxed) > 0;
            desires || self.layout().cores.iter().any(|core| load(core).holder() == Some(*slot))
        };
        let are_few = others.len() <= FEW;
        let is_asked = |slot: &SlotId| are_few || in_turn == Some(*slot) || (is_silent(slot) && has_something(slot));
        let mut asked = others.into_iter().filter(is_asked).peekable();
        if asked.peek().is_none() {
            return;
        }
        // If the locks cannot be tested, take no program for dead.
        let Some(lock) = self.open_anew() else { return };
        for slot in asked {
            if lock.try_lock(byte(slot)).unwrap_or(false) {
                reap(self.layout(), slot);
                lock.unlock(byte(slot));
            }
        }
    }

    /// Marks silent programs as stopped before [`STOPPED_AFTER`] has passed, if they hold a core and the kernel reports
    /// that their process is stopped (for example by `SIGSTOP`). The next heartbeat of such a program ends this.
    ///
    /// If a program is in another PID namespace, its process number may belong to another process here. If that process
    /// is stopped, the silent program is marked too soon.
    fn note_the_stopped(&self, now: u64) {
        let holders = self.layout().cores.iter().filter_map(|core| load(core).holder());
        let mut last = None;
        for holder in holders.filter(|holder| *holder != self.slot()) {
            // Skip a holder that was just checked: adjacent cores often have the same holder.
            if last.replace(holder) == Some(holder) {
                continue;
            }
            let slot = &self.layout().slots[holder.index()];
            let heartbeat = slot.heartbeat.load(Ordering::Relaxed);
            let is_silent = now.saturating_sub(heartbeat) > SILENT_AFTER.as_nanos() as u64;
            if !is_silent || is_stopped(self.layout(), holder, now) {
                continue;
            }
            let process = Stat::of_process(slot.pid.load(Ordering::Relaxed));
            if process.is_some_and(|process| matches!(process.state, 'T' | 't')) {
                // The exchange fails if the program has published a newer heartbeat meanwhile.
                let _ = slot.heartbeat.compare_exchange(heartbeat, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    // Functions that may be called at any time.

    /// Returns the cores that this program holds.
    pub fn held(&self) -> CoreSet {
        self.view_at(0).map_or(CoreSet::EMPTY, |view| table::held(&view))
    }

    /// Returns the cores that this program is entitled to.
    pub fn owned(&self) -> CoreSet {
        self.view_at(0).map_or(CoreSet::EMPTY, |view| table::owned(&view))
    }

    /// Adds to the number of cores that were taken from this program.
    pub fn note_lost(&self, cores: u32) {
        if self.own_slot().is_some() {
            self.own().lost.fetch_add(cores.into(), Ordering::Relaxed);
        }
        fault::point("core-lost");
    }

    // Functions to wait and to notify.

    /// True if another program waits for a core.
    pub fn is_core_wanted(&self) -> bool {
        let view = View { member: self, layout: self.layout(), me: self.slot(), now: 0 };
        view.is_core_wanted()
    }

    /// Rings another program's bell.
    fn ring(&self, slot: SlotId) {
        ring(&self.layout().slots[slot.index()]);
    }

    /// Returns the number of times that this program's bell was rung, modulo 2³². Read it before the look at the table
    /// that may lead to a [`Member::wait`], so that the wait misses no ring.
    pub fn bell(&self) -> u32 {
        self.own().bell.load(Ordering::Acquire)
    }

    /// Waits until [`Member::bell`] differs from `heard`, at most for `timeout`.
    pub fn wait(&self, heard: u32, timeout: Duration) {
        futex::wait_shared(&self.own().bell, heard, timeout);
    }

    /// Returns the number of requests to this slot's programs, modulo 2³². Read it before [`Member::requests`], so that
    /// a later wait misses no request.
    pub fn asks(&self) -> u32 {
        self.own().asks.load(Ordering::Acquire)
    }

    /// Waits until [`Member::asks`] differs from `heard`, or until `other` changes and is woken. `other` is a futex
    /// word of this process and its expected value. The wait lasts at most for `timeout`, if there is one. Other events
    /// of the table do not end the wait. No writer of the table can suppress a wake-up of `other`. See
    /// [`futex::wait_either`] for older kernels.
    pub fn wait_for_requests(&self, heard: u32, other: (&AtomicU32, u32), timeout: Option<Duration>) {
        futex::wait_either(other, (&self.own().asks, heard), timeout);
    }

    /// Leaves the table and releases everything that the program has there. It is for callers that cannot wait until
    /// all references to this member are dropped. Afterwards only the wait functions may be called.
    pub fn leave(&self) {
        // In a forked child, this is a copy of the parent's member, and another thread may have held the mutex.
        if std::process::id() != self.process || self.has_left.swap(true, Ordering::AcqRel) {
            return;
        }
        fault::point("leaving");
        self.vacate();
        fault::point("left");
    }

    /// Rings this program's own bell.
    pub fn ring_own(&self) {
        ring(self.own());
    }
}

impl Seat for Member {
    type View<'a> = View<'a>;

    fn view(&self) -> Option<View<'_>> {
        self.view_at(now_ns())
    }

    /// Returns the view of one step. It reads `layout` before the slot, and the member gives up its slot before another
    /// table replaces this table. So no step uses a slot's number of the old table in the new table.
    fn view_at(&self, now: u64) -> Option<View<'_>> {
        let layout = self.layout();
        Some(View { member: self, layout, me: self.own_slot()?, now })
    }

    /// Publishes that this program is alive, how many cores it can use and how many workers are awake. Reaps dead
    /// programs, updates the owners of the cores, and returns the program's standing.
    ///
    /// A program that has lost its slot takes another slot. While there is no free slot, the result is that of a
    /// program alone on the machine.
    fn round(&self, desire: u32, awake: u32) -> Standing {
        let now = now_ns();
        let is_out = self.has_left.load(Ordering::Relaxed) || self.keeps_out.load(Ordering::Relaxed);
        if !self.has_its_place() && !is_out {
            self.rejoin();
        }
        if self.own_slot().is_none() {
            return Standing { alone: true, programs: 1, ..Standing::default() };
        }
        self.own().awake.store(awake, Ordering::Relaxed);
        self.own().heartbeat.store(now, Ordering::Relaxed);
        self.fills_in(FRAMES | PROPOSES);
        match self.takes_turns.load(Ordering::Relaxed) {
            true => self.fills_in(TAKES_TURNS),
            false => self.withdraws(TAKES_TURNS),
        }
        self.own().desire.store(desire, Ordering::Release);
        fault::point("desire-reported");
        self.reap_the_dead(now);
        self.note_the_stopped(now);
        let weight = weight(self.own());
        let view = View { member: self, layout: self.layout(), me: self.slot(), now };
        table::round(&view, self.profile.program, weight, &reports(self.layout(), now), now)
    }

    /// Sets the factor on the program's weight, in thousandths, from now on.
    fn correct(&self, correction: u32) {
        if self.own_slot().is_some() {
            self.own().correction.store(correction, Ordering::Relaxed);
        }
    }

    /// Sets the division of cores that the program proposes from now on.
    fn propose(&self, proposal: Proposal) {
        self.proposal.store(proposal.to_bits(), Ordering::Relaxed);
        if self.own_slot().is_some() {
            self.own().proposal.store(proposal.to_bits(), Ordering::Relaxed);
        }
    }

    /// Sets whether the program is notified when a core becomes free. It is not notified while it watches a free core
    /// that it may claim only later. A caller that sets this and then looks for a free core misses no core. See
    /// `comity_protocol::table`.
    fn want(&self, wants: bool) {
        match self.view() {
            Some(view) => table::want(&view, wants),
            None => self.waits.store(wants, Ordering::Relaxed),
        }
    }

    /// Returns the number of programs in the table that are not known to be dead, including this program.
    fn population(&self) -> usize {
        used(self.layout()).count()
    }

    /// True if the slot still belongs to the program: the program has the slot's lock, and was not reaped.
    fn has_its_place(&self) -> bool {
        let is_taken = self.own().state.load(Ordering::Acquire) == TAKEN;
        is_taken && self.own_slot().is_some() && lock(&self.lock).is_open()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("slot", &self.slot().index()).field("held", &self.held()).finish_non_exhaustive()
    }
}

/// Takes the first slot with a free lock, and clears the data of a dead program there. `None`: all slots are taken.
fn take_slot(layout: &Layout, path: &Path, lock: &LockFile) -> Result<Option<SlotId>, TableError> {
    for slot in (0..SLOTS).filter_map(SlotId::new) {
        let locked = lock.try_lock(byte(slot));
        if locked.map_err(|cause| TableError::new(path, format!("cannot be locked: {cause}. {ELSEWHERE}")))? {
            fault::point("slot-locked");
            if reap(layout, slot) {
                return Ok(Some(slot));
            }
            lock.unlock(byte(slot));
        }
    }
    Ok(None)
}

/// Clears the slot of a dead program and frees its cores. These include cores that another program granted to it before
/// that program noticed the death. The caller must hold the slot's lock. If the caller dies half-way, the slot is still
/// marked as used and its lock is free, so the next program clears it. Returns false if a process writes the slot into
/// the cores' words as fast as they are cleared, which no program of Comity does.
fn reap(layout: &Layout, slot: SlotId) -> bool {
    fault::point("reaping");
    // Clear the desire first, so that no program grants further cores to the slot meanwhile.
    layout.slots[slot.index()].desire.store(0, Ordering::Release);
    let mut waits = false;
    for core in &layout.cores {
        let mut tries = 0;
        // Other programs may still change the word. Each change makes it less likely that the word names the slot.
        while let word = load(core)
            && let Some(next) = word.without(slot)
        {
            if tries == MOST_TRIES {
                return false;
            }
            tries += 1;
            waits |= exchange(core, word, next) && word.holder() == Some(slot);
            fault::point("reaped-half");
        }
    }
    clear_bit(&layout.header.wanting, slot);
    layout.slots[slot.index()].state.store(FREE, Ordering::Release);
    fault::point("slot-freed");
    clear_bit(&layout.header.used, slot);
    fault::point("reaped");
    if waits {
        let wanting = &layout.header.wanting;
        let wants = |slot: &SlotId| has_bit(wanting, *slot);
        (0..SLOTS).filter_map(SlotId::new).filter(wants).for_each(|slot| ring(&layout.slots[slot.index()]));
    }
    // The program may be alive and may only have lost its descriptor. Then the ring makes it take another slot.
    ring(&layout.slots[slot.index()]);
    true
}

/// Returns the reports of the programs in the table, without stopped programs.
fn reports(layout: &Layout, now: u64) -> Vec<Report> {
    used(layout)
        .filter_map(|id| {
            let slot = &layout.slots[id.index()];
            let desire = slot.desire.load(Ordering::Acquire);
            let is_there = slot.state.load(Ordering::Acquire) == TAKEN && !is_stopped(layout, id, now);
            is_there.then(|| {
                let claim = Claim { program: slot.program.load(Ordering::Relaxed), weight: weight(slot), desire };
                let party = Party { slot: id, claim, may_use: CoreSet::load(&slot.may_use) };
                let correction = slot.correction.load(Ordering::Relaxed);
                let features = slot.features.load(Ordering::Relaxed);
                let proposal =
                    (features & PROPOSES != 0).then(|| Proposal::from_bits(slot.proposal.load(Ordering::Relaxed)));
                let awake = slot.awake.load(Ordering::Relaxed);
                let [knows_frames, takes_turns] = [FRAMES, TAKES_TURNS].map(|feature| features & feature != 0);
                let way =
                    if features & WAY != 0 { Way::from_bits(slot.way.load(Ordering::Relaxed)) } else { Way::default() };
                let group = if features & GROUP != 0 { slot.group.load(Ordering::Relaxed) } else { 0 };
                let group = TaskGroup::from_bits(group);
                Report { party, awake, correction, knows_frames, proposal, takes_turns, way, group }
            })
        })
        .collect()
}

fn weight(slot: &Slot) -> u32 {
    slot.weight.load(Ordering::Relaxed).clamp(1, MOST_WEIGHT)
}

pub(crate) fn is_stopped(layout: &Layout, slot: SlotId, now: u64) -> bool {
    let heartbeat = layout.slots[slot.index()].heartbeat.load(Ordering::Relaxed);
    now.saturating_sub(heartbeat) > STOPPED_AFTER.as_nanos() as u64
}

/// Returns the slots that may be in use.
pub(crate) fn used(layout: &Layout) -> impl Iterator<Item = SlotId> + '_ {
    (0..SLOTS).filter_map(SlotId::new).filter(|slot| has_bit(&layout.header.used, *slot))
}

/// Returns the byte of the file that the slot's program keeps locked while it lives.
pub(crate) fn byte(slot: SlotId) -> u64 {
    slot.index() as u64
}

pub(crate) fn load(core: &AtomicU64) -> CoreWord {
    CoreWord::from_bits(core.load(Ordering::Acquire))
}

fn exchange(core: &AtomicU64, before: CoreWord, next: CoreWord) -> bool {
    core.compare_exchange(before.to_bits(), next.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

pub(crate) fn ring(slot: &Slot) {
    slot.bell.fetch_add(1, Ordering::Release);
    futex::wake_one_shared(&slot.bell);
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn has_bit(words: &[AtomicU64], slot: SlotId) -> bool {
    words[slot.index() / 64].load(Ordering::Acquire) >> (slot.index() % 64) & 1 == 1
}

fn set_bit(words: &[AtomicU64], slot: SlotId) {
    words[slot.index() / 64].fetch_or(1 << (slot.index() % 64), Ordering::AcqRel);
}

fn clear_bit(words: &[AtomicU64], slot: SlotId) {
    words[slot.index() / 64].fetch_and(!(1 << (slot.index() % 64)), Ordering::AcqRel);
}
