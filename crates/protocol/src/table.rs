//! The core table as one program sees it. The steps below claim, take back and release cores, notify other programs,
//! and compute which program owns which cores.
//!
//! | step | what it does |
//! |---|---|
//! | [`claim`] | claims a free own core, else one without an owner, else one that has been free for [`Table::lend_after`]; with `own_only` only an own core |
//! | [`take_back`] | takes back an own core that another program uses, and notifies that program |
//! | [`reclaim`] | if no own core is free, takes one back and leaves it free; notifies its user and one program that waits |
//! | [`release`] | releases the named core, else one of another owner, else any; notifies one program that waits |
//! | [`decline`] | changes nothing; for each free core, notifies one program that waits |
//! | [`stop_watching`] | begins a visit: changes no core; the program is notified of free cores again |
//! | [`watch`] | ends a visit: changes no core; while a core of another owner has just become free, the program is not notified of other cores |
//! | [`round`] | updates the owners of the cores from all desires, then computes the program's standing |
//!
//! A core that a stopped program uses counts as free. Each change is one compare-and-swap. If it fails because another
//! program was faster, the step tries the next core.
//!
//! **Lemma (a core and a program that waits).** A program that waits for a core is notified of each core that becomes
//! free, or sees it. The releaser writes the core's word, fences, and reads which programs wait ([`offer`]). The
//! program that waits publishes this, fences, and reads the cores' words ([`want`]). So at least one of the two sees
//! what the other wrote.
//!
//! A core of another owner that became free less than [`Table::lend_after`] ago is *young*: it may not be claimed yet.
//! A program that watches a young core is not notified of cores: its coordinator visits the table when that core may
//! be claimed. At the visit, the coordinator first publishes again that the program waits. Then it claims cores, and
//! [watches](watch) the cores that are still young. The age of a core is its age at the start of the visit, so a core
//! that matures during the visit counts as young. If a core becomes free after the first step, the bell rings; if it
//! was free before, it is claimed or watched. A program that begins to wait while a core is young rings its own
//! coordinator.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use comity_policy::CORRECTIONS;
use comity_policy::allotment::{CROWD, Claim, Division, LINEAR, Proposal, due_milli, scattered};

use crate::{CoreSet, CoreWord, Partition, Party, SLOTS, SlotId, Standing, TURN, TaskGroup, Way, partition};

/// The number of frames from one probe to the next. A probe is a frame in which programs that are otherwise slowed
/// down equally run one after another on all cores, to measure their speed there.
pub const PROBES_EVERY: u64 = 16;

/// The maximum number of programs that take turns for a probe or with a [team](Way::Turns). With more programs, each
/// would have no core for more than half a second.
const MOST_IN_TURN: usize = 4;

/// The table, and a program's place in it.
///
/// Each method that changes something is an effect. The driver carries it out before the next step is decided.
pub trait Table {
    /// Returns the program's place.
    fn slot(&self) -> SlotId;

    /// Returns the cores that the program may use.
    fn cores(&self) -> CoreSet;

    /// Returns the core's word.
    fn load(&self, core: usize) -> CoreWord;

    /// Replaces the core's word by `next`, which has another holder or none. Returns false, and changes nothing, if
    /// the word is no longer `before`.
    fn exchange(&self, core: usize, before: CoreWord, next: CoreWord) -> bool;

    /// Replaces the core's word by `next`, which has another owner, if the word is still `before`. If the word has
    /// changed, another program was faster, and has seen a newer table.
    fn grant(&self, core: usize, before: CoreWord, next: CoreWord);

    /// Publishes that the program lives, so that other programs do not take it for stopped before the coordinator's
    /// next visit.
    fn beat(&self);

    /// True if the program at this place has been silent for so long that other programs may use its cores.
    fn is_stopped(&self, slot: SlotId) -> bool;

    /// Records a change that the program has just made, before another program is notified of it.
    fn note(&self, _change: Change) {}

    /// Executes a full fence for the words of cores and the writes of [`Table::set_wants`]: all writes before the
    /// fence precede all reads after it.
    fn fence(&self);

    /// True if the program at this place waits for a core and is notified of free ones.
    fn wants(&self, slot: SlotId) -> bool;

    /// True if any other program waits for a core and is notified of free ones.
    fn is_core_wanted(&self) -> bool;

    /// Sets whether the program is notified of cores that become free.
    fn set_wants(&self, wants: bool);

    /// True if the program waits for a core, whether it is notified of free cores or not.
    fn waits(&self) -> bool;

    /// Sets whether the program waits for a core.
    fn set_waits(&self, waits: bool);

    /// True if the program watches a core, and is not notified of others.
    fn watches(&self) -> bool;

    /// Sets whether the program watches a core.
    fn set_watches(&self, watches: bool);

    /// Returns the time in ns since the core's holder last changed, or since it became free.
    fn lasts(&self, core: usize) -> u64;

    /// Returns the time in ns for which a core of another owner must have been free before the program claims it.
    fn lend_after(&self) -> u64;

    /// True if the program at this place may use the core. The default is for a table in which each program may use
    /// each core.
    fn may_use(&self, _slot: SlotId, _core: usize) -> bool {
        true
    }

    /// Rings the bell of the program at another place.
    fn ring(&self, slot: SlotId);
}

/// A program's place in the table. The program may lose its place and take another one between two steps, so a
/// [view](Seat::view) is valid for one step.
pub trait Seat {
    /// The table as the program in this place sees it.
    type View<'a>: Table
    where
        Self: 'a;

    /// Returns the table as it is now. `None`: the program has lost its place and has no other yet.
    fn view(&self) -> Option<Self::View<'_>>;

    /// Returns the table at the time `now`, by which the ages of cores are judged. The default is for visits that take
    /// no time.
    fn view_at(&self, _now: u64) -> Option<Self::View<'_>> {
        self.view()
    }

    /// Publishes how many cores the program can use and how many of its workers are awake, and returns its standing.
    /// Takes another place if the program has lost its own.
    fn round(&self, desire: u32, awake: u32) -> Standing;

    /// Publishes the program's correction: the factor on its weight, in thousandths.
    fn correct(&self, correction: u32);

    /// Publishes the program's proposal for the division of cores.
    fn propose(&self, proposal: Proposal);

    /// Calls [`want`] now, and again each time the program takes another place.
    fn want(&self, wants: bool);

    /// Returns the number of programs in the table.
    fn population(&self) -> usize;

    /// True if the place is still the program's own. The default is for a program that never loses its place.
    fn has_its_place(&self) -> bool {
        true
    }
}

/// The way in which a program gets one more core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// The program [claims](claim) a core that no program uses.
    Claim {
        /// True if only a core that the program owns may be claimed.
        own_only: bool,
    },
    /// The program [takes back](take_back) an own core that another program uses.
    TakeBack,
}

/// A change that a program has made to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The program claimed this free core.
    Claimed(usize),
    /// The program took this core back.
    TakenBack(usize),
    /// The program released this core.
    Released(usize),
}

/// The values that a program publishes in the table. Only programs that are in the table and not stopped have a
/// report.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The program's place and its claim. The claim has a `desire` of 0 if the program requests no cores.
    pub party: Party,
    /// The number of its workers that are awake.
    pub awake: u32,
    /// The factor on its weight that it has published, in thousandths.
    pub correction: u32,
    /// True if the program's version of Comity rotates cores in frames. If one program's version does not, cores
    /// change owners at scattered times.
    pub knows_frames: bool,
    /// The program's proposal for the division of cores. `None`: its version of Comity supports only equal parts.
    pub proposal: Option<Proposal>,
    /// True if the program is a command that halts at once when its turn ends. Such a command can take turns with a
    /// [team](Way::Turns). False for a pool, because each task of a pool continues until it ends or forks.
    pub takes_turns: bool,
    /// The way in which the program is limited to its share. For a pool it is [`Way::Cores`].
    pub way: Way,
    /// The task group that all of the program's work is in. `None`: unknown, or several.
    pub group: Option<TaskGroup>,
}

impl Report {
    /// True if the program can take turns with a team and can use at least `cores` cores in its turn.
    fn can_take_turns(&self, cores: u32) -> bool {
        let could_use = self.party.claim.desire.max(self.awake).min(self.party.may_use.len() as u32);
        self.takes_turns && could_use >= cores
    }

    fn has_claim(&self) -> bool {
        self.party.claim.desire > 0
    }

    /// Returns the party with its weight under `division`, without the correction, multiplied by 1,000.
    fn due(&self, division: Division) -> Party {
        let factor = self.proposal.unwrap_or_default().factor(division);
        self.weighed(factor)
    }

    /// Returns the party with its weight under `division`, times its correction, multiplied by 1,000.
    fn corrected(&self, division: Division) -> Party {
        let correction = self.correction.clamp(*CORRECTIONS.start(), *CORRECTIONS.end());
        self.weighed(correction * self.proposal.unwrap_or_default().factor(division) / LINEAR)
    }

    fn weighed(&self, milli: u32) -> Party {
        let claim = Claim { weight: self.party.claim.weight.saturating_mul(milli), ..self.party.claim };
        Party { claim, ..self.party }
    }

    /// True if the program has work, no matter whether it holds cores or shares time.
    fn is_active(&self) -> bool {
        self.has_claim() || self.awake > 0
    }
}

/// Claims a core, or takes one back. Returns the core and its word before the change.
pub fn gain(table: &impl Table, how: Gain) -> Option<(usize, CoreWord)> {
    match how {
        Gain::Claim { own_only } => claim(table, own_only),
        Gain::TakeBack => take_back(table),
    }
}

/// Claims a core that no program uses. Prefers a core that the program owns; with `own_only`, claims no other. Returns
/// the core and its word before the change.
pub fn claim(table: &impl Table, own_only: bool) -> Option<(usize, CoreWord)> {
    table.beat();
    let me = table.slot();
    let claim = |wanted: &dyn Fn(usize, Option<SlotId>) -> bool| {
        let next = |core, word: CoreWord| usable(table, word).filter(|_| wanted(core, word.owner()))?.claimed(me);
        table.cores().iter().find_map(|core| change_one(table, core, |word| next(core, word)))
    };
    let mut claimed = claim(&|_, owner| owner == Some(me));
    if claimed.is_none() && !own_only {
        // A core without an owner is preferred, because no owner can take it back.
        claimed = claim(&|_, owner| owner.is_none()).or_else(|| claim(&|core, _| until_lent(table, core) == 0));
    }
    let (core, before) = claimed?;
    table.note(Change::Claimed(core));
    Some((core, before))
}

/// Takes back a core that another program uses, and notifies that program. Returns the core and its word before the
/// change.
pub fn take_back(table: &impl Table) -> Option<(usize, CoreWord)> {
    table.beat();
    let me = table.slot();
    let (core, before) = change(table, |word| word.taken_back(me))?;
    table.note(Change::TakenBack(core));
    if let Some(borrower) = before.holder() {
        table.ring(borrower);
    }
    Some((core, before))
}

/// Prepares a core for a worker that is about to be woken. If no own core is free, takes back one that another program
/// uses, and leaves it free. Without this step, the woken thread itself would have to take a core back, and it would
/// run only after the borrower's time slice. A core that the worker does not claim is lent again.
pub fn reclaim(table: &impl Table) {
    let me = table.slot();
    let own = table.cores().iter().map(|core| (core, table.load(core))).filter(|(_, word)| word.owner() == Some(me));
    let mut lent = None;
    for (core, word) in own {
        if usable(table, word).is_some() {
            return;
        }
        lent = lent.or(word.taken_back(me).and_then(|taken| Some((core, word, taken.released(me)?))));
    }
    let Some((core, before, next)) = lent else { return };
    if !table.exchange(core, before, next) {
        return;
    }
    [Change::TakenBack(core), Change::Released(core)].into_iter().for_each(|change| table.note(change));
    if let Some(borrower) = before.holder() {
        table.ring(borrower);
    }
    offer(table, core, Some(me));
}

/// Releases `core` if the program still holds it. `None`: releases a core that the program does not own, or else any.
/// Notifies one program that waits. Returns the core and its word before the change.
pub fn release(table: &impl Table, core: Option<usize>) -> Option<(usize, CoreWord)> {
    let me = table.slot();
    let (core, before) = match core {
        Some(core) if table.cores().contains(core) => change_one(table, core, |word| word.released(me)),
        Some(_) => None,
        None => {
            let others = change(table, |word| word.released(me).filter(|_| word.owner() != Some(me)));
            others.or_else(|| change(table, |word| word.released(me)))
        }
    }?;
    table.note(Change::Released(core));
    offer(table, core, before.owner());
    Some((core, before))
}

/// Leaves the free cores to other programs: for each free core, notifies one program that waits.
pub fn decline(table: &impl Table) {
    for core in table.cores().iter() {
        if let Some(word) = usable(table, table.load(core)) {
            offer(table, core, word.owner());
        }
    }
}

/// Notifies one program that the core became free: the owner if it waits, else the next program that waits. Skips
/// programs that are stopped or may not use this core: they would not use the core, and no other program would be
/// notified.
pub fn offer(table: &impl Table, core: usize, owner: Option<SlotId>) {
    // Lemma at the head of the module: the core's word is written before the look for programs that wait.
    table.fence();
    if !table.is_core_wanted() {
        return;
    }
    let can_use = |slot: SlotId| table.wants(slot) && table.may_use(slot, core) && !table.is_stopped(slot);
    if let Some(slot) = told(table.slot(), owner, can_use) {
        table.ring(slot);
    }
}

/// Sets whether the program waits for a core. If it waits, it is notified of free cores, except while it watches one.
/// A program that looks for a free core after this call misses none.
pub fn want(table: &impl Table, wants: bool) {
    if table.waits() != wants {
        table.set_waits(wants);
        // The fence is between this write and the read of `watches`. A step that ends a watch writes `watches`,
        // fences, and reads `waits`.
        table.fence();
    }
    let was_told = table.wants(table.slot());
    if !(wants && table.watches()) {
        be_told(table, wants);
        // A young core is neither announced nor claimable. The coordinator visits the table and watches that core.
        if wants && !was_told && until_next_lent(table).is_some() {
            table.ring(table.slot());
        }
    }
}

/// Begins a visit of the coordinator: the program watches no core, and if it waits, it is notified of each core that
/// becomes free. The caller then claims cores, and calls [`watch`] afterwards.
pub fn stop_watching(table: &impl Table) {
    if table.watches() {
        table.set_watches(false);
        table.fence();
        if !table.waits() {
            // The program may have been notified of a core that it no longer needs.
            decline(table);
        }
    }
    // A worker may change the value during the loop.
    while table.wants(table.slot()) != table.waits() {
        be_told(table, table.waits());
    }
}

/// Ends a visit of the coordinator, after its claims. If the program waits and there is a young core, returns the time
/// in ns from the start of the visit until a core may be claimed. During this time the program is not notified of
/// cores, so cores that are often released cause no visits.
pub fn watch(table: &impl Table) -> Option<u64> {
    let first = until_next_lent(table).filter(|_| table.waits())?;
    table.set_watches(true);
    be_told(table, false);
    // The minimum delay lets the program claim several cores in one visit.
    Some(first.max(table.lend_after() / 8))
}

/// Returns the time in ns after which the first young core may be claimed.
fn until_next_lent(table: &impl Table) -> Option<u64> {
    let is_free = |core: &usize| usable(table, table.load(*core)).is_some();
    let soon = |core: usize| Some(until_lent(table, core)).filter(|after| *after > 0);
    table.cores().iter().filter(is_free).filter_map(soon).min()
}

fn be_told(table: &impl Table, told: bool) {
    if table.wants(table.slot()) != told {
        table.set_wants(told);
        // Lemma at the head of the module: the write precedes the look at the cores.
        table.fence();
    }
}

/// Returns the time in ns after which the program may claim the core, if it is free until then.
fn until_lent(table: &impl Table, core: usize) -> u64 {
    let is_others = table.load(core).owner().is_some_and(|owner| owner != table.slot());
    if is_others { table.lend_after().saturating_sub(table.lasts(core)) } else { 0 }
}

/// True if no program uses the core, and this program may claim it.
fn is_free(table: &impl Table, core: usize) -> bool {
    usable(table, table.load(core)).is_some() && until_lent(table, core) == 0
}

/// True if there is a core that the program may claim.
pub fn any_free(table: &impl Table) -> bool {
    table.cores().iter().any(|core| is_free(table, core))
}

/// Returns the cores that the program holds.
pub fn held(table: &impl Table) -> CoreSet {
    named(table, CoreWord::holder)
}

/// Returns the cores that the program is entitled to.
pub fn owned(table: &impl Table) -> CoreSet {
    named(table, CoreWord::owner)
}

/// Returns the cores whose words name the program. `name` selects the owner or the holder of a word.
fn named(table: &impl Table, name: impl Fn(CoreWord) -> Option<SlotId>) -> CoreSet {
    table.cores().iter().filter(|core| name(table.load(*core)) == Some(table.slot())).collect()
}

/// Returns the word of a core that no program uses. If a stopped program uses the core, returns the word without that
/// holder.
pub fn usable(table: &impl Table, word: CoreWord) -> Option<CoreWord> {
    match word.holder() {
        None => Some(word),
        Some(holder) if holder != table.slot() && table.is_stopped(holder) => word.seized(holder),
        Some(_) => None,
    }
}

/// Updates the owners of the cores from all reports, and computes the standing of the program that sees `table`. That
/// program has weight `weight`. `now` is in ns of the clock that all programs share.
pub fn round(table: &impl Table, program: u64, weight: u32, reports: &[Report], now: u64) -> Standing {
    let claiming = || reports.iter().filter(|report| report.has_claim());
    let all_know = claiming().all(|report| report.knows_frames);
    let frame = TURN.as_nanos() as u64 * claiming().count().max(1) as u64;
    let (division, until_other) = if all_know { divided(reports, frame, now) } else { (Division::Equal, None) };
    let parties: Vec<Party> =
        claiming().map(|report| if all_know { report.corrected(division) } else { report.party }).collect();
    let (allotted, until_change) = grant(table, &parties, division, all_know.then_some(frame), now);
    let own = reports.iter().find(|report| report.party.slot == table.slot());
    // Other parties of this program's process count as other programs.
    let is_own = |party: &Party| own.is_some_and(|own| own.party.slot == party.slot);
    let others = reports.iter().filter(|report| report.is_active() && !is_own(&report.party));
    let others: Vec<Party> = others.map(|report| report.due(division)).collect();
    let factor = own.and_then(|own| own.proposal).unwrap_or_default().factor(division);
    // The operating system can divide processor time by weight, but cannot give a program all cores in turn.
    let needs_turns =
        division == Division::Time && claiming().any(|report| report.proposal == Some(Proposal::Together));
    let desire = own.map_or(0, |own| own.party.claim.desire);
    let claim = Claim { program, weight: weight.saturating_mul(factor), desire };
    Standing {
        alone: parties.iter().all(is_own),
        share_milli: share_milli(division, table.cores(), claim, &others),
        programs: others.len() as u32 + 1,
        allotted,
        until_change: until_change.into_iter().chain(until_other).min(),
        frame,
        most_out: if until_other.is_some() { 2 * frame } else { frame },
        division,
        may_take_turns: may_take_turns(table, program, reports),
        is_even: !needs_turns && is_even(table, program, weight, reports),
        is_grouped: is_grouped(table, program, weight, reports).map(|is_grouped| is_grouped && !needs_turns),
        ..standing(table)
    }
}

/// Computes [`Standing::is_even`]. The numbers of threads per weight may differ by a quarter. Programs with
/// [`Way::Team`] or [`Way::Nice`] are ignored.
fn is_even(table: &impl Table, program: u64, weight: u32, reports: &[Report]) -> bool {
    let awake = reports.iter().find(|report| report.party.slot == table.slot()).map_or(0, |own| own.awake);
    let others = active_others(program, reports).filter(|report| report.awake > 0 && !report.way.is_apart());
    // The threads and the weight of each program, which may have several reports.
    let mut programs: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    for report in others {
        let (threads, weight) = programs.entry(report.party.claim.program).or_default();
        (*threads, *weight) = (*threads + u64::from(report.awake), report.party.claim.weight.max(*weight));
    }
    let is_like = |(threads, others_weight): &(u64, u32)| {
        let own = u64::from(awake) * u64::from(*others_weight);
        let others = threads * u64::from(weight);
        4 * own <= 5 * others && 4 * others <= 5 * own
    };
    programs.len() >= table.cores().len() && programs.values().all(is_like)
}

/// Computes [`Standing::may_take_turns`]. Programs that the operating system limits by their nice value are ignored.
/// Programs that request no cores and have fewer threads than there are cores are ignored too, because they run at any
/// time. On one core, turns would change nothing.
fn may_take_turns(table: &impl Table, program: u64, reports: &[Report]) -> bool {
    let own = table.cores();
    let cores = active_others(program, reports).fold(own, |all, report| all.union(report.party.may_use));
    let most = cores.len() as u32;
    let is_small = |report: &Report| report.way == Way::Cores && !report.has_claim() && report.awake < most;
    let others = || active_others(program, reports).filter(|report| report.way != Way::Nice && !is_small(report));
    let is_few = (1..MOST_IN_TURN).contains(&others().count());
    most > 1 && own.len() == cores.len() && is_few && others().all(|report| report.can_take_turns(most))
}

/// Computes [`Standing::is_grouped`]. Each program computes the same result. The ratio of program weight to group
/// weight may differ by an eighth among programs, because one step of a nice value is a quarter.
fn is_grouped(table: &impl Table, program: u64, weight: u32, reports: &[Report]) -> Option<bool> {
    let others = || active_others(program, reports);
    others().next()?;
    let own = reports.iter().find(|report| report.party.slot == table.slot()).and_then(|own| own.group);
    let Some(own) = own else { return Some(false) };
    let of = |other: &Report| {
        let group = other.group.filter(|group| group.parent == own.parent)?;
        Some((group, other.party.claim.program, other.party.claim.weight))
    };
    let Some(all) = others().map(of).chain([Some((own, program, weight))]).collect::<Option<Vec<_>>>() else {
        return Some(false);
    };
    let is_alike = |(one, _, weight): &(TaskGroup, u64, u32), (other, _, others): &(TaskGroup, u64, u32)| {
        8 * u64::from(*weight) * u64::from(other.milli) <= 9 * u64::from(*others) * u64::from(one.milli)
    };
    // One program may have several pools, and so several reports.
    let is_apart = |(one, program, _): &(TaskGroup, u64, u32), (other, others, _): &(TaskGroup, u64, u32)| {
        one.id != other.id || program == others
    };
    Some(all.iter().all(|one| all.iter().all(|other| is_apart(one, other) && is_alike(one, other))))
}

/// Returns the present division of the cores, and the time in ns until it changes if the proposals stay. All programs
/// must know frames.
fn divided(reports: &[Report], frame: u64, now: u64) -> (Division, Option<u64>) {
    let claiming = || reports.iter().filter(|report| report.has_claim());
    let cores = claiming().fold(CoreSet::EMPTY, |all, report| all.union(report.party.may_use)).len() as u32;
    let can_take_turns = claiming().all(|report| report.can_take_turns(cores));
    let proposed = Division::among(claiming().map(|report| report.proposal), can_take_turns);
    if proposed != Division::Slowdown {
        return (proposed, None);
    }
    let active = || reports.iter().filter(|report| report.is_active());
    let cores = active().fold(CoreSet::EMPTY, |all, report| all.union(report.party.may_use)).len() as u32;
    let mut programs: Vec<u64> = active().map(|report| report.party.claim.program).collect();
    programs.sort_unstable();
    programs.dedup();
    if programs.len() as u32 >= CROWD.saturating_mul(cores) {
        return (Division::Equal, None);
    }
    let division = proposed.beside_probes(claiming().filter_map(|report| report.proposal));
    if claiming().count() > MOST_IN_TURN {
        return (division, None);
    }
    let (nth, over) = (now / frame, now % frame);
    let is_probe = nth.is_multiple_of(PROBES_EVERY);
    let frames = if is_probe { 1 } else { PROBES_EVERY - nth % PROBES_EVERY };
    // The look is due just after the change, so that it sees the change.
    let until_other = frames * frame - over + 1;
    (if is_probe { Division::Time } else { division }, Some(until_other))
}

/// True if the other members are told that a program has joined in `slot`. A member that was alone rarely looks at
/// the table, so it must be told. If several members have work, no member is alone, and each ring would cost them a
/// look.
pub fn is_joining_told(slot: SlotId, reports: &[Report]) -> bool {
    reports.iter().filter(|report| report.is_active() && report.party.slot != slot).count() <= 1
}

/// Changes the first core that has a `next` state. Returns the core and its word before the change.
fn change(table: &impl Table, next: impl Fn(CoreWord) -> Option<CoreWord>) -> Option<(usize, CoreWord)> {
    table.cores().iter().find_map(|core| change_one(table, core, &next))
}

fn change_one(
    table: &impl Table,
    core: usize,
    next: impl Fn(CoreWord) -> Option<CoreWord>,
) -> Option<(usize, CoreWord)> {
    let before = table.load(core);
    table.exchange(core, before, next(before)?).then_some((core, before))
}

/// Returns the program to notify of a free core: the owner, or the first other program that `can_use` it, in the
/// order of the slots after `me`.
fn told(me: SlotId, owner: Option<SlotId>, can_use: impl Fn(SlotId) -> bool) -> Option<SlotId> {
    let others = (1..SLOTS).filter_map(|after| SlotId::new((me.index() + after) % SLOTS));
    owner.into_iter().filter(|owner| *owner != me).chain(others).find(|slot| can_use(*slot))
}

/// Grants the cores to their new owners. If the desire of every program is 0, cores keep their owners. Returns how
/// many cores this program owns, and the time in ns until a turn of it begins or ends in the `frame`. `frame` is
/// `None` if not all programs know frames. All then use the scattered order, because all must compute the same owners.
fn grant(
    table: &impl Table,
    parties: &[Party],
    division: Division,
    frame: Option<u64>,
    now: u64,
) -> (u32, Option<u64>) {
    let end = parties.iter().filter_map(|party| party.may_use.iter().last()).max().map_or(0, |last| last + 1);
    let before: Vec<CoreWord> = (0..end).map(|core| table.load(core)).collect();
    let owners: Vec<Option<SlotId>> = before.iter().map(|word| word.owner()).collect();
    let phase = match frame {
        Some(frame) => ((u128::from(now % frame) << 64) / u128::from(frame)) as u64,
        None => {
            // With many programs for each core, all cores would change hands before most programs have noticed.
            let rounds = (parties.len() / end.max(1)).max(1) as u64;
            scattered(now / (TURN.as_nanos() as u64 * rounds))
        }
    };
    let holder = |core: usize| before[core].holder();
    let Partition { owners, until_change } = partition(parties, division, &owners, holder, phase);
    let me = Some(table.slot());
    let allotted = owners.iter().filter(|owner| **owner == me).count() as u32;
    for (core, (before, owner)) in before.into_iter().zip(owners).enumerate() {
        if let Some(next) = before.granted(owner) {
            table.grant(core, before, next);
        }
    }
    let own = parties.iter().position(|party| Some(party.slot) == me);
    // The look is due just after the change, so that it sees the change.
    let after = |(part, frame): (u64, u64)| ((u128::from(part) * u128::from(frame)) >> 64) as u64 + 1;
    (allotted, own.and_then(|own| until_change[own]).zip(frame).map(after))
}

/// Returns the reports of other programs that have work.
fn active_others(program: u64, reports: &[Report]) -> impl Iterator<Item = &Report> {
    reports.iter().filter(move |report| report.is_active() && report.party.claim.program != program)
}

/// Returns the program's share without rounding to whole cores, if it and all others could use all cores. For a gang,
/// its desire limits the share.
fn share_milli(division: Division, may_use: CoreSet, own: Claim, others: &[Party]) -> u32 {
    let cores = others.iter().fold(may_use, |all, party| all.union(party.may_use)).len() as u32;
    let could_use = |claim: Claim, may_use: CoreSet| Claim {
        desire: division.could_use(claim.desire, may_use.len() as u32),
        ..claim
    };
    let others = others.iter().map(|party| could_use(party.claim, party.may_use));
    let claims: Vec<Claim> = core::iter::once(could_use(own, may_use)).chain(others).collect();
    due_milli(division, cores, &claims)[0]
}

/// Counts the program's cores by their words.
fn standing(table: &impl Table) -> Standing {
    let (mut standing, me) = (Standing::default(), table.slot());
    for core in table.cores().iter() {
        let word = table.load(core);
        let own = word.owner() == Some(me);
        let free = usable(table, word).is_some();
        let held = word.holder() == Some(me);
        standing.owned += u32::from(own);
        standing.held += u32::from(held);
        standing.free += u32::from(is_free(table, core));
        standing.own_free += u32::from(free && own);
        standing.lent += u32::from(own && !free && !held);
    }
    standing
}
