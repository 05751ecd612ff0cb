//! A pool's share of the machine: which workers have a core, by the core table.
//!
//! Under a policy that [shares cores](comity_policy::Share) a pool has as many workers awake as it holds cores, and always
//! at least one that is awake or that a task wakes. Each worker is in one of three states, written down in [`Books`] under
//! one lock, which is taken only where a worker falls asleep, wakes or retires, and by the coordinator:
//!
//! ```text
//!            fell_asleep                     retire (no core, and no task)
//!   Asleep ◀───────────── Awake ─────────────────────────────────────────▶ Retired
//!     │ ───────────────▶    ▲ ◀─────────────────────────────────────────      │
//!     │        woke         │    recall (a core), or business of its own      │
//!     └─────────────────────┼──── no core for any sleeper ──────────────────▶ │
//!     ◀─────────────────────┴──── a core is free ─────────────────────────────┘
//! ```
//!
//! A program that is alone in the table, or shares time, has no such limit: see `docs/decisions/0021`.
//!
//! A push may wake a sleeper, which then takes a core or retires; it never wakes one that has retired, so it costs nothing
//! while there is no core to be had. A worker in the middle of a task is never stopped. When its core was taken back, others take
//! its queue, its thread moves to the cores that are left, and it retires when it is without a task. What such a thread starts inherits
//! its mask, which `mender` puts right.
//!
//! *Why nobody is forgotten.* The books let a worker retire only if another is awake or asleep. One that is asleep is woken
//! by a task as in any pool (`sleep`). One that is awake finds tasks, or is kept: if it is off its core in a system
//! call, or runs a task that waits by looking, the coordinator recalls another in its place, core or no core.
//!
//! *Orders from outside.* A program may be asked for a number of cores, which bounds the room; and to rest. Then its pools are closed:
//! there is no room at all, so the last worker may retire too, with tasks queued. [`Share::reopen`] wakes every worker that rests.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use comity_os::affinity::{self, Mask};
use comity_os::census;
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, SharedCoreSet, lock};
use comity_policy::{Placement, Policy, Room, Sharing, Sleeper, WorkerId};

use crate::mender::Spell;
use crate::program::{Part, PoolId, Program, Standing};
use crate::raw::current;
use crate::sleep::{Sleep, Work};

/// Where a pool's cores come from: its program's part of the core table, or a model of it.
pub(crate) trait Cores {
    fn held(&self) -> CoreSet;
    /// Those of the program's other pools included.
    fn held_by_program(&self) -> CoreSet;
    fn claim(&self, own_only: bool) -> Option<usize>;
    fn take_back(&self) -> Option<usize>;
    fn release(&self, core: Option<usize>) -> Option<usize>;
    fn any_free(&self) -> bool;
    fn want(&self, wants: bool);
    fn decline(&self);
    fn is_core_wanted(&self) -> bool;
    fn note_lost(&self, cores: u32);
}

/// The pool whose share it is.
pub(crate) trait Pool: Work {
    fn sleep(&self) -> &Sleep;
    /// The worker's thread, once it has started.
    fn thread(&self, worker: WorkerId) -> Option<ThreadId>;
}

/// What a worker is, as the books have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Awake,
    Asleep,
    Retired,
}

/// One worker in the books.
struct Entry {
    state: State,
    /// The core that it was given. Only a name unless the policy binds workers to cores.
    core: Option<usize>,
    mask: Mask,
    /// See [`Share::masks`].
    for_child: Arc<ForChild>,
    /// Where its thread is to run, if not wherever its program wants.
    confined: Option<CoreSet>,
    /// The core that its thread was led to, since it is awake.
    led_to: Option<usize>,
    /// That was while it slept, and it frees itself when it is up.
    led: bool,
    /// The narrow masks that its thread has had since the last [`Share::spells`].
    spells: Vec<Spell>,
    /// A program's own thread, which comes and goes as it likes: it is in no count.
    adopted: bool,
}

/// What a forked child has to know of the mask of the thread that forked.
#[derive(Default)]
struct ForChild {
    is_narrow: AtomicBool,
    noted: SharedCoreSet,
    own: SharedCoreSet,
}

impl Entry {
    /// Learns what the worker's thread runs on. True if another has set that. What the system grants is asked anew before a mask
    /// counts as another's; as long as it is not known, no mask is touched.
    fn learn(&mut self, thread: ThreadId, granted: &mut CoreSet) -> bool {
        let found = affinity::of(thread);
        if granted.is_empty() || found.is_empty() {
            return false;
        }
        if !self.mask.explains(found, *granted) {
            *granted = affinity::granted();
        }
        let foreign = self.mask.learn(found, *granted);
        if foreign {
            self.tell_children();
        }
        foreign
    }

    /// Confines the worker's thread, or lets it roam as its program wants. Where that is refused, it runs where it ran.
    fn confine(&mut self, thread: ThreadId, granted: &mut CoreSet, cores: Option<CoreSet>) {
        if granted.is_empty() {
            return;
        }
        self.learn(thread, granted);
        self.confined = cores;
        let before = self.mask;
        let Some(mask) = self.mask.note(cores) else { return };
        self.begin_spell();
        // A child that is forked in between has one mask or the other, and both are noted as narrow if one is.
        if self.mask.is_narrow() {
            self.tell_children();
        }
        if !affinity::confine(thread, mask) {
            self.mask = before;
        }
        self.tell_children();
    }

    fn tell_children(&self) {
        let ForChild { is_narrow, noted, own } = &*self.for_child;
        self.mask.place().store(noted);
        self.mask.own().unwrap_or(CoreSet::ALL).store(own);
        is_narrow.store(self.mask.is_narrow(), Ordering::Release);
    }

    /// What starts from now on may inherit the mask.
    fn begin_spell(&mut self) {
        let (cores, own) = (self.mask.place(), self.mask.own());
        let is_known = self.spells.iter().any(|spell| spell.cores == cores && spell.own == own);
        // One that sleeps starts nothing.
        if self.mask.is_narrow() && !is_known && !self.led {
            self.spells.push(Spell { cores, own, since: census::now() });
        }
    }

    /// Leads the worker's thread to the core that the worker was given, if it may go there. The kernel alone would leave it where
    /// it ran or slept, behind another, and find the idle core some milliseconds later. One that sleeps stays confined until it is up
    /// and has no task yet; one that runs, for the moment in which it moves.
    fn lead(&mut self, thread: Option<ThreadId>, granted: &mut CoreSet, sleeps: bool) {
        if let Some((thread, core)) = thread.zip(self.core) {
            self.led = sleeps;
            self.confine(thread, granted, Some([core].into_iter().collect()));
            if !sleeps {
                self.confine(thread, granted, None);
            }
            self.led_to = Some(core);
        }
    }

    /// The worker is up, on its own thread.
    fn follow(&mut self, granted: &mut CoreSet) {
        if std::mem::take(&mut self.led) {
            self.confine(ThreadId::current(), granted, None);
        }
    }
}

/// Who has which core. Whatever changes here is brought up to date by [`Share::balance`] before the lock is given back.
pub(crate) struct Books {
    entries: Box<[Entry]>,
    awake: u32,
    retired: u32,
    /// Cores that this pool holds, as far as it knows: their owners may have taken some back.
    held: CoreSet,
    /// Awake workers that are off their cores in system calls, or stuck: they need none.
    pub(crate) off_core: u32,
    /// The cores that the system lets threads of this program use. None until that is known.
    granted: CoreSet,
    /// Those of them that the pool's program wants to use.
    pub(crate) may_use: CoreSet,
}

impl Books {
    fn set(&mut self, worker: WorkerId, state: State) {
        let entry = &mut self.entries[worker.index()];
        if entry.adopted {
            return;
        }
        let count = |books: &mut Books, state, change: i32| match state {
            State::Awake => books.awake = books.awake.wrapping_add_signed(change),
            State::Retired => books.retired = books.retired.wrapping_add_signed(change),
            State::Asleep => {}
        };
        let before = std::mem::replace(&mut entry.state, state);
        entry.led_to = None;
        count(self, before, -1);
        count(self, state, 1);
    }

    pub(crate) fn awake(&self) -> u32 {
        self.awake
    }

    pub(crate) fn retired(&self) -> u32 {
        self.retired
    }

    pub(crate) fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// The cores that workers have been given.
    fn cores_in_use(&self) -> CoreSet {
        let awake = self.entries.iter().filter(|entry| entry.state == State::Awake);
        awake.filter_map(|entry| entry.core).collect()
    }

    fn in_state(&self, state: State) -> impl Iterator<Item = WorkerId> {
        let entries = self.entries.iter().enumerate();
        entries.filter(move |(_, entry)| entry.state == state && !entry.adopted).map(|(nth, _)| WorkerId(nth as u32))
    }

    /// The workers that count.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> {
        let entries = self.entries.iter().enumerate().filter(|(_, entry)| !entry.adopted);
        entries.map(|(nth, _)| WorkerId(nth as u32))
    }

    /// Whether a worker's thread has a narrow mask, or has had one since [`Share::spells`].
    pub(crate) fn is_narrow(&self) -> bool {
        self.entries.iter().any(|entry| !entry.spells.is_empty())
    }

    pub(crate) fn is(&self, worker: WorkerId, state: State) -> bool {
        let entry = &self.entries[worker.index()];
        entry.state == state && !entry.adopted
    }
}

/// See the module.
pub(crate) struct Share<C = Part> {
    pub(crate) sharing: Sharing,
    /// The most cores that the pool can use: its workers, its affinity, its quota.
    most: AtomicU32,
    /// The program that the pool belongs to, once it has had a task.
    program: OnceLock<(Arc<Program>, PoolId)>,
    /// Whether `program` is there.
    enrolled: AtomicBool,
    books: Mutex<Books>,
    member: OnceLock<C>,
    /// Whether `member` is there. ThreadSanitizer cannot see the order that the lock above keeps.
    entered: AtomicBool,
    /// More workers are awake than there is room for: a thief that sees it retires.
    excess: AtomicBool,
    /// No other program wants cores.
    alone: AtomicBool,
    /// The program shares time: it holds no cores.
    by_time: AtomicBool,
    /// While one of the two is so, how many workers may be awake, but for those that need no core at the moment.
    breadth: AtomicU32,
    /// What the program was told from outside: so many workers may be awake, but for those that need no core at the moment.
    cap: AtomicU32,
    /// What the program has told the pool: so many workers may be awake.
    active: AtomicU32,
    /// The program rests: no worker begins a task, however many are queued.
    closed: AtomicBool,
    /// The pool has ended: what is left of it runs, and nothing closes it any more.
    over: AtomicBool,
    /// By worker. Beside the books, for a forked child to read, where their lock may be held for ever.
    masks: Box<[Arc<ForChild>]>,
    /// Some worker that is awake has no core: its queue may be mugged. See [`Share::without_core`].
    without_core: Box<[AtomicBool]>,
    anyone_without_core: AtomicBool,
}

impl<C: Cores> Share<C> {
    /// `None`: the operating system shares out time.
    pub(crate) fn new(policy: Policy, workers: u32, adopts: bool) -> Option<Share<C>> {
        let (sharing, _) = policy.sharing()?;
        let may_use = roams();
        let most = comity_os::cores::usable_of(may_use.len()).get().min(workers as usize);
        let masks: Box<[Arc<ForChild>]> = (0..workers).map(|_| Arc::default()).collect();
        let entry = |nth: u32| Entry {
            state: State::Awake,
            core: None,
            mask: Mask::default(),
            for_child: Arc::clone(&masks[nth as usize]),
            confined: None,
            led_to: None,
            led: false,
            spells: Vec::new(),
            adopted: adopts && nth == 0,
        };
        let entries: Box<[Entry]> = (0..workers).map(entry).collect();
        let awake = entries.iter().filter(|entry| !entry.adopted).count() as u32;
        Some(Share {
            sharing,
            most: AtomicU32::new(most.max(1) as u32),
            program: OnceLock::new(),
            enrolled: AtomicBool::new(false),
            masks,
            books: Mutex::new(Books {
                entries,
                awake,
                retired: 0,
                held: CoreSet::EMPTY,
                off_core: 0,
                granted: CoreSet::EMPTY,
                may_use,
            }),
            member: OnceLock::new(),
            entered: AtomicBool::new(false),
            excess: AtomicBool::new(false),
            alone: AtomicBool::new(true),
            by_time: AtomicBool::new(false),
            breadth: AtomicU32::new(u32::MAX),
            cap: AtomicU32::new(u32::MAX),
            active: AtomicU32::new(u32::MAX),
            closed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            without_core: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            anyone_without_core: AtomicBool::new(false),
        })
    }

    /// The pool belongs to this program.
    pub(crate) fn enroll(&self, program: Arc<Program>, pool: PoolId) {
        self.program.get_or_init(|| (program, pool));
        self.enrolled.store(true, Ordering::Release);
    }

    pub(crate) fn program(&self) -> Option<&(Arc<Program>, PoolId)> {
        if self.enrolled.load(Ordering::Acquire) { self.program.get() } else { None }
    }

    /// Begins to take part: from now on cores count.
    pub(crate) fn enter(&self, member: C) -> &C {
        let member = self.member.get_or_init(|| member);
        self.entered.store(true, Ordering::Release);
        member
    }

    pub(crate) fn member(&self) -> Option<&C> {
        if self.entered.load(Ordering::Acquire) { self.member.get() } else { None }
    }

    pub(crate) fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        lock(&self.books)
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    pub(crate) fn is_by_time(&self) -> bool {
        self.by_time.load(Ordering::Relaxed)
    }

    /// Whether the number of held cores does not say how many workers may be awake, nor where.
    pub(crate) fn is_free(&self) -> bool {
        self.is_alone() || self.is_by_time()
    }

    /// The most cores that the pool can use.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed).min(self.active.load(Ordering::Relaxed))
    }

    /// Whether no worker may begin a task.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed)
    }

    /// The pool ends: from now on it is open. To be followed by a wake-up of every worker.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// How the pool's program stands from now on. To be followed by [`Share::employ`].
    pub(crate) fn stand(&self, standing: Standing) {
        let Standing { alone, by_time, room, usable, cap, closed } = standing;
        self.set_alone(alone);
        self.by_time.store(by_time, Ordering::Relaxed);
        let most = usable.min(self.masks.len() as u32).max(1);
        self.most.store(most, Ordering::Relaxed);
        let breadth = match room {
            Room::Workers => u32::MAX,
            Room::Cores => most,
            Room::One => 1,
        };
        self.breadth.store(breadth, Ordering::Relaxed);
        self.cap.store(cap, Ordering::Relaxed);
        self.closed.store(closed, Ordering::Release);
    }

    /// How many workers may be awake.
    fn room(&self, books: &Books) -> u32 {
        if self.is_closed() {
            return 0;
        }
        let workers = books.entries.len() as u32;
        let room = match self.sharing.sleeper {
            _ if self.member().is_none() => workers,
            _ if !(self.sharing.plain_alone && self.is_free()) => books.held().max(1) + books.off_core,
            // No worker too many takes anything from another program's cores, so the room grows fast.
            Sleeper::LendsCore => self.breadth.load(Ordering::Relaxed).saturating_add(2 * books.off_core).min(workers),
            Sleeper::KeepsCore | Sleeper::LeavesCore => workers,
        };
        let cap = self.cap.load(Ordering::Relaxed).saturating_add(books.off_core);
        room.min(cap).min(self.active.load(Ordering::Relaxed))
    }

    /// Whether a push may wake a worker that finds room.
    fn wakes_by_push(&self) -> bool {
        self.sharing.sleeper == Sleeper::LendsCore && self.is_free()
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    // ---- What workers tell, as thieves. ----

    /// Whether a thief should retire.
    #[inline]
    pub(crate) fn has_excess(&self) -> bool {
        self.excess.load(Ordering::Relaxed)
    }

    /// Whether another program waits for a core.
    pub(crate) fn is_core_wanted(&self) -> bool {
        !self.is_alone() && self.member().is_some_and(C::is_core_wanted)
    }

    /// The worker was admitted to sleep: its core is free, unless the policy keeps it.
    pub(crate) fn fell_asleep(&self, pool: &impl Pool, me: WorkerId) {
        let mut books = self.books();
        books.set(me, State::Asleep);
        self.let_go(&mut books, me);
        self.balance(&mut books, pool);
    }

    /// The worker is up again. `Retire`: there is no core for it, and it has no business of its own.
    pub(crate) fn woke(&self, pool: &impl Pool, me: WorkerId, has_business: bool) -> Up {
        let mut books = self.books();
        let books_of_all = &mut *books;
        let entry = &mut books_of_all.entries[me.index()];
        entry.follow(&mut books_of_all.granted);
        // One that slept with a narrow mask has tasks again.
        entry.begin_spell();
        if !books.is(me, State::Awake) {
            books.set(me, State::Awake);
            self.take_core(&mut books, me);
        }
        self.balance(&mut books, pool);
        let stays = has_business || books.awake <= self.room(&books) || !self.may_retire(&books, me);
        drop(books);
        if let Some((program, _)) = self.program().filter(|(program, _)| program.is_dormant()) {
            program.poke();
        }
        if stays { Up::Stays } else { Up::Retires }
    }

    /// The worker, a thief, is one too many, or with `by_itself` wants no core: from now on it is retired, and must go on with
    /// [`Sleep::pass_on`](crate::sleep::Sleep::pass_on). False: it is needed.
    pub(crate) fn retire(&self, pool: &impl Pool, me: WorkerId, by_itself: bool) -> bool {
        let mut books = self.books();
        let is_surplus = books.awake > self.room(&books);
        if !self.may_retire(&books, me) || !(by_itself || is_surplus) {
            return false;
        }
        if is_surplus && self.sharing.sleeper == Sleeper::LendsCore {
            // Nor is there a core for those whom the next pushes would wake.
            Self::retire_sleepers(&mut books, pool);
        }
        // Within the lock: who recalls it must find it at rest.
        pool.sleep().retire(me);
        books.set(me, State::Retired);
        self.let_go(&mut books, me);
        self.balance(&mut books, pool);
        true
    }

    fn retire_sleepers(books: &mut Books, pool: &impl Pool) {
        let sleepers: Vec<WorkerId> = books.in_state(State::Asleep).collect();
        for sleeper in sleepers {
            if pool.sleep().retire_sleeper(sleeper) {
                books.set(sleeper, State::Retired);
            }
        }
    }

    /// Whether another worker is awake, or asleep such that a task wakes it; or none is to be, until the pool is opened again. Where there
    /// is no coordinator to recall it, only one that is too many retires.
    fn may_retire(&self, books: &Books, me: WorkerId) -> bool {
        if self.is_closed() {
            return true;
        }
        let mut others = books.in_state(State::Awake).chain(books.in_state(State::Asleep));
        let is_recalled = self.member().is_some() || books.awake > self.room(books);
        is_recalled && others.any(|worker| worker != me)
    }

    /// The worker needs no core any more.
    fn let_go(&self, books: &mut Books, me: WorkerId) {
        let core = books.entries[me.index()].core.take();
        let Some(member) = self.member() else { return };
        // A pool that nobody works in holds nothing.
        if self.sharing.sleeper == Sleeper::KeepsCore && books.awake > 0 {
            return;
        }
        let mut own = core;
        while books.held() > books.awake {
            let used = books.cores_in_use();
            let core = own.take().or_else(|| books.held.iter().find(|core| !used.contains(*core)));
            // If it cannot be released its owner has taken it back, and the books learn what else is lost.
            if !self.release(books, member, core) && self.note_losses(books, member) == 0 {
                return;
            }
        }
    }

    /// A core for a worker that is awake, if there is one to be had.
    fn take_core(&self, books: &mut Books, me: WorkerId) {
        let Some(member) = self.member() else { return };
        if books.held() < books.awake
            && books.held() < self.most()
            && !self.is_by_time()
            && let Some(core) = member.claim(self.sharing.own_only).or_else(|| member.take_back())
        {
            books.held.insert(core);
        }
        let used = books.cores_in_use();
        books.entries[me.index()].core = books.held.iter().find(|core| !used.contains(*core));
    }

    // ---- What the coordinator does, with the lock. ----

    /// Where the threads of the pool's program may run by now, of which the system grants `granted`.
    pub(crate) fn look_at_masks(&self, books: &mut Books, pool: &impl Pool, granted: CoreSet) {
        books.granted = granted;
        let mut may_use = CoreSet::EMPTY;
        let Books { entries, granted, may_use: known, .. } = books;
        let counted = entries.iter_mut().enumerate().filter(|(_, entry)| !entry.adopted);
        for (nth, entry) in counted {
            let Some(thread) = pool.thread(WorkerId(nth as u32)) else { continue };
            if entry.learn(thread, granted) {
                entry.confine(thread, granted, entry.confined);
            }
            may_use = may_use.union(entry.mask.roams(*granted));
        }
        if !may_use.is_empty() {
            *known = may_use;
        }
    }

    /// All narrow masks that workers have had since the last time, of a pool that has ended.
    pub(crate) fn all_spells(&self, books: &mut Books) -> Vec<Spell> {
        books.entries.iter_mut().flat_map(|entry| std::mem::take(&mut entry.spells)).collect()
    }

    /// The workers' threads, each with the narrow masks that it has had since the last time.
    pub(crate) fn spells(&self, books: &mut Books, pool: &impl Pool) -> Vec<(ThreadId, Vec<Spell>)> {
        let workers = books.entries.iter_mut().enumerate().filter_map(|(nth, entry)| {
            let thread = pool.thread(WorkerId(nth as u32))?;
            let spells = std::mem::take(&mut entry.spells);
            // What it has now it may hand on until the next time, if it has tasks.
            let goes_on = |spell: &&Spell| {
                let lasts = spell.cores == entry.mask.place() && entry.mask.is_narrow();
                lasts && entry.state == State::Awake
            };
            entry.spells = spells.iter().filter(goes_on).copied().collect();
            Some((thread, spells))
        });
        workers.collect()
    }

    /// Cores that the table says are no longer this pool's.
    pub(crate) fn note_losses(&self, books: &mut Books, member: &C) -> u32 {
        let lost = self.note_moves(books, member);
        if lost > 0 {
            member.note_lost(lost);
            self.set_alone(false);
        }
        lost
    }

    /// The same, of cores that the program's other pools were given.
    pub(crate) fn note_moves(&self, books: &mut Books, member: &C) -> u32 {
        let before = books.held;
        books.held = member.held();
        let lost: Vec<usize> = before.iter().filter(|core| !books.held.contains(*core)).collect();
        for entry in &mut books.entries {
            if entry.core.is_some_and(|core| lost.contains(&core)) {
                entry.core = None;
            }
        }
        lost.len() as u32
    }

    /// Claims a core that nobody uses.
    pub(crate) fn claim(&self, books: &mut Books, member: &C, own_only: bool) -> bool {
        let claimed = (books.held() < self.most() && !self.is_by_time()).then(|| member.claim(own_only)).flatten();
        claimed.inspect(|core| books.held.insert(*core)).is_some()
    }

    /// Takes a core back.
    pub(crate) fn take_back(&self, books: &mut Books, member: &C) -> bool {
        let taken = (books.held() < self.most() && !self.is_by_time()).then(|| member.take_back()).flatten();
        taken.inspect(|core| books.held.insert(*core)).is_some()
    }

    /// Releases a core, `core` or any.
    pub(crate) fn release(&self, books: &mut Books, member: &C, core: Option<usize>) -> bool {
        let released = member.release(core);
        if let Some(released) = released {
            books.held.remove(released);
            for entry in &mut books.entries {
                entry.core = entry.core.filter(|core| *core != released);
            }
        }
        released.is_some()
    }

    /// A core was taken back, or there is one to be had. True: some were taken back.
    pub(crate) fn rung(&self, books: &mut Books, pool: &impl Pool, queued: usize) -> bool {
        let Some(member) = self.member() else { return false };
        let lends = self.sharing.sleeper == Sleeper::LendsCore;
        let lost = self.note_losses(books, member) > 0;
        if !lost && !lends {
            return false;
        }
        if lends {
            let wanted = queued.min(books.retired() as usize);
            (0..wanted).take_while(|_| self.claim(books, member, false)).for_each(drop);
        }
        self.employ(books, pool, queued);
        lost
    }

    /// A worker for each core, if there are any, and no core without one unless the policy keeps it.
    ///
    /// In a closed pool nobody: its sleepers retire, and those in the middle of a task do so when they fork.
    pub(crate) fn employ(&self, books: &mut Books, pool: &impl Pool, queued: usize) {
        let Some(member) = self.member() else { return };
        if self.is_closed() {
            Self::retire_sleepers(books, pool);
            if books.awake() > 0 {
                pool.ring_bells();
            }
        }
        if self.sharing.sleeper != Sleeper::KeepsCore {
            // For those who are awake without one.
            let most = books.awake().min(self.most());
            while books.held() < most
                && (self.claim(books, member, self.sharing.own_only) || self.take_back(books, member))
            {}
        }
        if self.wakes_by_push() {
            self.restore_hunger(books, pool);
        } else {
            self.recall(books, pool, queued);
        }
        if queued > 0 && books.awake() == 0 && !self.is_closed() {
            // Whoever is asleep takes a core when it wakes.
            pool.sleep().wake_peer(WorkerId(books.entries.len() as u32 - 1), None, false);
        }
        if self.sharing.sleeper != Sleeper::KeepsCore || self.is_closed() {
            let needed = if self.is_by_time() { 0 } else { books.awake() };
            let idle_cores = books.held().saturating_sub(needed);
            (0..idle_cores).take_while(|_| self.release(books, member, None)).for_each(drop);
        }
        self.balance(books, pool);
    }

    /// The pool is open again: wakes every worker that rests. One that rests in the middle of a task goes on; any other looks for tasks, or
    /// retires if there is no room for it.
    pub(crate) fn reopen(&self, pool: &impl Pool) {
        // Who retired because the pool was closed has done so in an earlier section of this lock, and is found at rest below; who comes
        // later finds the pool open. See the runtime's README, Claim 7.
        drop(self.books());
        (0..self.masks.len() as u32).for_each(|worker| pool.sleep().wake_for_business(WorkerId(worker)));
    }

    /// From now on at most `most` of the pool's workers are awake, of `queued` tasks that wait.
    pub(crate) fn set_active(&self, pool: &impl Pool, most: u32, queued: usize) {
        let mut books = self.books();
        self.active.store(most, Ordering::Relaxed);
        if self.member().is_some() {
            self.employ(&mut books, pool, queued);
        } else if self.sharing.sleeper == Sleeper::LendsCore {
            self.restore_hunger(&mut books, pool);
        } else {
            self.recall(&mut books, pool, queued);
        }
        self.balance(&mut books, pool);
    }

    /// Recalls workers as long as there are cores for them, and in the place of those who need none while there are tasks.
    fn recall(&self, books: &mut Books, pool: &impl Pool, queued: usize) {
        let room = if queued > 0 || self.is_free() { self.room(books) } else { books.held().max(1) };
        while books.awake < room {
            let used = books.cores_in_use();
            let core = books.held.iter().find(|core| !used.contains(*core));
            // The one whose place in the pool is the core's place among the cores, so that workers stay where they were.
            let place = core.map(|core| books.may_use.iter().take_while(|other| *other < core).count());
            let preferred = place.map(|place| WorkerId((place % books.entries.len()) as u32));
            let preferred = preferred.filter(|worker| books.in_state(State::Retired).any(|retired| retired == *worker));
            let Some(worker) = preferred.or_else(|| books.in_state(State::Retired).next()) else { break };
            // In the books first: it may be up before this goes on. Its thread moves before it wakes.
            books.set(worker, State::Awake);
            books.entries[worker.index()].core = core;
            if self.sharing.placement == Placement::Anywhere {
                self.know_what_is_granted(books);
                let Books { entries, granted, .. } = books;
                entries[worker.index()].lead(pool.thread(worker), granted, true);
            } else {
                self.place(books, pool);
            }
            // If it cannot be recalled, it was woken for business of its own, and is up.
            pool.sleep().recall(worker);
        }
    }

    /// Makes those who have retired hungry again, as many as there might be cores for, should they have work.
    fn restore_hunger(&self, books: &mut Books, pool: &impl Pool) {
        let hungry = books.awake + books.in_state(State::Asleep).count() as u32;
        let room = if self.is_free() { self.room(books) } else { self.most() };
        let retired = books.in_state(State::Retired).take(room.saturating_sub(hungry) as usize);
        let retired: Vec<WorkerId> = retired.collect();
        for worker in &retired {
            books.set(*worker, State::Asleep);
        }
        pool.sleep().restore_hunger(retired.into_iter(), pool);
    }

    /// Brings up to date what thieves look at, and where threads may run.
    pub(crate) fn balance(&self, books: &mut Books, pool: &impl Pool) {
        let Some(member) = self.member() else {
            self.excess.store(books.awake > self.room(books), Ordering::Relaxed);
            return;
        };
        if self.sharing.sleeper == Sleeper::LendsCore {
            self.ask_for_cores(books, pool, member);
        }
        self.excess.store(books.awake > self.room(books), Ordering::Relaxed);
        self.place(books, pool);
    }

    /// Says in the table whether a core is wanted. Without it nobody who has one to spare would ring.
    fn ask_for_cores(&self, books: &mut Books, pool: &impl Pool, member: &C) {
        let is_short = books.awake() > books.held();
        let wants = (is_short || books.retired() > 0) && books.held() < self.most() && !self.wakes_by_push();
        member.want(wants);
        // Asked after it is known to want one: who releases a core later rings.
        if wants && books.retired() > 0 && member.any_free() {
            self.restore_hunger(books, pool);
            member.want(is_short);
            if !pool.deques_have_task() && !pool.injector_has_task() {
                // Others may have some.
                member.decline();
            }
        }
    }

    /// A pool that came later learns it from its program.
    fn know_what_is_granted(&self, books: &mut Books) {
        if books.granted.is_empty()
            && let Some((program, _)) = self.program()
        {
            books.granted = CoreSet::load(&program.granted);
        }
    }

    /// Which awake workers have no core, and where the threads of all run.
    fn place(&self, books: &mut Books, pool: &impl Pool) {
        let used = books.cores_in_use();
        self.know_what_is_granted(books);
        let (held, free) = (books.held, self.is_free());
        let mut spare = held.iter().filter(|core| !used.contains(*core));
        // A pool that has no core shares those of its program's others.
        let held = if held.is_empty() && !free { self.member().map_or(held, C::held_by_program) } else { held };
        let crowded = books.awake > self.room(books);
        let mut anyone = false;
        let Books { entries, granted, .. } = books;
        let awake = entries.iter_mut().enumerate();
        for (nth, entry) in awake.filter(|(_, entry)| entry.state == State::Awake && !entry.adopted) {
            entry.core = entry.core.or_else(|| spare.next());
            let without = entry.core.is_none() && !held.is_empty() && !free;
            self.without_core[nth].store(without, Ordering::Relaxed);
            anyone |= without;
            let confined = match (self.sharing.placement, entry.core) {
                _ if free || held.is_empty() => None,
                (Placement::Anywhere, _) => crowded.then_some(held),
                (Placement::OnePerCore, Some(core)) => Some([core].into_iter().collect()),
                (Placement::WithinCores | Placement::OnePerCore, _) => Some(held),
            };
            let thread = pool.thread(WorkerId(nth as u32));
            if confined != entry.confined
                && !entry.led
                && let Some(thread) = thread
            {
                entry.confine(thread, granted, confined);
            }
            if confined.is_none() && !free && !entry.led && entry.core.is_some() && entry.led_to != entry.core {
                entry.lead(thread, granted, false);
            }
        }
        self.anyone_without_core.store(anyone, Ordering::Relaxed);
    }

    /// Workers whose queue a thief may take over.
    pub(crate) fn without_core(&self) -> impl Iterator<Item = WorkerId> + '_ {
        let anyone = self.anyone_without_core.load(Ordering::Relaxed);
        let workers = self.without_core.iter().enumerate().filter(move |_| anyone);
        workers.filter(|(_, without)| without.load(Ordering::Relaxed)).map(|(nth, _)| WorkerId(nth as u32))
    }
}

/// A narrow mask, and what the program wants instead; `None`: all cores.
pub(crate) type Narrow = (CoreSet, Option<CoreSet>);

/// The mask of the calling thread, if it is a worker's, with the cores that the system grants it; `None` also where the program has
/// just set another.
fn narrow_mask() -> Option<(Mask, CoreSet)> {
    current::with(|worker| {
        let worker = worker?;
        let books = worker.shared().share.as_ref()?.books();
        let mask = books.entries[worker.id().index()].mask;
        let is_ours = mask.is_narrow() && mask.explains(affinity::of(ThreadId::current()), books.granted);
        is_ours.then_some((mask, books.granted))
    })
}

/// Whether the calling thread is a worker's that was confined: what it starts is not to stay there for ever.
pub(crate) fn narrow() -> Option<Narrow> {
    narrow_mask().map(|(mask, _)| (affinity::of(ThreadId::current()), mask.own()))
}

/// The calling thread roams if it was started by one that is narrow.
pub(crate) fn widen(starter: Option<Narrow>) {
    let me = ThreadId::current();
    if let Some((narrow, own)) = starter
        && affinity::of(me) == narrow
    {
        affinity::confine(me, own.unwrap_or(CoreSet::ALL));
    }
}

/// Where the calling thread runs of its own accord.
pub(crate) fn roams() -> CoreSet {
    let as_worker = narrow_mask().map(|(mask, granted)| mask.roams(granted));
    as_worker.unwrap_or_else(|| affinity::of(ThreadId::current()))
}

/// Runs in each forked child, on the thread that forked.
pub(crate) fn in_child() {
    let me = ThreadId::current();
    let own = current::with(|worker| {
        let worker = worker?;
        // Not from the books: a lock that another thread of the parent's has is never given back here.
        let mask = &worker.shared().share.as_ref()?.masks[worker.id().index()];
        let found = affinity::of(me);
        let is_ours = CoreSet::load(&mask.noted).intersection(found) == found;
        (mask.is_narrow.load(Ordering::Acquire) && is_ours).then(|| CoreSet::load(&mask.own))
    });
    if let Some(own) = own {
        affinity::confine(me, own);
    }
}

/// What a worker does that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    Stays,
    Retires,
}
