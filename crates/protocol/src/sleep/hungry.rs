//! [`Waking::Hungry`](comity_policy::Waking::Hungry): a push that meets its bell wakes one sleeper. This *searching
//! worker* looks for tasks, and wakes the next sleeper when it has found one.
//!
//! # States
//!
//! One packed word, [`Hunger`], counts the sleepers. It also records whether a worker is searching, and whether a
//! thread *answers* for all workers that rest: after they fell asleep, it looks at all queues in their place.
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
//! The word is **hungry** if the next push begins a search: in the state ANSWERED, or UNANSWERED with a sleeper. A
//! mark on a wake-up makes the woken worker the searching worker.
//!
//! # Invariants
//!
//! - The word counts all workers that are ASLEEP, or more: it is raised before a rest word becomes ASLEEP, and lowered
//!   after it has changed again (Lemma 1).
//! - At most one search runs. The searching worker ends it or passes it on. If the waker that began the search finds
//!   no sleeper, this waker ends it (Lemma 7).
//! - A thread that made a rest word ASLEEP or ended a search tries to answer afterwards (Lemma 12).
//! - The thread that moved the word to ANSWERED rings the bells and executes a heavy barrier. Then it looks at all
//!   queues, and if it sees a task, takes it or wakes a worker for it (Lemmas 1, 7, 10, 12).
//! - If a thread tried to answer and failed, because another thread answers or a worker is searching, it only fences
//!   and looks at all queues (Lemma 12).
//! - A searching worker that retires ends the search or passes it on (Lemma 8).
//! - After the system has refused a barrier, each sleeper looks again after a timeout, or a step is under way that
//!   wakes it (Lemma 13).
//!
//! The crate's `README.md` has the lemmas.

use core::sync::atomic::Ordering;
use core::time::Duration;

use comity_policy::{SleepRefusal, WorkerId};
use crossbeam_utils::CachePadded;

use super::hunger::Hunger;
use super::way::Way;
use super::{Admission, Rest, Sleep, Work, word};
use crate::platform::{Counter, Platform, Waker, Word};

/// The time that a sleeper rests before it looks again, if `membarrier` is refused and a worker is busy. A push of
/// that worker may have missed the sleeper.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The time that a sleeper rests before it looks again, if `membarrier` is refused and no worker is busy. The next
/// task then usually comes from outside, and its submitter fences, so it sees the sleeper.
const LOOK_AGAIN_BESIDE_NONE: Duration = Duration::from_millis(50);

/// The words of this way of waking.
pub(super) struct Hungry<P: Platform> {
    /// The packed [`Hunger`]. Workers that fall asleep, their wakers and searching workers write it; a push that
    /// meets its bell reads it.
    hunger: CachePadded<P::Counter>,
    /// True if the system has refused no [`Platform::heavy`] yet, so that a sleeper may rely on the barrier of another
    /// thread. The thread whose barrier is refused writes it, once.
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

    /// Counts one sleeper more. The counter then holds the result of [`Hunger::raised`], which checks its invariants
    /// in a debug build.
    fn raise(&self) {
        let _ = Hunger::from_packed(self.hunger.fetch_add(Hunger::SLEEPER, Ordering::AcqRel)).raised();
    }

    /// Counts one sleeper less, see [`Hungry::raise`].
    fn lower(&self) {
        let _ = Hunger::from_packed(self.hunger.fetch_sub(Hunger::SLEEPER, Ordering::AcqRel)).lowered();
    }

    /// Makes a transition. Returns false if the present state has no such transition.
    fn try_change(&self, transition: fn(Hunger) -> Option<Hunger>) -> bool {
        let next = |packed| transition(Hunger::from_packed(packed)).map(Hunger::packed);
        self.hunger.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Wakes exactly one sleeper as the searching worker, unless another worker is searching.
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
            // Another waker claimed the last sleeper, so no worker is searching.
            self.clear_search();
            if !self.must_search(sleep, work) {
                return;
            }
        }
    }

    /// Passes on the duties of a worker that stops looking for tasks. If it is the searching worker, another worker
    /// looks for the tasks for which pushes woke no worker during the search.
    fn stop_searching(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if sleep.rest(me).marked.load(Ordering::Relaxed) {
            self.pass_search_on(sleep, me, work);
        }
    }

    #[cold]
    fn pass_search_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        let task_waits = work.deques_have_task() || work.injector_has_task();
        if task_waits && let Some(next) = self.claim_to_search(sleep, me, word::WOKEN_BY_PEER) {
            // Lemma 7: the search continues, with another worker.
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

    /// Claims a sleeper as the searching worker of the current search. The caller wakes its thread.
    fn claim_to_search(&self, sleep: &Sleep<P>, me: WorkerId, woken: u32) -> Option<WorkerId> {
        sleep.sleepers(me).find(|worker| sleep.claim(*worker, woken | word::MARK))
    }

    /// Returns true if a task waits and a sleeper can take it. During the search that ended, a push may have woken no
    /// worker for this task (Lemma 7).
    fn must_search(&self, sleep: &Sleep<P>, work: &impl Work) -> bool {
        self.answer(sleep, work);
        sleep.any_asleep() && (work.deques_have_task() || work.injector_has_task())
    }

    /// Answers for all workers that rest, after a rest word became ASLEEP or a search ended (Lemma 12). Returns true
    /// if the caller answers: it must then look at all queues, and find a worker for each task that it sees. Returns
    /// false if another thread answers, a worker is searching, or no worker sleeps.
    fn answer(&self, sleep: &Sleep<P>, work: &impl Work) -> bool {
        let barriers_work = self.barriers_work.load(Ordering::Relaxed);
        // If barriers are refused, each worker answers for itself, and looks again after a timeout.
        let answers = self.try_change(Hunger::answered) || !barriers_work;
        if answers {
            work.ring_bells();
            // Lemma 1: if a pusher reads its bell before the barrier, its task is visible before the barrier too.
            if !sleep.platform.heavy() && barriers_work {
                self.note_refusal(sleep);
            }
        } else {
            sleep.platform.fence(Ordering::SeqCst);
        }
        answers
    }

    /// Notes that a barrier was refused for the first time. Wakes all sleepers, which may have relied on a barrier, so
    /// that each looks at the queues itself.
    #[cold]
    fn note_refusal(&self, sleep: &Sleep<P>) {
        self.barriers_work.store(false, Ordering::Relaxed);
        // The fence pairs with the fence of a sleeper: the sleeper sees that barriers are refused, or this thread
        // sees the sleeper.
        sleep.platform.fence(Ordering::SeqCst);
        sleep.wake_up_to(sleep.rests.len(), sleep.last_worker(), word::WOKEN_BY_PEER);
    }

    /// Makes the worker the searching worker, unless another worker is searching.
    fn resume_search(&self, rest: &Rest<P>) {
        rest.marked.store(self.try_change(Hunger::search_resumes), Ordering::Relaxed);
    }

    /// Ends the search if this worker is the searching worker. The caller must call [`Hungry::answer`] afterwards.
    fn end_search(&self, rest: &Rest<P>) -> bool {
        let was_searching = rest.marked.load(Ordering::Relaxed);
        if was_searching {
            rest.marked.store(false, Ordering::Relaxed);
            self.clear_search();
        }
        was_searching
    }

    /// Ends the search, so that pushes may wake sleepers again.
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

    /// Checks no bell, because it reads `hunger` itself, by the argument of Lemma 1.
    #[inline]
    fn after_spawn(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if self.look().is_hungry() {
            sleep.push_met_bell(me, work);
        }
    }

    fn after_injection(&self, sleep: &Sleep<P>, submitter: Waker, work: &impl Work) {
        // Lemma 1. A full fence is cheap enough here, because it is not on the path of a busy worker.
        self.wake_to_search(sleep, sleep.last_worker(), word::WOKEN_BY_INJECTION, submitter, work);
    }

    /// Executes only a light barrier if a worker placed the task. If `membarrier` is refused, that worker may miss a
    /// sleeper, but the sleeper looks again after a timeout.
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

    /// Ends the search of a searching worker first, because other workers may be needed from now on.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        self.end_search(sleep.rest(me));
        let answers = self.answer(sleep, work);
        let task_waits = work.injector_has_task() || work.deques_have_task();
        if task_waits && answers {
            // The worker stays awake for a task, as the searching worker: there may be more tasks, and other resting
            // workers rely on the thread that answers.
            self.resume_search(sleep.rest(me));
        }
        if task_waits || work.has_business(me) {
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        // Lemma 13: if the barrier is refused, a push may have missed this sleeper, or a later search may end and miss
        // a task.
        let may_miss = !self.barriers_work.load(Ordering::Relaxed);
        Admission::Park(may_miss.then(|| if sleep.any_busy() { LOOK_AGAIN } else { LOOK_AGAIN_BESIDE_NONE }))
    }

    fn sleeper_added(&self, _: &Sleep<P>) {
        self.raise();
    }

    fn sleeper_removed(&self, _: &Sleep<P>) {
        self.lower();
    }

    /// Returns `waker` itself, so that the kernel places the woken worker away from a waker that continues to run. The
    /// papers do not describe this way of waking, so there is no measured placement to reproduce.
    fn placed_beside(&self, _: &Sleep<P>, waker: Waker) -> Waker {
        waker
    }

    fn restore_hunger(&self, sleep: &Sleep<P>, retired: impl Iterator<Item = WorkerId>, work: &impl Work) {
        let mut restored = 0;
        for sleeper in retired {
            // The hunger is raised before the word is written, as in `Sleep::announce`.
            self.raise();
            if !sleep.exchange(sleeper, word::RETIRED, word::ASLEEP) {
                self.lower();
                continue;
            }
            restored += 1;
            // Lemma 13: if the barrier is refused, this thread's look is not enough, and the sleeper waits without a
            // timeout. The fence pairs with the fence of `note_refusal`.
            sleep.platform.fence(Ordering::SeqCst);
            if !self.barriers_work.load(Ordering::Relaxed) && sleep.claim(sleeper, word::WOKEN_BY_PEER) {
                sleep.wake_thread(sleeper, Waker::MakesRoom);
            }
        }
        if restored > 0 {
            // Lemma 10: this thread looks at the queues in the sleepers' place.
            self.answer(sleep, work);
            if work.deques_have_task() || work.injector_has_task() {
                self.wake_to_search(sleep, sleep.last_worker(), word::WOKEN_BY_PEER, Waker::MakesRoom, work);
            }
        }
    }
}
