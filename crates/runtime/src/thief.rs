//! The shell around a policy: does what the thief wants, and tells it what came of it.
//!
//! Whatever the policy answers, the pool stays alive: a wait that is over ends the spell, a pool without any work goes
//! to sleep, sleep that would strand a task is refused (see `sleep`), and now and then the shell looks everywhere
//! itself.

use std::time::{Duration, Instant};

use comity_policy::{Action, Event, SleepRefusal, Sleeper, WakeReason, WorkerId};

use crate::raw::job::JobRef;
use crate::share::{Share, Up};
use crate::shared::{AbortOnDrop, View, take};
use crate::sleep::{Admission, Woken, Work};
use crate::trace;
use crate::worker::Worker;

/// Events without a task after which the shell asks whether there is any work in the pool at all.
const DOUBT_AFTER: u32 = 64;

/// Events without a task after which the shell looks into every deque itself: a bound on what a policy that never
/// steals can do.
const SWEEP_AFTER: u32 = 4096;

/// One spell as a thief.
struct Spell<'a> {
    worker: &'a Worker,
    view: View<'a>,
    found: Option<JobRef>,
    /// The worker has work again; what remains is the policy's farewell.
    leaving: bool,
    /// When it began, moved on by the time spent asleep.
    began: Instant,
}

impl Worker {
    /// Looks for a task until there is one, or until `awaited` holds, or there is other business of this worker's own.
    #[cold]
    pub(crate) fn search(&self, awaited: &dyn Fn() -> bool) -> Option<JobRef> {
        let owed = &self.shared().peer(self.id()).wakeups_owed;
        self.spell(awaited, |spell| owed.store(spell.converse(), std::sync::atomic::Ordering::Relaxed))
    }

    /// The pool is closed: rests, with all that is queued here, until it is open again or `awaited` holds. Then it goes on, room or no room:
    /// it has the rest of a task, or tasks that no thief need look for.
    #[cold]
    pub(crate) fn rest_while_closed(&self, awaited: &dyn Fn() -> bool) {
        // As in `answer_bell`.
        let abort = AbortOnDrop("a worker failed while its pool rested, which is a bug in the runtime");
        let goes_on = || !self.shared().is_closed() || awaited();
        self.spell(&goes_on, |spell| {
            spell.rest_while_closed();
            spell.leave();
        });
        std::mem::forget(abort);
    }

    /// A spell without a task, from which the worker comes back busy.
    fn spell(&self, awaited: &dyn Fn() -> bool, body: impl FnOnce(&mut Spell<'_>)) -> Option<JobRef> {
        let (shared, id) = (&**self.shared(), self.id());
        let peer = shared.peer(id);
        let began = Instant::now();
        peer.counters.busy_ns.add_time(began - self.own().busy_since.get());
        peer.busy_since.store(0, std::sync::atomic::Ordering::Relaxed);
        shared.sleep.publish_thief(id);
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Thief, began);
        }

        let mut spell = Spell { worker: self, view: View { shared, awaited }, found: None, leaving: false, began };
        body(&mut spell);
        shared.sleep.hand_over(id, &spell.view);

        let ended = Instant::now();
        peer.counters.thief_ns.add_time(ended - spell.began);
        self.own().busy_since.set(ended);
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Task, ended);
        }
        peer.busy_since.store(shared.nanos_at(ended), std::sync::atomic::Ordering::Relaxed);
        spell.found
    }
}

impl<'a> Spell<'a> {
    /// Holds the conversation from the empty deque to [`Action::Run`]; returns the wake-ups that stay owed.
    fn converse(&mut self) -> u32 {
        let worker = self.worker;
        let shared = worker.shared();
        let peer = shared.peer(worker.id());
        let mut thief = worker.own().thief.borrow_mut();
        let mut event =
            Event::DequeEmpty { wakeups_owed: peer.wakeups_owed.swap(0, std::sync::atomic::Ordering::Relaxed) };
        let mut events = 0u32;
        // A policy may wake everybody before it leaves, and no more.
        let mut farewells = 2 * shared.workers() + 8;
        loop {
            event = match thief.next(event) {
                Action::Run { wakeups_owed } if self.leaving => return wakeups_owed,
                // Nothing was found: to a policy that runs all the same, the deque is still empty.
                Action::Run { wakeups_owed } => Event::DequeEmpty { wakeups_owed },
                Action::Inspect(victim) => Event::Seen(shared.inspect(victim)),
                Action::Count => {
                    let roles = shared.sleep.roles();
                    Event::Counted { busy: roles.busy, thieves: roles.thieves, sleepers: roles.sleepers }
                }
                Action::ClaimWakeup { from } => Event::WakeupClaimed(shared.peer(from).claim_wakeup().then_some(from)),
                Action::Wake { whom, appoint } => {
                    let woken = shared.sleep.wake_peer(worker.id(), whom, appoint);
                    peer.counters.wakeups.add(u64::from(woken.is_some()));
                    Event::PeerWoken(woken)
                }
                // A policy that goes on looking although it has work: it is cut short.
                Action::StealFrom(_)
                | Action::Mug
                | Action::YieldTo(_)
                | Action::YieldCore
                | Action::Pause { .. }
                | Action::Sleep
                    if self.leaving =>
                {
                    return 0;
                }
                Action::StealFrom(victim) => self.steal_from(victim),
                Action::Mug => self.mug(),
                Action::YieldTo(_) | Action::YieldCore => {
                    // This kernel has no directed yield.
                    peer.counters.yields.add(1);
                    comity_os::yield_core();
                    Event::Yielded
                }
                Action::Pause { hints } => {
                    for _ in 0..hints {
                        std::hint::spin_loop();
                    }
                    Event::Paused {
                        anyone_busy: shared.sleep.anyone_busy(),
                        core_is_wanted: self.share().is_some_and(Share::is_core_wanted),
                    }
                }
                Action::Sleep => match self.rest() {
                    Ok(reason) => Event::Woken(reason),
                    Err(refusal) => Event::SleepRefused(refusal),
                },
            };
            if self.leaving {
                farewells -= 1;
                if farewells == 0 {
                    return 0;
                }
                continue;
            }
            events += 1;
            if let Some(instead) = self.keep_alive(event, events) {
                event = instead;
            }
        }
    }

    /// What the shell adds to any policy. `Some`: this event takes the place of the last action's outcome.
    fn keep_alive(&mut self, event: Event, events: u32) -> Option<Event> {
        let worker = self.worker;
        let sleep = &worker.shared().sleep;
        if self.found.is_some() {
            self.leave();
            return None;
        }
        let was_closed = worker.shared().is_closed();
        if was_closed {
            self.rest_while_closed();
        }
        if self.view.has_business(worker.id()) {
            self.leave();
            return Some(Event::Resumed);
        }
        if was_closed {
            return Some(Event::Woken(WakeReason::Coordinator));
        }
        if let Some(share) = self.share()
            && share.has_excess()
            && share.retire(&self.view, worker.id(), false)
        {
            return Some(Event::Woken(self.rest_until_up()));
        }
        if events.is_multiple_of(SWEEP_AFTER) {
            let peers = (0..worker.shared().workers()).map(WorkerId);
            let mut outcomes = peers.map(|peer| self.steal_from(peer));
            let swept = outcomes.find(|event| !matches!(event, Event::StealFailed(_)));
            if swept.is_some() {
                self.leave();
                return swept;
            }
        }
        if events.is_multiple_of(DOUBT_AFTER) && !sleep.anyone_busy() && !matches!(event, Event::Woken(_)) {
            return self.sleep().ok().map(Event::Woken);
        }
        None
    }

    fn leave(&mut self) {
        self.leaving = true;
        self.worker.shared().sleep.publish_busy(self.worker.id());
    }

    fn steal_from(&mut self, victim: WorkerId) -> Event {
        let shared = self.worker.shared();
        if shared.is_closed() {
            return Event::StealFailed(victim);
        }
        if victim != self.worker.id() {
            self.found = self.worker.rob(victim);
            if self.found.is_some() {
                return Event::StealSucceeded(victim);
            }
        }
        self.found = take(|| shared.injector.steal());
        if self.found.is_some() { Event::Injected } else { Event::StealFailed(victim) }
    }

    /// Takes over the queue of a worker without a core.
    fn mug(&mut self) -> Event {
        let Some(share) = self.share().filter(|share| !share.is_closed()) else { return Event::NothingToMug };
        for victim in share.without_core().filter(|victim| *victim != self.worker.id()) {
            self.found = self.worker.mug(victim);
            if self.found.is_some() {
                return Event::Mugged(victim);
            }
        }
        Event::NothingToMug
    }

    /// The pool's share of the cores, if this worker is counted there.
    fn share(&self) -> Option<&'a Share> {
        self.worker.shared().share.as_ref().filter(|_| !self.worker.own().adopted)
    }

    /// What a policy's sleep is: in some pools the worker retires, and is woken by the coordinator.
    fn rest(&mut self) -> Result<WakeReason, SleepRefusal> {
        if let Some(share) = self.share()
            && share.sharing.sleeper == Sleeper::LeavesCore
        {
            if share.sharing.plain_alone && share.is_alone() {
                if self.worker.shared().sleep.anyone_busy() {
                    return Err(SleepRefusal::Alone);
                }
                // The first who finds work wakes it, and not the coordinator's next look.
            } else if share.retire(&self.view, self.worker.id(), true) {
                return Ok(self.rest_until_up());
            }
        }
        self.sleep()
    }

    /// Sleeps if the protocol admits it.
    fn sleep(&mut self) -> Result<WakeReason, SleepRefusal> {
        let (shared, id) = (self.worker.shared(), self.worker.id());
        let mut sleeps = false;
        shared.sleep.announce(id);
        loop {
            match shared.sleep.admit(id, &self.view) {
                Admission::Refused(refusal) => {
                    let woken = shared.sleep.retract(id);
                    if sleeps && let Some(share) = self.share() {
                        // It looked again by itself and found something.
                        share.woke(&self.view, id, true);
                    }
                    return woken.map_or(Err(refusal), |woken| Ok(reason(woken)));
                }
                Admission::Park(timeout) => {
                    if !sleeps && let Some(share) = self.share() {
                        share.fell_asleep(&self.view, id);
                    }
                    sleeps = true;
                    if let Some(woken) = self.park(timeout, trace::State::Asleep) {
                        return Ok(self.stay_up(woken));
                    }
                }
            }
        }
    }

    /// A worker that has retired rests until it is recalled, or has business.
    fn rest_until_up(&mut self) -> WakeReason {
        let (sleep, id) = (&self.worker.shared().sleep, self.worker.id());
        loop {
            sleep.pass_on(id, &self.view);
            let woken = if self.view.has_business(id) {
                sleep.retract(id).unwrap_or(Woken::Business)
            } else {
                self.park(None, trace::State::Retired).expect("without a timeout it rests until it is woken")
            };
            if !self.goes_back() {
                return reason(woken);
            }
        }
    }

    /// The worker is up. If there is no core for it, it rests again.
    fn stay_up(&mut self, woken: Woken) -> WakeReason {
        if self.goes_back() { self.rest_until_up() } else { reason(woken) }
    }

    /// Whether there is no core for the worker, which has retired then.
    fn goes_back(&self) -> bool {
        let id = self.worker.id();
        self.share().is_some_and(|share| {
            let up = share.woke(&self.view, id, self.view.has_business(id));
            up == Up::Retires && share.retire(&self.view, id, false)
        })
    }

    /// Rests until the pool is open, or until it has business, which in a closed pool is what it waits for.
    fn rest_while_closed(&mut self) {
        let (shared, id) = (self.worker.shared(), self.worker.id());
        while shared.is_closed() && !self.view.has_business(id) {
            match self.share() {
                // Within the books' lock. False: the pool was opened meanwhile.
                Some(share) => {
                    _ = share.retire(&self.view, id, false) && {
                        self.rest_until_up();
                        true
                    }
                }
                None => self.rest_in_no_books(),
            }
        }
    }

    /// A thread of the program's own, which is in no books, rests in a closed pool: as in Lemma 3, with the opening for the business.
    fn rest_in_no_books(&mut self) {
        let (shared, id) = (self.worker.shared(), self.worker.id());
        shared.sleep.retire(id);
        shared.sleep.pass_on(id, &self.view);
        if !shared.is_closed() || self.view.has_business(id) {
            shared.sleep.retract(id);
        } else {
            self.park(None, trace::State::Retired);
        }
    }

    /// `None`: the timeout is over.
    fn park(&mut self, timeout: Option<Duration>, as_what: trace::State) -> Option<Woken> {
        let (shared, id) = (self.worker.shared(), self.worker.id());
        let counters = &shared.peer(id).counters;
        let parked = Instant::now();
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, as_what, parked);
        }
        let woken = crate::sleep::park(&shared.sleep, id, timeout);
        let slept = parked.elapsed();
        if let Some(recorder) = &shared.recorder {
            recorder.enter(id, trace::State::Thief, parked + slept);
        }
        counters.asleep_ns.add_time(slept);
        counters.sleeps.add(u64::from(woken.is_some()));
        self.began += slept;
        woken
    }
}

/// What a policy is told. Business ends the spell before it matters; a waker that was late with it is like any peer.
fn reason(woken: Woken) -> WakeReason {
    match woken {
        Woken::For(reason) => reason,
        Woken::Business => WakeReason::Peer,
    }
}
