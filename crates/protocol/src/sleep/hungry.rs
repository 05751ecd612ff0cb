//! [`Waking::Hungry`](comity_policy::Waking::Hungry): a push that meets its bell wakes one sleeper, the searching
//! worker, which wakes the next.
//!
//! # States
//!
//! One packed word, [`Hunger`], counts the sleepers and says whether a worker is searching, and whether one answers
//! for all that rest:
//!
//! ```text
//!       raised, lowered                raised, lowered                  raised, lowered
//!            ┌──┐                           ┌──┐                             ┌──┐
//!            ▼  │   answered (a sleeper)    ▼  │       search_begins         ▼  │
//!         UNANSWERED ──────────────────▶ ANSWERED ──────────────────────▶  SEARCH
//!             ▲  │                                                         ▲  │
//!             │  └── search_begins (a sleeper), search_resumes ────────────┘  │
//!             └───────────────────── search_ended ────────────────────────────┘
//! ```
//!
//! It is **hungry** where a push begins a search: ANSWERED, or with a sleeper and no search. The mark of a wake-up
//! says that the woken worker is the searching one.
//!
//! # Invariants
//!
//! - The word counts at least the workers that are ASLEEP: it is raised before ASLEEP and lowered afterwards (Lemma 1).
//! - At most one search is on. The searching worker ends it or passes it on, or the waker that began it and found no
//!   sleeper (Lemma 7).
//! - A thread that made a word ASLEEP or ended a search tries to answer afterwards (Lemma 12).
//! - The thread that moved the word to ANSWERED rings the bells and calls a heavy barrier. Then it looks at all
//!   queues, and sees to a task that it sees there (Lemmas 1, 7, 10, 12).
//! - All others fence, look at all queues, and need neither bells nor a barrier, as during a search (Lemma 12).
//! - A searching worker that retires ends the search or passes it on (Lemma 8).
//! - Once a barrier was refused, each sleeper looks again by itself, or a step is under way that wakes it (Lemma 13).
//!
//! The lemmas stand in the crate's `README.md`.

use core::sync::atomic::Ordering;
use core::time::Duration;

use comity_policy::{SleepRefusal, WorkerId};
use crossbeam_utils::CachePadded;

use super::hunger::Hunger;
use super::way::Way;
use super::{Admission, Rest, Sleep, Work, word};
use crate::platform::{Counter, Platform, Waker, Word};

/// How long a sleeper rests before it looks again where `membarrier` is refused and a push may go unseen, beside a
/// busy worker.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The same beside none, where the next task is likely to be announced by a fence.
const LOOK_AGAIN_BESIDE_NONE: Duration = Duration::from_millis(50);

/// The sleepers that a push may wake.
pub(super) struct Hungry<P: Platform> {
    /// A [`Hunger`]. Workers that fall asleep, their wakers and searching workers write it; a push that meets its bell
    /// reads it.
    hunger: CachePadded<P::Counter>,
    /// No [`Platform::heavy`] has been refused yet: a sleeper may rely on another thread's. Written once, by the
    /// thread that was refused.
    barriers_work: P::Bool,
}

impl<P: Platform> Hungry<P> {
    pub(super) fn new(platform: &P) -> Hungry<P> {
        Hungry { hunger: CachePadded::new(platform.counter()), barriers_work: platform.bool(None, true) }
    }

    #[inline]
    fn look(&self) -> Hunger {
        Hunger::from_packed(self.hunger.load(Ordering::Relaxed))
    }

    /// The counter holds what [`Hunger::raised`] answers, which asserts in a debug build what must hold.
    fn raise(&self) {
        let _ = Hunger::from_packed(self.hunger.fetch_add(Hunger::SLEEPER, Ordering::AcqRel)).raised();
    }

    /// As [`Hungry::raise`].
    fn lower(&self) {
        let _ = Hunger::from_packed(self.hunger.fetch_sub(Hunger::SLEEPER, Ordering::AcqRel)).lowered();
    }

    /// False: in the state that it was found in there is no such transition.
    fn try_change(&self, transition: fn(Hunger) -> Option<Hunger>) -> bool {
        let next = |packed| transition(Hunger::from_packed(packed)).map(Hunger::packed);
        self.hunger.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Wakes exactly one sleeper, unless one that was woken before is still searching.
    fn wake_to_search(&self, sleep: &Sleep<P>, me: WorkerId, woken: u32, waker: Waker, work: &impl Work) {
        loop {
            if !self.try_change(Hunger::search_begins) {
                return;
            }
            if let Some(searching) = self.claim_to_search(sleep, me, woken) {
                work.make_way();
                sleep.wake_thread(searching, waker);
                return;
            }
            // Another waker took the last sleeper: no worker searches.
            self.clear_search();
            if !self.must_search(sleep, work) {
                return;
            }
        }
    }

    /// The worker stops looking for tasks. If it is the searching one, the tasks that pushes left to it pass to the
    /// next one.
    fn stop_searching(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if sleep.rest(me).marked.load(Ordering::Relaxed) {
            self.pass_search_on(sleep, me, work);
        }
    }

    #[cold]
    fn pass_search_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        let task_waits = work.deques_have_task() || work.injector_has_task();
        if task_waits && let Some(next) = self.claim_to_search(sleep, me, word::WOKEN_BY_PEER) {
            // Lemma 7: the search goes on, with another worker.
            sleep.rest(me).marked.store(false, Ordering::Relaxed);
            work.make_way();
            sleep.wake_thread(next, Waker::GoesOn);
            return;
        }
        self.end_search(sleep.rest(me));
        if self.must_search(sleep, work) {
            self.wake_to_search(sleep, me, word::WOKEN_BY_PEER, Waker::GoesOn, work);
        }
    }

    /// While a search is on, claims a sleeper as the searching worker. The caller wakes its thread.
    fn claim_to_search(&self, sleep: &Sleep<P>, me: WorkerId, woken: u32) -> Option<WorkerId> {
        sleep.sleepers(me).find(|worker| sleep.claim(*worker, woken | word::MARK))
    }

    /// Lemma 7: after a search ended, whether a task waits that may have been left to it, and a sleeper can take
    /// the task.
    fn must_search(&self, sleep: &Sleep<P>, work: &impl Work) -> bool {
        self.answer(sleep, work);
        sleep.any_asleep() && (work.deques_have_task() || work.injector_has_task())
    }

    /// Lemma 12: after a word became ASLEEP, or a search ended. True: the caller answers for all that rest, and sees
    /// to each task that it sees from now on. False: another does, or a worker is searching, or none sleeps.
    fn answer(&self, sleep: &Sleep<P>, work: &impl Work) -> bool {
        let barriers_work = self.barriers_work.load(Ordering::Relaxed);
        // Where they do not, each answers for itself, and looks again.
        let answers = self.try_change(Hunger::answered) || !barriers_work;
        if answers {
            work.ring_bells();
            // Lemma 1: a pusher that does not meet its bell has shown its task afterwards.
            if !sleep.platform.heavy() && barriers_work {
                self.note_refusal(sleep);
            }
        } else {
            sleep.platform.fence(Ordering::SeqCst);
        }
        answers
    }

    /// The first barrier was refused: each sleeper that may have relied on it looks for itself.
    #[cold]
    fn note_refusal(&self, sleep: &Sleep<P>) {
        self.barriers_work.store(false, Ordering::Relaxed);
        // Against the fence of a sleeper: it finds the barriers refused, or is found here.
        sleep.platform.fence(Ordering::SeqCst);
        sleep.wake_up_to(sleep.rests.len(), sleep.last_worker(), word::WOKEN_BY_PEER);
    }

    /// The worker searches from now on, unless another does.
    fn resume_search(&self, rest: &Rest<P>) {
        rest.marked.store(self.try_change(Hunger::search_resumes), Ordering::Relaxed);
    }

    /// Ends the search if this worker is the searching one. To be followed by [`Hungry::answer`].
    fn end_search(&self, rest: &Rest<P>) -> bool {
        let was_searching = rest.marked.load(Ordering::Relaxed);
        if was_searching {
            rest.marked.store(false, Ordering::Relaxed);
            self.clear_search();
        }
        was_searching
    }

    /// Pushes may wake again.
    fn clear_search(&self) {
        let _ = Hunger::from_packed(self.hunger.fetch_add(Hunger::SEARCH, Ordering::AcqRel)).search_ended();
    }
}

impl<P: Platform> Way<P> for Hungry<P> {
    fn hunger(&self, _: &Sleep<P>) -> i32 {
        let hunger = self.look();
        if hunger.search_is_on() { hunger.packed() } else { hunger.sleepers() }
    }

    fn push_met_bell(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        // Lemma 1.
        self.wake_to_search(sleep, me, word::WOKEN_BY_PEER, Waker::GoesOn, work);
    }

    /// No bell is needed here, for this looks at `hunger` itself, by the argument of Lemma 1.
    #[inline]
    fn after_spawn(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if self.look().is_hungry() {
            sleep.push_met_bell(me, work);
        }
    }

    fn after_injection(&self, sleep: &Sleep<P>, submitter: Waker, work: &impl Work) {
        // Lemma 1; off the busy path a full fence is cheap enough.
        self.wake_to_search(sleep, sleep.last_worker(), word::WOKEN_BY_INJECTION, submitter, work);
    }

    /// The sleeper that a worker may miss where `membarrier` is refused looks again.
    fn order_placing(&self, sleep: &Sleep<P>, placer: Option<WorkerId>) {
        if placer.is_some() {
            sleep.platform.light();
        } else {
            sleep.platform.fence(Ordering::SeqCst);
        }
    }

    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        self.stop_searching(sleep, me, work);
    }

    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        self.stop_searching(sleep, me, work);
    }

    /// A searching worker ends its search first, since from now on others may be needed.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        self.end_search(sleep.rest(me));
        let answers = self.answer(sleep, work);
        let task_waits = work.injector_has_task() || work.deques_have_task();
        if task_waits && answers {
            // It stays awake for a task, and there may be others: those that rest have left them all to it.
            self.resume_search(sleep.rest(me));
        }
        if task_waits || work.has_business(me) {
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        // Lemma 13: where the barrier is refused, a push may have missed this sleeper, or a later search may leave a
        // task.
        let may_miss = !self.barriers_work.load(Ordering::Relaxed);
        Admission::Park(may_miss.then(|| if sleep.any_busy() { LOOK_AGAIN } else { LOOK_AGAIN_BESIDE_NONE }))
    }

    fn sleeper_added(&self, _: &Sleep<P>) {
        self.raise();
    }

    fn sleeper_removed(&self, _: &Sleep<P>) {
        self.lower();
    }

    /// The woken worker is steered away from a waker that goes on: this way of waking is no paper's.
    fn placed_beside(&self, _: &Sleep<P>, waker: Waker) -> Waker {
        waker
    }

    fn restore_hunger(&self, sleep: &Sleep<P>, retired: impl Iterator<Item = WorkerId>, work: &impl Work) {
        let mut restored = 0;
        for sleeper in retired {
            // Before the word, as in `Sleep::announce`.
            self.raise();
            if !sleep.exchange(sleeper, word::RETIRED, word::ASLEEP) {
                self.lower();
                continue;
            }
            restored += 1;
            // Lemma 13: this thread's look is not enough where the barrier is refused, and the sleeper waits without a
            // timeout. The fence is against that of `note_refusal`.
            sleep.platform.fence(Ordering::SeqCst);
            if !self.barriers_work.load(Ordering::Relaxed) && sleep.claim(sleeper, word::WOKEN_BY_PEER) {
                sleep.wake_thread(sleeper, Waker::MakesRoom);
            }
        }
        if restored > 0 {
            // Lemma 10: this thread in the sleepers' place.
            self.answer(sleep, work);
            if work.deques_have_task() || work.injector_has_task() {
                self.wake_to_search(sleep, sleep.last_worker(), word::WOKEN_BY_PEER, Waker::MakesRoom, work);
            }
        }
    }
}
