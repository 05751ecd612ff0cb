//! The masks of a pool's threads: where threads run, who put them there, and what that means for threads that they
//! start.
//!
//! The books (`comity_protocol::activation`) say where a worker's thread is to run, and the functions here confine
//! it. A mask that the thread itself or an administrator has set wins: see [`Mask`] and `docs/decisions/0023`. A
//! thread or process that is started under a narrow mask inherits it; `mender` corrects that.
//!
//! The masks have a separate lock, because a thread that asks for its own mask needs no books. That lock is taken
//! within the books' lock, and never the other way round.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use comity_os::affinity::{self, Mask, NotSet};
use comity_os::census;
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, SharedCoreSet, lock};
use comity_policy::WorkerId;
use comity_protocol::activation::{Books, State};

/// The number of changes of a cpuset in succession that are followed before a mask counts as foreign.
const CHANGES: u32 = 8;

/// The masks of one pool's workers.
pub(crate) struct Masks {
    kept: Mutex<Kept>,
    /// The data for forked children, by worker. It is outside of the lock, which may be held for ever in a forked
    /// child.
    for_children: Box<[ForChild]>,
}

/// A time in which a worker's thread has had a narrow mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    pub(crate) cores: CoreSet,
    /// The mask that the program wanted instead. `None`: all cores.
    pub(crate) own: Option<CoreSet>,
    /// The time at which the spell began, from [`census::now`].
    pub(crate) since: u64,
}

/// The reason why a thread was not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMoved {
    /// The program, an administrator, a cpuset or the books want the thread elsewhere.
    Bound,
    /// The thread has ended.
    Gone,
    /// The kernel does not let this program move its threads.
    Refused,
}

/// The data that the lock guards.
struct Kept {
    entries: Box<[Entry]>,
    /// The cores that the system lets threads of this program use. Empty until they are known.
    granted: CoreSet,
}

/// A move that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    before: Mask,
    spell: Option<Spell>,
}

/// The masks of one worker.
#[derive(Default)]
struct Entry {
    mask: Mask,
    /// The mask that the thread gets after a pull. Set while the thread is pulled.
    pulled: Option<Mask>,
    /// True if the thread was confined while it slept, and has not been awake since.
    sleeps: bool,
    /// The narrow masks that the thread has had since the last [`Masks::spells`].
    spells: Vec<Spell>,
}

/// The data about the mask of a thread that forks, for the child. The kernel copies the mask first and the memory
/// later. So the child may have any mask that was narrow at any time of the fork.
#[derive(Default)]
struct ForChild {
    is_narrow: AtomicBool,
    /// The number of times that the mask has become another narrow one.
    narrowed: AtomicU32,
    /// The value of `narrowed` when the last fork began, minus one if the mask was narrow then. Only the worker uses
    /// it.
    at_fork: AtomicU32,
    /// The last narrow masks, each at its number's place, and the mask that the program wanted instead of the last
    /// one.
    noted: [SharedCoreSet; NARROWED],
    own: SharedCoreSet,
}

/// The number of narrow masks that are remembered for one fork. A pull takes as long as a fork, and a second pull
/// during one fork has been seen.
const NARROWED: usize = 4;

impl ForChild {
    fn tell(&self, mask: &Mask) {
        if mask.is_narrow() {
            let narrowed = self.narrowed.load(Ordering::Relaxed).wrapping_add(1);
            mask.cores().store(&self.noted[narrowed as usize % NARROWED]);
            mask.own().unwrap_or(CoreSet::ALL).store(&self.own);
            self.narrowed.store(narrowed, Ordering::Release);
        }
        self.is_narrow.store(mask.is_narrow(), Ordering::Release);
    }

    /// Notes the state before a fork. In this order, a mask that becomes narrow between the two loads counts.
    fn forks(&self) {
        let narrowed = self.narrowed.load(Ordering::Acquire);
        let was_narrow = self.is_narrow.load(Ordering::Acquire);
        self.at_fork.store(narrowed.wrapping_sub(u32::from(was_narrow)), Ordering::Relaxed);
    }

    /// Returns the mask that the program wants instead of `found`, the child's mask, if `found` is a narrow one.
    fn in_child(&self, found: CoreSet) -> Option<CoreSet> {
        let narrowed = self.narrowed.load(Ordering::Acquire);
        let meanwhile = narrowed.wrapping_sub(self.at_fork.load(Ordering::Relaxed)).min(NARROWED as u32);
        let noted = |back| CoreSet::load(&self.noted[narrowed.wrapping_sub(back) as usize % NARROWED]);
        let is_ours = (0..meanwhile).any(|back| noted(back).intersection(found) == found);
        is_ours.then(|| CoreSet::load(&self.own))
    }
}

impl Entry {
    /// Reads the mask of the worker's thread, and returns true if the program or an administrator has set it. The
    /// cores that the system grants are read again before a mask counts as foreign. Nothing is learned while these
    /// cores are unknown, or if this program may no longer set masks. Nothing is learned during a pull either, when
    /// the thread may have one mask or the other.
    fn learn(&mut self, thread: ThreadId, granted: &mut CoreSet, for_child: &ForChild) -> bool {
        let mut found = affinity::of(thread);
        if granted.is_empty() || found.is_empty() || self.pulled.is_some() {
            return false;
        }
        for _ in 0..CHANGES {
            if self.mask.explains(found, *granted) {
                break;
            }
            match affinity::granted() {
                CoreSet::EMPTY => return false,
                now => *granted = now,
            }
            // A mask that was read before a cpuset changed is no longer valid after that.
            let before = std::mem::replace(&mut found, affinity::of(thread));
            if found == before {
                break;
            }
        }
        let foreign = self.mask.learn(found, *granted);
        if foreign {
            for_child.tell(&self.mask);
        }
        foreign
    }

    /// Confines the worker's thread, or lets it roam as its program wants. If the kernel refuses that, the thread
    /// runs where it ran. Not called before it is known what the system grants.
    fn confine(&mut self, thread: ThreadId, granted: &mut CoreSet, cores: Option<CoreSet>, for_child: &ForChild) {
        if let Some(pulled) = &mut self.pulled {
            // The thief that pulls the thread sets this mask afterwards.
            pulled.note(cores);
            return;
        }
        self.learn(thread, granted, for_child);
        let before = self.mask;
        let Some(mask) = self.mask.note(cores) else { return };
        self.begin_spell();
        // A child that is forked in between has the old or the new mask, and both are noted as narrow if one of them
        // is.
        if self.mask.is_narrow() {
            for_child.tell(&self.mask);
        }
        if !affinity::confine(thread, mask) {
            self.mask = before;
        }
        for_child.tell(&self.mask);
    }

    /// Begins a move of the thread to `core`. [`Entry::has_moved`] restores its mask afterwards. `has_task`: a thread
    /// or process that the thread starts meanwhile inherits the narrow mask.
    fn moves(
        &mut self,
        thread: ThreadId,
        granted: &mut CoreSet,
        core: usize,
        has_task: bool,
        for_child: &ForChild,
    ) -> Result<Move, NotMoved> {
        self.learn(thread, granted, for_child);
        let before = self.mask;
        if !before.cores().contains(core) {
            return Err(NotMoved::Bound);
        }
        self.mask = Mask::noted(before.own(), Some([core].into_iter().collect()));
        self.pulled = Some(before);
        let spell = if has_task { self.begin_spell() } else { None };
        for_child.tell(&self.mask);
        Ok(Move { before, spell })
    }

    /// Ends a move. A mask that the program or an administrator has set meanwhile wins. Otherwise the thread gets the
    /// mask that it had, or the mask that was noted for it since.
    fn has_moved(&mut self, thread: ThreadId, granted: &mut CoreSet, for_child: &ForChild) {
        let after = self.pulled.take().unwrap_or_default();
        if !self.learn(thread, granted, for_child) {
            self.mask = after;
            // The kernel also refuses if the thread may use none of those cores any more. Then it gets the cores that
            // are left.
            if !affinity::confine(thread, after.cores()) {
                affinity::confine(thread, CoreSet::ALL);
            }
        }
        for_child.tell(&self.mask);
    }

    /// Ends a move that the kernel refused, without setting a mask.
    fn has_stayed(&mut self, thread: ThreadId, before: Mask, for_child: &ForChild) {
        self.mask = before;
        if let Some(after) = self.pulled.take().filter(|after| *after != before) {
            self.mask = if affinity::confine(thread, after.cores()) { after } else { before };
        }
        for_child.tell(&self.mask);
    }

    /// Begins a spell: what the thread starts from now on may inherit the mask. Returns the spell if it is new.
    fn begin_spell(&mut self) -> Option<Spell> {
        let (cores, own) = (self.mask.cores(), self.mask.own());
        let is_known = self.spells.iter().any(|spell| spell.cores == cores && spell.own == own);
        // A thread that sleeps starts nothing.
        if self.mask.is_narrow() && !is_known && !self.sleeps {
            self.spells.push(Spell { cores, own, since: census::now() });
            return self.spells.last().copied();
        }
        None
    }

    /// Removes a spell in which nothing has inherited the mask: a thread that has the mask later has it from
    /// elsewhere.
    fn withdraw(&mut self, spell: Spell) {
        self.spells.retain(|other| *other != spell);
    }
}

impl Masks {
    pub(crate) fn new(workers: u32) -> Masks {
        let entries = (0..workers).map(|_| Entry::default()).collect();
        Masks {
            kept: Mutex::new(Kept { entries, granted: CoreSet::EMPTY }),
            for_children: (0..workers).map(|_| ForChild::default()).collect(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// True if a worker's thread has a narrow mask, or has had one since the last [`Masks::spells`].
    pub(crate) fn is_narrow(&self) -> bool {
        self.kept().entries.iter().any(|entry| !entry.spells.is_empty())
    }

    /// Takes all narrow masks that workers have had since the last call, of a pool whose workers are only pulled. A
    /// worker that still has a narrow mask may hand it on until the next call.
    pub(crate) fn spells_of_pulls(&self) -> Vec<Spell> {
        let of = |entry: &mut Entry| {
            let (cores, is_narrow) = (entry.mask.cores(), entry.mask.is_narrow());
            let spells = std::mem::take(&mut entry.spells);
            entry.spells = spells.iter().filter(|spell| is_narrow && spell.cores == cores).copied().collect();
            spells
        };
        self.kept().entries.iter_mut().flat_map(of).collect()
    }

    /// Takes all narrow masks that workers have had since the last call, of a pool that has ended.
    pub(crate) fn all_spells(&self) -> Vec<Spell> {
        self.kept().entries.iter_mut().flat_map(|entry| std::mem::take(&mut entry.spells)).collect()
    }
}

/// Functions that are called without the books' lock.
impl Masks {
    /// Moves the worker's thread to `core`, where it stays until the kernel moves it again. The thread's mask is
    /// narrow while it moves. If the calling thread loses its core in that moment, the mask stays narrow until it
    /// runs again. No lock is held meanwhile: the caller is the only thread that pulls this worker
    /// ([`Candidate`](crate::cores::candidate::Candidate)). A mask that the coordinator notes meanwhile is set
    /// afterwards.
    ///
    /// `clock`: the processor time of a worker that has a task, which may start threads and processes. If the clock
    /// stands still, the worker has started nothing, and no spell is left.
    ///
    /// A thread that moves itself returns when it has its turn on the other core.
    pub(crate) fn pull(
        &self,
        worker: WorkerId,
        thread: ThreadId,
        core: usize,
        clock: Option<Duration>,
    ) -> Result<(), NotMoved> {
        let mut begun = Err(NotMoved::Refused);
        self.set(worker, affinity::granted, |entry, granted, for_child| {
            begun = entry.moves(thread, granted, core, clock.is_some(), for_child);
        });
        let Move { before, spell } = begun?;
        let moved = affinity::set(thread, [core].into_iter().collect());
        self.set(worker, affinity::granted, |entry, granted, for_child| {
            match moved {
                Ok(()) => entry.has_moved(thread, granted, for_child),
                Err(_) => entry.has_stayed(thread, before, for_child),
            }
            if let Some(spell) = spell
                && (moved.is_err() || thread.cpu_time() == clock)
            {
                entry.withdraw(spell);
            }
        });
        moved.map_err(|why| match why {
            NotSet::NoCore => NotMoved::Bound,
            NotSet::Gone => NotMoved::Gone,
            NotSet::Refused => NotMoved::Refused,
        })
    }
}

/// Functions that are called with the books' lock.
impl Masks {
    /// Confines the worker that runs on `thread`, like [`Pool::confine`](comity_protocol::activation::Pool::confine).
    /// `granted` returns the cores that the system grants, as far as they are known.
    pub(crate) fn confine(
        &self,
        worker: WorkerId,
        thread: ThreadId,
        granted: impl FnOnce() -> CoreSet,
        cores: Option<CoreSet>,
    ) -> bool {
        self.set(worker, granted, |entry, granted, for_child| entry.confine(thread, granted, cores, for_child))
    }

    /// Leads the worker's thread, like [`Pool::lead`](comity_protocol::activation::Pool::lead). A thread that runs is
    /// confined while it moves.
    pub(crate) fn lead(
        &self,
        worker: WorkerId,
        thread: ThreadId,
        granted: impl FnOnce() -> CoreSet,
        core: usize,
        sleeps: bool,
    ) -> bool {
        self.set(worker, granted, |entry, granted, for_child| {
            entry.sleeps = sleeps;
            entry.confine(thread, granted, Some([core].into_iter().collect()), for_child);
            if !sleeps {
                entry.confine(thread, granted, None, for_child);
            }
        })
    }

    /// Calls `set` with the worker's entry. Returns false if it is not known what the system grants.
    fn set(
        &self,
        worker: WorkerId,
        known: impl FnOnce() -> CoreSet,
        set: impl FnOnce(&mut Entry, &mut CoreSet, &ForChild),
    ) -> bool {
        let mut kept = self.kept();
        let Kept { entries, granted } = &mut *kept;
        // A pool that was built later learns the granted cores from its program.
        if granted.is_empty() {
            *granted = known();
        }
        let is_known = !granted.is_empty();
        if is_known {
            set(&mut entries[worker.index()], granted, &self.for_children[worker.index()]);
        }
        is_known
    }

    /// Notes that the worker is awake, like [`Pool::up`](comity_protocol::activation::Pool::up): a worker that slept
    /// with a narrow mask has tasks again.
    pub(crate) fn is_up(&self, worker: WorkerId) {
        let entry = &mut self.kept().entries[worker.index()];
        entry.sleeps = false;
        entry.begin_spell();
    }

    /// Reads where the threads of the pool's program may run. `granted`: the cores that the system grants.
    pub(crate) fn look(&self, thread: impl Fn(WorkerId) -> Option<ThreadId>, books: &mut Books, granted: CoreSet) {
        let mut may_use = CoreSet::EMPTY;
        let mut kept = self.kept();
        kept.granted = granted;
        let Kept { entries, granted } = &mut *kept;
        for worker in books.workers() {
            let Some(thread) = thread(worker) else { continue };
            let (entry, for_child) = (&mut entries[worker.index()], &self.for_children[worker.index()]);
            if entry.learn(thread, granted, for_child) {
                entry.confine(thread, granted, books.confined(worker), for_child);
            }
            may_use = may_use.union(entry.mask.roams(*granted));
        }
        if !may_use.is_empty() {
            books.may_use = may_use;
        }
    }

    /// Takes, for each worker's thread, the narrow masks that it has had since the last call.
    pub(crate) fn spells(
        &self,
        thread: impl Fn(WorkerId) -> Option<ThreadId>,
        books: &Books,
    ) -> Vec<(ThreadId, Vec<Spell>)> {
        let mut kept = self.kept();
        let workers = (0..).map(WorkerId).zip(&mut kept.entries).filter_map(|(worker, entry)| {
            let thread = thread(worker)?;
            let spells = std::mem::take(&mut entry.spells);
            // A worker that has tasks may hand on its present mask until the next call.
            let goes_on = |spell: &&Spell| {
                let lasts = spell.cores == entry.mask.cores() && entry.mask.is_narrow();
                lasts && books.is(worker, State::Awake)
            };
            entry.spells = spells.iter().filter(goes_on).copied().collect();
            Some((thread, spells))
        });
        workers.collect()
    }

    /// Returns the mask of a worker that asks for its own, and the cores that the system grants.
    pub(crate) fn of(&self, me: WorkerId) -> (Mask, CoreSet) {
        let kept = self.kept();
        (kept.entries[me.index()].mask, kept.granted)
    }

    /// Called on the worker's thread before it forks.
    pub(crate) fn forks(&self, me: WorkerId) {
        self.for_children[me.index()].forks();
    }

    /// Returns the mask that the program wants for the calling thread, if its worker was confined. Called in a forked
    /// child, on the thread that forked. Does not use the lock: another thread of the parent may hold it, and never
    /// releases it here.
    pub(crate) fn in_child(&self, me: WorkerId, found: CoreSet) -> Option<CoreSet> {
        self.for_children[me.index()].in_child(found)
    }
}

/// A narrow mask, and the mask that the program wants instead. `None`: all cores.
pub(crate) type Narrow = (CoreSet, Option<CoreSet>);

/// Lets the calling thread roam, if it inherited the narrow mask of the thread that started it.
pub(crate) fn widen(starter: Option<Narrow>) {
    let me = ThreadId::current();
    if let Some((narrow, own)) = starter
        && affinity::of(me) == narrow
    {
        affinity::confine(me, own.unwrap_or(CoreSet::ALL));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::channel;

    use comity_os::census::Stat;

    use super::*;

    /// Calls `test` with a thread that waits until the test is over.
    fn beside_a_thread(test: impl FnOnce(ThreadId)) {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let _ = ended.recv();
        });
        test(told.recv().unwrap());
        drop(end);
        thread.join().unwrap();
    }

    /// Returns all cores that this thread may use, and two of them. Prints a message and returns `None` if there is
    /// only one.
    fn two_cores() -> Option<(CoreSet, [CoreSet; 2])> {
        let all = affinity::of(ThreadId::current());
        let two = [all.iter().next()?, all.iter().last()?].map(|core| [core].into_iter().collect());
        if all.len() == 1 {
            println!("SKIPPED: it takes two cores");
            return None;
        }
        Some((all, two))
    }

    fn only(cores: CoreSet) -> usize {
        cores.iter().next().unwrap()
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_pulled_thread_has_its_mask_again_and_what_it_may_have_handed_on_is_known() {
        let (masks, worker) = (Masks::new(1), WorkerId(0));
        let all = affinity::of(ThreadId::current());
        beside_a_thread(|thread| {
            for core in all.iter().take(2) {
                assert_eq!(masks.pull(worker, thread, core, Some(Duration::ZERO)), Ok(()));
                assert_eq!(affinity::of(thread), all);
            }
            let narrow: Vec<CoreSet> = all.iter().take(2).map(|core| [core].into_iter().collect()).collect();
            let spells = masks.spells_of_pulls();
            if all.len() > 1 {
                assert_eq!(spells.iter().map(|spell| spell.cores).collect::<Vec<_>>(), narrow);
            }
            assert!(masks.spells_of_pulls().is_empty(), "none of them lasts");
            // A thread that has gone to sleep starts nothing either: its clock stands still.
            while Stat::of_thread(std::process::id(), thread.as_raw() as u32).is_none_or(|stat| stat.state != 'S') {
                std::thread::yield_now();
            }
            for core in all.iter().take(2) {
                assert_eq!(masks.pull(worker, thread, core, thread.cpu_time()), Ok(()));
            }
            assert!(masks.spells_of_pulls().is_empty());
            // A thief starts nothing.
            let last = all.iter().last().unwrap();
            assert_eq!(masks.pull(worker, thread, last, None), Ok(()));
            assert!(masks.spells_of_pulls().is_empty());
        });
    }

    #[test]
    fn a_thread_that_its_program_has_bound_is_pulled_nowhere_else() {
        let (masks, worker) = (Masks::new(1), WorkerId(0));
        let Some((_, [bound, other])) = two_cores() else { return };
        let pull = |thread, cores: CoreSet| masks.pull(worker, thread, only(cores), Some(Duration::ZERO));
        beside_a_thread(|thread| {
            assert_eq!(pull(thread, other), Ok(()));
            assert!(affinity::confine(thread, bound));
            assert_eq!(pull(thread, other), Err(NotMoved::Bound));
            assert_eq!(affinity::of(thread), bound);
            assert_eq!(pull(thread, bound), Ok(()));
            assert_eq!(affinity::of(thread), bound);
        });
    }

    #[test]
    fn a_forked_child_knows_a_mask_that_was_narrow_at_any_time_of_the_fork() {
        let (all, narrow): (CoreSet, CoreSet) = ((0..4).collect(), [1].into_iter().collect());
        let masks = [Mask::default(), Mask::noted(None, Some(narrow))];
        // 1 if the mask is narrow: before the fork, in between, and when the kernel copies the memory.
        for [before, between, at_the_end] in [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]] {
            let for_child = ForChild::default();
            for_child.tell(&masks[1]);
            for_child.tell(&masks[before]);
            for_child.forks();
            for_child.tell(&masks[between]);
            for_child.tell(&masks[at_the_end]);
            let was_narrow = before + between + at_the_end > 0;
            assert_eq!(for_child.in_child(narrow), was_narrow.then_some(CoreSet::ALL), "{before}{between}{at_the_end}");
            assert_eq!(for_child.in_child(all), None);
        }
        // The mask becomes narrow twice, on different cores.
        let for_child = ForChild::default();
        for_child.forks();
        for core in [1, 3] {
            for_child.tell(&Mask::noted(None, Some([core].into_iter().collect())));
            for_child.tell(&masks[0]);
        }
        let other = |core| [core].into_iter().collect();
        assert_eq!([narrow, other(3), other(2)].map(|found| for_child.in_child(found).is_some()), [true, true, false]);
    }

    /// Sets masks in the middle of a pull.
    #[test]
    fn a_mask_that_another_sets_wins_and_one_that_a_cpuset_explains_does_not() {
        let Some((all, [first, last])) = two_cores() else { return };
        beside_a_thread(|thread| {
            let (mut entry, mut granted, for_child) = (Entry::default(), all, ForChild::default());
            let core = only(last);
            entry.moves(thread, &mut granted, core, true, &for_child).unwrap();
            assert!(affinity::confine(thread, first));
            entry.has_moved(thread, &mut granted, &for_child);
            assert_eq!((affinity::of(thread), entry.mask.own(), entry.mask.is_narrow()), (first, Some(first), false));

            let mut entry = Entry::default();
            assert!(affinity::confine(thread, all));
            entry.moves(thread, &mut granted, core, true, &for_child).unwrap();
            // The cpuset has left none of the mask's cores, so the thread may run on all cores of the cpuset.
            granted = all.iter().filter(|of| *of != core).collect();
            assert!(affinity::confine(thread, granted));
            assert!(entry.mask.explains(affinity::of(thread), granted));
            entry.has_moved(thread, &mut granted, &for_child);
            assert_eq!((affinity::of(thread), entry.mask.is_narrow()), (all, false));
        });
    }

    /// Checks each mask that the thread may have at that time, and pulls that succeed and that fail.
    #[test]
    fn what_a_coordinator_notes_in_the_midst_of_a_pull_holds_afterwards() {
        let Some((all, [first, last])) = two_cores() else { return };
        beside_a_thread(|thread| {
            let core = only(last);
            for (is_there, moves, cores) in [
                (false, true, Some(first)),
                (true, true, Some(first)),
                (true, true, Some(last)),
                (false, false, Some(first)),
                (false, true, None),
            ] {
                let (mut entry, mut granted, for_child) = (Entry::default(), all, ForChild::default());
                let Move { before, .. } = entry.moves(thread, &mut granted, core, true, &for_child).unwrap();
                let pull = || assert!(affinity::confine(thread, last));
                if is_there {
                    pull();
                }
                entry.confine(thread, &mut granted, cores, &for_child);
                match moves {
                    true => {
                        pull();
                        entry.has_moved(thread, &mut granted, &for_child);
                    }
                    false => entry.has_stayed(thread, before, &for_child),
                }
                let expected = cores.unwrap_or(all);
                assert_eq!((affinity::of(thread), entry.mask.own()), (expected, None), "{is_there} {moves} {cores:?}");
                assert!(affinity::confine(thread, all));
            }
        });
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_thread_that_is_gone_is_not_moved() {
        let (masks, worker) = (Masks::new(1), WorkerId(0));
        let core = affinity::of(ThreadId::current()).iter().next().unwrap();
        let gone = ThreadId::from_raw(1 << 23);
        assert_eq!(masks.pull(worker, gone, core, Some(Duration::ZERO)), Err(NotMoved::Gone));
        assert!(!masks.of(worker).0.is_narrow());
    }
}
