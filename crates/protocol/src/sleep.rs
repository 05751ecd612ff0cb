//! The sleep protocol: which worker sleeps, which step wakes it, and why a waiting task always has a worker that is
//! awake or about to be woken.
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
//! A worker takes these steps to sleep: [`announce`](Sleep::announce), [`admit`](Sleep::admit), then
//! [`park`](Sleep::park) or [`retract`](Sleep::retract). A worker without a core takes these:
//! [`retire`](Sleep::retire), [`pass_on`](Sleep::pass_on), then [`park`](Sleep::park) or [`retract`](Sleep::retract).
//! A thief that has found a task takes these: [`publish_busy`](Sleep::publish_busy), [`hand_over`](Sleep::hand_over).
//! A worker may be interrupted before and after each public step. A [dialogue](crate::dialogue) calls the steps, and
//! the model world of the runtime's tests interleaves the steps of several dialogues.
//!
//! Each way of [`Waking`] has one file: `hungry`, `watchdog`, `always_awake`, `every_push`. A new way needs a new
//! file, and its arms in `any_way`.
//!
//! # Invariants
//!
//! - Only the owner changes AWAKE and WOKEN. All threads change ASLEEP and RETIRED only by compare-and-swap, so
//!   exactly one thread ends each sleep.
//! - If a task waits and a worker is parked, a thief is awake, or a step is under way that wakes one (Lemmas 1 to 7).
//! - An event that only one worker can act on wakes that worker, asleep or retired (Lemmas 3, 9, 11).
//! - A worker that stops looking for tasks, because it is busy or retired, passes its duties on to another (Lemmas 4,
//!   5, 7, 8).
//! - A pool without work falls asleep entirely, without a timeout. There are two exceptions: if the system refused a
//!   barrier, sleepers look for tasks again after a timeout (Lemma 13), and a sleeper may look once at a core that its
//!   pool keeps.
//!
//! The crate's `README.md` has the lemmas; their numbers are in the comments of the steps.

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

/// The state of the pool's queues that the protocol needs.
pub trait Work {
    /// True if a deque shows a task that a thief could take.
    fn deques_have_task(&self) -> bool;
    /// True if a task from outside waits.
    fn injector_has_task(&self) -> bool;
    /// True if `worker` has *business*, an event that only `worker` can act on: the end of what it awaits, a task in
    /// its inbox, or the pool's end.
    fn has_business(&self, worker: WorkerId) -> bool;
    /// Rings the bell of every worker: the worker's next push calls [`Sleep::push_met_bell`]. Writes before this call
    /// are visible to that push.
    fn ring_bells(&self);
    /// Prepares a core for a sleeper that is about to be woken for a task. If another program borrows the only core
    /// that the sleeper can have, the borrower is notified now, and not only after the woken thread has shared the
    /// core with it. Does nothing if cores are not shared.
    fn make_way(&self) {}
}

/// The values of a worker's rest word.
mod word {
    pub(super) const AWAKE: u32 = 0;
    pub(super) const ASLEEP: u32 = 1;
    pub(super) const WOKEN_BY_PEER: u32 = 2;
    pub(super) const WOKEN_AS_WATCHDOG: u32 = 3;
    pub(super) const WOKEN_BY_INJECTION: u32 = 4;
    /// The worker was woken for business: see [`Work::has_business`](super::Work::has_business).
    pub(super) const WOKEN_FOR_BUSINESS: u32 = 5;
    /// The worker is asleep and has no core: only the coordinator may wake it for a task.
    pub(super) const RETIRED: u32 = 6;
    pub(super) const WOKEN_BY_COORDINATOR: u32 = 7;
    /// A mark that the waker adds to a WOKEN value. The woken worker stores it in
    /// [`Rest::marked`](super::Rest::marked).
    pub(super) const MARK: u32 = 16;

    pub(super) fn is_at_rest(word: u32) -> bool {
        matches!(word, ASLEEP | RETIRED)
    }
}

/// The reason why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The worker was woken for this reason.
    For(WakeReason),
    /// The worker was woken for [business](Work::has_business).
    Business,
}

/// The result of [`Sleep::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The worker may park. If there is a timeout, the worker must ask again when the timeout has passed.
    Park(Option<Duration>),
    /// The worker must stay awake.
    Refused(SleepRefusal),
}

/// The result of [`Sleep::park`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// The worker must wait until the [parker](Sleep::parker) holds another value.
    Waits {
        /// The value that the parker holds now.
        at_rest: u32,
        /// True if the worker's timeout applies. False if another thread has retired the worker.
        looks_again: bool,
    },
    /// The worker was woken.
    Over(Woken),
}

/// The words of one worker.
struct Rest<P: Platform> {
    /// The rest word, one of the values in [`word`]. The owner, wakers and the coordinator write it.
    word: P::Parker,
    /// The role: true if the worker is busy. The owner writes it, with release; all threads read it.
    busy: P::Bool,
    /// The flag that a marked wake-up sets. Its meaning depends on the way of waking. Only the owner reads and writes
    /// it.
    marked: P::Bool,
}

/// The number of workers of a pool by role. Only the policy `wsgi` uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The number of workers with a task.
    pub busy: u32,
    /// The number of workers that look for a task.
    pub thieves: u32,
    /// The number of workers that are asleep.
    pub sleepers: u32,
}

/// The sleep protocol of one pool.
pub struct Sleep<P: Platform> {
    platform: P,
    rests: Box<[CachePadded<Rest<P>>]>,
    way: AnyWay<P>,
    /// False if the waker runs on the only core that the pool has. A woken thread then stays where the kernel places
    /// it. No step of the protocol depends on this value. So it is not a word of the platform, and loom need not
    /// explore it.
    may_steer: AtomicBool,
    /// The global information of the policy `wsgi` (BWS §5.5), which exists to measure the contention on its lock.
    roles: Option<P::Lock<Roles>>,
}

impl<P: Platform> Sleep<P> {
    /// Makes the protocol of a pool. All workers start awake and busy, because a new worker may be given work before
    /// it first looks for work.
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

    /// Returns the workers after `me`, then the workers before it. So wakers do not all start with worker 0.
    fn others(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> {
        let workers = self.rests.len() as u32;
        (me.0 + 1..workers).chain(0..me.0).map(WorkerId)
    }

    /// Returns the sleepers among all workers, `me` last.
    fn sleepers(&self, me: WorkerId) -> impl Iterator<Item = WorkerId> {
        self.others(me).chain([me]).filter(|worker| self.is_asleep(*worker))
    }

    /// Returns the last worker. A thread that is not a worker passes it as `me`, so that its search for sleepers
    /// starts with the first worker.
    fn last_worker(&self) -> WorkerId {
        WorkerId(self.rests.len() as u32 - 1)
    }
}

/// Queries by other workers and threads.
impl<P: Platform> Sleep<P> {
    /// True if the worker has an unfinished task.
    pub fn is_busy(&self, worker: WorkerId) -> bool {
        self.rest(worker).busy.load(Ordering::Relaxed)
    }

    /// True if the worker sleeps, or is about to.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        self.rest(worker).word.load(Ordering::Relaxed) == word::ASLEEP
    }

    /// True if the worker has retired, because it has no core.
    pub fn is_retired(&self, worker: WorkerId) -> bool {
        self.rest(worker).word.load(Ordering::Relaxed) == word::RETIRED
    }

    /// True if the worker sleeps or has retired.
    pub fn is_at_rest(&self, worker: WorkerId) -> bool {
        word::is_at_rest(self.rest(worker).word.load(Ordering::Relaxed))
    }

    /// Returns the number of sleepers that a push may wake, under [`Waking::Hungry`]. While a sleeper that a push has
    /// woken searches for tasks, the result is far below zero.
    pub fn hunger(&self) -> i32 {
        way!(self.hunger())
    }

    /// True if any worker has an unfinished task.
    pub fn any_busy(&self) -> bool {
        self.workers().any(|worker| self.is_busy(worker))
    }

    fn any_asleep(&self) -> bool {
        self.workers().any(|worker| self.is_asleep(worker))
    }

    /// Returns the roles, counted under the lock. All are zero unless the pool was built to count them.
    pub fn roles(&self) -> Roles {
        self.roles.as_ref().map_or(Roles::default(), |roles| roles.with(|roles| *roles))
    }

    fn change_roles(&self, change: impl FnOnce(&mut Roles)) {
        if let Some(roles) = &self.roles {
            roles.with(change);
        }
    }
}

/// Steps of busy workers, and of threads that hand in tasks.
impl<P: Platform> Sleep<P> {
    /// True if a push that met its bell may stop it. If false, the bell never stops, and every push looks for
    /// sleepers.
    pub fn bell_may_stop(&self) -> bool {
        way!(self.bell_may_stop())
    }

    /// Wakes sleepers after a push that met its worker's bell and stopped it. A thief had rung the bell, or a step
    /// after which sleepers remained.
    #[cold]
    pub fn push_met_bell(&self, me: WorkerId, work: &impl Work) {
        way!(self.push_met_bell(me, work));
    }

    /// Wakes a sleeper after a worker pushed a task where thieves can see it at once.
    #[inline]
    pub fn after_spawn(&self, me: WorkerId, work: &impl Work) {
        self.platform.light();
        way!(self.after_spawn(me, work));
    }

    /// Wakes one sleeper after a task was handed in from outside.
    pub fn after_injection(&self, submitter: Waker, work: &impl Work) {
        // Lemmas 1 and 2, with the injector in place of the deque.
        self.platform.fence(Ordering::SeqCst);
        way!(self.after_injection(submitter, work));
    }

    /// Wakes the worker `last`, or else another sleeper, after a task was queued at `last`, where thieves can take it
    /// too. `me` is the worker that queued the task. `None`: another thread queued it.
    pub fn after_placing(&self, last: WorkerId, me: Option<WorkerId>, work: &impl Work) {
        // Lemma 11.
        way!(self.order_placing(me));
        if !self.wake_thread_for_business(last, Waker::GoesOn) {
            match me {
                Some(me) => self.after_spawn(me, work),
                // A sleeper is woken anyway, because `last` may be busy with a long task.
                None => self.after_injection(Waker::GoesOn, work),
            }
        }
    }

    /// Wakes `worker`, if it rests, for [business](Work::has_business). The caller has made the business visible.
    pub fn wake_for_business(&self, worker: WorkerId) {
        // Lemma 3: the business is visible before the look at the word. The sleeper announces itself before it looks
        // for business.
        self.platform.fence(Ordering::SeqCst);
        // A worker that finishes the task that another waits for is about to look for work itself.
        self.wake_thread_for_business(worker, Waker::MakesRoom);
    }

    /// Wakes `worker` for business. Returns false if it is awake, or another waker has claimed it.
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

/// Steps for workers without a core. The caller holds the lock of the pool's books.
impl<P: Platform> Sleep<P> {
    /// Retires `me`, a thief without a core. It rests until the coordinator has a core for it, or it has business.
    /// The worker must call [`Sleep::pass_on`] afterwards, and then [`Sleep::park`], or [`Sleep::retract`] if it
    /// already has business.
    pub fn retire(&self, me: WorkerId) {
        self.rest(me).word.store(word::RETIRED, Ordering::Release);
    }

    /// Takes the second step to retire: another worker takes over the duties of this worker (Lemma 8).
    pub fn pass_on(&self, me: WorkerId, work: &impl Work) {
        // Lemma 3: the fence precedes the look for business that follows.
        self.platform.fence(Ordering::SeqCst);
        way!(self.pass_on(me, work));
    }

    /// Retires a sleeper, because there would be no core for it if a push woke it. Returns false if it has been
    /// woken.
    pub fn retire_sleeper(&self, sleeper: WorkerId) -> bool {
        let retired = self.exchange(sleeper, word::ASLEEP, word::RETIRED);
        if retired {
            way!(self.sleeper_removed());
        }
        retired
    }

    /// Wakes a retired worker, because there is a core for it. Returns false if another thread has woken it.
    pub fn recall(&self, retired: WorkerId) -> bool {
        let recalled = self.exchange(retired, word::RETIRED, word::WOKEN_BY_COORDINATOR);
        if recalled {
            self.wake_thread(retired, Waker::MakesRoom);
        }
        recalled
    }

    /// Makes retired workers ASLEEP, because there are cores for them: the next push wakes one of them, as if they had
    /// just fallen asleep. Only for [`Waking::Hungry`].
    pub fn restore_hunger(&self, retired: impl Iterator<Item = WorkerId>, work: &impl Work) {
        way!(self.restore_hunger(retired, work));
    }

    /// Changes the word of a worker that rests. Returns false if the word is no longer `from`.
    fn exchange(&self, worker: WorkerId, from: u32, to: u32) -> bool {
        self.rest(worker).word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Steps from thief to busy and back.
impl<P: Platform> Sleep<P> {
    /// Publishes that the worker's deque ran empty.
    pub fn publish_thief(&self, me: WorkerId) {
        self.rest(me).busy.store(false, Ordering::Release);
        self.change_roles(|roles| {
            roles.busy -= 1;
            roles.thieves += 1;
        });
    }

    /// Publishes that the worker has a task in hand. It must call [`Sleep::hand_over`] before the task starts.
    pub fn publish_busy(&self, me: WorkerId) {
        self.rest(me).busy.store(true, Ordering::Release);
        self.change_roles(|roles| {
            roles.busy += 1;
            roles.thieves -= 1;
        });
    }

    /// Passes the duties of a worker that stops looking for tasks to another worker.
    pub fn hand_over(&self, me: WorkerId, work: &impl Work) {
        self.platform.fence(Ordering::SeqCst);
        way!(self.hand_over(me, work));
    }
}

/// Steps of thieves.
impl<P: Platform> Sleep<P> {
    /// Wakes `sleeper`, or any sleeper if it is `None`. With `appoint`, a worker that is the
    /// [watchdog](Waking::Watchdog) makes a sleeper the watchdog.
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

    /// Takes the first step to sleep: from here on, others may wake this worker.
    pub fn announce(&self, me: WorkerId) {
        self.change_roles(|roles| {
            roles.thieves -= 1;
            roles.sleepers += 1;
        });
        // The hunger is raised before the word is written. So a waker that claims this sleeper and lowers the hunger
        // undoes this increment, and not that of another sleeper (Lemma 1).
        way!(self.sleeper_added());
        self.rest(me).word.store(word::ASLEEP, Ordering::Release);
    }

    /// Takes the second step to sleep: the look for tasks that every sleeper must take. If it is refused, the worker
    /// must call [`Sleep::retract`], else [`Sleep::park`].
    pub fn admit(&self, me: WorkerId, work: &impl Work) -> Admission {
        way!(self.admit(me, work))
    }

    /// Takes back an announcement that was refused, or a retirement. Returns the wake-up if a waker was faster; the
    /// caller must treat it as a wake-up.
    pub fn retract(&self, me: WorkerId) -> Option<Woken> {
        loop {
            // A change of the books may change the word from ASLEEP to RETIRED, or back, during the loop, as in
            // `wake_thread_for_business`.
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

    /// Takes the third step to sleep: returns that the worker must wait, or why its sleep is over. The driver waits in
    /// its own way, and calls this again.
    pub fn park(&self, me: WorkerId) -> Parking {
        match self.rest(me).word.load(Ordering::Acquire) {
            at_rest if word::is_at_rest(at_rest) => Parking::Waits { at_rest, looks_again: at_rest == word::ASLEEP },
            _ => Parking::Over(self.consume_wakeup(me)),
        }
    }

    /// Returns the word that the driver waits on.
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

/// Steps that all ways of waking share.
impl<P: Platform> Sleep<P> {
    /// Ends `worker`'s sleep by setting its word. Returns false if another waker was faster. The caller wakes the
    /// thread.
    fn claim(&self, worker: WorkerId, woken: u32) -> bool {
        let word = &self.rest(worker).word;
        let exchange = || word.compare_exchange(word::ASLEEP, woken, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // The claim and the count are made under one lock. Otherwise the sleeper might be awake, and count itself
        // busy, before this function has counted.
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

    /// Sets whether a waker that continues to run steers the woken thread away from its own core. With `may` false,
    /// the only other core may be another program's, and the thread would wait there behind that program's threads.
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

    /// Wakes one sleeper for a task from outside: the waker's look of Lemma 2.
    fn wake_for_injection(&self) {
        self.wake_up_to(1, self.last_worker(), word::WOKEN_BY_INJECTION);
    }

    /// Wakes one sleeper if a task from outside waits (Lemma 8). The worker that retires may have been woken for that
    /// task. Another worker may have looked for tasks before this task was handed in, and be about to park.
    fn pass_injection_on(&self, me: WorkerId, work: &impl Work) {
        if work.injector_has_task() {
            self.wake_up_to(1, me, word::WOKEN_BY_INJECTION);
        }
    }

    /// Returns true if business or a task from outside waits. This is the sleeper's look of Lemmas 2 and 3, after its
    /// announcement and a fence.
    fn work_arrived(&self, me: WorkerId, work: &impl Work) -> bool {
        self.platform.fence(Ordering::SeqCst);
        work.has_business(me) || work.injector_has_task()
    }
}

/// Prints the words of all workers and the hunger, for the traces of the model world.
impl<P: Platform> fmt::Debug for Sleep<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<u32> = self.rests.iter().map(|rest| rest.word.load(Ordering::Relaxed)).collect();
        write!(f, "words {words:?}, hunger {}", self.hunger())
    }
}
