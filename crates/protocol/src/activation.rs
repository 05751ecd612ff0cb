//! Which workers of a pool are awake, and on which cores: the pool's activation.
//!
//! Under a policy that [shares cores](comity_policy::Share) a pool has as many workers awake as it holds cores, or
//! all of its workers while its tasks wait for each other. At least one worker is always awake, or a task wakes it.
//! Each worker is in one of three states, written down in [`Books`] under one lock. The lock is taken only where a
//! worker falls asleep, wakes or retires, and by the coordinator:
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
//! A program that is alone in the table, or shares time, has no such limit: see `docs/decisions/0021`, and 0043 for
//! tasks that wait for each other.
//!
//! What holds whenever the lock is free, once the pool takes part; `protocol/README.md` has the proofs:
//!
//! 1. A worker is Awake or Asleep: no pool is without a worker that a task wakes.
//! 2. No more workers are awake than there is [room](Activation::room) for, or a thief sees `excess` and retires.
//! 3. A task that waits gets a worker: the coordinator recalls one for each that is off its core or does not move.
//! 4. Let sleepers lend their cores, and let workers have retired for want of some. Then the pool has a sleeper, or
//!    has said that it wants a core, or holds the most that it can use.
//! 5. A core belongs to one pool of its program, or to none: the driver's [`Cores`] sees to it.
//! 6. A pool that shares time holds no core, from the first [`Activation::employ`] on these terms. A pool without an
//!    awake worker holds, as far as its books know, no more cores than it has woken workers that are not up yet, or one
//!    for the thread that [handed in its last task](Activation::keeps_core).
//!
//! A push may wake a sleeper, which then takes a core or retires. It never wakes one that has retired, so it costs
//! nothing while there is no core to be had. A worker in the middle of a task is never stopped. When its core was
//! taken back, others take its queue, its thread moves to the cores that are left, and it retires when it is without a
//! task.
//!
//! A call of [`Cores`] or [`Pool`] is an effect. The driver carries it out at once, in the order of the calls, and
//! before the lock of the books is given back. Only [`Pool::worker_is_up`] may come after that.

mod books;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use comity_policy::{Placement, Room, Sharing, Sleeper, WorkerId};

use crate::CoreSet;
use crate::platform::{Lock, Once, Platform, Word};
use crate::sleep::{Sleep, Work};
use crate::table::Gain;

pub use books::{Books, State};

/// Where a pool's cores come from: its program's part of the core table, or a model of it. Other programs change the
/// table at any time, so what one call said may be untrue at the next.
pub trait Cores {
    /// The cores that the pool holds. An owner may take one back at once.
    fn held(&self) -> CoreSet;

    /// Those of the program's other pools included. The default is for a program of one pool.
    fn held_by_program(&self) -> CoreSet {
        self.held()
    }

    /// Claims a core, or takes one back. Another program may claim the core that [`Cores::any_free`] saw before. After
    /// a claim the core's owner may take it back at once; [`Cores::held`] tells. The threads of a program from which a
    /// core was taken back leave it some time later.
    fn gain(&self, how: Gain) -> Option<usize>;

    /// If no core of the program's own is free: takes back one that another program uses, and leaves it free.
    fn reclaim(&self);

    /// Releases `core`, or one that the driver chooses. `None`: the pool does not hold it any more. Another program
    /// may claim the core at once, and this program's thread may still be on it.
    fn release(&self, core: Option<usize>) -> Option<usize>;

    /// A worker needs this core, or one that the driver chooses, no more. Another pool of the program that
    /// [lacks](Cores::lack) one has it from now on. If there is none, as [`Cores::release`].
    fn pass_on(&self, core: Option<usize>) -> Option<usize> {
        self.release(core)
    }

    /// Whether there is a core to claim. Asked after [`Cores::want`]: a program that releases a core later rings.
    fn any_free(&self) -> bool;

    /// Says whether the pool wants a core. From then on a program that releases one rings this program's coordinator,
    /// which may run before the lock of the books is free, and waits for it. While the coordinator watches a core that
    /// was left a moment ago, it is not rung and comes by of its own accord.
    fn want(&self, wants: bool);

    /// Says whether more workers are awake beside other programs than the pool holds cores, though it could use more.
    /// Such a pool uses a core at once that another pool of the program [passes on](Cores::pass_on).
    fn lack(&self, _lacks: bool) {}

    /// The pool has no task for the free core that it was rung for: another that wants one is to be rung.
    fn decline(&self);

    /// Whether another pool or program wants a core.
    fn is_core_wanted(&self) -> bool;

    /// So many cores were taken back. For the record.
    fn note_lost(&self, _cores: u32) {}
}

/// The pool: its queues, its sleep protocol, and its workers' threads.
pub trait Pool: Work {
    /// What its sleep protocol runs on.
    type Platform: Platform;
    /// Where its cores come from.
    type Cores: Cores + ?Sized;

    /// Returns the number of its workers.
    fn workers(&self) -> u32;

    /// Which worker is awake on which core; `None` where the pool shares no cores.
    fn activation(&self) -> Option<&Activation<Self::Platform, Self::Cores>>;

    /// Its sleep protocol. A worker that is woken there may run at once. It waits for the lock of the books before it
    /// does anything that the books count.
    fn sleep(&self) -> &Sleep<Self::Platform>;

    /// Confines the worker's thread to these cores, or lets it run wherever its program wants (`None`). It may be in
    /// the middle of a task. False: that cannot be done yet, and is asked for again.
    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool;

    /// Leads the worker's thread to the core that the worker was given, if it may go there. The kernel alone would
    /// leave the thread where it ran or slept, behind another, and find the idle core some milliseconds later.
    ///
    /// One that `sleeps` stays confined to the core until it is up and has no task yet: then [`Pool::confine`] lets it
    /// go. One that runs is let go at once. False: that cannot be done yet.
    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool;

    /// The worker is up, in the books not yet, and calls this itself. What its thread starts from now on inherits
    /// where the thread is confined.
    fn up(&self, me: WorkerId);

    /// True if the thread outside of the pool that handed in its last task runs, or waits for a core.
    fn caller_runs(&self) -> bool;

    /// The same without the lock, and in the books. A coordinator that sleeps because no pool had work is to be woken.
    fn worker_is_up(&self);
}

/// On which terms a pool may have workers awake from now on, as the coordinator's last look has it.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// No other program holds cores or wants some.
    pub alone: bool,
    /// The program shares time, and holds no cores.
    pub by_time: bool,
    /// How many workers may be awake.
    pub room: Room,
    /// The most cores that a pool can use.
    pub usable: u32,
}

/// Why a worker retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// It is one too many, without a task.
    Surplus,
    /// The same, in the middle of a task or with tasks in its queues: its pool is closed.
    Midway,
    /// It wants no core.
    ByItself,
}

/// Who sets where threads may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A worker that has just come up. Its thread goes to its core by itself.
    Worker(WorkerId),
    /// The coordinator at its look. If a worker had a core at the look before too, and has not been led there since, its
    /// thread is moved. Without this it would depend on the kernel when a thread leaves the core of a neighbour.
    Look,
    /// The thread that has just made the pool, whose workers have run no code of the program.
    Start,
    /// Any other thread.
    Other,
}

/// What a worker does that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// It looks for tasks.
    Stays,
    /// There is no core for it: it goes on with [`Activation::retire`].
    Retires,
}

/// See the module.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `books` | the holder of its lock | the same |
/// | `excess`, `without_core`, `any_without_core` | the holder of the books' lock | thieves |
/// | `alone`, `by_time`, `breadth`, `most`, `cap` | the coordinator; `alone` also the holder of the lock that sees a loss | all |
/// | `active` | the program, with the books' lock | all |
/// | `closed` | the coordinator | all |
/// | `over` | the driver, once | all |
/// | `member` | the driver, once | all |
///
/// All are read and written relaxed: what follows from a value that is out of date is put right by the next look.
/// After `closed` and `over` the writer wakes every worker: see Claim 7.
pub struct Activation<P: Platform, C: ?Sized> {
    /// The policy's row.
    pub sharing: Sharing,
    /// Worker 0 is a thread of the program's own.
    adopts: bool,
    /// The most cores that the pool can use: its workers, its affinity, its quota.
    most: P::Word,
    books: P::Lock<Books>,
    member: P::Once<Box<C>>,
    /// More workers are awake than there is room for: a thief that sees it retires.
    excess: P::Bool,
    /// No other program wants cores.
    alone: P::Bool,
    /// The program shares time: it holds no cores.
    by_time: P::Bool,
    /// How many workers may be awake, without those that need no core at the moment. `u32::MAX` beside other programs:
    /// all workers, confined to the held cores. Any other value there: one for each held core.
    breadth: P::Word,
    /// What the program was told from outside: so many workers may be awake, but for those that need no core at the
    /// moment.
    cap: P::Word,
    /// What the program has told the pool: so many workers may be awake.
    active: P::Word,
    /// The program rests: no worker begins a task, however many are queued.
    closed: P::Bool,
    /// The pool has ended: what is left of it runs, and nothing closes it any more.
    over: P::Bool,
    /// By worker: it is awake and has no core, so its queue may be mugged. See [`Activation::without_core`].
    without_core: Box<[P::Bool]>,
    any_without_core: P::Bool,
}

impl<P: Platform, C: Cores + ?Sized> Activation<P, C> {
    /// All workers begin awake, and no core is counted until the pool [enters](Activation::enter). `adopts`: worker 0
    /// is a thread of the program's own, and in no count. The threads may run on the cores of `may_use`, of which a
    /// pool can use `usable` at a time.
    pub fn new(
        platform: &P,
        sharing: Sharing,
        workers: u32,
        adopts: bool,
        may_use: CoreSet,
        usable: u32,
    ) -> Activation<P, C> {
        let flag = |value| platform.bool(None, value);
        Activation {
            sharing,
            adopts,
            most: platform.word(None, usable.min(workers).max(1)),
            books: platform.lock(Books::new(workers, adopts, may_use)),
            member: platform.once(),
            excess: flag(false),
            alone: flag(true),
            by_time: flag(false),
            breadth: platform.word(None, u32::MAX),
            cap: platform.word(None, u32::MAX),
            active: platform.word(None, u32::MAX),
            closed: flag(false),
            over: flag(false),
            without_core: (0..workers).map(|_| flag(false)).collect(),
            any_without_core: flag(false),
        }
    }

    /// Begins to take part: from now on cores count.
    pub fn enter(&self, member: Box<C>) -> &C {
        self.member.set(member)
    }

    /// How many workers the pool has.
    pub fn workers(&self) -> u32 {
        self.without_core.len() as u32
    }

    /// Where its cores come from, once it takes part.
    pub fn member(&self) -> Option<&C> {
        self.member.get().map(Box::as_ref)
    }

    /// Whether the worker is in the pool's counts: a program's own thread is in none, for it comes and goes as it
    /// likes.
    #[inline]
    pub fn counts(&self, worker: WorkerId) -> bool {
        !(self.adopts && worker.0 == 0)
    }

    /// The books, under their lock.
    pub fn books(&self) -> <P::Lock<Books> as Lock<Books>>::Guard<'_> {
        self.books.lock()
    }

    /// Whether no other program wants cores.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// Whether the program shares time, and holds no cores.
    pub fn is_by_time(&self) -> bool {
        self.by_time.load(Ordering::Relaxed)
    }

    /// Whether the number of held cores does not say how many workers may be awake, nor where.
    pub fn is_free(&self) -> bool {
        self.is_alone() || self.is_by_time()
    }

    /// The most cores that the pool can use.
    pub fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed).min(self.active.load(Ordering::Relaxed))
    }

    /// Whether no worker may begin a task.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed)
    }

    /// The pool ends: from now on it is open. To be followed by a wake-up of every worker.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The pool's terms from now on. To be followed by [`Activation::employ`].
    pub fn stand(&self, terms: Terms) {
        let Terms { alone, by_time, room, usable } = terms;
        self.set_alone(alone);
        self.by_time.store(by_time, Ordering::Relaxed);
        let most = usable.min(self.workers()).max(1);
        self.most.store(most, Ordering::Relaxed);
        let breadth = match room {
            Room::Workers => u32::MAX,
            Room::Cores => most,
            Room::One => 1,
        };
        self.breadth.store(breadth, Ordering::Relaxed);
    }

    /// From now on so many workers may be awake, but for those that need no core. To be followed by
    /// [`Activation::employ`].
    pub fn bound(&self, cap: u32) {
        self.cap.store(cap, Ordering::Relaxed);
    }

    /// From now on no worker begins a task, or workers may again. A closed pool shares time if its program is to rest,
    /// and holds no core if that is out of turn. To be followed by [`Activation::employ`], and by
    /// [`Activation::reopen`] where the pool was closed.
    pub fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Release);
    }

    /// How many workers may be awake.
    pub fn room(&self, books: &Books) -> u32 {
        if self.is_closed() {
            return 0;
        }
        let workers = books.entries.len() as u32;
        let room = match self.sharing.sleeper {
            _ if self.member().is_none() => workers,
            _ if self.is_wide() && self.has_core(books) => workers,
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
        self.sharing.sleeper == Sleeper::LendsCore && (self.is_free() || self.is_wide())
    }

    /// True if all workers may be awake beside other programs, confined to the cores that the pool holds. A task that
    /// waits for another then never keeps the other from a worker, and the kernel switches between them. Claim 9.
    fn is_wide(&self) -> bool {
        let may_be = self.sharing.sleeper == Sleeper::LendsCore && !self.is_free();
        may_be && self.breadth.load(Ordering::Relaxed) == u32::MAX
    }

    /// True if there is a core that the pool's workers can be confined to, its own or its program's.
    fn has_core(&self, books: &Books) -> bool {
        books.held() > 0 || self.member().is_some_and(|member| !member.held_by_program().is_empty())
    }

    /// Whether another program wants cores, as was just seen.
    pub fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    // What workers tell, as thieves.

    /// Whether a thief should retire.
    #[inline]
    pub fn has_excess(&self) -> bool {
        self.excess.load(Ordering::Relaxed)
    }

    /// Whether another program waits for a core.
    pub fn is_core_wanted(&self) -> bool {
        !self.is_alone() && self.member().is_some_and(C::is_core_wanted)
    }

    /// A sleeper is about to be woken for a task: see [`Work::make_way`].
    pub fn make_way(&self) {
        let lends = self.sharing.sleeper == Sleeper::LendsCore && !self.is_alone() && !self.is_by_time();
        if let Some(member) = self.member().filter(|_| lends) {
            member.reclaim();
        }
    }

    /// Workers with a queue that a thief may take over.
    pub fn without_core(&self) -> impl Iterator<Item = WorkerId> {
        let any = self.any_without_core.load(Ordering::Relaxed);
        let workers = self.without_core.iter().enumerate().filter(move |_| any);
        workers.filter(|(_, without)| without.load(Ordering::Relaxed)).map(|(nth, _)| WorkerId(nth as u32))
    }

    /// The worker was admitted to sleep: its core is free, unless the policy keeps it. True: the pool [keeps a
    /// core](Activation::keeps_core), and the worker should call [`look_at_kept_core`](Activation::look_at_kept_core)
    /// after [`KEPT_CORE`](crate::dialogue::KEPT_CORE) if it still sleeps then. Otherwise the core is released at the
    /// coordinator's next look.
    pub fn fell_asleep(&self, pool: &impl Pool<Platform = P>, me: WorkerId) -> bool {
        let mut books = self.books();
        books.fall_asleep(me);
        self.let_go(&mut books, pool, me);
        self.balance(&mut books, pool);
        // A woken worker that finds no task calls this again.
        let keeps = self.may_keep() && books.awake() == 0 && books.held() > 0;
        keeps && self.about_to_be_up(&books, pool) == 0
    }

    /// Releases the core that the pool kept when its last worker fell asleep, if no woken worker and no running caller
    /// needs it any more.
    /// Most threads that handed in a task wait for the next event a few microseconds after it is done. Without this
    /// look the core would stay idle until the coordinator's next look.
    pub fn look_at_kept_core(&self, pool: &impl Pool<Platform = P>, me: WorkerId) {
        let mut books = self.books();
        if books.awake() == 0 {
            self.let_go(&mut books, pool, me);
            self.balance(&mut books, pool);
        }
    }

    /// The worker is up again. `Retires`: there is no core for it, and it has no business of its own.
    pub fn woke(&self, pool: &impl Pool<Platform = P>, me: WorkerId, has_business: bool) -> Up {
        let mut books = self.books();
        let entry = &mut books.entries[me.index()];
        if core::mem::take(&mut entry.led) && pool.confine(me, None) {
            entry.confined = None;
        }
        pool.up(me);
        if !books.is(me, State::Awake) {
            books.get_up(me);
            self.take_core(&mut books, me);
        }
        self.balance_as(&mut books, pool, Mover::Worker(me));
        let stays = has_business || books.awake() <= self.room(&books) || !self.may_retire(&books, me);
        drop(books);
        pool.worker_is_up();
        if stays { Up::Stays } else { Up::Retires }
    }

    /// The worker, which others see as a thief, is one too many or wants no core: from now on it is retired, and must
    /// go on with [`Sleep::pass_on`]. False: it is needed.
    pub fn retire(&self, pool: &impl Pool<Platform = P>, me: WorkerId, why: Retirement) -> bool {
        let mut books = self.books();
        let is_surplus = books.awake() > self.room(&books);
        if !self.may_retire(&books, me) || !(why == Retirement::ByItself || is_surplus) {
            return false;
        }
        if is_surplus && self.sharing.sleeper == Sleeper::LendsCore {
            // Nor is there a core for the sleepers that the next pushes would wake.
            Self::retire_sleepers(&mut books, pool);
        }
        // Within the lock: the coordinator that recalls it must find it at rest.
        pool.sleep().retire(me);
        books.retire(me);
        books.set_midway(me, why == Retirement::Midway);
        self.let_go(&mut books, pool, me);
        self.balance(&mut books, pool);
        true
    }

    fn retire_sleepers(books: &mut Books, pool: &impl Pool<Platform = P>) {
        for sleeper in books.all() {
            // One that was woken meanwhile is asleep in the books, and waits for their lock.
            if books.is(sleeper, State::Asleep) && pool.sleep().retire_sleeper(sleeper) {
                books.retire(sleeper);
            }
        }
    }

    /// Whether another worker is awake, or asleep such that a task wakes it; in a closed pool none has to be. Where no
    /// coordinator would recall it, only a worker that is too many retires.
    fn may_retire(&self, books: &Books, me: WorkerId) -> bool {
        if self.is_closed() {
            return true;
        }
        let mut others = books.in_state(State::Awake).chain(books.in_state(State::Asleep));
        let is_recalled = self.member().is_some() || books.awake() > self.room(books);
        is_recalled && others.any(|worker| worker != me)
    }

    /// The worker needs no core any more.
    fn let_go(&self, books: &mut Books, pool: &impl Pool<Platform = P>, me: WorkerId) {
        let core = books.entries[me.index()].core.take();
        let Some(member) = self.member() else { return };
        // A pool without a worker awake holds nothing.
        if self.sharing.sleeper == Sleeper::KeepsCore && books.awake() > 0 {
            return;
        }
        let mut own = core;
        let needed = self.needed(books, pool);
        while books.held() > needed {
            let core = own.take().or_else(|| books.spare().next());
            // If it cannot be released its owner has taken it back, and the books learn what else is lost.
            if !Self::pass_on(books, member, core) && self.note_losses(books, member) == 0 {
                return;
            }
        }
    }

    /// True if the pool, of which no worker is awake, keeps a core: a worker was woken and is not up yet, or the thread
    /// that handed in its last task runs. Another program that claimed the core would wake a worker, which then takes
    /// the time of that thread, and the next task would have to wait for the core.
    pub fn keeps_core(&self, books: &Books, pool: &impl Pool<Platform = P>) -> bool {
        // One core for all pools of the program that have no worker awake.
        let is_only = |member: &C| member.held_by_program().iter().all(|core| books.held.contains(core));
        self.may_keep()
            && books.awake() == 0
            && books.held() > 0
            && self.member().is_some_and(is_only)
            && (self.about_to_be_up(books, pool) > 0 || pool.caller_runs())
    }

    /// Whether the pool holds cores beside other programs, and lends the cores that it does not need.
    fn may_keep(&self) -> bool {
        self.sharing.sleeper == Sleeper::LendsCore && !self.is_free() && !self.is_closed()
    }

    /// Workers that were woken and are not up yet. On a single core the one that wakes another runs on, and may fall
    /// asleep before the other comes to that core.
    fn about_to_be_up(&self, books: &Books, pool: &impl Pool<Platform = P>) -> u32 {
        let is_woken = |worker: &WorkerId| !books.is(*worker, State::Awake) && !pool.sleep().is_at_rest(*worker);
        books.workers().filter(is_woken).count() as u32
    }

    /// Where a thread outside of the pool is to wait for its task, if it is on core `at`, which another program may
    /// hold: on the cores that the pool or else its program holds beside others. `None`: where it is.
    pub fn refuge(&self, at: usize) -> Option<CoreSet> {
        let member = self.member().filter(|_| self.sharing.sleeper == Sleeper::LendsCore && !self.is_free())?;
        let held = Some(self.books().held).filter(|held| !held.is_empty());
        let held = held.unwrap_or_else(|| member.held_by_program());
        (!held.is_empty() && !held.contains(at)).then_some(held)
    }

    /// The number of cores that the pool needs.
    fn needed(&self, books: &Books, pool: &impl Pool<Platform = P>) -> u32 {
        let coming = if self.may_keep() { self.about_to_be_up(books, pool) } else { 0 };
        books.awake() + coming.max(u32::from(self.keeps_core(books, pool)))
    }

    /// A core for a worker that is awake, if there is one to be had.
    fn take_core(&self, books: &mut Books, me: WorkerId) {
        if books.held() < books.awake() && !self.is_closed() {
            self.claim_or_take_back(books);
        }
        books.entries[me.index()].core = books.spare().next();
    }

    // What the coordinator does, with the lock.

    /// Cores that the table says are no longer this pool's.
    pub fn note_losses(&self, books: &mut Books, member: &C) -> u32 {
        let lost = self.note_moves(books, member);
        if lost > 0 {
            member.note_lost(lost);
            self.set_alone(false);
        }
        lost
    }

    /// The same, of cores that the program's other pools were given.
    pub fn note_moves(&self, books: &mut Books, member: &C) -> u32 {
        let before = core::mem::replace(&mut books.held, member.held());
        let held = books.held;
        let lost = before.iter().filter(|core| !held.contains(*core));
        lost.inspect(|core| books.lose(*core)).count() as u32
    }

    /// Gains a core in the first of these ways that gives one, if the pool may hold one more.
    pub fn gain(&self, books: &mut Books, ways: impl IntoIterator<Item = Gain>) -> bool {
        let member = self.member().filter(|_| books.held() < self.most() && !self.is_by_time());
        let core = member.and_then(|member| ways.into_iter().find_map(|how| member.gain(how)));
        core.inspect(|core| books.held.insert(*core)).is_some()
    }

    /// Claims a core that the policy lets the pool claim, or else takes one back.
    fn claim_or_take_back(&self, books: &mut Books) -> bool {
        self.gain(books, [Gain::Claim { own_only: self.sharing.own_only }, Gain::TakeBack])
    }

    /// Releases a core, `core` or any.
    pub fn release(&self, books: &mut Books, member: &C, core: Option<usize>) -> bool {
        member.release(core).inspect(|released| books.lose(*released)).is_some()
    }

    /// Gives away a core that no worker of the pool needs, and notes it in the books: see [`Cores::pass_on`].
    fn pass_on(books: &mut Books, member: &C, core: Option<usize>) -> bool {
        member.pass_on(core).inspect(|core| books.lose(*core)).is_some()
    }

    /// A core was taken back, or there is one to be had. True: some were taken back.
    pub fn rung(&self, books: &mut Books, pool: &impl Pool<Platform = P>, queued: usize) -> bool {
        let Some(member) = self.member() else { return false };
        let lends = self.sharing.sleeper == Sleeper::LendsCore;
        let lost = self.note_losses(books, member) > 0;
        if !lost && !lends {
            return false;
        }
        if lends && !self.is_closed() {
            let wanted = queued.min(books.retired() as usize);
            (0..wanted).take_while(|_| self.gain(books, [Gain::Claim { own_only: false }])).for_each(drop);
        }
        self.employ(books, pool, queued, Mover::Other);
        lost
    }

    /// A worker for each core, if there are any, and no core without one unless the policy keeps it. In a closed pool
    /// the sleepers retire, and the workers in the middle of a task do so when they fork. `mover` is the caller.
    pub fn employ(&self, books: &mut Books, pool: &impl Pool<Platform = P>, queued: usize, mover: Mover) {
        let Some(member) = self.member() else { return };
        if self.is_closed() {
            Self::retire_sleepers(books, pool);
            if books.awake() > 0 {
                pool.ring_bells();
            }
        }
        if self.sharing.sleeper != Sleeper::KeepsCore && !self.is_closed() {
            // For the workers that are awake without one.
            let most = self.needed(books, pool).min(self.most());
            while books.held() < most && self.claim_or_take_back(books) {}
        }
        if self.wakes_by_push() {
            self.restore_hunger(books, pool);
        } else {
            self.recall(books, pool, queued);
        }
        if queued > 0 && books.awake() == 0 && !self.is_closed() {
            // The sleeper takes a core when it wakes.
            pool.sleep().wake_peer(WorkerId(books.entries.len() as u32 - 1), None, false);
        }
        if self.sharing.sleeper != Sleeper::KeepsCore || self.is_closed() {
            let needed = if self.is_by_time() { 0 } else { self.needed(books, pool) };
            let idle_cores = books.held().saturating_sub(needed);
            let released = (0..idle_cores).take_while(|_| Self::pass_on(books, member, None)).count() as u32;
            if released < idle_cores {
                // Their owners have taken the others back.
                self.note_losses(books, member);
            }
        }
        self.balance_as(books, pool, mover);
    }

    /// The pool is open again. Wakes every worker that rests in the middle of a task, which goes on, and every worker
    /// that has business. In a closed pool, what is queued at a worker alone was no business. The others rest for want
    /// of a core, as in any pool.
    pub fn reopen(&self, pool: &impl Pool<Platform = P>) {
        // A worker that retired because the pool was closed has done so in an earlier section of this lock, and is
        // found at rest here. One that comes later finds the pool open. See Claim 7.
        let midway: Vec<bool> = self.books.with(|books| books.all().map(|worker| books.is_midway(worker)).collect());
        for (worker, midway) in (0..).map(WorkerId).zip(midway) {
            if midway || !self.counts(worker) || pool.has_business(worker) {
                pool.sleep().wake_for_business(worker);
            }
        }
    }

    /// From now on at most `most` of the pool's workers are awake, of `queued` tasks that wait.
    pub fn set_active(&self, pool: &impl Pool<Platform = P>, most: u32, queued: usize) {
        let mut books = self.books();
        self.active.store(most, Ordering::Relaxed);
        if self.member().is_some() {
            self.employ(&mut books, pool, queued, Mover::Other);
        } else if self.sharing.sleeper == Sleeper::LendsCore {
            self.restore_hunger(&mut books, pool);
        } else {
            self.recall(&mut books, pool, queued);
        }
        self.balance(&mut books, pool);
    }

    /// Recalls workers as long as there are cores for them, and in the place of those that need none while there are
    /// tasks.
    fn recall(&self, books: &mut Books, pool: &impl Pool<Platform = P>, queued: usize) {
        let room = match queued {
            _ if self.is_free() || self.is_closed() => self.room(books),
            0 => books.held().max(1),
            _ => self.room(books),
        };
        while books.awake() < room {
            let core = books.spare().next();
            // The worker with the same place in the pool as the core has among the cores, so that workers stay where
            // they were.
            let place = core.map(|core| books.may_use.iter().take_while(|other| *other < core).count());
            let preferred = place.map(|place| WorkerId((place % books.entries.len()) as u32));
            let preferred = preferred.filter(|worker| books.is(*worker, State::Retired));
            let midway = || books.in_state(State::Retired).find(|worker| books.is_midway(*worker));
            let preferred = preferred.filter(|worker| books.is_midway(*worker)).or_else(midway).or(preferred);
            let Some(worker) = preferred.or_else(|| books.in_state(State::Retired).next()) else { break };
            // In the books first: it may be up before this goes on. Its thread moves before it wakes.
            books.recall(worker, core);
            if self.sharing.placement == Placement::Anywhere {
                self.lead(books, pool, worker, true);
            } else {
                self.place(books, pool, Mover::Other);
            }
            // If it cannot be recalled, it was woken for business of its own, and is up.
            pool.sleep().recall(worker);
        }
    }

    /// Makes those that have retired hungry again, as many as there might be cores for, should they have work.
    fn restore_hunger(&self, books: &mut Books, pool: &impl Pool<Platform = P>) {
        let hungry = books.awake() + books.in_state(State::Asleep).count() as u32;
        let room = if self.wakes_by_push() { self.room(books) } else { self.most() };
        // Each in the books first: a push may wake it before this goes on.
        let retired = books.all().filter(|worker| books.make_hungry(*worker));
        pool.sleep().restore_hunger(retired.take(room.saturating_sub(hungry) as usize), pool);
    }

    /// Brings up to date what thieves look at, and where threads may run. To be done before the lock is given back
    /// under which a count or a core has changed.
    pub fn balance(&self, books: &mut Books, pool: &impl Pool<Platform = P>) {
        self.balance_as(books, pool, Mover::Other);
    }

    fn balance_as(&self, books: &mut Books, pool: &impl Pool<Platform = P>, mover: Mover) {
        let Some(member) = self.member() else {
            self.excess.store(books.awake() > self.room(books), Ordering::Relaxed);
            return;
        };
        if self.sharing.sleeper == Sleeper::LendsCore {
            self.ask_for_cores(books, pool, member);
        }
        self.excess.store(books.awake() > self.room(books), Ordering::Relaxed);
        pool.sleep().set_may_steer(self.is_alone() || books.held() > 1);
        self.place(books, pool, mover);
    }

    /// Says in the table whether a core is wanted. Without it no program that has one to spare would ring.
    fn ask_for_cores(&self, books: &mut Books, pool: &impl Pool<Platform = P>, member: &C) {
        let is_short = books.awake() > books.held();
        let rests_for_want = match self.is_closed() {
            true => books.midway() > 0 || pool.deques_have_task() || pool.injector_has_task(),
            false => books.retired() > 0,
        };
        let wants = (is_short || rests_for_want) && books.held() < self.most() && !self.is_free();
        member.want(wants);
        member.lack(wants && is_short);
        // Asked after it is known to want one: a program that releases a core later rings. A push would wake the hungry
        // workers of a closed pool, and each would retire again.
        if wants && books.retired() > 0 && member.any_free() && !self.is_closed() {
            self.restore_hunger(books, pool);
            member.want(is_short);
            if !pool.deques_have_task() && !pool.injector_has_task() {
                // Others may have some.
                member.decline();
            }
        }
    }

    /// Gives cores to awake workers, and sets where each worker's thread may run.
    ///
    /// Other threads avoid changing the mask of a worker that roams. If the program binds the thread to the target core
    /// during a move, that mask is lost.
    fn place(&self, books: &mut Books, pool: &impl Pool<Platform = P>, mover: Mover) {
        let (held, free) = (books.held, self.is_free());
        // A pool that has no core shares those of its program's others.
        let held = if held.is_empty() && !free { self.member().map_or(held, C::held_by_program) } else { held };
        let mut spare = books.spare();
        // A pool that holds all cores that it may use has no core that its threads must avoid.
        let has_all = !books.may_use.is_empty() && books.may_use.intersection(held) == books.may_use;
        let is_wide = self.is_wide();
        let crowded = books.awake() > if is_wide { books.held().max(1) } else { self.room(books) };
        let mut any = false;
        for worker in books.all() {
            let is_awake = books.is(worker, State::Awake);
            let entry = &mut books.entries[worker.index()];
            // A worker that rests wakes where it is confined. On a core that the pool has lost it would wait there, behind
            // the threads of the program that has the core.
            let is_held = |cores: CoreSet| cores.intersection(held) == cores;
            let is_astray = entry.confined.is_some_and(|cores| free || !is_held(cores));
            if !is_awake {
                let confined = (!free && !held.is_empty() && !has_all).then_some(held);
                if is_astray && pool.confine(worker, confined) {
                    entry.confined = confined;
                }
                continue;
            }
            entry.core = entry.core.or_else(|| spare.next());
            let without = entry.core.is_none() && !held.is_empty() && !free && !is_wide;
            self.without_core[worker.index()].store(without, Ordering::Relaxed);
            any |= without;
            if entry.led && !is_astray {
                continue;
            }
            let confined = match (self.sharing.placement, entry.core) {
                // A crowd in the middle of tasks does not spread over the cores of others.
                _ if is_wide && held.is_empty() => entry.confined,
                _ if free || held.is_empty() => None,
                (Placement::OnePerCore, Some(core)) => Some([core].into_iter().collect()),
                _ if has_all => None,
                (Placement::Anywhere, _) => (crowded || (is_wide && entry.confined == Some(held))).then_some(held),
                (Placement::WithinCores | Placement::OnePerCore, _) => Some(held),
            };
            let was_confined = entry.confined.is_some();
            if confined != entry.confined && pool.confine(worker, confined) {
                entry.confined = confined;
            }
            let is_anywhere = self.sharing.placement == Placement::Anywhere && !crowded;
            if confined.is_some() || free || !is_anywhere || entry.led_to == entry.core {
                entry.is_late = false;
                continue;
            }
            // The thread may still run on a core that the pool has lost, or share a core with workers that were
            // confined with it.
            let has_strayed = was_confined || entry.led_to.is_some_and(|core| !held.contains(core));
            let moves = match mover {
                Mover::Worker(me) => has_strayed || me == worker,
                Mover::Look => has_strayed || core::mem::replace(&mut entry.is_late, true),
                Mover::Start => true,
                Mover::Other => has_strayed,
            };
            if moves {
                self.lead(books, pool, worker, false);
            }
        }
        self.any_without_core.store(any, Ordering::Relaxed);
    }

    /// The worker's thread goes to the core that the worker was given, if any.
    fn lead(&self, books: &mut Books, pool: &impl Pool<Platform = P>, worker: WorkerId, sleeps: bool) {
        let entry = &mut books.entries[worker.index()];
        if let Some(core) = entry.core
            && pool.lead(worker, core, sleeps)
        {
            (entry.led, entry.is_late) = (sleeps, false);
            entry.confined = sleeps.then(|| [core].into_iter().collect());
            entry.led_to = Some(core);
        }
    }
}
