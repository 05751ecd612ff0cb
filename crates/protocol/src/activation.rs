//! The activation of a pool: which of its workers are awake, and on which cores.
//!
//! Under a policy that [shares cores](comity_policy::Share), a pool has one worker awake for each core that it holds.
//! While its tasks wait for each other, all of its workers may be awake. At least one worker is always awake, or
//! asleep so that the next task wakes it. Each worker is in one of three states, which are kept in [`Books`] under one
//! lock. A worker takes the lock only when it falls asleep, wakes, retires or looks at a core that its pool keeps. The
//! coordinator takes the lock too, and so do [`Activation::refuge`] and [`Activation::set_active`] on other threads.
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
//! The number of held cores does not limit a program that is alone in the table or shares time: see
//! `docs/decisions/0021`. For tasks that wait for each other, see decision 0043.
//!
//! These invariants hold whenever the lock is free, after the pool has entered the table. In a closed pool, 1 and 3 do
//! not hold (Claim 7). `protocol/README.md` has the proofs:
//!
//! 1. At least one worker is Awake or Asleep, so each task finds a worker or wakes one.
//! 2. The number of awake workers is at most the [room](Activation::room). If it is higher, each thief that sees
//!    `excess` retires.
//! 3. A queued task gets a worker: for each awake worker that is off its core or makes no progress, the coordinator
//!    recalls a retired worker.
//! 4. Suppose that sleepers lend their cores, and workers have retired because they had no core. Then the pool has a
//!    sleeper, or has published that it wants a core, or holds the maximum that it can use.
//! 5. A core belongs to at most one pool of its program. The driver's [`Cores`] ensures this.
//! 6. A pool that shares time holds no core after its first [`Activation::employ`] in this mode. According to its
//!    books, a pool without an awake worker holds at most one core for each woken worker that is not up yet. Without
//!    such a worker, it holds at most one core, for the thread that [handed in its last task](Activation::keeps_core).
//!
//! A push may wake a sleeper, which then takes a core or retires. A push never wakes a retired worker, so it costs
//! nothing while no core is available. A worker in the middle of a task is never stopped. If another program takes its
//! core back, other workers take its queue, its thread moves to the remaining cores, and the worker retires when it
//! has no task.
//!
//! Each call of a method of [`Cores`] or [`Pool`] that changes something is an effect. The driver carries out effects
//! at once, in the order of the calls, while the lock of the books is held. Only [`Cores::reclaim`] and
//! [`Pool::worker_is_up`] are called without the lock.

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

/// The source of a pool's cores: its program's part of the core table, or a model of it. Other programs change the
/// table at any time, so the result of one call may be out of date at the next.
pub trait Cores {
    /// Returns the cores that the pool holds. A core's owner may take it back at any time.
    fn held(&self) -> CoreSet;

    /// Returns the cores that the program holds, including those of its other pools. The default is for a program of
    /// one pool.
    fn held_by_program(&self) -> CoreSet {
        self.held()
    }

    /// Claims a core, or takes one back, and returns it. This may fail after [`Cores::any_free`], because another
    /// program was faster. The owner of a claimed core may take it back at any time; [`Cores::held`] shows this. The
    /// threads of a program from which a core was taken back leave the core some time later.
    fn gain(&self, how: Gain) -> Option<usize>;

    /// If none of the program's own cores is free, takes one back that another program uses, and leaves it free.
    fn reclaim(&self);

    /// Releases `core`, or a core that the driver chooses, and returns it. Returns `None` if the pool no longer holds
    /// it. Another program may claim the core at once, while a thread of this program still runs on it.
    fn release(&self, core: Option<usize>) -> Option<usize>;

    /// Gives away `core`, or a core that the driver chooses, because no worker needs it. If another pool of the
    /// program [lacks](Cores::lack) a core, that pool gets it. Otherwise the core is released, see [`Cores::release`].
    fn pass_on(&self, core: Option<usize>) -> Option<usize> {
        self.release(core)
    }

    /// True if there is a core to claim. Called after [`Cores::want`], so a program that releases a core after this
    /// call rings this program's bell.
    fn any_free(&self) -> bool;

    /// Publishes whether the pool wants a core. After that, a program that releases a core rings the bell of this
    /// program's coordinator. The coordinator may run at once, and then waits for the lock of the books. While the
    /// coordinator [watches](crate::table::watch) a core, its bell is not rung: a timer starts its next visit.
    fn want(&self, wants: bool);

    /// Publishes whether the pool lacks a core: other programs want cores, the pool has more awake workers than cores,
    /// and it could use more cores. If another pool of the program [passes a core on](Cores::pass_on), a pool that
    /// lacks one gets it at once.
    fn lack(&self, _lacks: bool) {}

    /// Declines the free core of which the pool was notified, because the pool has no task for it. Another program
    /// that wants a core is notified.
    fn decline(&self);

    /// True if another pool or program wants a core.
    fn is_core_wanted(&self) -> bool;

    /// Records that other programs took back this number of cores.
    fn note_lost(&self, _cores: u32) {}
}

/// A pool: its queues, its sleep protocol, and its workers' threads.
pub trait Pool: Work {
    /// The platform of the pool's sleep protocol.
    type Platform: Platform;
    /// The source of the pool's cores.
    type Cores: Cores + ?Sized;

    /// Returns the number of workers.
    fn workers(&self) -> u32;

    /// Returns the pool's activation. `None`: the pool does not share cores.
    fn activation(&self) -> Option<&Activation<Self::Platform, Self::Cores>>;

    /// Returns the pool's sleep protocol. A worker that this protocol wakes may run at once. It waits for the lock of
    /// the books before it does anything that they record.
    fn sleep(&self) -> &Sleep<Self::Platform>;

    /// Confines the worker's thread to these cores. `None`: the thread may run wherever its program wants. The worker
    /// may be in the middle of a task. Returns false if this is not possible yet; the caller tries again later.
    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool;

    /// Moves the worker's thread to the core that the worker was given, if it may run there. Without this step, the
    /// thread would wait behind another thread where it ran or slept, until the kernel finds the idle core some
    /// milliseconds later.
    ///
    /// If the worker `sleeps`, its thread stays confined to the core until the worker is up. [`Pool::confine`] ends
    /// the confinement before the worker takes a task. The confinement of a running worker's thread ends at once.
    /// Returns false if the move is not possible yet.
    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool;

    /// Notes that the worker is up. The worker itself calls this, before the books show it as awake. Threads that the
    /// worker starts from now on inherit its confinement.
    fn up(&self, me: WorkerId);

    /// True if the caller runs or waits for a core. The caller is the thread outside of the pool that handed in the
    /// pool's last task.
    fn caller_runs(&self) -> bool;

    /// Wakes a coordinator that sleeps because no pool had work. Called by a worker that is up, after the books show
    /// it and the lock is released.
    fn worker_is_up(&self);
}

/// The limits on a pool's awake workers and on its cores, as the coordinator set them at its last look.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// True if no other program holds or wants cores.
    pub alone: bool,
    /// True if the program shares time, and holds no cores.
    pub by_time: bool,
    /// The rule for how many workers may be awake.
    pub room: Room,
    /// The maximum number of cores that a pool can use.
    pub usable: u32,
}

/// The reason why a worker retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// More workers are awake than there is [room](Activation::room) for, and this worker has no task.
    Surplus,
    /// The pool is closed, so there is no room for awake workers. The worker is in the middle of a task, or has tasks
    /// in its queues.
    Midway,
    /// The worker wants no core.
    ByItself,
}

/// The thread that sets where workers' threads may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A worker that has just come up. It moves its own thread to its core.
    Worker(WorkerId),
    /// The coordinator at its look. It moves a worker's thread if the worker had a core at the previous look too and
    /// its thread has not been moved there since. Otherwise the kernel alone would decide when the thread leaves the
    /// core of another worker.
    Look,
    /// The thread that has just made the pool. The pool's workers have run no code of the program.
    Start,
    /// Any other thread.
    Other,
}

/// The next action of a worker that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// The worker looks for tasks.
    Stays,
    /// The worker has no core: it must call [`Activation::retire`].
    Retires,
}

/// The activation of a pool, see the head of the module.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `books` | the holder of its lock | the holder of its lock |
/// | `excess`, `without_core`, `any_without_core` | the holder of the books' lock | thieves |
/// | `alone`, `by_time`, `breadth`, `most`, `cap` | the coordinator; `alone` also the holder of the lock that sees a loss | all |
/// | `active` | the program, with the books' lock | all |
/// | `closed` | the coordinator | all |
/// | `over` | the driver, once | all |
/// | `member` | the driver, once | all |
///
/// The flags and numbers are read with relaxed ordering: the next look corrects the effects of an outdated value.
/// After a write to `closed` or `over`, the writer wakes every worker: see Claim 7.
pub struct Activation<P: Platform, C: ?Sized> {
    /// The policy's rules for sharing cores.
    pub sharing: Sharing,
    /// True if worker 0 is a thread of the program.
    adopts: bool,
    /// The maximum number of cores that the pool can use: limited by its workers, its affinity and its quota.
    most: P::Word,
    books: P::Lock<Books>,
    member: P::Once<Box<C>>,
    /// True if more workers are awake than there is room for. A thief that sees it retires.
    excess: P::Bool,
    /// True if no other program wants cores.
    alone: P::Bool,
    /// True if the program shares time, and holds no cores.
    by_time: P::Bool,
    /// The number of workers that may be awake, not counting workers that need no core at the moment. While other
    /// programs want cores, `u32::MAX` means all workers, confined to the held cores, and any other value means one
    /// worker for each held core.
    breadth: P::Word,
    /// The limit that results from the program's [settings](crate::orders::InForce): the number of workers that may be
    /// awake, not counting workers that need no core at the moment.
    cap: P::Word,
    /// The limit of [`Activation::set_active`]: the number of workers that may be awake.
    active: P::Word,
    /// True if the program is paused or out of turn: no worker begins a task, however many are queued.
    closed: P::Bool,
    /// True if the pool has ended: its remaining tasks run, and it cannot be closed any more.
    over: P::Bool,
    /// The flags of the workers: true if the worker is awake and has no core. A thief may then take its whole queue,
    /// see [`Activation::without_core`].
    without_core: Box<[P::Bool]>,
    any_without_core: P::Bool,
}

impl<P: Platform, C: Cores + ?Sized> Activation<P, C> {
    /// Makes an activation. All workers begin awake, and no core is counted until the pool [enters](Activation::enter)
    /// the core table. `adopts`: worker 0 is a thread of the program, and is not counted. The threads may run on the
    /// cores of `may_use`, of which a pool can use `usable` at a time.
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

    /// Makes the pool a member of the core table: from now on its cores limit its awake workers.
    pub fn enter(&self, member: Box<C>) -> &C {
        self.member.set(member)
    }

    /// Returns the number of workers of the pool.
    pub fn workers(&self) -> u32 {
        self.without_core.len() as u32
    }

    /// Returns the source of the pool's cores, once the pool has entered.
    pub fn member(&self) -> Option<&C> {
        self.member.get().map(Box::as_ref)
    }

    /// True if the books count the worker. They do not count an adopted thread, because it enters and leaves the pool
    /// at any time.
    #[inline]
    pub fn counts(&self, worker: WorkerId) -> bool {
        !(self.adopts && worker.0 == 0)
    }

    /// Returns the books, under their lock.
    pub fn books(&self) -> <P::Lock<Books> as Lock<Books>>::Guard<'_> {
        self.books.lock()
    }

    /// True if no other program wants cores.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// True if the program shares time, and holds no cores.
    pub fn is_by_time(&self) -> bool {
        self.by_time.load(Ordering::Relaxed)
    }

    /// True if the held cores limit neither the number of awake workers nor the cores on which they run.
    pub fn is_free(&self) -> bool {
        self.is_alone() || self.is_by_time()
    }

    /// Returns the maximum number of cores that the pool can use.
    pub fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed).min(self.active.load(Ordering::Relaxed))
    }

    /// True if no worker may begin a task.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed)
    }

    /// Marks the pool as ended: from now on it cannot be closed. The caller must then wake every worker.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Sets the pool's terms. The caller must call [`Activation::employ`] afterwards.
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

    /// Limits the number of awake workers, not counting workers that need no core. The caller must call
    /// [`Activation::employ`] afterwards.
    pub fn bound(&self, cap: u32) {
        self.cap.store(cap, Ordering::Relaxed);
    }

    /// Closes the pool, so that no worker begins a task, or opens it. A closed pool shares time if its program is
    /// paused, and holds no core if its program is out of turn. The caller must call [`Activation::employ`]
    /// afterwards, and then [`Activation::reopen`] if the pool was closed.
    pub fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Release);
    }

    /// Returns the number of workers that may be awake.
    pub fn room(&self, books: &Books) -> u32 {
        if self.is_closed() {
            return 0;
        }
        let workers = books.entries.len() as u32;
        let room = match self.sharing.sleeper {
            _ if self.member().is_none() => workers,
            _ if self.is_wide() && self.has_core(books) => workers,
            _ if !(self.sharing.plain_alone && self.is_free()) => books.held().max(1) + books.off_core,
            // The room grows by two workers for each worker off its core: a surplus worker takes no core from other
            // programs.
            Sleeper::LendsCore => self.breadth.load(Ordering::Relaxed).saturating_add(2 * books.off_core).min(workers),
            Sleeper::KeepsCore | Sleeper::LeavesCore => workers,
        };
        let cap = self.cap.load(Ordering::Relaxed).saturating_add(books.off_core);
        room.min(cap).min(self.active.load(Ordering::Relaxed))
    }

    /// True if pushes wake workers while there is room. False if the coordinator recalls workers.
    fn wakes_by_push(&self) -> bool {
        self.sharing.sleeper == Sleeper::LendsCore && (self.is_free() || self.is_wide())
    }

    /// True if all workers may be awake while other programs want cores, confined to the cores that the pool holds.
    /// Then a task that waits never keeps the task that it waits for from getting a worker: the kernel switches
    /// between the workers (Claim 9).
    fn is_wide(&self) -> bool {
        let may_be = self.sharing.sleeper == Sleeper::LendsCore && !self.is_free();
        may_be && self.breadth.load(Ordering::Relaxed) == u32::MAX
    }

    /// True if there is a core to which the pool's workers can be confined: the pool or its program holds one.
    fn has_core(&self, books: &Books) -> bool {
        books.held() > 0 || self.member().is_some_and(|member| !member.held_by_program().is_empty())
    }

    /// Sets the value of [`Activation::is_alone`].
    pub fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    // Queries and steps of thieves.

    /// True if a thief should retire.
    #[inline]
    pub fn has_excess(&self) -> bool {
        self.excess.load(Ordering::Relaxed)
    }

    /// True if another program waits for a core.
    pub fn is_core_wanted(&self) -> bool {
        !self.is_alone() && self.member().is_some_and(C::is_core_wanted)
    }

    /// Prepares a core for a sleeper that is about to be woken for a task, see [`Work::make_way`].
    pub fn make_way(&self) {
        let lends = self.sharing.sleeper == Sleeper::LendsCore && !self.is_alone() && !self.is_by_time();
        if let Some(member) = self.member().filter(|_| lends) {
            member.reclaim();
        }
    }

    /// Returns the workers that are awake and have no core. A thief may take over their queues.
    pub fn without_core(&self) -> impl Iterator<Item = WorkerId> {
        let any = self.any_without_core.load(Ordering::Relaxed);
        let workers = self.without_core.iter().enumerate().filter(move |_| any);
        workers.filter(|(_, without)| without.load(Ordering::Relaxed)).map(|(nth, _)| WorkerId(nth as u32))
    }

    /// Notes that the worker was admitted to sleep, and gives up its core unless the policy keeps it. Returns true if
    /// the pool [keeps a core](Activation::keeps_core). The worker should then call
    /// [`look_at_kept_core`](Activation::look_at_kept_core) after [`KEPT_CORE`](crate::dialogue::KEPT_CORE) if it
    /// still sleeps. Without this call, the core is released at the coordinator's next look.
    pub fn fell_asleep(&self, pool: &impl Pool<Platform = P>, me: WorkerId) -> bool {
        let mut books = self.books();
        books.fall_asleep(me);
        self.let_go(&mut books, pool, me);
        self.balance(&mut books, pool);
        // If a worker was woken and is not up yet, no look is needed: if it finds no task, it calls this function
        // again.
        let keeps = self.may_keep() && books.awake() == 0 && books.held() > 0;
        keeps && self.about_to_be_up(&books, pool) == 0
    }

    /// Releases the core that the pool kept when its last worker fell asleep, unless a woken worker or the running
    /// caller still needs it. Most callers block within a few microseconds after their task is done. Without this step
    /// the core would then stay idle until the coordinator's next look.
    pub fn look_at_kept_core(&self, pool: &impl Pool<Platform = P>, me: WorkerId) {
        let mut books = self.books();
        if books.awake() == 0 {
            self.let_go(&mut books, pool, me);
            self.balance(&mut books, pool);
        }
    }

    /// Notes that the worker is up again, and gives it a core if there is one. Returns `Retires` if there is no core
    /// for it and it has no [business](Work::has_business).
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

    /// Retires the worker, because more workers are awake than there is room for, or because it wants no core. Other
    /// threads must already see it as a thief. It must call [`Sleep::pass_on`] afterwards. Returns false if the worker
    /// is needed.
    pub fn retire(&self, pool: &impl Pool<Platform = P>, me: WorkerId, why: Retirement) -> bool {
        let mut books = self.books();
        let is_surplus = books.awake() > self.room(&books);
        if !self.may_retire(&books, me) || !(why == Retirement::ByItself || is_surplus) {
            return false;
        }
        if is_surplus && self.sharing.sleeper == Sleeper::LendsCore {
            // The sleepers that the next pushes would wake would find no core either.
            Self::retire_sleepers(&mut books, pool);
        }
        // The rest word is written under the lock, so that a coordinator that recalls the worker finds it at rest.
        pool.sleep().retire(me);
        books.retire(me);
        books.set_midway(me, why == Retirement::Midway);
        self.let_go(&mut books, pool, me);
        self.balance(&mut books, pool);
        true
    }

    fn retire_sleepers(books: &mut Books, pool: &impl Pool<Platform = P>) {
        for sleeper in books.all() {
            // A sleeper that was woken a moment ago waits for the lock, and is still asleep in the books. It does not
            // retire here.
            if books.is(sleeper, State::Asleep) && pool.sleep().retire_sleeper(sleeper) {
                books.retire(sleeper);
            }
        }
    }

    /// True if the worker may retire: another worker is awake, or asleep so that a task wakes it. In a closed pool,
    /// every worker may retire. In a pool outside the core table, no coordinator recalls a worker, so only a surplus
    /// worker retires.
    fn may_retire(&self, books: &Books, me: WorkerId) -> bool {
        if self.is_closed() {
            return true;
        }
        let mut others = books.in_state(State::Awake).chain(books.in_state(State::Asleep));
        let is_recalled = self.member().is_some() || books.awake() > self.room(books);
        is_recalled && others.any(|worker| worker != me)
    }

    /// Gives up the core of a worker that no longer needs a core.
    fn let_go(&self, books: &mut Books, pool: &impl Pool<Platform = P>, me: WorkerId) {
        let core = books.entries[me.index()].core.take();
        let Some(member) = self.member() else { return };
        // Under such a policy a pool keeps its cores while a worker is awake, and holds no core otherwise.
        if self.sharing.sleeper == Sleeper::KeepsCore && books.awake() > 0 {
            return;
        }
        let mut own = core;
        let needed = self.needed(books, pool);
        while books.held() > needed {
            let core = own.take().or_else(|| books.spare().next());
            // If the core cannot be released, its owner has taken it back. The books then note all lost cores.
            if !Self::pass_on(books, member, core) && self.note_losses(books, member) == 0 {
                return;
            }
        }
    }

    /// True if the pool keeps a core although no worker is awake: a worker was woken and is not up yet, or the thread
    /// that handed in the last task runs. If the core were released, a worker of another program might take it from
    /// that thread, and the next task would have to wait for it.
    pub fn keeps_core(&self, books: &Books, pool: &impl Pool<Platform = P>) -> bool {
        // A pool keeps a core only if no other pool of the program holds one.
        let is_only = |member: &C| member.held_by_program().iter().all(|core| books.held.contains(core));
        self.may_keep()
            && books.awake() == 0
            && books.held() > 0
            && self.member().is_some_and(is_only)
            && (self.about_to_be_up(books, pool) > 0 || pool.caller_runs())
    }

    /// True if the pool holds cores while other programs want some, and lends the cores that it does not need.
    fn may_keep(&self) -> bool {
        self.sharing.sleeper == Sleeper::LendsCore && !self.is_free() && !self.is_closed()
    }

    /// Returns the number of workers that were woken and are not up yet. On a single core, the worker that wakes
    /// another continues to run, and may fall asleep before the other gets the core.
    fn about_to_be_up(&self, books: &Books, pool: &impl Pool<Platform = P>) -> u32 {
        let is_woken = |worker: &WorkerId| !books.is(*worker, State::Awake) && !pool.sleep().is_at_rest(*worker);
        books.workers().filter(is_woken).count() as u32
    }

    /// Returns the cores on which a thread outside of the pool, now on core `at`, should wait for its task. These are
    /// the cores that the pool holds, or else the cores that its program holds. `None`: the thread waits where it is,
    /// because `at` is one of these cores, or there are none.
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

    /// Gives a core to a worker that is awake, if one is available.
    fn take_core(&self, books: &mut Books, me: WorkerId) {
        if books.held() < books.awake() && !self.is_closed() {
            self.claim_or_take_back(books);
        }
        books.entries[me.index()].core = books.spare().next();
    }

    // Steps of the coordinator, with the lock.

    /// Removes cores from the books that the table no longer shows as this pool's. Returns their number, and records
    /// them as lost.
    pub fn note_losses(&self, books: &mut Books, member: &C) -> u32 {
        let lost = self.note_moves(books, member);
        if lost > 0 {
            member.note_lost(lost);
            self.set_alone(false);
        }
        lost
    }

    /// Removes cores from the books that the table no longer shows as this pool's. Returns their number. They are not
    /// recorded as lost, because they may have moved to other pools of the program.
    pub fn note_moves(&self, books: &mut Books, member: &C) -> u32 {
        let before = core::mem::replace(&mut books.held, member.held());
        let held = books.held;
        let lost = before.iter().filter(|core| !held.contains(*core));
        lost.inspect(|core| books.lose(*core)).count() as u32
    }

    /// Gains a core in the first of these ways that succeeds, if the pool may hold one more.
    pub fn gain(&self, books: &mut Books, ways: impl IntoIterator<Item = Gain>) -> bool {
        let member = self.member().filter(|_| books.held() < self.most() && !self.is_by_time());
        let core = member.and_then(|member| ways.into_iter().find_map(|how| member.gain(how)));
        core.inspect(|core| books.held.insert(*core)).is_some()
    }

    /// Claims a core that the policy lets the pool claim, or else takes one back.
    fn claim_or_take_back(&self, books: &mut Books) -> bool {
        self.gain(books, [Gain::Claim { own_only: self.sharing.own_only }, Gain::TakeBack])
    }

    /// Releases `core`. `None`: any core. Returns false if the pool no longer holds the core.
    pub fn release(&self, books: &mut Books, member: &C, core: Option<usize>) -> bool {
        member.release(core).inspect(|released| books.lose(*released)).is_some()
    }

    /// Gives away a core that no worker of the pool needs, and notes it in the books: see [`Cores::pass_on`].
    fn pass_on(books: &mut Books, member: &C, core: Option<usize>) -> bool {
        member.pass_on(core).inspect(|core| books.lose(*core)).is_some()
    }

    /// Handles a ring of the bell: a core was taken back, or a core is available. Returns true if cores were taken
    /// back.
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

    /// Assigns a worker to each core, if there are workers, and releases cores without a worker unless the policy
    /// keeps them. In a closed pool the sleepers retire, and a worker in the middle of a task retires when the task
    /// ends or forks. `mover` is the caller.
    pub fn employ(&self, books: &mut Books, pool: &impl Pool<Platform = P>, queued: usize, mover: Mover) {
        let Some(member) = self.member() else { return };
        if self.is_closed() {
            Self::retire_sleepers(books, pool);
            if books.awake() > 0 {
                pool.ring_bells();
            }
        }
        if self.sharing.sleeper != Sleeper::KeepsCore && !self.is_closed() {
            // Cores for workers that are awake without one.
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
                // The owners have taken the other cores back.
                self.note_losses(books, member);
            }
        }
        self.balance_as(books, pool, mover);
    }

    /// Wakes workers after the pool was opened: every worker that rests in the middle of a task, which then continues,
    /// and every worker that has business. While the pool was closed, tasks queued at one worker did not count as
    /// business. The other workers continue to rest until there are cores for them.
    pub fn reopen(&self, pool: &impl Pool<Platform = P>) {
        // A worker that retired because the pool was closed did so before this thread took the lock, so this thread
        // finds it at rest. A worker that retires later finds the pool open (Claim 7).
        let midway: Vec<bool> = self.books.with(|books| books.all().map(|worker| books.is_midway(worker)).collect());
        for (worker, midway) in (0..).map(WorkerId).zip(midway) {
            if midway || !self.counts(worker) || pool.has_business(worker) {
                pool.sleep().wake_for_business(worker);
            }
        }
    }

    /// Sets the maximum number of awake workers to `most`. `queued` is the number of tasks that wait.
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

    /// Recalls retired workers while there are cores for them. While tasks wait, also recalls one worker for each
    /// awake worker that needs no core.
    fn recall(&self, books: &mut Books, pool: &impl Pool<Platform = P>, queued: usize) {
        let room = match queued {
            _ if self.is_free() || self.is_closed() => self.room(books),
            0 => books.held().max(1),
            _ => self.room(books),
        };
        while books.awake() < room {
            let core = books.spare().next();
            // The preferred worker is the one whose number is the core's position in `may_use`, so that workers keep
            // their cores.
            let place = core.map(|core| books.may_use.iter().take_while(|other| *other < core).count());
            let preferred = place.map(|place| WorkerId((place % books.entries.len()) as u32));
            let preferred = preferred.filter(|worker| books.is(*worker, State::Retired));
            let midway = || books.in_state(State::Retired).find(|worker| books.is_midway(*worker));
            let preferred = preferred.filter(|worker| books.is_midway(*worker)).or_else(midway).or(preferred);
            let Some(worker) = preferred.or_else(|| books.in_state(State::Retired).next()) else { break };
            // The books are written first, because the worker may be up before this function continues. Its thread
            // moves before it wakes.
            books.recall(worker, core);
            if self.sharing.placement == Placement::Anywhere {
                self.lead(books, pool, worker, true);
            } else {
                self.place(books, pool, Mover::Other);
            }
            // If the recall fails, the worker was woken for business of its own, and is up.
            pool.sleep().recall(worker);
        }
    }

    /// Makes retired workers hungry again, up to the number of workers that could get a core for a task.
    fn restore_hunger(&self, books: &mut Books, pool: &impl Pool<Platform = P>) {
        let hungry = books.awake() + books.in_state(State::Asleep).count() as u32;
        let room = if self.wakes_by_push() { self.room(books) } else { self.most() };
        // The books are written first for each worker, because a push may wake it before this function continues.
        let retired = books.all().filter(|worker| books.make_hungry(*worker));
        pool.sleep().restore_hunger(retired.take(room.saturating_sub(hungry) as usize), pool);
    }

    /// Updates the values that thieves read, and where threads may run. A thread that changed a count or a core calls
    /// this before it releases the lock.
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

    /// Publishes in the table whether the pool wants a core, so that a program that releases one rings this program's
    /// bell.
    fn ask_for_cores(&self, books: &mut Books, pool: &impl Pool<Platform = P>, member: &C) {
        let is_short = books.awake() > books.held();
        let rests_for_want = match self.is_closed() {
            true => books.midway() > 0 || pool.deques_have_task() || pool.injector_has_task(),
            false => books.retired() > 0,
        };
        let wants = (is_short || rests_for_want) && books.held() < self.most() && !self.is_free();
        member.want(wants);
        member.lack(wants && is_short);
        // The look for free cores follows the publication, so a program that releases a core later rings the bell. In
        // a closed pool, workers are not made hungry: a push would wake them, and each would retire again.
        if wants && books.retired() > 0 && member.any_free() && !self.is_closed() {
            self.restore_hunger(books, pool);
            member.want(is_short);
            if !pool.deques_have_task() && !pool.injector_has_task() {
                // This pool has no task for the free core, but another program may have one.
                member.decline();
            }
        }
    }

    /// Gives cores to awake workers, and sets where each worker's thread may run.
    ///
    /// A thread that may run anywhere usually moves itself. If another thread moves it, and the program binds it to
    /// the target core during the move, the program's mask is lost.
    fn place(&self, books: &mut Books, pool: &impl Pool<Platform = P>, mover: Mover) {
        let (held, free) = (books.held, self.is_free());
        // A pool without a core shares the cores of its program's other pools.
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
            // A worker that rests wakes where it is confined. On a core that the pool has lost, it would wait behind
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
                // A pool that is wide and has no core keeps its workers confined, so that they do not spread over the
                // cores of other programs.
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
            // The thread may still run on a core that the pool has lost, or on a core with workers that were confined
            // together with it.
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

    /// Moves the worker's thread to the core that the worker was given, if any.
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
