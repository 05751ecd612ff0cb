//! [`Waking::Hungry`](comity_policy::Waking::Hungry): a push that meets its bell wakes one sleeper, the searching
//! worker, which wakes the next.
//!
//! # States
//!
//! One packed word, [`Hunger`], counts the sleepers and says whether a worker is searching:
//!
//! ```text
//!       raised, lowered                             raised, lowered
//!            ┌──┐     search_begins (where it is hungry)     ┌──┐
//!            ▼  │               search_resumes               ▼  │
//!         NO SEARCH ─────────────────────────────────────▶ SEARCH
//!         n sleepers ◀──────────────────────────────────── n sleepers
//!                                search_ended
//! ```
//!
//! It is **hungry** with at least one sleeper and no search. The mark of a wake-up says that the woken worker is the searching one.
//!
//! # Invariants
//!
//! - The word counts at least the workers that are ASLEEP: it is raised before ASLEEP and lowered afterwards (Lemma 1).
//! - At most one search is on. The searching worker ends it, or the waker that began it and found no sleeper (Lemma 7).
//! - Every step that leaves the word hungry, where it was not or the bells were stopped meanwhile, rings the bells (Lemma 1).
//! - No worker parks before a heavy barrier and a look at all queues that follows it (Lemma 1).
//! - After the end of a search a heavy barrier and a look at all queues follow, unless there is no sleeper (Lemma 7).
//! - A searching worker that retires ends the search first (Lemma 8). The same look follows hunger that is restored (Lemma 10).
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

/// How long a sleeper rests before it looks again where `membarrier` is refused and a push may go unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The sleepers that a push may wake.
pub(super) struct Hungry<P: Platform> {
    /// A [`Hunger`]. Workers that fall asleep, their wakers and searching workers write it; a push that meets its bell reads it.
    hunger: CachePadded<P::Counter>,
}

impl<P: Platform> Hungry<P> {
    pub(super) fn new(platform: &P) -> Hungry<P> {
        Hungry { hunger: CachePadded::new(platform.counter()) }
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
            if let Some(searching) = sleep.sleepers(me).find(|worker| sleep.claim(*worker, woken | word::MARK)) {
                sleep.rouse(searching, waker);
                return;
            }
            // Another waker took the last sleeper: no worker searches.
            self.clear_search(work);
            if !self.must_search(sleep, work) {
                return;
            }
        }
    }

    /// A search ended with a task in hand: the tasks that pushes left to it pass to the next one.
    #[cold]
    fn pass_search_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if self.must_search(sleep, work) {
            self.wake_to_search(sleep, me, word::WOKEN_BY_PEER, Waker::GoesOn, work);
        }
    }

    /// Lemma 7: after a search ended, whether a task waits that may have been left to it, and a sleeper can take
    /// the task.
    fn must_search(&self, sleep: &Sleep<P>, work: &impl Work) -> bool {
        // Where the barrier is refused, sleepers look again by themselves.
        let _ = self.look().is_hungry() && sleep.platform.heavy();
        sleep.anyone_asleep() && (work.deques_have_task() || work.injector_has_task())
    }

    /// Takes back the duty that [`Hungry::end_search`] laid down, unless another worker is searching by now.
    fn resume_search(&self, rest: &Rest<P>) {
        rest.marked.store(self.try_change(Hunger::search_resumes), Ordering::Relaxed);
    }

    /// Ends the search if this worker is the searching one.
    fn end_search(&self, rest: &Rest<P>, work: &impl Work) -> bool {
        let was_searching = rest.marked.load(Ordering::Relaxed);
        if was_searching {
            rest.marked.store(false, Ordering::Relaxed);
            self.clear_search(work);
        }
        was_searching
    }

    /// Pushes may wake again. Those that met the bell during the search have stopped it.
    fn clear_search(&self, work: &impl Work) {
        let before = Hunger::from_packed(self.hunger.fetch_add(Hunger::SEARCH, Ordering::AcqRel));
        if before.search_ended().is_hungry() {
            work.ring_bells();
        }
    }
}

impl<P: Platform> Way<P> for Hungry<P> {
    fn hunger(&self, _: &Sleep<P>) -> i32 {
        self.look().packed()
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

    /// A worker that places is busy, so the sleeper that it may miss where `membarrier` is refused looks again.
    fn order_placing(&self, sleep: &Sleep<P>, placer: Option<WorkerId>) {
        if placer.is_some() {
            sleep.platform.light();
        } else {
            sleep.platform.fence(Ordering::SeqCst);
        }
    }

    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if self.end_search(sleep.rest(me), work) {
            self.pass_search_on(sleep, me, work);
        }
    }

    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        if self.end_search(sleep.rest(me), work) {
            self.pass_search_on(sleep, me, work);
        }
    }

    /// A searching worker ends its search first, since from now on others may be needed.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        let was_searching = self.end_search(sleep.rest(me), work);
        if !was_searching && self.look().is_hungry() {
            work.ring_bells();
        }
        // Lemma 1: a pusher that does not meet its bell has shown its task by now.
        let pushes_are_visible = sleep.platform.heavy();
        if work.has_business(me) || work.injector_has_task() || work.deques_have_task() {
            if was_searching {
                // It stays awake for a task; others may have been left to it meanwhile, so it goes on searching.
                self.resume_search(sleep.rest(me));
            }
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        // Where the barrier is refused, a push may have missed this sleeper.
        Admission::Park((!pushes_are_visible && sleep.anyone_busy()).then_some(LOOK_AGAIN))
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
            if sleep.exchange(sleeper, word::RETIRED, word::ASLEEP) {
                restored += 1;
            } else {
                self.lower();
            }
        }
        if restored > 0 {
            // Lemma 1, with this thread in the sleepers' place: it looks for them.
            if self.look().is_hungry() {
                work.ring_bells();
            }
            let _ = sleep.platform.heavy();
            if work.deques_have_task() || work.injector_has_task() {
                self.wake_to_search(sleep, sleep.last_worker(), word::WOKEN_BY_PEER, Waker::MakesRoom, work);
            }
        }
    }
}
