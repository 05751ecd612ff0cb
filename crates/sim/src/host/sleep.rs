//! Who sleeps, and who wakes whom: the protocols of [`Waking`], each step at one instant.

use comity_policy::{SleepRefusal, WakeReason, Waking, WorkerId};

use super::worker::{Doing, Rest};
use super::{Due, Host, Thread};

impl Host {
    fn waking(&self, program: u32) -> Waking {
        self.pool(program).policy.row().waking
    }

    /// The first that sleeps after `me`, or from the start.
    fn sleeper(&self, me: Thread) -> Option<u32> {
        let workers = &self.pool(me.program).workers;
        if self.pool(me.program).asleep == 0 {
            return None;
        }
        let around = (me.worker + 1..workers.len() as u32).chain(0..=me.worker);
        around.into_iter().find(|peer| workers[*peer as usize].rest == Rest::Asleep)
    }

    /// Sends a wake-up. Who sends it, if that has a core, is busy with it for a while.
    pub(super) fn wake(&mut self, thread: Thread, reason: WakeReason, waker: Option<Thread>) {
        if let Some(waker) = waker {
            self.detain(waker, self.costs.wake);
        }
        self.pool_mut(thread.program).set_rest(thread.worker, Rest::Rising);
        self.worker_mut(thread).doing = Doing::Rising(reason);
        let latency = self.wake_latency();
        self.plan(self.now + latency, Due::Up(thread));
    }

    /// So many strands were pushed.
    pub(super) fn pushed(&mut self, me: Thread, strands: u64) {
        match self.waking(me.program) {
            Waking::Hungry if strands > 0 => self.send_scout(me),
            Waking::EveryPush { sleepers } => {
                for _ in 0..strands * u64::from(sleepers) {
                    let Some(sleeper) = self.sleeper(me) else { return };
                    self.wake(Thread { worker: sleeper, ..me }, WakeReason::Peer, Some(me));
                }
            }
            Waking::Hungry | Waking::NobodySleeps | Waking::Watchdog => {}
        }
    }

    /// An unblocked task was placed at `whom`. If that sleeps it is woken, and answers for the task as a scout would.
    pub(super) fn placed_at(&mut self, me: Thread, whom: Thread) {
        if self.worker(whom).rest != Rest::Asleep {
            return self.pushed(me, 1);
        }
        if self.waking(me.program) == Waking::Hungry && !self.pool(me.program).scout_is_out {
            self.pool_mut(me.program).scout_is_out = true;
            self.worker_mut(whom).is_scout = true;
        }
        self.wake(whom, WakeReason::Peer, Some(me));
    }

    /// Wakes exactly one sleeper, unless one that was woken before is still on its way.
    pub(super) fn send_scout(&mut self, me: Thread) {
        if !self.pool(me.program).scout_is_out
            && let Some(sleeper) = self.sleeper(me)
        {
            let scout = Thread { worker: sleeper, ..me };
            self.pool_mut(me.program).scout_is_out = true;
            self.worker_mut(scout).is_scout = true;
            self.wake(scout, WakeReason::Peer, Some(me));
        }
    }

    /// The worker answers no longer for what pushes leave to the scout. True: it did.
    fn retire_scout(&mut self, me: Thread) -> bool {
        let was_scout = std::mem::take(&mut self.worker_mut(me).is_scout);
        if was_scout {
            self.pool_mut(me.program).scout_is_out = false;
        }
        was_scout
    }

    /// A scout ends its way: what was left to it passes to the next.
    fn pass_on_scout(&mut self, me: Thread) {
        if self.retire_scout(me) && self.pool(me.program).shows_task() {
            self.send_scout(me);
        }
    }

    /// Whether the worker may sleep.
    pub(super) fn admit(&mut self, me: Thread) -> Result<(), SleepRefusal> {
        let pool = self.pool(me.program);
        let (anyone_busy, own) = (pool.busy > 0, Some(me.worker));
        if !pool.injected.is_empty() {
            return Err(SleepRefusal::WorkArrived);
        }
        match self.waking(me.program) {
            Waking::NobodySleeps if anyone_busy => Err(SleepRefusal::WorkArrived),
            Waking::Hungry | Waking::EveryPush { .. } if pool.shows_task() => Err(SleepRefusal::WorkArrived),
            Waking::NobodySleeps | Waking::EveryPush { .. } => Ok(()),
            Waking::Hungry => {
                self.retire_scout(me);
                Ok(())
            }
            Waking::Watchdog if pool.watchdog.is_some() && pool.watchdog != own => Ok(()),
            Waking::Watchdog => {
                // In a pool without work it leaves the post and sleeps.
                self.pool_mut(me.program).watchdog = own.filter(|_| anyone_busy);
                if anyone_busy { Err(SleepRefusal::YouAreWatchdog) } else { Ok(()) }
            }
        }
    }

    /// The worker stops looking for tasks: whatever depended on its looking passes to another.
    pub(super) fn hand_over(&mut self, me: Thread) {
        let pool = self.pool(me.program);
        match self.waking(me.program) {
            Waking::NobodySleeps => {
                while let Some(sleeper) = self.sleeper(me) {
                    self.wake(Thread { worker: sleeper, ..me }, WakeReason::Peer, Some(me));
                }
            }
            Waking::Watchdog if pool.watchdog.is_none_or(|holder| holder == me.worker) => {
                self.appoint(me);
            }
            Waking::Hungry => self.pass_on_scout(me),
            Waking::Watchdog | Waking::EveryPush { .. } => {}
        }
    }

    /// Some sleeper becomes the watchdog; nobody, if none sleeps.
    fn appoint(&mut self, me: Thread) -> Option<u32> {
        let successor = self.sleeper(me);
        self.pool_mut(me.program).watchdog = successor;
        if let Some(worker) = successor {
            self.wake(Thread { worker, ..me }, WakeReason::Appointed, Some(me));
        }
        successor
    }

    /// What a thief asks for: `whom`, if it sleeps, or any sleeper.
    pub(super) fn wake_peer(&mut self, me: Thread, whom: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        if appoint && self.pool(me.program).watchdog == Some(me.worker) {
            self.sleeper(me)?;
            return self.appoint(me).map(WorkerId);
        }
        let sleeper = match whom {
            None => self.sleeper(me)?,
            Some(whom) if self.worker(Thread { worker: whom.0, ..me }).rest == Rest::Asleep => whom.0,
            Some(_) => return None,
        };
        self.wake(Thread { worker: sleeper, ..me }, WakeReason::Peer, Some(me));
        Some(WorkerId(sleeper))
    }

    /// A thief retires: whatever depended on its looking for tasks passes to another.
    pub(super) fn pass_on(&mut self, me: Thread) {
        if self.waking(me.program) == Waking::Hungry {
            self.pass_on_scout(me);
        } else if !self.pool(me.program).injected.is_empty()
            && let Some(sleeper) = self.sleeper(me)
        {
            self.wake(Thread { worker: sleeper, ..me }, WakeReason::Injected, Some(me));
        }
    }
}
