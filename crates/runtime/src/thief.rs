//! The shell around a policy: does what the thief wants, and tells it what came of it.
//!
//! Whatever the policy answers, the pool stays alive: a wait that is over ends the spell, a pool without any work goes
//! to sleep, sleep that would strand a task is refused (see `sleep`), and now and then the shell looks everywhere
//! itself.

use std::time::Instant;

use comity_policy::{Action, Event, SleepRefusal, WakeReason, WorkerId};

use crate::raw::job::JobRef;
use crate::shared::{View, take};
use crate::sleep::{Admission, Woken};
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
        let (shared, id) = (&**self.shared(), self.id());
        let peer = shared.peer(id);
        let began = Instant::now();
        peer.counters.busy_ns.add_time(began - self.own().busy_since.get());
        shared.sleep.publish_thief(id);

        let mut spell = Spell { worker: self, view: View { shared, awaited }, found: None, leaving: false, began };
        let wakeups_owed = spell.converse();
        peer.wakeups_owed.store(wakeups_owed, std::sync::atomic::Ordering::Relaxed);
        shared.sleep.hand_over(id, &spell.view);

        let ended = Instant::now();
        peer.counters.thief_ns.add_time(ended - spell.began);
        self.own().busy_since.set(ended);
        spell.found
    }
}

impl Spell<'_> {
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
        let mut farewells = 2 * u32::from(shared.workers()) + 8;
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
                | Action::YieldTo(_)
                | Action::YieldCore
                | Action::Pause { .. }
                | Action::Sleep
                    if self.leaving =>
                {
                    return 0;
                }
                Action::StealFrom(victim) => self.steal_from(victim),
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
                    Event::Paused { anyone_busy: shared.sleep.anyone_busy() }
                }
                Action::Sleep => match self.sleep() {
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
        use crate::sleep::Work;
        let worker = self.worker;
        let sleep = &worker.shared().sleep;
        if self.found.is_some() {
            self.leave();
            return None;
        }
        if self.view.has_business(worker.id()) {
            self.leave();
            return Some(Event::Resumed);
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
        if victim != self.worker.id() {
            self.found = self.worker.rob(victim);
            if self.found.is_some() {
                return Event::StealSucceeded(victim);
            }
        }
        self.found = take(|| shared.injector.steal());
        if self.found.is_some() { Event::Injected } else { Event::StealFailed(victim) }
    }

    /// Sleeps if the protocol admits it.
    fn sleep(&mut self) -> Result<WakeReason, SleepRefusal> {
        let (sleep, id) = (&self.worker.shared().sleep, self.worker.id());
        sleep.announce(id);
        loop {
            match sleep.admit(id, &self.view) {
                Admission::Refused(refusal) => {
                    return sleep.retract(id).map_or(Err(refusal), |woken| Ok(reason(woken)));
                }
                Admission::Park(timeout) => {
                    let counters = &self.worker.shared().peer(id).counters;
                    let parked = Instant::now();
                    let woken = sleep.park(id, timeout);
                    let slept = parked.elapsed();
                    counters.asleep_ns.add_time(slept);
                    self.began += slept;
                    if let Some(woken) = woken {
                        counters.sleeps.add(1);
                        return Ok(reason(woken));
                    }
                }
            }
        }
    }
}

/// What a policy is told. Business ends the spell before it matters; a waker that was late with it is like any peer.
fn reason(woken: Woken) -> WakeReason {
    match woken {
        Woken::For(reason) => reason,
        Woken::Business => WakeReason::Peer,
    }
}
