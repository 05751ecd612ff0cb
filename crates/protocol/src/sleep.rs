//! Who sleeps, who wakes whom, and why no task is ever left waiting for a pool that sleeps.
//!
//! `runtime/README.md` holds the protocol with its proof; the names of its lemmas stand beside the steps below. Each
//! public step is one that a worker may be interrupted before and after: the tests interleave exactly these.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;

use comity_policy::{SleepRefusal, WakeReason, Waking, WorkerId};
use crossbeam_utils::CachePadded;

use crate::platform::{Counter, Lock, Parker, Platform, Waker, Word};

/// How long a sleeper rests before it looks again where `membarrier` is refused and a push may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// `Sleep::watchdog` when the post is vacant.
const VACANT: u32 = u32::MAX;

/// Subtracted from `Sleep::hunger` while a scout is out, so that no push wakes another meanwhile.
const SCOUT_IS_OUT: i32 = 1 << 30;

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
}

/// The states of a worker's rest word. A waker moves it from ASLEEP or RETIRED to a WOKEN value by compare-and-swap, so each
/// sleep is ended by exactly one waker; the pool's share of the cores moves it between the two in the same way; all other
/// changes are the owner's.
mod word {
    pub(super) const AWAKE: u32 = 0;
    pub(super) const ASLEEP: u32 = 1;
    pub(super) const WOKEN_BY_PEER: u32 = 2;
    pub(super) const WOKEN_AS_WATCHDOG: u32 = 3;
    pub(super) const WOKEN_BY_INJECTION: u32 = 4;
    /// Something that only this worker can act on: see [`Work::has_business`](super::Work::has_business).
    pub(super) const WOKEN_FOR_BUSINESS: u32 = 5;
    /// Asleep, and without a core: nobody may wake the worker for a task but the coordinator.
    pub(super) const RETIRED: u32 = 6;
    pub(super) const WOKEN_BY_COORDINATOR: u32 = 7;
    /// Added to a WOKEN value: the worker is the scout.
    pub(super) const SCOUT: u32 = 16;

    pub(super) fn is_at_rest(word: u32) -> bool {
        matches!(word, ASLEEP | RETIRED)
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// By somebody, for this reason.
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
        /// Whether the timeout of [`Admission::Park`] holds: one that was retired meanwhile has nothing to look for.
        looks_again: bool,
    },
    /// The worker was woken.
    Over(Woken),
}

/// One worker's part. The role is written by the owner and read by all; for the word see [`word`].
struct Rest<P: Platform> {
    word: P::Parker,
    busy: P::Bool,
    /// Whether this worker is the scout. Owner only.
    scout: P::Bool,
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
    waking: Waking,
    rests: Box<[CachePadded<Rest<P>>]>,
    /// Under [`Waking::Hungry`] the number of sleepers, less [`SCOUT_IS_OUT`] while a woken thief is on its way and
    /// answers for every task that it can see; written when one goes to sleep, is woken, or ends its way. Whoever leaves
    /// it above zero rings the bells, and a push that hears one looks here.
    hunger: CachePadded<P::Counter>,
    /// Under [`Waking::Watchdog`]: the worker that stays awake while another is busy, or [`VACANT`].
    watchdog: CachePadded<P::Word>,
    /// BWS §5.5: the global information of `wsgi`, under the lock whose contention it measures.
    roles: Option<P::Lock<Roles>>,
}

impl<P: Platform> Sleep<P> {
    /// All workers start awake and busy: what a new worker may be given to do before it first looks for work is work.
    pub fn new(platform: P, workers: u32, waking: Waking, counts_roles: bool) -> Sleep<P> {
        let rest = |me: WorkerId| Rest {
            word: platform.parker(me, word::AWAKE),
            busy: platform.bool(Some(me), true),
            scout: platform.bool(Some(me), false),
        };
        Sleep {
            waking,
            rests: (0..workers).map(|me| CachePadded::new(rest(WorkerId(me)))).collect(),
            hunger: CachePadded::new(platform.counter()),
            watchdog: CachePadded::new(platform.word(None, VACANT)),
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

    // ---- What others may ask. ----

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

    /// Under [`Waking::Hungry`] the number of sleepers that a push may wake; far below zero while a scout is out.
    pub fn hunger(&self) -> i32 {
        self.hunger.load(Ordering::Relaxed)
    }

    /// Whether any worker has an unfinished task.
    pub fn anyone_busy(&self) -> bool {
        self.workers().any(|worker| self.is_busy(worker))
    }

    fn anyone_asleep(&self) -> bool {
        self.workers().any(|worker| self.is_asleep(worker))
    }

    /// The roles, counted under the lock. All zero unless the pool was built to count them.
    pub fn roles(&self) -> Roles {
        self.roles.as_ref().map_or(Roles::default(), |roles| roles.with(|roles| *roles))
    }

    fn recount(&self, change: impl FnOnce(&mut Roles)) {
        if let Some(roles) = &self.roles {
            roles.with(change);
        }
    }

    // ---- The busy side. ----

    /// Whether a worker that heard its bell may stop it. Else it rings for ever, and every push looks for sleepers.
    pub fn bell_may_stop(&self) -> bool {
        !matches!(self.waking, Waking::EveryPush { .. })
    }

    /// After a push that met the bell, which was stopped meanwhile. A thief may have rung, or one who left hunger behind.
    #[cold]
    pub fn push_met_bell(&self, me: WorkerId, work: &impl Work) {
        match self.waking {
            // Lemma 1.
            Waking::Hungry => self.send_scout(me, word::WOKEN_BY_PEER, Waker::GoesOn, work),
            Waking::EveryPush { sleepers } => {
                // Lemma 2: the push before the look for sleepers; a sleeper announces itself before it looks for tasks.
                self.platform.fence(Ordering::SeqCst);
                self.wake_up_to(usize::from(sleepers), me, word::WOKEN_BY_PEER);
            }
            // Nobody sleeps beside a task that is only pushed: thieves look for it.
            Waking::NobodySleeps | Waking::Watchdog => {}
        }
    }

    /// After a worker pushed a task where all can see it: wakes one that sleeps. No bell is needed here, for this looks at
    /// `hunger` itself, by the argument of Lemma 1.
    #[inline]
    pub fn after_spawn(&self, me: WorkerId, work: &impl Work) {
        self.platform.light();
        match self.waking {
            Waking::Hungry if self.hunger.load(Ordering::Relaxed) <= 0 => {}
            Waking::Hungry | Waking::EveryPush { .. } => self.push_met_bell(me, work),
            Waking::NobodySleeps | Waking::Watchdog => {}
        }
    }

    /// After a task was handed in from outside: wakes one worker, if any sleeps.
    pub fn after_injection(&self, submitter: Waker, work: &impl Work) {
        let first = WorkerId(self.rests.len() as u32 - 1);
        match self.waking {
            Waking::Hungry => {
                // Lemma 1; off the busy path a full fence is cheap enough.
                self.platform.fence(Ordering::SeqCst);
                self.send_scout(first, word::WOKEN_BY_INJECTION, submitter, work);
            }
            Waking::NobodySleeps | Waking::Watchdog | Waking::EveryPush { .. } => {
                // Lemma 2, with the injector for the deque.
                self.platform.fence(Ordering::SeqCst);
                self.wake_up_to(1, first, word::WOKEN_BY_INJECTION);
            }
        }
    }

    /// After a task was queued at `last`, where thieves can take it too, by the worker `me` or by a thread of no pool.
    pub fn after_placing(&self, last: WorkerId, me: Option<WorkerId>, work: &impl Work) {
        // Lemma 11. A worker that places is busy, so the sleeper it may miss where `membarrier` is refused looks again.
        match self.waking {
            Waking::Hungry if me.is_some() => self.platform.light(),
            _ => self.platform.fence(Ordering::SeqCst),
        }
        if !self.rouse_for_business(last, Waker::GoesOn) {
            match me {
                Some(me) => self.after_spawn(me, work),
                // Whoever sleeps now need not: `last` may be in the middle of something long.
                None => self.after_injection(Waker::GoesOn, work),
            }
        }
    }

    /// Wakes `worker`, if it sleeps, for something that only it can act on. The caller has made that visible.
    pub fn wake_for_business(&self, worker: WorkerId) {
        // Lemma 3: the business before the look at the word; the sleeper announces itself before it looks for business.
        self.platform.fence(Ordering::SeqCst);
        // Whoever finishes what another waits for is about to look for work itself.
        self.rouse_for_business(worker, Waker::MakesRoom);
    }

    /// False: it is up, or somebody else has woken it.
    fn rouse_for_business(&self, worker: WorkerId, waker: Waker) -> bool {
        loop {
            let claimed = match self.rest(worker).word.load(Ordering::Relaxed) {
                word::ASLEEP => self.claim(worker, word::WOKEN_FOR_BUSINESS),
                word::RETIRED => self.exchange(worker, word::RETIRED, word::WOKEN_FOR_BUSINESS),
                _ => return false,
            };
            if claimed {
                self.rouse(worker, waker);
                return true;
            }
        }
    }

    // ---- Workers without a core. The caller holds the lock of the pool's share. ----

    /// `me`, a thief, has no core any more: it rests until the coordinator has one, or it has business. Must be followed by
    /// [`Sleep::pass_on`], and then by [`Sleep::park`], or where it has business already, by [`Sleep::retract`].
    pub fn retire(&self, me: WorkerId) {
        self.rest(me).word.store(word::RETIRED, Ordering::Release);
    }

    /// Second step to retire: whatever depended on this worker's looking for tasks passes to another.
    pub fn pass_on(&self, me: WorkerId, work: &impl Work) {
        // Lemma 3, for the look for business that follows.
        self.platform.fence(Ordering::SeqCst);
        match self.waking {
            Waking::Hungry if self.retire_scout(me, work) => self.answer_for_scout(me, work),
            Waking::Hungry => {}
            // It may have been woken for a task from outside, beside somebody who has looked and is about to park.
            _ if work.injector_has_task() => self.wake_up_to(1, me, word::WOKEN_BY_INJECTION),
            _ => {}
        }
    }

    /// There is no core for `sleeper`, should a push wake it: it rests as one that has retired. False if it has been woken.
    pub fn retire_sleeper(&self, sleeper: WorkerId) -> bool {
        let retired = self.exchange(sleeper, word::ASLEEP, word::RETIRED);
        if retired && self.waking == Waking::Hungry {
            self.hunger.fetch_sub(1, Ordering::AcqRel);
        }
        retired
    }

    /// There is a core for `retired`: wakes it. False if it has been woken.
    pub fn recall(&self, retired: WorkerId) -> bool {
        let recalled = self.exchange(retired, word::RETIRED, word::WOKEN_BY_COORDINATOR);
        if recalled {
            self.rouse(retired, Waker::MakesRoom);
        }
        recalled
    }

    /// There are cores for `retired`, should there be tasks: the next push wakes one of them, as if they had just fallen
    /// asleep. Only under [`Waking::Hungry`].
    pub fn restore_hunger(&self, retired: impl Iterator<Item = WorkerId>, work: &impl Work) {
        let mut restored = 0;
        for sleeper in retired {
            // Before the word, as in `announce`.
            self.hunger.fetch_add(1, Ordering::AcqRel);
            if self.exchange(sleeper, word::RETIRED, word::ASLEEP) {
                restored += 1;
            } else {
                self.hunger.fetch_sub(1, Ordering::AcqRel);
            }
        }
        if restored > 0 {
            // Lemma 1, with this thread in the sleepers' place: it looks for them.
            if self.hunger.load(Ordering::Relaxed) > 0 {
                work.ring_bells();
            }
            let _ = self.platform.heavy();
            if work.deques_have_task() || work.injector_has_task() {
                let first = WorkerId(self.rests.len() as u32 - 1);
                self.send_scout(first, word::WOKEN_BY_PEER, Waker::MakesRoom, work);
            }
        }
    }

    fn exchange(&self, worker: WorkerId, from: u32, to: u32) -> bool {
        self.rest(worker).word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    // ---- From thief to busy and back. ----

    /// The worker's deque ran empty.
    pub fn publish_thief(&self, me: WorkerId) {
        self.rest(me).busy.store(false, Ordering::Release);
        self.recount(|roles| {
            roles.busy -= 1;
            roles.thieves += 1;
        });
    }

    /// The worker has a task in hand. [`Sleep::hand_over`] must follow before the task starts.
    pub fn publish_busy(&self, me: WorkerId) {
        self.rest(me).busy.store(true, Ordering::Release);
        self.recount(|roles| {
            roles.busy += 1;
            roles.thieves -= 1;
        });
    }

    /// The worker stops looking for tasks: whatever depended on its looking passes to another.
    pub fn hand_over(&self, me: WorkerId, work: &impl Work) {
        self.platform.fence(Ordering::SeqCst);
        match self.waking {
            // Lemma 4: work has begun, so nobody sleeps. Only a pool without any work sleeps under these policies.
            Waking::NobodySleeps => self.wake_up_to(self.rests.len(), me, word::WOKEN_BY_PEER),
            Waking::Watchdog => self.hand_over_watchdog(me),
            Waking::Hungry if self.retire_scout(me, work) => self.answer_for_scout(me, work),
            Waking::Hungry => {}
            Waking::EveryPush { .. } => {}
        }
    }

    /// Lemma 5: afterwards a thief holds the post, or nobody sleeps who has not yet to look at it.
    fn hand_over_watchdog(&self, me: WorkerId) {
        let own = me.0;
        loop {
            let holder = self.watchdog.load(Ordering::Acquire);
            if holder != own && holder != VACANT {
                return;
            }
            if let Some(successor) = self.appoint(me, holder) {
                self.rouse(successor, Waker::GoesOn);
                return;
            }
            if holder == VACANT {
                return;
            }
            // Nobody to appoint: leave the post vacant. A worker that fell asleep meanwhile may have relied on this
            // one, so look once more.
            self.move_watchdog(own, VACANT);
            self.platform.fence(Ordering::SeqCst);
        }
    }

    fn move_watchdog(&self, from: u32, to: u32) -> bool {
        self.watchdog.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the post, which `holder` (this worker, or nobody) has, to some sleeper, and claims that sleeper's wake-up.
    /// `None`: nobody sleeps, or the post is in other hands meanwhile.
    ///
    /// The post changes hands first: were the sleeper claimed first, it could turn busy before it learns that it is
    /// the watchdog.
    fn appoint(&self, me: WorkerId, holder: u32) -> Option<WorkerId> {
        loop {
            let candidate = self.others(me).find(|peer| self.is_asleep(*peer))?;
            let post = candidate.0;
            if !self.move_watchdog(holder, post) {
                return None;
            }
            if self.claim(candidate, word::WOKEN_AS_WATCHDOG) {
                return Some(candidate);
            }
            // It woke for another reason. Take the post back, unless it has noticed and dealt with it; then look again
            // from the start, because somebody may have gone to sleep trusting this candidate.
            if !self.move_watchdog(post, holder) {
                return None;
            }
            self.platform.fence(Ordering::SeqCst);
        }
    }

    // ---- The thief's side: waking a peer. ----

    /// Wakes a sleeper, `whom` or any, and with `appoint` makes it the watchdog if this worker is.
    pub fn wake_peer(&self, me: WorkerId, whom: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        if appoint && self.watchdog.load(Ordering::Relaxed) == me.0 {
            let successor = self.appoint(me, me.0)?;
            self.rouse(successor, Waker::GoesOn);
            return Some(successor);
        }
        let mut candidates = self.others(me).filter(|peer| whom.is_none_or(|whom| whom == *peer));
        let woken = candidates.find(|peer| self.is_asleep(*peer) && self.claim(*peer, word::WOKEN_BY_PEER))?;
        self.rouse(woken, Waker::GoesOn);
        Some(woken)
    }

    // ---- The thief's side: sleeping. ----

    /// First step to sleep: from here on others may wake this worker.
    pub fn announce(&self, me: WorkerId) {
        self.recount(|roles| {
            roles.thieves -= 1;
            roles.sleepers += 1;
        });
        // Before the word: a waker that claims this sleeper lowers what was raised, never another's part (Lemma 1).
        if self.waking == Waking::Hungry {
            self.hunger.fetch_add(1, Ordering::AcqRel);
        }
        self.rest(me).word.store(word::ASLEEP, Ordering::Release);
    }

    /// Second step: the look that no sleeper may skip. Refused: [`Sleep::retract`]. Else [`Sleep::park`].
    pub fn admit(&self, me: WorkerId, work: &impl Work) -> Admission {
        if self.waking == Waking::Hungry {
            return self.admit_hungry(me, work);
        }
        self.platform.fence(Ordering::SeqCst);
        if work.has_business(me) || work.injector_has_task() {
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        match self.waking {
            Waking::NobodySleeps if self.anyone_busy() => Admission::Refused(SleepRefusal::WorkArrived),
            Waking::NobodySleeps => Admission::Park(None),
            Waking::Watchdog => self.admit_beside_watchdog(me),
            Waking::EveryPush { .. } if work.deques_have_task() => Admission::Refused(SleepRefusal::WorkArrived),
            Waking::EveryPush { .. } => Admission::Park(None),
            Waking::Hungry => unreachable!("answered above"),
        }
    }

    /// The look of a hungry sleeper. A scout takes its flag down first, since from now on others may be needed.
    fn admit_hungry(&self, me: WorkerId, work: &impl Work) -> Admission {
        let was_scout = self.retire_scout(me, work);
        if !was_scout && self.hunger.load(Ordering::Relaxed) > 0 {
            work.ring_bells();
        }
        // Lemma 1: whoever pushes and does not hear the bell has shown its task by now.
        let pushes_are_visible = self.platform.heavy();
        if work.has_business(me) || work.injector_has_task() || work.deques_have_task() {
            if was_scout {
                // It stays awake for a task; others may have been left to it meanwhile, so it stays the scout.
                self.resume_scout(me);
            }
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        // Where the barrier is refused, a push may have missed this sleeper.
        Admission::Park((!pushes_are_visible && self.anyone_busy()).then_some(LOOK_AGAIN))
    }

    /// Sleep beside a watchdog, or be it. A watchdog sleeps only in a pool without work, and leaves the post first.
    fn admit_beside_watchdog(&self, me: WorkerId) -> Admission {
        let own = me.0;
        loop {
            let holder = self.watchdog.load(Ordering::Acquire);
            if holder != own && holder != VACANT {
                return Admission::Park(None);
            }
            if holder == VACANT && !self.move_watchdog(VACANT, own) {
                continue;
            }
            if self.anyone_busy() {
                return Admission::Refused(SleepRefusal::YouAreWatchdog);
            }
            // Lemma 6: a worker with a task in hand that this look misses has yet to hand over, and will find the post
            // vacant.
            self.move_watchdog(own, VACANT);
            self.platform.fence(Ordering::SeqCst);
            if !self.anyone_busy() {
                return Admission::Park(None);
            }
        }
    }

    /// Takes back an announcement that was refused, or a retirement. `Some`: a waker was faster, and its wake-up counts.
    pub fn retract(&self, me: WorkerId) -> Option<Woken> {
        loop {
            // Whoever changes the books may move it from one word to the other meanwhile, as in `wake_for_business`.
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
        if woken & word::SCOUT != 0 {
            rest.scout.store(true, Ordering::Relaxed);
        }
        match woken & !word::SCOUT {
            word::WOKEN_BY_PEER => Woken::For(WakeReason::Peer),
            word::WOKEN_AS_WATCHDOG => Woken::For(WakeReason::Appointed),
            word::WOKEN_BY_INJECTION => Woken::For(WakeReason::Injected),
            word::WOKEN_FOR_BUSINESS => Woken::Business,
            word::WOKEN_BY_COORDINATOR => Woken::For(WakeReason::Coordinator),
            other => unreachable!("worker {} consumes a wake-up that never was: {other}", me.0),
        }
    }

    // ---- Shared steps. ----

    /// Ends `worker`'s sleep by setting its word, if nobody else has. The caller wakes the thread.
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
        if self.waking == Waking::Hungry {
            self.hunger.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// Wakes the thread of a worker whose sleep was claimed. Only under our own way of waking is it steered away from a
    /// waker that goes on: the papers' policies are measured with the kernel's own placement.
    fn rouse(&self, worker: WorkerId, waker: Waker) {
        self.rest(worker).word.wake(if self.waking == Waking::Hungry { waker } else { Waker::MakesRoom });
    }

    fn wake_up_to(&self, most: usize, me: WorkerId, woken: u32) {
        let sleepers = self.others(me).chain([me]).filter(|worker| self.is_asleep(*worker));
        for sleeper in sleepers.filter(|worker| self.claim(*worker, woken)).take(most) {
            self.rouse(sleeper, Waker::GoesOn);
        }
    }

    /// Wakes exactly one sleeper, unless one that was woken before is still on its way.
    fn send_scout(&self, me: WorkerId, woken: u32, waker: Waker, work: &impl Work) {
        loop {
            let leave = |hunger: i32| (hunger > 0).then_some(hunger - SCOUT_IS_OUT);
            if self.hunger.fetch_update(Ordering::AcqRel, Ordering::Relaxed, leave).is_err() {
                return;
            }
            let mut sleepers = self.others(me).chain([me]).filter(|worker| self.is_asleep(*worker));
            if let Some(scout) = sleepers.find(|worker| self.claim(*worker, woken | word::SCOUT)) {
                self.rouse(scout, waker);
                return;
            }
            // Another waker took the last sleeper: no scout leaves.
            self.take_down_flag(work);
            if !self.must_answer(work) {
                return;
            }
        }
    }

    /// A scout ends its way with a task in hand: the tasks that pushes left to it pass to the next scout.
    #[cold]
    fn answer_for_scout(&self, me: WorkerId, work: &impl Work) {
        if self.must_answer(work) {
            self.send_scout(me, word::WOKEN_BY_PEER, Waker::GoesOn, work);
        }
    }

    /// Lemma 7: after a scout's flag came down, whether there is a task that may have been left to it, and somebody
    /// asleep to take it.
    fn must_answer(&self, work: &impl Work) -> bool {
        // Where the barrier is refused, sleepers look again by themselves.
        let _ = self.hunger.load(Ordering::Relaxed) > 0 && self.platform.heavy();
        self.anyone_asleep() && (work.deques_have_task() || work.injector_has_task())
    }

    /// Takes back the duty that [`Sleep::retire_scout`] laid down, unless another scout has left since and has it.
    fn resume_scout(&self, me: WorkerId) {
        let leave = |hunger: i32| (hunger > -SCOUT_IS_OUT / 2).then_some(hunger - SCOUT_IS_OUT);
        let resumed = self.hunger.fetch_update(Ordering::AcqRel, Ordering::Relaxed, leave).is_ok();
        self.rest(me).scout.store(resumed, Ordering::Relaxed);
    }

    /// Takes the scout's flag down if this worker is the scout.
    fn retire_scout(&self, me: WorkerId, work: &impl Work) -> bool {
        let was_scout = self.rest(me).scout.load(Ordering::Relaxed);
        if was_scout {
            self.rest(me).scout.store(false, Ordering::Relaxed);
            self.take_down_flag(work);
        }
        was_scout
    }

    /// Pushes may wake again. Those that met the bell while the flag was up have stopped it.
    fn take_down_flag(&self, work: &impl Work) {
        if self.hunger.fetch_add(SCOUT_IS_OUT, Ordering::AcqRel) + SCOUT_IS_OUT > 0 {
            work.ring_bells();
        }
    }
}

/// The words of all workers, and the hunger: for the model world's traces.
impl<P: Platform> fmt::Debug for Sleep<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<u32> = self.rests.iter().map(|rest| rest.word.load(Ordering::Relaxed)).collect();
        write!(f, "words {words:?}, hunger {}", self.hunger.load(Ordering::Relaxed))
    }
}
