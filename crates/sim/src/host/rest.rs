//! How a worker goes to rest and comes up again: each step of `comity_protocol`'s sleep is an event, and others come between two.
//!
//! ```text
//!   Action::Sleep ──▶ Announcing ──▶ Parking ──▶ Waiting ──▶ Rising ──▶ Up ──▶ its thief
//!                          │ refused    ▲ ╰── woken by now ─────────────▲ ╰─ no core: PassingOn
//!                          ▼            │                               │
//!                      its thief    PassingOn ── business of its own ───╯
//! ```

use comity_policy::{Event, SleepRefusal, Sleeper, WakeReason, WorkerId};
use comity_protocol::platform::Waker;
use comity_protocol::sleep::{Admission, Parking, Sleep, Woken, Work};

use super::platform::Cells;
use super::pool::Pool;
use super::worker::Doing;
use super::{Due, Host, Thread};

/// A pool's queues as the protocol sees them.
pub(super) struct Queues<'a>(&'a Pool);

impl Work for Queues<'_> {
    fn deques_have_task(&self) -> bool {
        self.0.queued > 0
    }

    fn injector_has_task(&self) -> bool {
        !self.0.injected.is_empty()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        !self.0.workers[worker.index()].ready.is_empty()
    }

    fn ring_bells(&self) {
        self.fence();
        (0..self.0.bells.len() as u32).for_each(|worker| self.0.ring(WorkerId(worker)));
    }
}

impl<'a> Queues<'a> {
    pub(super) fn of(pool: &'a Pool) -> Queues<'a> {
        Queues(pool)
    }

    pub(super) fn fence(&self) {
        self.0.cells.traffic().fence();
    }

    fn silence(&self, own: WorkerId) {
        self.0.bells[own.index()].set(false);
        self.fence();
    }
}

impl Pool {
    /// Makes the worker's next push look for sleepers.
    pub(super) fn ring(&self, worker: WorkerId) {
        if !self.bells[worker.index()].replace(true) {
            self.cells.traffic().write(Some(worker));
        }
    }
}

impl Host {
    /// Takes a step of the program's sleep protocol, and carries out what comes of it.
    pub(super) fn step<R>(&mut self, program: u32, step: impl FnOnce(&Sleep<Cells>, &Queues<'_>) -> R) -> R {
        let me = self.acting.filter(|thread| thread.program == program);
        let pool = self.pool(program);
        pool.cells.traffic().begin(me.map(|thread| WorkerId(thread.worker)));
        let outcome = step(pool.sleep(), &Queues::of(pool));
        while let Some(woken) = self.pool(program).cells.traffic().next_woken() {
            self.wake(Thread { program, worker: woken.0 }, me);
        }
        while let Some(changed) = self.pool(program).cells.traffic().next_changed() {
            self.pool_mut(program).note_rest(changed.0);
        }
        outcome
    }

    /// Sends a wake-up. The waker, if it is a worker, is busy with it for a while; one that is only about to wait sees its word.
    fn wake(&mut self, thread: Thread, waker: Option<Thread>) {
        if let Some(waker) = waker {
            self.detain(waker, self.costs.wake);
        }
        if self.worker(thread).doing == Doing::Waiting {
            self.worker_mut(thread).doing = Doing::Rising;
            let latency = self.wake_latency();
            self.plan(self.now + latency, Due::Up(thread));
        }
    }

    fn set_doing(&mut self, thread: Thread, doing: Doing, left: u64) {
        let pool = self.pool_mut(thread.program);
        let worker = &mut pool.workers[thread.worker as usize];
        (worker.doing, worker.left) = (doing, left);
        pool.note_rest(thread.worker);
    }

    // ---- What may wake others. ----

    /// In some pools every push looks for sleepers.
    pub(super) fn begin_to_rest(&mut self, program: u32) {
        self.step(program, |sleep, queues| {
            if !sleep.bell_may_stop() {
                queues.ring_bells();
            }
        });
    }

    /// A task was handed in from outside.
    pub(super) fn injected(&mut self, program: u32) {
        self.step(program, |sleep, queues| sleep.after_injection(Waker::GoesOn, queues));
    }

    /// So many strands were pushed, one after the other: a push that meets the bell looks for sleepers.
    pub(super) fn pushed(&mut self, me: Thread, strands: u64) {
        for _ in 0..strands {
            if !self.pool(me.program).bells[me.worker as usize].get() {
                return;
            }
            self.step(me.program, |sleep, queues| {
                if sleep.bell_may_stop() {
                    queues.silence(WorkerId(me.worker));
                }
                sleep.push_met_bell(WorkerId(me.worker), queues);
            });
        }
    }

    // ---- To rest. ----

    /// What a policy's sleep is: in some pools the worker retires, and is woken by the coordinator.
    pub(super) fn rest(&mut self, me: Thread) -> Result<(), SleepRefusal> {
        if let Some(share) = &self.pool(me.program).share
            && share.sharing.sleeper == Sleeper::LeavesCore
        {
            if share.sharing.plain_alone && share.alone {
                if self.pool(me.program).busy > 0 {
                    return Err(SleepRefusal::Alone);
                }
            } else if self.retire(me, true) {
                return Ok(());
            }
        }
        self.step(me.program, |sleep, _| sleep.announce(WorkerId(me.worker)));
        self.set_doing(me, Doing::Announcing, self.costs.sleep / 3);
        Ok(())
    }

    /// The look that no sleeper may skip.
    pub(super) fn announced(&mut self, me: Thread) {
        let own = WorkerId(me.worker);
        match self.step(me.program, |sleep, queues| sleep.admit(own, queues)) {
            // No barrier is refused here, so none looks again after a time.
            Admission::Park(_) => {
                self.fell_asleep(me);
                self.begin_to_park(me);
            }
            Admission::Refused(refusal) => {
                let woken = self.step(me.program, |sleep, _| sleep.retract(own));
                let event = woken.map_or(Event::SleepRefused(refusal), |woken| Event::Woken(reason(woken)));
                self.hears(me, event);
            }
        }
    }

    /// The worker has retired.
    pub(super) fn begin_to_pass_on(&mut self, me: Thread) {
        self.set_doing(me, Doing::PassingOn, self.costs.sleep / 3);
    }

    pub(super) fn passes_on(&mut self, me: Thread) {
        let own = WorkerId(me.worker);
        let retracted = self.step(me.program, |sleep, queues| {
            sleep.pass_on(own, queues);
            queues.has_business(own).then(|| sleep.retract(own).unwrap_or(Woken::Business))
        });
        match retracted {
            Some(woken) => self.stays_up(me, woken),
            None => self.begin_to_park(me),
        }
    }

    fn begin_to_park(&mut self, me: Thread) {
        let sleep = self.costs.sleep;
        self.set_doing(me, Doing::Parking, sleep - 2 * (sleep / 3));
    }

    pub(super) fn parks(&mut self, me: Thread) {
        match self.step(me.program, |sleep, _| sleep.park(WorkerId(me.worker))) {
            Parking::Over(woken) => self.is_up(me, woken),
            Parking::Waits { .. } => {
                self.take_off(me);
                self.pool_mut(me.program).counts.sleeps += 1;
                self.set_doing(me, Doing::Waiting, 0);
            }
        }
    }

    // ---- And up again. ----

    /// A wake-up has arrived, or a system call is over: the worker wants a core.
    pub(super) fn arrives(&mut self, thread: Thread) {
        if self.pool(thread.program).is_there() {
            if self.worker(thread).doing == Doing::Rising {
                self.worker_mut(thread).left = self.costs.sleep / 2;
            }
            self.enqueue(thread);
        }
    }

    pub(super) fn rises(&mut self, me: Thread) {
        match self.step(me.program, |sleep, _| sleep.park(WorkerId(me.worker))) {
            Parking::Over(woken) => self.is_up(me, woken),
            Parking::Waits { .. } => self.expect(Err(format!("{me:?} was woken, and its word is as it was"))),
        }
    }

    fn is_up(&mut self, me: Thread, woken: Woken) {
        let sleep = self.costs.sleep;
        self.set_doing(me, Doing::Up(woken), sleep - sleep / 2);
    }

    /// The worker is up. If there is no core for it, it rests again.
    pub(super) fn stays_up(&mut self, me: Thread, woken: Woken) {
        let has_business = !self.worker(me).ready.is_empty();
        if self.woke(me, has_business) || !self.retire(me, false) {
            self.hears(me, Event::Woken(reason(woken)));
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
