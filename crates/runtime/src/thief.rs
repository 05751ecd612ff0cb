//! The shell around a policy on threads: does what the dialogue of `comity_protocol` says, and tells it what came of it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use comity_policy::{Sharing, WorkerId};
use comity_protocol::dialogue::{Crew, Dialogue, Effect, Outcome};

use crate::raw::job::JobRef;
use crate::raw::sync::Threads;
use crate::share::{Share, Up};
use crate::shared::{View, take};
use crate::sleep::{Sleep, Work};
use crate::trace;
use crate::worker::Worker;

/// A pool as one of its workers sees it, which waits for `view.awaited`.
struct Around<'a> {
    view: View<'a>,
    /// The pool's share of the cores, if this worker is counted there.
    share: Option<&'a Share>,
}

impl Around<'_> {
    fn share(&self) -> &Share {
        self.share.expect("only a worker that is counted there is asked")
    }
}

impl Work for Around<'_> {
    fn deques_have_task(&self) -> bool {
        self.view.deques_have_task()
    }

    fn injector_has_task(&self) -> bool {
        self.view.injector_has_task()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        self.view.has_business(worker)
    }

    fn ring_bells(&self) {
        self.view.ring_bells();
    }
}

impl Crew for Around<'_> {
    type Platform = Threads;

    fn workers(&self) -> u32 {
        self.view.shared.workers()
    }

    fn sleep(&self) -> &Sleep {
        &self.view.shared.sleep
    }

    fn sharing(&self) -> Option<Sharing> {
        self.share.map(|share| share.sharing)
    }

    fn is_alone(&self) -> bool {
        self.share().is_alone()
    }

    fn has_excess(&self) -> bool {
        self.share().has_excess()
    }

    fn is_core_wanted(&self) -> bool {
        self.share().is_core_wanted()
    }

    fn without_core_after(&self, last: Option<WorkerId>) -> Option<WorkerId> {
        self.share().without_core().find(|worker| last.is_none_or(|last| *worker > last))
    }

    fn retire(&self, me: WorkerId, by_itself: bool) -> bool {
        self.share().retire(&self.view, me, by_itself)
    }

    fn fell_asleep(&self, me: WorkerId) {
        self.share().fell_asleep(&self.view, me);
    }

    fn has_no_core_for(&self, me: WorkerId, has_business: bool) -> bool {
        self.share().woke(&self.view, me, has_business) == Up::Retires
    }
}

impl Worker {
    /// Looks for a task until there is one, or until `awaited` holds, or there is other business of this worker's own.
    #[cold]
    pub(crate) fn search(&self, awaited: &dyn Fn() -> bool) -> Option<JobRef> {
        let (shared, id) = (&**self.shared(), self.id());
        let peer = shared.peer(id);
        let began = Instant::now();
        peer.counters.busy_ns.add_time(began - self.own().busy_since.get());
        peer.busy_since.store(0, Ordering::Relaxed);
        let share = shared.share.as_ref().filter(|_| !self.own().adopted);
        let around = Around { view: View { shared, awaited }, share };
        let mut dialogue = Dialogue::begin(id, peer.wakeups_owed.swap(0, Ordering::Relaxed), &around);
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Thief, began);
        }

        let mut spell = Spell { worker: self, found: None, began };
        let wakeups_owed = spell.hold(&mut dialogue, &around);
        peer.wakeups_owed.store(wakeups_owed, Ordering::Relaxed);
        dialogue.finish(&around);

        let ended = Instant::now();
        peer.counters.thief_ns.add_time(ended - spell.began);
        self.own().busy_since.set(ended);
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Task, ended);
        }
        peer.busy_since.store(shared.nanos_at(ended), Ordering::Relaxed);
        spell.found
    }
}

/// One spell as a thief.
struct Spell<'a> {
    worker: &'a Worker,
    found: Option<JobRef>,
    /// When it began, moved on by the time spent asleep.
    began: Instant,
}

impl Spell<'_> {
    /// Holds the dialogue to its end; returns the wake-ups that stay owed.
    fn hold(&mut self, dialogue: &mut Dialogue, around: &Around<'_>) -> u32 {
        let shared = self.worker.shared();
        let counters = &shared.peer(self.worker.id()).counters;
        let mut thief = self.worker.own().thief.borrow_mut();
        let mut outcome = Outcome::Done;
        loop {
            outcome = match dialogue.next(&mut **thief, around, outcome) {
                Effect::Begin { wakeups_owed } => return wakeups_owed,
                Effect::StealFrom(victim) if victim == self.worker.id() => Outcome::Nothing,
                Effect::StealFrom(victim) => self.keep(self.worker.rob(victim)),
                Effect::TakeInjected => self.keep(take(|| shared.injector.steal())),
                Effect::Mug(victim) => self.keep(self.worker.mug(victim)),
                Effect::Inspect(victim) => Outcome::Seen(shared.inspect(victim)),
                Effect::ClaimWakeup(from) if shared.peer(from).claim_wakeup() => Outcome::Found,
                Effect::ClaimWakeup(_) => Outcome::Nothing,
                Effect::Wake { whom, appoint } => {
                    let woken = shared.sleep.wake_peer(self.worker.id(), whom, appoint);
                    counters.wakeups.add(u64::from(woken.is_some()));
                    Outcome::Woke(woken)
                }
                // This kernel has no directed yield.
                Effect::Yield(_) => {
                    counters.yields.add(1);
                    comity_os::yield_core();
                    Outcome::Done
                }
                Effect::Pause { hints } => {
                    (0..hints).for_each(|_| std::hint::spin_loop());
                    Outcome::Done
                }
                Effect::Step(_) => Outcome::Done,
                Effect::Wait { at_rest, timeout, is_retired } => {
                    let as_what = if is_retired { trace::State::Retired } else { trace::State::Asleep };
                    self.rest(as_what, || shared.sleep.parker(self.worker.id()).wait(at_rest, timeout));
                    Outcome::Waited { has_timeout: timeout.is_some() }
                }
            };
        }
    }

    fn keep(&mut self, job: Option<JobRef>) -> Outcome {
        self.found = job;
        if self.found.is_some() { Outcome::Found } else { Outcome::Nothing }
    }

    /// Keeps account of a wait.
    fn rest(&mut self, as_what: trace::State, wait: impl FnOnce()) {
        let (shared, id) = (self.worker.shared(), self.worker.id());
        let counters = &shared.peer(id).counters;
        let parked = Instant::now();
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, as_what, parked);
        }
        wait();
        let slept = parked.elapsed();
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Thief, parked + slept);
        }
        counters.asleep_ns.add_time(slept);
        counters.sleeps.add(u64::from(!shared.sleep.is_at_rest(id)));
        self.began += slept;
    }
}
