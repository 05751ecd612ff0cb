//! [`Waking::Watchdog`](comity_policy::Waking::Watchdog): one thief, the watchdog, stays awake while a worker is
//! busy, and thieves wake each other when their policy says so (BWS §4).
//!
//! # States
//!
//! The *post* is one word, which names the watchdog:
//!
//! ```text
//!            a would-be sleeper takes it; a worker that turns busy gives it to a sleeper
//!    VACANT ───────────────────────────────────────────────────────────────────────────▶ HELD BY w ──┐ w gives it to
//!           ◀─────────────────────────────────────────────────────────────────────────── ▲           │ a sleeper
//!            w turns busy and finds no sleeper, or w sees no busy worker                 └───────────┘
//! ```
//!
//! # Invariants
//!
//! - All changes of the post are compare-and-swaps, so at most one worker holds it.
//! - A worker parks only after it saw that another worker holds the post, or that the post is vacant in a pool
//!   without a busy worker (Lemmas 5, 6).
//! - The holder turns busy only after it gave the post to a sleeper and woke it, or made the post vacant and then saw
//!   no sleeper (Lemma 5).
//! - A sleeper gets the post before its wake-up is claimed, so it knows that it holds the post when it turns busy
//!   (Lemma 5).
//!
//! The crate's `README.md` has the lemmas.

use core::sync::atomic::Ordering;

use comity_policy::{SleepRefusal, WorkerId};
use crossbeam_utils::CachePadded;

use super::way::Way;
use super::{Admission, Sleep, Work, word};
use crate::platform::{Platform, Waker, Word};

/// The post's value when no worker holds it.
const VACANT: u32 = u32::MAX;

/// The watchdog's post.
pub(super) struct Watchdog<P: Platform> {
    /// The worker that stays awake while another is busy, or [`VACANT`]. All workers read and write it while they are
    /// thieves.
    post: CachePadded<P::Word>,
}

impl<P: Platform> Watchdog<P> {
    pub(super) fn new(platform: &P) -> Watchdog<P> {
        Watchdog { post: CachePadded::new(platform.word(None, VACANT)) }
    }

    fn move_post(&self, from: u32, to: u32) -> bool {
        self.post.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the post to a sleeper and claims that sleeper's wake-up. `holder` is the present value of the post:
    /// [`VACANT`] or this worker. Returns `None` if no worker sleeps, or if the post has another value.
    ///
    /// The post changes hands before the claim. If the sleeper were claimed first, it could turn busy before it holds
    /// the post, and would not pass the post on.
    fn appoint(&self, sleep: &Sleep<P>, me: WorkerId, holder: u32) -> Option<WorkerId> {
        loop {
            let candidate = sleep.others(me).find(|peer| sleep.is_asleep(*peer))?;
            let post = candidate.0;
            if !self.move_post(holder, post) {
                return None;
            }
            if sleep.claim(candidate, word::WOKEN_AS_WATCHDOG) {
                return Some(candidate);
            }
            // Another waker has claimed the candidate. This worker takes the post back, unless the candidate has
            // passed it on already. Then it looks for a sleeper again, because a worker may have parked relying on the
            // candidate.
            if !self.move_post(post, holder) {
                return None;
            }
            sleep.platform.fence(Ordering::SeqCst);
        }
    }
}

impl<P: Platform> Way<P> for Watchdog<P> {
    /// Does nothing: the pusher is busy, so a watchdog is awake and looks for the task.
    fn push_met_bell(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    #[inline]
    fn after_spawn(&self, _: &Sleep<P>, _: WorkerId, _: &impl Work) {}

    fn after_injection(&self, sleep: &Sleep<P>, _: Waker, _: &impl Work) {
        sleep.wake_for_injection();
    }

    fn pass_on(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) {
        sleep.pass_injection_on(me, work);
    }

    /// Passes the post on. Afterwards a thief holds the post, or each worker that is about to sleep has yet to look at
    /// the post (Lemma 5).
    fn hand_over(&self, sleep: &Sleep<P>, me: WorkerId, _: &impl Work) {
        let own = me.0;
        loop {
            let holder = self.post.load(Ordering::Acquire);
            if holder != own && holder != VACANT {
                return;
            }
            if let Some(successor) = self.appoint(sleep, me, holder) {
                sleep.wake_thread(successor, Waker::GoesOn);
                return;
            }
            if holder == VACANT {
                return;
            }
            // There is no sleeper to appoint, so the post becomes vacant. A worker that fell asleep in the meantime
            // may have relied on this worker as the watchdog, so this worker looks for sleepers again.
            self.move_post(own, VACANT);
            sleep.platform.fence(Ordering::SeqCst);
        }
    }

    fn wake_peer(&self, sleep: &Sleep<P>, me: WorkerId, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        if appoint && self.post.load(Ordering::Relaxed) == me.0 {
            let successor = self.appoint(sleep, me, me.0)?;
            sleep.wake_thread(successor, Waker::GoesOn);
            return Some(successor);
        }
        sleep.wake_one(me, sleeper)
    }

    /// Admits a worker to sleep if another worker is the watchdog. The watchdog sleeps only in a pool without work,
    /// and makes the post vacant first.
    fn admit(&self, sleep: &Sleep<P>, me: WorkerId, work: &impl Work) -> Admission {
        if sleep.work_arrived(me, work) {
            return Admission::Refused(SleepRefusal::WorkArrived);
        }
        let own = me.0;
        loop {
            let holder = self.post.load(Ordering::Acquire);
            if holder != own && holder != VACANT {
                return Admission::Park(None);
            }
            if holder == VACANT && !self.move_post(VACANT, own) {
                continue;
            }
            if sleep.any_busy() {
                return Admission::Refused(SleepRefusal::YouAreWatchdog);
            }
            // Lemma 6: if this look misses a worker that has just got a task, that worker calls `hand_over` later, and
            // finds the post vacant.
            self.move_post(own, VACANT);
            sleep.platform.fence(Ordering::SeqCst);
            if !sleep.any_busy() {
                return Admission::Park(None);
            }
        }
    }
}
