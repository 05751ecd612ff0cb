//! Which worker sleeps, which step wakes it, and why no task waits for a pool that sleeps.
//!
//! # States
//!
//! Each worker has a **role**, busy or thief, and a **rest word**, which its thread also waits on:
//!
//! | from | to | by | step |
//! |---|---|---|---|
//! | AWAKE | ASLEEP | the owner | [`announce`](Sleep::announce) |
//! | AWAKE | RETIRED: asleep, and without a core | the owner | [`retire`](Sleep::retire) |
//! | ASLEEP | RETIRED | the holder of the books' lock | [`retire_sleeper`](Sleep::retire_sleeper) |
//! | RETIRED | ASLEEP | the holder of the books' lock | [`restore_hunger`](Sleep::restore_hunger) |
//! | ASLEEP | WOKEN_…, with the reason | a waker | each step that wakes |
//! | RETIRED | WOKEN_… | the coordinator, or a waker for business | [`recall`](Sleep::recall), [`wake_for_business`](Sleep::wake_for_business) |
//! | ASLEEP, RETIRED | AWAKE | the owner | [`retract`](Sleep::retract) |
//! | WOKEN_… | AWAKE | the owner | [`park`](Sleep::park), [`retract`](Sleep::retract) |
//!
//! The steps of a worker: to sleep [`announce`](Sleep::announce), [`admit`](Sleep::admit), then [`park`](Sleep::park)
//! or [`retract`](Sleep::retract); without a core [`retire`](Sleep::retire), [`pass_on`](Sleep::pass_on), then the
//! same two; with a task [`publish_busy`](Sleep::publish_busy), [`hand_over`](Sleep::hand_over). A worker may be
//! interrupted before and after each public step. A dialogue takes them, and the model world of the runtime's tests
//! interleaves what it takes.
//!
//! What [`Waking`] decides stands in one file for each way: `hungry`, `watchdog`, `always_awake`, `every_push`. A new
//! way is such a file, and its arms in `way`.
//!
//! # Invariants
//!
//! - Only the owner leaves AWAKE and WOKEN; all leave ASLEEP and RETIRED by compare-and-swap, so one waker ends each
//!   sleep.
//! - No worker is parked while a task waits, unless a thief is awake or a step is under way that wakes one (Lemmas 1
//!   to 7).
//! - What only one worker can act on wakes that worker, asleep or retired (Lemmas 3, 9, 11).
//! - A worker that stops looking, busy or retired, passes on what depended on its looking (Lemmas 4, 5, 7, 8).
//! - A pool without work falls asleep entirely, without a timeout. There are two exceptions: where a barrier was refused,
//!   sleepers look again (Lemma 13), and a sleeper may look once at a core that its pool keeps.
//!
//! The crate's `README.md` has the lemmas; their numbers stand beside the steps.

mod always_awake;
mod any_way;
mod every_push;
mod hunger;
mod hungry;
mod watchdog;
mod way;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use comity_policy::{SleepRefusal, WakeReason, Waking, WorkerId};
use crossbeam_utils::CachePadded;

use crate::platform::{Lock, Parker, Platform, Waker, Word};

use any_way::{AnyWay, way};
use way::Way;

/// What the protocol must be able to see of the pool's queues.
pub trait Work {
    /// Whether some deque shows a task that a thief could take.
    fn deques_have_task(&self) -> bool;
    /// Whether a task from outside waits.
    fn injector_has_task(&self) -> bool;
    /// Whether something waits that only `worker` can act on: what it awaits is done, its inbox, the pool's end.
    fn has_business(&self, worker: WorkerId) -> bool;
    /// Makes the next push of every worker call [`Sleep::push_met_bell`]. What was written before is visible there.
    fn ring_bells(&self);
    /// A sleeper is about to be woken for a task. If it can have a core only from a program that borrows that core,
    /// that program is told now, and not once the woken thread has come to run beside it. Does nothing where cores are
    /// not shared.
    fn make_way(&self) {}
}

/// The values of a worker's rest word.
mod word {
    pub(super) const AWAKE: u32 = 0;
    pub(super) const ASLEEP: u32 = 1;
    pub(super) const WOKEN_BY_PEER: u32 = 2;
    pub(super) const WOKEN_AS_WATCHDOG: u32 = 3;
    pub(super) const WOKEN_BY_INJECTION: u32 = 4;
    /// Something that only this worker can act on: see [`Work::has_business`](super::Work::has_business).
    pub(super) const WOKEN_FOR_BUSINESS: u32 = 5;
    /// Asleep, and without a core: only the coordinator may wake the worker for a task.
    pub(super) const RETIRED: u32 = 6;
    pub(super) const WOKEN_BY_COORDINATOR: u32 = 7;
    /// Added to a WOKEN value: the waker's mark, which becomes [`Rest::marked`](super::Rest::marked).
    pub(super) const MARK: u32 = 16;

    pub(super) fn is_at_rest(word: u32) -> bool {
        matches!(word, ASLEEP | RETIRED)
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// For this reason.
    For(WakeReason),
    /// For something that only this worker can act on.
    Business,
}

/// The answer to [`Sleep::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Park; where a timeout is given, ask again after it.
    Park(Option<Duration>),
    /// Stay awake.
    Refused(SleepRefusal),
}

/// The answer to [`Sleep::park`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// Wait until the [parker](Sleep::parker) holds another value.
    Waits {
        /// What it holds now.
        at_rest: u32,
        /// True if the worker's timeout is in force. A worker that was retired meanwhile has nothing to look for.
        looks_again: bool,
    },
    /// The worker was woken.
    Over(Woken),
}

/// One worker's part.
struct Rest<P: Platform> {
    /// One of [`word`]'s values. The owner, wakers and the coordinator write it.
    word: P::Parker,
    /// The role. The owner writes it, with release; all read it.
    busy: P::Bool,
    /// What the way of waking tells the worker by a marked wake-up. Only the owner reads and writes it.
    marked: P::Bool,
}

/// The workers of a pool by role, for `wsgi` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// With a task.
    pub busy: u32,
    /// Looking for one.
    pub thieves: u32,
    /// Asleep.
    pub sleepers: u32,
}

/// The sleep protocol of one pool.
pub struct Sleep<P: Platform> {
    platform: P,
    rests: Box<[CachePadded<Rest<P>>]>,
    way: AnyWay<P>,
    /// False if the pool has no core besides its waker's: a woken thread then stays where the kernel wakes it. No step
    /// of the protocol depends on it, so it is no word of the platform, and loom need not explore it.
    may_steer: AtomicBool,
    /// BWS §5.5: the global information of `wsgi`, under the lock on which it measures contention.
    roles: Option<P::Lock<Roles>>,
}

impl<P: Platform> Sleep<P> {
    /// All workers start awake and busy: what a new worker may be given to do before it first looks for work is work.
    pub fn new(platform: P, workers: u32, waking: Waking, counts_roles: bool) -> Sleep<P> {
        let rest = |me: WorkerId| Rest {
            word: platform.parker(me, word::AWAKE),
            busy: platform.bool(Some(me), true),
            marked: platform.bool(Some(me), false),
        };
        Sleep {
            way: AnyWay::new(&platform, waking),
            may_steer: AtomicBool::new(true),
            rests: (0..workers).map(|me| CachePadded::new(rest(WorkerId(me)))).collect(),
            roles: counts_roles.then(|| platform.lock(Roles { busy: workers, ..Roles::default() })),
            platform,
        }
    }

    fn rest(&self, worker: WorkerId) -> &Rest<P> {
        &self.rests[worker.index()]
    }

    fn workers(&self) -> impl Iterator<Item = WorkerId> {
        (0..self.rests.len() as u32).map(WorkerId)
    }

    /// The workers after `me`, then those before it: wakers spread out instead of all starting with worker 0.
    fn others(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> {
        let workers = self.rests.len() as u32;
        (me.0 + 1..workers).chain(0..me.0).map(WorkerId)
    }

    /// The sleepers among all workers, `me` last.
    fn sleepers(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> {
        self.others(me).chain([me]).filter(|worker| self.is_asleep(*worker))
    }

    /// Where a thread of no pool begins to look for sleepers: after it comes the first worker.
    fn last_worker(&self) -> WorkerId {
        WorkerId(self.rests.len() as u32 - 1)
    }
}

/// What others may ask.
impl<P: Platform> Sleep<P> {
    /// Whether the worker has an unfinished task.
    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.rest(worker).busy.load(Ordering::Relaxed)
    }

    /// Whether the worker sleeps, or is about to.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        self.rest(worker).word.load(Ordering::Relaxed) == word::ASLEEP
    }

    /// Whether the worker has no core.
    pub fn is_retired(&self, worker: WorkerId) -> bool {
        self.rest(worker).word.load(Ordering::Relaxed) == word::RETIRED
    }

    /// Whether the worker sleeps or has retired.
    pub fn is_at_rest(&self, worker: WorkerId) -> bool {
        word::is_at_rest(self.rest(worker).word.load(Ordering::Relaxed))
    }

    /// Under [`Waking::Hungry`] the number of sleepers that a push may wake; far below zero while a worker is
    /// searching.
    pub fn hunger(&self) -> i32 {
        way!(self.hunger())
    }

    /// Whether any worker has an unfinished task.
    pub fn any_busy(&self) -> bool {
        self.workers().any(|worker| self.is_busy(worker))
    }

    fn any_asleep(&self) -> bool {
        self.workers().any(|worker| self.is_asleep(worker))
    }

    /// The roles, counted under the lock. All zero unless the pool was built to count them.
    pub fn roles(&self) -> Roles {
        self.roles.as_ref().map_or(Roles::default(), |roles| roles.with(|roles| *roles))
    }

    fn change_roles(&self, change: impl FnOnce(&mut Roles)) {
        if let Some(roles) = &self.roles {
            roles.with(change);
        }
    }
}

/// The busy side.
impl<P: Platform> Sleep<P> {
    /// Whether a worker may stop its bell once a push has met it. Otherwise the bell rings for ever, and every push
    /// looks for sleepers.
    pub fn bell_may_stop(&self) -> bool {
        way!(self.bell_may_stop())
    }

    /// After a push that met the bell, which was stopped meanwhile. A thief may have rung it, or a step that left
    /// hunger behind.
    #[cold]
    pub fn push_met_bell(&self, me: WorkerId, work: &impl Work) {
        way!(self.push_met_bell(me, work));
    }

    /// After a worker pushed a task where all can see it: wakes one that sleeps.
    #[inline]
    pub fn after_spawn(&self, me: WorkerId, work: &impl Work) {
        self.platform.light();
        way!(self.after_spawn(me, work));
    }

    /// After a task was handed in from outside: wakes one worker, if any sleeps.
    pub fn after_injection(&self, submitter: Waker, work: &impl Work) {
        // Lemmas 1 and 2, with the injector for the deque.
        self.platform.fence(Ordering::SeqCst);
        way!(self.after_injection(submitter, work));
    }

    /// After a task was queued at `last`, where thieves can take it too, by the worker `me` or by a thread of no pool.
    pub fn after_placing(&self, last: WorkerId, me: Option<WorkerId>, work: &impl Work) {
        // Lemma 11.
        way!(self.order_placing(me));
        if !self.wake_thread_for_business(last, Waker::GoesOn) {
            match me {
                Some(me) => self.after_spawn(me, work),
                // A sleeper is woken all the same: `last` may be in the middle of something long.
                None => self.after_injection(Waker::GoesOn, work),
            }
        }
    }

    /// Wakes `worker`, if it sleeps, for something that only it can act on. The caller has made that visible.
    pub fn wake_for_business(&self, worker: WorkerId) {
        // Lemma 3: the business before the look at the word; the sleeper announces itself before it looks for business.
        self.platform.fence(Ordering::SeqCst);
        // A worker that finishes what another waits for is about to look for work itself.
        self.wake_thread_for_business(worker, Waker::MakesRoom);
    }

    /// False: it is up, or another waker has claimed it.
    fn wake_thread_for_business(&self, worker: WorkerId, waker: Waker) -> bool {
        loop {
            let claimed = match self.rest(worker).word.load(Ordering::Relaxed) {
                word::ASLEEP => self.claim(worker, word::WOKEN_FOR_BUSINESS),
                word::RETIRED => self.exchange(worker, word::RETIRED, word::WOKEN_FOR_BUSINESS),
                _ => return false,
            };
            if claimed {
                self.wake_thread(worker, waker);
                return true;
            }
        }
    }
}

/// Workers without a core. The caller holds the lock of the pool's books.
impl<P: Platform> Sleep<P> {
    /// `me`, a thief, has no core any more: it rests until the coordinator has one, or it has business. Must be
    /// followed by [`Sleep::pass_on`], and then by [`Sleep::park`], or where it has business already, by
    /// [`Sleep::retract`].
    pub fn retire(&self, me: WorkerId) {
        self.rest(me).word.store(word::RETIRED, Ordering::Release);
    }

    /// Second step to retire: what depended on this worker's looking for tasks passes to another (Lemma 8).
    pub fn pass_on(&self, me: WorkerId, work: &impl Work) {
        // Lemma 3, for the look for business that follows.
        self.platform.fence(Ordering::SeqCst);
        way!(self.pass_on(me, work));
    }

    /// There is no core for `sleeper`, should a push wake it: it rests as one that has retired. False if it has been
    /// woken.
    pub fn retire_sleeper(&self, sleeper: WorkerId) -> bool {
        let retired = self.exchange(sleeper, word::ASLEEP, word::RETIRED);
        if retired {
            way!(self.sleeper_removed());
        }
        retired
    }

    /// There is a core for `retired`: wakes it. False if it has been woken.
    pub fn recall(&self, retired: WorkerId) -> bool {
        let recalled = self.exchange(retired, word::RETIRED, word::WOKEN_BY_COORDINATOR);
        if recalled {
            self.wake_thread(retired, Waker::MakesRoom);
        }
        recalled
    }

    /// There are cores for `retired`, should there be tasks: the next push wakes one of them, as if they had just
    /// fallen asleep. Only under [`Waking::Hungry`].
    pub fn restore_hunger(&self, retired: impl Iterator<Item = WorkerId>, work: &impl Work) {
        way!(self.restore_hunger(retired, work));
    }

    /// Moves the word of a worker that rests. False: the word has another value by now.
    fn exchange(&self, worker: WorkerId, from: u32, to: u32) -> bool {
        self.rest(worker).word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// From thief to busy and back.
impl<P: Platform> Sleep<P> {
    /// The worker's deque ran empty.
    pub fn publish_thief(&self, me: WorkerId) {
        self.rest(me).busy.store(false, Ordering::Release);
        self.change_roles(|roles| {
            roles.busy -= 1;
            roles.thieves += 1;
        });
    }

    /// The worker has a task in hand. [`Sleep::hand_over`] must follow before the task starts.
    pub fn publish_busy(&self, me: WorkerId) {
        self.rest(me).busy.store(true, Ordering::Release);
        self.change_roles(|roles| {
            roles.busy += 1;
            roles.thieves -= 1;
        });
    }

    /// The worker stops looking for tasks: what depended on its looking passes to another.
    pub fn hand_over(&self, me: WorkerId, work: &impl Work) {
        self.platform.fence(Ordering::SeqCst);
        way!(self.hand_over(me, work));
    }
}

/// The thief's side.
impl<P: Platform> Sleep<P> {
    /// Wakes `sleeper`, or any sleeper, and with `appoint` makes it the watchdog if this worker is the watchdog.
    pub fn wake_peer(&self, me: WorkerId, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        way!(self.wake_peer(me, sleeper, appoint))
    }

    /// Wakes `sleeper`, if it sleeps. `None`: any sleeper.
    fn wake_one(&self, me: WorkerId, sleeper: Option<WorkerId>) -> Option<WorkerId> {
        let mut candidates = self.others(me).filter(|peer| sleeper.is_none_or(|sleeper| sleeper == *peer));
        let woken = candidates.find(|peer| self.is_asleep(*peer) && self.claim(*peer, word::WOKEN_BY_PEER))?;
        self.wake_thread(woken, Waker::GoesOn);
        Some(woken)
    }

    /// First step to sleep: from here on others may wake this worker.
    pub fn announce(&self, me: WorkerId) {
        self.change_roles(|roles| {
            roles.thieves -= 1;
            roles.sleepers += 1;
        });
        // Before the word: a waker that claims this sleeper lowers what was raised, never another's part (Lemma 1).
        way!(self.sleeper_added());
        self.rest(me).word.store(word::ASLEEP, Ordering::Release);
    }

    /// Second step: the look that no sleeper may skip. Refused: [`Sleep::retract`]. Else [`Sleep::park`].
    pub fn admit(&self, me: WorkerId, work: &impl Work) -> Admission {
        way!(self.admit(me, work))
    }

    /// Takes back an announcement that was refused, or a retirement. `Some`: a waker was faster, and its wake-up
    /// counts.
    pub fn retract(&self, me: WorkerId) -> Option<Woken> {
        loop {
            // A change of the books may move it from one word to the other meanwhile, as in `wake_for_business`.
            let retracted = match self.rest(me).word.load(Ordering::Relaxed) {
                word::ASLEEP => self.claim(me, word::AWAKE),
                word::RETIRED => self.exchange(me, word::RETIRED, word::AWAKE),
                _ => return Some(self.consume_wakeup(me)),
            };
            if retracted {
                return None;
            }
        }
    }

    /// Third step: whether to wait, or why the sleep is over. The driver waits in its own way, and asks again.
    pub fn park(&self, me: WorkerId) -> Parking {
        match self.rest(me).word.load(Ordering::Acquire) {
            at_rest if word::is_at_rest(at_rest) => Parking::Waits { at_rest, looks_again: at_rest == word::ASLEEP },
            _ => Parking::Over(self.consume_wakeup(me)),
        }
    }

    /// What the driver waits on.
    pub fn parker(&self, me: WorkerId) -> &P::Parker {
        &self.rest(me).word
    }

    fn consume_wakeup(&self, me: WorkerId) -> Woken {
        let rest = self.rest(me);
        let woken = rest.word.load(Ordering::Acquire);
        rest.word.store(word::AWAKE, Ordering::Relaxed);
        if woken & word::MARK != 0 {
            rest.marked.store(true, Ordering::Relaxed);
        }
        match woken & !word::MARK {
            word::WOKEN_BY_PEER => Woken::For(WakeReason::Peer),
            word::WOKEN_AS_WATCHDOG => Woken::For(WakeReason::Appointed),
            word::WOKEN_BY_INJECTION => Woken::For(WakeReason::Injected),
            word::WOKEN_FOR_BUSINESS => Woken::Business,
            word::WOKEN_BY_COORDINATOR => Woken::For(WakeReason::Coordinator),
            other => unreachable!("worker {} consumes a wake-up that never was: {other}", me.0),
        }
    }
}

/// Steps that the ways of waking have in common.
impl<P: Platform> Sleep<P> {
    /// Ends `worker`'s sleep by setting its word, if no other waker has. The caller wakes the thread.
    fn claim(&self, worker: WorkerId, woken: u32) -> bool {
        let word = &self.rest(worker).word;
        let exchange = || word.compare_exchange(word::ASLEEP, woken, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // Claimed and counted under one lock: the sleeper may be awake, and count itself busy, before this returns.
        let counted = |roles: &mut Roles| {
            let claimed = exchange();
            roles.sleepers -= u32::from(claimed);
            roles.thieves += u32::from(claimed);
            claimed
        };
        if !self.roles.as_ref().map_or_else(exchange, |roles| roles.with(counted)) {
            return false;
        }
        way!(self.sleeper_removed());
        true
    }

    /// Sets whether a waker that goes on steers the woken thread away from its own core. Beside other programs the only
    /// other core may be one of theirs, and the thread would wait there behind their threads.
    pub(crate) fn set_may_steer(&self, may: bool) {
        if self.may_steer.load(Ordering::Relaxed) != may {
            self.may_steer.store(may, Ordering::Relaxed);
        }
    }

    /// Wakes the thread of a worker after its sleep was claimed.
    fn wake_thread(&self, worker: WorkerId, waker: Waker) {
        let waker = if self.may_steer.load(Ordering::Relaxed) { waker } else { Waker::MakesRoom };
        self.rest(worker).word.wake(way!(self.placed_beside(waker)));
    }

    fn wake_up_to(&self, most: usize, me: WorkerId, woken: u32) {
        for sleeper in self.sleepers(me).filter(|worker| self.claim(*worker, woken)).take(most) {
            self.wake_thread(sleeper, Waker::GoesOn);
        }
    }

    /// Lemma 2, the waker's look: one sleeper for a task from outside.
    fn wake_for_injection(&self) {
        self.wake_up_to(1, self.last_worker(), word::WOKEN_BY_INJECTION);
    }

    /// Lemma 8: the worker that retires may have been woken for a task from outside, beside one that has looked and is
    /// about to park.
    fn pass_injection_on(&self, me: WorkerId, work: &impl Work) {
        if work.injector_has_task() {
            self.wake_up_to(1, me, word::WOKEN_BY_INJECTION);
        }
    }

    /// Lemmas 2 and 3, the sleeper's look: announced, fence, whether business or a task from outside waits.
    fn work_arrived(&self, me: WorkerId, work: &impl Work) -> bool {
        self.platform.fence(Ordering::SeqCst);
        work.has_business(me) || work.injector_has_task()
    }
}

/// The words of all workers, and the hunger: for the model world's traces.
impl<P: Platform> fmt::Debug for Sleep<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<u32> = self.rests.iter().map(|rest| rest.word.load(Ordering::Relaxed)).collect();
        write!(f, "words {words:?}, hunger {}", self.hunger())
    }
}
