//! The affinity masks of a pool's worker threads: which mask a thread has, who set it, and which threads and
//! processes have inherited it.
//!
//! The books (`comity_protocol::activation`), the record of each worker's state, decide on which cores a worker's
//! thread must run. The functions here confine the thread to these cores: its mask is then *narrow*. A mask that the
//! thread itself or an administrator has set takes precedence: see [`Mask`] and `docs/decisions/0023`. A thread or
//! process that is started under a narrow mask inherits it; `mender` corrects that.
//!
//! The masks have a lock of their own, because a thread that asks for its own mask does not need the books. A thread
//! that needs both locks takes the books' lock first.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use comity_os::affinity::{self, Mask, NotSet};
use comity_os::census;
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, SharedCoreSet, lock};
use comity_policy::WorkerId;
use comity_protocol::activation::{Books, State};

/// The maximum number of successive cpuset changes that [`Entry::learn`] follows. After them, a mask that it cannot
/// explain counts as set by the program or an administrator.
const CHANGES: u32 = 8;

/// The masks of one pool's workers.
pub(crate) struct Masks {
    kept: Mutex<Kept>,
    /// The data for forked children, by worker. It is outside of the lock, because in a forked child the lock may be
    /// held for ever.
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
    /// The program, an administrator, a cpuset or the books confine the thread to other cores.
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

/// A move of a thread to a core, while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    before: Mask,
    spell: Option<Spell>,
}

/// The masks of one worker.
#[derive(Default)]
struct Entry {
    mask: Mask,
    /// The mask that the thread gets after a pull. `None` while the thread is not pulled.
    pulled: Option<Mask>,
    /// True if the thread was confined while it slept, and has not been awake since.
    sleeps: bool,
    /// The narrow masks that the thread has had since the last [`Masks::spells`].
    spells: Vec<Spell>,
}

/// The data from which a forked child learns if it inherited a narrow mask. During a fork, the kernel copies the mask
/// first and the memory later. So the child may have any mask that the thread had during the fork.
#[derive(Default)]
struct ForChild {
    is_narrow: AtomicBool,
    /// The number of narrow masks that the thread has been given.
    narrowed: AtomicU32,
    /// The value of `narrowed - is_narrow` when the last fork began. Only the worker's thread uses it.
    at_fork: AtomicU32,
    /// The last narrow masks, mask number n at index `n % NARROWED`. `own` is the mask that the program wanted
    /// instead of the last one.
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

    /// Records the state before a fork. `narrowed` is read first, so that the child also considers a mask that
    /// becomes narrow between the two loads.
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
    /// Reads the mask of the worker's thread. Returns true if the program or an administrator has set another mask.
    /// The cores that the system grants are read again first, because a changed cpuset may explain the mask. Learns
    /// nothing and returns false in three cases: the granted cores are unknown, this program may no longer set masks,
    /// or a pull is under way, when the thread may have the old or the new mask.
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
            // The mask is read again, because the cpuset may have changed after the first reading.
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

    /// Confines the worker's thread to `cores`. `None`: gives it the mask that its program wants. If the kernel
    /// refuses, the thread keeps its mask. Called only when the granted cores are known.
    fn confine(&mut self, thread: ThreadId, granted: &mut CoreSet, cores: Option<CoreSet>, for_child: &ForChild) {
        if let Some(pulled) = &mut self.pulled {
            // The thief that pulls the thread sets this mask at the end of the pull.
            pulled.note(cores);
            return;
        }
        self.learn(thread, granted, for_child);
        let before = self.mask;
        let Some(mask) = self.mask.note(cores) else { return };
        self.begin_spell();
        // A child that is forked during this step has the old or the new mask. If one of the masks is narrow, the
        // state for children is narrow during the whole step.
        if self.mask.is_narrow() {
            for_child.tell(&self.mask);
        }
        if !affinity::confine(thread, mask) {
            self.mask = before;
        }
        for_child.tell(&self.mask);
    }

    /// Begins a move of the thread to `core`. [`Entry::has_moved`] restores its mask afterwards. `has_task` is true
    /// if the thread may start threads or processes meanwhile, which inherit the narrow mask.
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

    /// Ends a move. If the program or an administrator has set a mask during the move, that mask stays. Otherwise the
    /// thread gets the mask that it had before the move, or the mask that [`Entry::confine`] has noted during the
    /// move.
    fn has_moved(&mut self, thread: ThreadId, granted: &mut CoreSet, for_child: &ForChild) {
        let after = self.pulled.take().unwrap_or_default();
        if !self.learn(thread, granted, for_child) {
            self.mask = after;
            // The kernel refuses a mask if the cpuset allows none of its cores. The thread then gets all cores that
            // the cpuset allows.
            if !affinity::confine(thread, after.cores()) {
                affinity::confine(thread, CoreSet::ALL);
            }
        }
        for_child.tell(&self.mask);
    }

    /// Ends a move that the kernel refused. Sets a mask only if [`Entry::confine`] has noted another one during the
    /// move.
    fn has_stayed(&mut self, thread: ThreadId, before: Mask, for_child: &ForChild) {
        self.mask = before;
        if let Some(after) = self.pulled.take().filter(|after| *after != before) {
            self.mask = if affinity::confine(thread, after.cores()) { after } else { before };
        }
        for_child.tell(&self.mask);
    }

    /// Begins a [`Spell`] if the mask is narrow: a thread or process that the thread starts from now on inherits the
    /// mask. Returns the spell if it is new.
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

    /// Removes a [`Spell`] in which no thread or process has inherited the mask. The mender then does not change a
    /// thread that has been given the same mask by the program.
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

    /// Takes the [`Spell`]s of all workers since the last call, in a pool whose workers are pulled and never
    /// confined. The spell of a mask that is still narrow is returned by the next call too, because threads may still
    /// inherit the mask.
    pub(crate) fn spells_of_pulls(&self) -> Vec<Spell> {
        let of = |entry: &mut Entry| {
            let (cores, is_narrow) = (entry.mask.cores(), entry.mask.is_narrow());
            let spells = std::mem::take(&mut entry.spells);
            entry.spells = spells.iter().filter(|spell| is_narrow && spell.cores == cores).copied().collect();
            spells
        };
        self.kept().entries.iter_mut().flat_map(of).collect()
    }

    /// Takes the [`Spell`]s of all workers since the last call, in a pool that has ended.
    pub(crate) fn all_spells(&self) -> Vec<Spell> {
        self.kept().entries.iter_mut().flat_map(|entry| std::mem::take(&mut entry.spells)).collect()
    }
}

/// Functions that are called without the books' lock.
impl Masks {
    /// Moves the worker's thread to `core`, where it stays until the kernel moves it again. The thread's mask is
    /// narrow while it moves. If the calling thread loses its core during the move, the mask stays narrow until the
    /// calling thread runs again. The lock is not held during the move, because a
    /// [`Candidate`](crate::cores::candidate::Candidate) is pulled by one thread at a time. If the coordinator
    /// confines the worker during the move, that mask is set at the end of the move.
    ///
    /// `clock` is the processor time of a worker that has a task. `None` for a thief, which starts no threads or
    /// processes. If the clock stands still during the move, the worker has not run, and the move leaves no
    /// [`Spell`].
    ///
    /// If a thread moves itself, the call returns when the kernel runs the thread on the other core.
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

    /// Moves the worker's thread to `core`, like [`Pool::lead`](comity_protocol::activation::Pool::lead). If `sleeps`
    /// is false, the thread is confined only while it moves.
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

    /// Calls `set` with the worker's entry. Does nothing and returns false if the granted cores are unknown: neither
    /// stored here nor returned by `known`.
    fn set(
        &self,
        worker: WorkerId,
        known: impl FnOnce() -> CoreSet,
        set: impl FnOnce(&mut Entry, &mut CoreSet, &ForChild),
    ) -> bool {
        let mut kept = self.kept();
        let Kept { entries, granted } = &mut *kept;
        // A pool at which the coordinator has not looked yet learns the granted cores from its program.
        if granted.is_empty() {
            *granted = known();
        }
        let is_known = !granted.is_empty();
        if is_known {
            set(&mut entries[worker.index()], granted, &self.for_children[worker.index()]);
        }
        is_known
    }

    /// Records that the worker is awake, like [`Pool::up`](comity_protocol::activation::Pool::up). If it slept with a
    /// narrow mask, threads that it starts from now on inherit the mask.
    pub(crate) fn is_up(&self, worker: WorkerId) {
        let entry = &mut self.kept().entries[worker.index()];
        entry.sleeps = false;
        entry.begin_spell();
    }

    /// Reads the masks of all workers' threads, and stores in `books.may_use` the cores on which the program lets
    /// them run. `granted`: the cores that the system grants.
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

    /// Takes the [`Spell`]s of each worker's thread since the last call.
    pub(crate) fn spells(
        &self,
        thread: impl Fn(WorkerId) -> Option<ThreadId>,
        books: &Books,
    ) -> Vec<(ThreadId, Vec<Spell>)> {
        let mut kept = self.kept();
        let workers = (0..).map(WorkerId).zip(&mut kept.entries).filter_map(|(worker, entry)| {
            let thread = thread(worker)?;
            let spells = std::mem::take(&mut entry.spells);
            // While an awake worker has the mask of a spell, the next call returns the spell too: threads may still
            // inherit the mask.
            let goes_on = |spell: &&Spell| {
                let lasts = spell.cores == entry.mask.cores() && entry.mask.is_narrow();
                lasts && books.is(worker, State::Awake)
            };
            entry.spells = spells.iter().filter(goes_on).copied().collect();
            Some((thread, spells))
        });
        workers.collect()
    }

    /// Returns the mask of the calling worker, and the cores that the system grants.
    pub(crate) fn of(&self, me: WorkerId) -> (Mask, CoreSet) {
        let kept = self.kept();
        (kept.entries[me.index()].mask, kept.granted)
    }

    /// Called on the worker's thread before it forks.
    pub(crate) fn forks(&self, me: WorkerId) {
        self.for_children[me.index()].forks();
    }

    /// Returns the mask that the program wants for the calling thread, if its worker was confined. Called in a forked
    /// child, on the thread that forked. Does not use the lock: a thread that exists only in the parent may hold it,
    /// and the child's copy is never released.
    pub(crate) fn in_child(&self, me: WorkerId, found: CoreSet) -> Option<CoreSet> {
        self.for_children[me.index()].in_child(found)
    }
}

/// A narrow mask, and the mask that the program wants instead. `None`: all cores.
pub(crate) type Narrow = (CoreSet, Option<CoreSet>);

/// Gives the calling thread the mask that the program wants, if it inherited `starter`, the narrow mask of the thread
/// that started it.
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

    /// Returns all cores that this thread may use, and two of them. Prints a message and returns `None` if this
    /// thread may use only one core.
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
            // A sleeping thread starts no thread either: its clock stands still, so its spells are removed.
            while Stat::of_thread(std::process::id(), thread.as_raw() as u32).is_none_or(|stat| stat.state != 'S') {
                std::thread::yield_now();
            }
            for core in all.iter().take(2) {
                assert_eq!(masks.pull(worker, thread, core, thread.cpu_time()), Ok(()));
            }
            assert!(masks.spells_of_pulls().is_empty());
            // A pull of a thief begins no spell, because a thief starts no thread.
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
        // Each number is 1 if the mask is narrow at that time: before the fork, in between, or when the kernel copies
        // the memory.
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

    /// Confines a thread during a pull: for each mask that the thread may have at that time, and for pulls that
    /// succeed or fail.
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
