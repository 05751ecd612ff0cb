//! The shell around a policy on threads: does what the dialogue of `comity_protocol` says, and tells it what came of it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use comity_protocol::dialogue::{Dialogue, Effect, Outcome};

use crate::raw::abort::AbortOnDrop;
use crate::raw::job::take;
use crate::watching::trace;
use crate::workers::registry::{JobRef, Worker};
use crate::workers::view::View;

impl Worker {
    /// Looks for a task until there is one, or until `awaited` holds, or there is other business of this worker's own.
    #[cold]
    pub(crate) fn search(&self, awaited: &dyn Fn() -> bool) -> Option<JobRef> {
        let owed = &self.registry().peer(self.id()).wakeups_owed;
        let begin = |view: &View<'_>| Dialogue::begin(self.id(), owed.swap(0, Ordering::Relaxed), view);
        self.spell(awaited, begin, |wakeups_owed| owed.store(wakeups_owed, Ordering::Relaxed))
    }

    /// The pool is closed: rests, with all that is queued here, until it is open again or `awaited` holds. Then it goes on, room or no room:
    /// it has the rest of a task, or tasks that no thief need look for.
    #[cold]
    pub(crate) fn rest_while_closed(&self, awaited: &dyn Fn() -> bool) {
        // As in `answer_bell`.
        let abort = AbortOnDrop("a worker failed while its pool rested, which is a bug in the runtime");
        let goes_on = || !self.registry().is_closed() || awaited();
        self.spell(&goes_on, |view| Dialogue::begin_to_rest(self.id(), view), |_| {});
        std::mem::forget(abort);
    }

    /// A spell without a task, from which the worker comes back busy.
    fn spell(
        &self,
        awaited: &dyn Fn() -> bool,
        begin: impl FnOnce(&View<'_>) -> Dialogue,
        owes: impl FnOnce(u32),
    ) -> Option<JobRef> {
        let (registry, id) = (&**self.registry(), self.id());
        let peer = registry.peer(id);
        let began = Instant::now();
        peer.counters.busy_ns.add_time(began - self.own().busy_since.get());
        peer.busy_since.store(0, Ordering::Relaxed);
        let view = View { registry, awaited };
        let mut dialogue = begin(&view);
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Thief, began);
        }

        let mut spell = Spell { worker: self, found: None, began };
        owes(spell.hold(&mut dialogue, &view));
        dialogue.finish(&view);

        let ended = Instant::now();
        peer.counters.thief_ns.add_time(ended - spell.began);
        self.own().busy_since.set(ended);
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Task, ended);
        }
        peer.busy_since.store(registry.nanos_at(ended), Ordering::Relaxed);
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
    fn hold(&mut self, dialogue: &mut Dialogue, view: &View<'_>) -> u32 {
        let registry = self.worker.registry();
        let counters = &registry.peer(self.worker.id()).counters;
        let mut thief = self.worker.own().thief.borrow_mut();
        let mut outcome = Outcome::Done;
        loop {
            outcome = match dialogue.next(&mut **thief, view, outcome) {
                Effect::Begin { wakeups_owed } => return wakeups_owed,
                Effect::StealFrom(victim) if victim == self.worker.id() => Outcome::Nothing,
                Effect::StealFrom(victim) => match self.keep(self.worker.rob(victim)) {
                    Outcome::Nothing if registry.peer(victim).has_task() => Outcome::Missed,
                    outcome => outcome,
                },
                Effect::TakeInjected => self.keep(take(|| registry.injector.steal())),
                Effect::Mug(victim) => self.keep(self.worker.mug(victim)),
                Effect::Inspect(victim) => Outcome::Seen(registry.inspect(victim)),
                Effect::ClaimWakeup(from) if registry.peer(from).claim_wakeup() => Outcome::Found,
                Effect::ClaimWakeup(_) => Outcome::Nothing,
                Effect::Wake { whom, appoint } => {
                    let woken = registry.sleep.wake_peer(self.worker.id(), whom, appoint);
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
                    self.rest(as_what, || registry.sleep.parker(self.worker.id()).wait(at_rest, timeout));
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
        let (registry, id) = (self.worker.registry(), self.worker.id());
        let counters = &registry.peer(id).counters;
        let parked = Instant::now();
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, as_what, parked);
        }
        wait();
        let slept = parked.elapsed();
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Thief, parked + slept);
        }
        counters.asleep_ns.add_time(slept);
        counters.sleeps.add(u64::from(!registry.sleep.is_at_rest(id)));
        self.began += slept;
    }
}
