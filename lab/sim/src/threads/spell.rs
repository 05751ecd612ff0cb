//! A worker's spell as a thief, from its last task until it begins another task: carries out the effects of
//! `comity_protocol::dialogue`. Each effect takes its time, and each step of the protocol is an event, so that other
//! events can happen between two steps.
//!
//! ```text
//!   a thief ──▶ Acting(effect) ──▶ … ──▶ Acting(Wait) ──▶ Waiting ──▶ Rising ──▶ Acting(…) ──▶ Acting(Begin) ──▶ its task
//!                                             ╰── woken by now ───────────╯
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_policy::{Action, Event, Level, Role, RunStatus, Thief, Victim, WorkerId};
use comity_protocol::CoreSet;
use comity_protocol::activation::{self, Activation};
use comity_protocol::dialogue::{Dialogue, Effect, Hands, Outcome, Step, Take};
use comity_protocol::platform::{Waker, Word};
use comity_protocol::sleep::{Sleep, Work};

use super::coordinator::Share;
use super::kernel::Place;
use super::platform::Cells;
use super::pool::Pool;
use super::table::Part;
use super::worker::{Doing, Mind, Rest};
use super::{Due, Host, Thread};
use crate::conversation::Line;
use crate::program::Strand;

/// A pool as the protocol sees it.
pub(super) struct Queues<'a>(&'a Pool);

impl Work for Queues<'_> {
    fn deques_have_task(&self) -> bool {
        self.0.queued > 0
    }

    fn injector_has_task(&self) -> bool {
        !self.0.injected.is_empty()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        // While the pool is closed, a task in a worker's queue waits like all other tasks.
        !self.0.workers[worker.index()].ready.is_empty() && !self.0.is_closed()
    }

    fn make_way(&self) {
        if let Some(share) = &self.0.share {
            share.activation.make_way();
            share.worker_is_up();
        }
    }

    fn ring_bells(&self) {
        self.fence();
        (0..self.0.bells.len() as u32).for_each(|worker| self.0.ring(WorkerId(worker)));
    }
}

impl activation::Pool for Queues<'_> {
    type Platform = Cells;
    type Cores = Part;

    fn workers(&self) -> u32 {
        self.0.workers.len() as u32
    }

    fn activation(&self) -> Option<&Activation<Cells, Part>> {
        self.0.share.as_ref().map(|share| &share.activation)
    }

    fn sleep(&self) -> &Sleep<Cells> {
        self.0.sleep()
    }

    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool {
        self.0.workers[worker.index()].confined.set(cores);
        self.0.is_misplaced.set(true);
        true
    }

    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool {
        if sleeps {
            return self.confine(worker, Some([core].into_iter().collect()));
        }
        self.confine(worker, None);
        self.0.led.borrow_mut().push((worker.0, core));
        true
    }

    fn up(&self, _: WorkerId) {}

    fn caller_runs(&self) -> bool {
        false
    }

    fn worker_is_up(&self) {
        if let Some(share) = &self.0.share {
            share.worker_is_up();
        }
    }
}

impl<'a> Queues<'a> {
    pub(super) fn of(pool: &'a Pool) -> Queues<'a> {
        Queues(pool)
    }

    pub(super) fn pool(&self) -> &'a Pool {
        self.0
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
    /// Rings the worker's bell, so that the worker's next push looks for sleepers.
    pub(super) fn ring(&self, worker: WorkerId) {
        if !self.bells[worker.index()].replace(true) {
            self.cells.traffic().write(Some(worker));
        }
    }

    /// Notes that the worker has found a strand, which it will begin.
    pub(super) fn find(&mut self, worker: u32, strand: Strand) {
        self.in_hand += 1;
        self.workers[worker as usize].found = Some(strand);
    }

    /// Takes the oldest strand of another worker. If that worker's queue is empty, rings its bell.
    fn steal(&mut self, worker: u32, victim: WorkerId) -> bool {
        self.counts.attempts += 1;
        self.workers[victim.index()].is_disturbed |= victim.0 != worker;
        let Some(strand) = self.workers[victim.index()].ready.pop_front() else {
            self.cells.traffic().begin(Some(WorkerId(worker)));
            self.ring(victim);
            self.cells.traffic().end();
            return false;
        };
        self.queued -= 1;
        self.find(worker, strand);
        true
    }

    /// Takes over the queue of a worker without a core. Returns `None` if that queue is empty. Returns true if the
    /// thief now has other strands in addition to the strand that it will begin.
    fn mug(&mut self, worker: u32, victim: WorkerId) -> Option<bool> {
        let mut queue = std::mem::take(&mut self.workers[victim.index()].ready);
        let strand = queue.pop_front()?;
        self.queued -= 1;
        // Strands that were placed in the thief's own queue meanwhile are newer.
        let own = &mut self.workers[worker as usize].ready;
        queue.append(own);
        *own = queue;
        let carried = !own.is_empty();
        self.find(worker, strand);
        Some(carried)
    }

    /// Returns what a thief sees of a worker.
    fn inspect(&self, victim: WorkerId) -> Victim {
        let (worker, sleep) = (&self.workers[victim.index()], self.sleep());
        let role = if sleep.is_asleep(victim) {
            Role::Sleeper
        } else if !sleep.is_busy(victim) {
            Role::Thief
        } else if worker.ready.is_empty() {
            Role::Poor
        } else {
            Role::Rich
        };
        let run_status = match (role, worker.place) {
            (Role::Sleeper, _) => RunStatus::Parked,
            (Role::Thief, _) => RunStatus::Unknown,
            (Role::Rich | Role::Poor, Place::On(_)) => RunStatus::Running,
            (Role::Rich | Role::Poor, _) => RunStatus::Preempted,
        };
        Victim { id: victim, role, run_status, wakeups_owed: worker.wakeups_owed }
    }
}

/// A thief whose conversation is recorded.
struct Heard<'a> {
    thief: &'a mut dyn Thief,
    said: Vec<(Event, Action)>,
}

impl Thief for Heard<'_> {
    fn next(&mut self, event: Event) -> Action {
        let action = self.thief.next(event);
        self.said.push((event, action));
        action
    }
}

/// Carries out the effects of a thief on the host.
struct OnHost<'a> {
    host: &'a mut Host,
    thread: Thread,
}

impl Hands for OnHost<'_> {
    fn steal(&mut self, victim: WorkerId) -> Take {
        let taken = self.host.pool_mut(self.thread.program).steal(self.thread.worker, victim);
        if !taken {
            return Take::Nothing;
        }
        self.host.remove(self.thread, victim);
        Take::Taken
    }

    fn take_injected(&mut self) -> bool {
        let pool = self.host.pool_mut(self.thread.program);
        let strand = pool.injected.pop_front();
        strand.into_iter().for_each(|strand| pool.find(self.thread.worker, strand));
        strand.is_some()
    }

    fn mug(&mut self, victim: WorkerId) -> bool {
        self.host.mug(self.thread, victim)
    }

    fn inspect(&mut self, victim: WorkerId) -> Victim {
        self.host.pool(self.thread.program).inspect(victim)
    }

    fn claim_wakeup(&mut self, from: WorkerId) -> bool {
        let owed = &mut self.host.worker_mut(Thread { worker: from.0, ..self.thread }).wakeups_owed;
        let claimed = *owed > 0;
        *owed = owed.saturating_sub(1);
        claimed
    }

    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        let Thread { program, worker } = self.thread;
        self.host.step(program, |sleep, _| sleep.wake_peer(WorkerId(worker), sleeper, appoint))
    }

    fn give_way(&mut self, to: Option<WorkerId>) {
        self.host.give_way(self.thread, to);
    }

    fn accelerate(&mut self, candidate: WorkerId, level: Level) -> bool {
        self.host.accelerate(self.thread, Thread { worker: candidate.0, ..self.thread }, level)
    }

    /// Does nothing, because the time of the pause is already over when the effect is carried out.
    fn pause(&mut self, _: u32) {}

    /// Compares the rest word and begins to wait in one instant, so no wake-up can come in between.
    fn wait(&mut self, at_rest: u32, timeout: Option<Duration>, _: bool) -> bool {
        let Thread { program, worker } = self.thread;
        // No barrier is refused here, and no pool keeps a core for an outside thread, so no worker waits with a
        // timeout.
        debug_assert!(timeout.is_none());
        if self.host.pool(program).sleep().parker(WorkerId(worker)).load(Ordering::Relaxed) != at_rest {
            return true;
        }
        self.host.deactivate(self.thread);
        let pool = self.host.pool_mut(program);
        pool.workers[worker as usize].doing = Doing::Waiting;
        pool.workers[worker as usize].left = 0;
        pool.counts.sleeps += 1;
        pool.note_rest(worker);
        false
    }
}

/// The next step of a spell.
enum Turn {
    /// The worker carries out the effect that its dialogue returned.
    Does(Effect),
    /// The dialogue receives the outcome of the effect.
    Told(Outcome),
}

impl Host {
    /// Takes a step of the program's protocol, and carries out its consequences.
    pub(super) fn step<R>(&mut self, program: u32, step: impl FnOnce(&Sleep<Cells>, &Queues<'_>) -> R) -> R {
        let me = self.acting.filter(|thread| thread.program == program);
        let pool = self.pool(program);
        pool.cells.traffic().begin(me.map(|thread| WorkerId(thread.worker)));
        let outcome = step(pool.sleep(), &Queues::of(pool));
        if pool.cells.traffic().end() {
            while let Some(woken) = self.pool(program).cells.traffic().next_woken() {
                self.wake(Thread { program, worker: woken.0 }, me);
            }
            while let Some(changed) = self.pool(program).cells.traffic().next_changed() {
                self.pool_mut(program).note_rest(changed.0);
            }
        }
        if self.pool(program).share.is_some() {
            self.has_shared(program);
        }
        outcome
    }

    /// Carries out the possible consequences of a step for a program that shares cores.
    fn has_shared(&mut self, program: u32) {
        self.deliver_bells();
        let pool = self.pool(program);
        let is_poked = pool.share.as_ref().is_some_and(Share::take_poke);
        if pool.is_misplaced.get() {
            self.touched.push(program);
        }
        if is_poked {
            self.ring(program);
        }
    }

    /// Sends a wake-up. If the waker is a worker, the system call takes the worker's time. A thread that has not begun
    /// to wait needs no event, because it will see that its rest word has changed.
    fn wake(&mut self, thread: Thread, waker: Option<Thread>) {
        if let Some(waker) = waker {
            self.keep_in_kernel(waker, self.costs.wake);
        }
        if self.worker(thread).doing == Doing::Waiting {
            self.worker_mut(thread).doing = Doing::Rising;
            let latency = self.wake_latency();
            self.plan(self.now + latency, Due::Up(thread));
        }
    }

    /// Makes the worker carry out an effect that takes `left` nanoseconds.
    fn set_acting(&mut self, thread: Thread, effect: Effect, left: u64) {
        let pool = self.pool_mut(thread.program);
        let worker = &mut pool.workers[thread.worker as usize];
        worker.doing = Doing::Acting(effect);
        worker.left = left;
        // The rest state of an awake worker can change only if the worker is about to wait.
        if worker.rest != Rest::Awake || matches!(effect, Effect::Wait { .. }) {
            pool.note_rest(thread.worker);
        }
    }

    /// Rings all bells of the pool, if every push in this pool must look for sleepers.
    pub(super) fn begin_to_rest(&mut self, program: u32) {
        self.step(program, |sleep, queues| {
            if !sleep.bell_may_stop() {
                queues.ring_bells();
            }
        });
    }

    /// Called when a task was handed in from outside.
    pub(super) fn injected(&mut self, program: u32) {
        self.step(program, |sleep, queues| sleep.after_injection(Waker::GoesOn, queues));
    }

    /// Called when `strands` strands were pushed, one after the other. A push after the worker's bell was rung looks
    /// for sleepers. Returns false if no push looked for sleepers.
    pub(super) fn pushed(&mut self, me: Thread, strands: u64) -> bool {
        for nth in 0..strands {
            if !self.pool(me.program).bells[me.worker as usize].get() {
                return nth > 0;
            }
            self.keep_in_kernel(me, self.costs.bell);
            self.step(me.program, |sleep, queues| {
                if sleep.bell_may_stop() {
                    queues.silence(WorkerId(me.worker));
                }
                sleep.push_met_bell(WorkerId(me.worker), queues);
            });
        }
        true
    }

    /// Called when the worker has no task any more.
    pub(super) fn becomes_thief(&mut self, thread: Thread) {
        let owed = std::mem::take(&mut self.worker_mut(thread).wakeups_owed);
        self.begin_spell(thread, |queues| Dialogue::begin(WorkerId(thread.worker), owed, queues));
    }

    /// Makes the worker of a closed pool rest until the pool is open again. The worker keeps its queue, the strand that
    /// it has found, and the wake-ups that it owes.
    pub(super) fn rests(&mut self, thread: Thread) {
        self.begin_spell(thread, |queues| Dialogue::begin_to_rest(WorkerId(thread.worker), queues));
    }

    fn begin_spell(&mut self, thread: Thread, begin: impl FnOnce(&Queues<'_>) -> Dialogue) {
        let now = self.now;
        self.pool_mut(thread.program).set_busy(now, thread.worker, false);
        self.worker_mut(thread).local = 0;
        let dialogue = self.step(thread.program, |_, queues| begin(queues));
        self.worker_mut(thread).set_dialogue(Some(dialogue));
        self.converse(thread, Turn::Told(Outcome::Done));
    }

    /// Continues the spell until the next effect that takes time.
    fn converse(&mut self, thread: Thread, turn: Turn) {
        let mut turn = turn;
        loop {
            let outcome = match turn {
                Turn::Told(outcome) => outcome,
                Turn::Does(effect) => match self.perform(thread, effect) {
                    Some(outcome) => outcome,
                    None => return,
                },
            };
            let effect = self.next_effect(thread, outcome);
            if !matches!(effect, Effect::TakeInjected | Effect::Mug(_)) {
                let left = self.cost(thread, effect);
                return self.set_acting(thread, effect, left);
            }
            turn = Turn::Does(effect);
        }
    }

    /// Returns the next effect of the thief's dialogue. Inlined, because an outcome and an effect that are passed in
    /// memory are slow to read.
    #[inline(always)]
    fn next_effect(&mut self, thread: Thread, outcome: Outcome) -> Effect {
        let mut mind = self.worker_mut(thread).mind.take().expect("the mind is returned after each effect");
        let Mind { thief, dialogue } = &mut *mind;
        let dialogue = dialogue.as_mut().expect("a thief is in a dialogue");
        let Thread { program, worker } = thread;
        let mut heard = Heard { thief: &mut **thief, said: Vec::new() };
        let asked: &mut dyn Thief = if self.record.is_some() { &mut heard } else { &mut *heard.thief };
        let effect = self.step(program, |_, queues| dialogue.next(asked, queues, outcome));
        for (event, action) in heard.said {
            self.tell_record(Line::Turn { program, worker, event, action });
        }
        let is_busy = self.pool(program).sleep().is_busy(WorkerId(worker));
        let now = self.now;
        let pool = self.pool_mut(program);
        let one = &mut pool.workers[worker as usize];
        one.mind = Some(mind);
        if is_busy && !one.is_busy() {
            pool.leaving += 1;
            pool.set_busy(now, worker, true);
        }
        effect
    }

    /// Returns the nanoseconds that an effect takes.
    fn cost(&mut self, thread: Thread, effect: Effect) -> u64 {
        let costs = &self.costs;
        match effect {
            Effect::StealFrom(victim) if victim.0 != thread.worker => {
                let steal = costs.steal;
                steal + self.lock_queue(Thread { worker: victim.0, ..thread }, 1)
            }
            Effect::StealFrom(_) => costs.steal,
            // The cost of the steal, or of the look for a queue, before such an effect includes the effect.
            Effect::TakeInjected | Effect::Mug(_) | Effect::Begin { .. } => 0,
            Effect::Accelerate { level, .. } => self.cost_of_acceleration(level),
            Effect::Inspect(_) | Effect::ClaimWakeup(_) | Effect::Wake { .. } => costs.look,
            Effect::Yield(_) => costs.yield_core,
            Effect::Pause { hints } => costs.hint * u64::from(hints.max(1)),
            Effect::Wait { .. } => costs.sleep - 2 * (costs.sleep / 3),
            Effect::Step(step) => match step {
                Step::AskAgain { .. } => costs.look,
                Step::Count => costs.look + self.lock_pool(thread.program),
                Step::LookForQueue => costs.mug + costs.queue,
                Step::Rest | Step::Admit | Step::PassOn => costs.sleep / 3,
                Step::Rise(_) => costs.sleep - costs.sleep / 2,
            },
        }
    }

    /// Called when the effect's time is over.
    pub(super) fn acted(&mut self, thread: Thread, effect: Effect) {
        let pool = self.pool_mut(thread.program);
        if let Some(share) = &pool.share {
            let one = &mut pool.workers[thread.worker as usize];
            let goes_on = !one.is_busy() && !matches!(effect, Effect::Wait { .. });
            one.beyond = if goes_on && share.activation.has_excess() { one.beyond + 1 } else { 0 };
        }
        self.converse(thread, Turn::Does(effect));
    }

    /// Called when a wake-up has arrived and the worker has a core.
    pub(super) fn rises(&mut self, thread: Thread) {
        self.converse(thread, Turn::Told(Outcome::Waited { has_timeout: false }));
    }

    /// Carries out an effect. Returns `None` if the worker waits, or if its spell is over.
    #[inline(always)]
    fn perform(&mut self, thread: Thread, effect: Effect) -> Option<Outcome> {
        if let Effect::Begin { wakeups_owed } = effect {
            self.begins(thread, wakeups_owed);
            return None;
        }
        effect.carry_out(WorkerId(thread.worker), &mut OnHost { host: self, thread })
    }

    /// Ends the spell. The worker begins the strand that it has found, or takes a task from its own queue.
    fn begins(&mut self, thread: Thread, wakeups_owed: u32) {
        if self.pool(thread.program).policy.slice().is_some() {
            self.set_slice(thread, None);
        }
        let one = self.worker_mut(thread);
        one.wakeups_owed += wakeups_owed;
        let dialogue = one.set_dialogue(None).expect("a thief is in a dialogue");
        self.step(thread.program, |_, queues| dialogue.finish(queues));
        match self.worker_mut(thread).found.take() {
            Some(strand) => {
                let pool = self.pool_mut(thread.program);
                (pool.in_hand, pool.leaving) = (pool.in_hand - 1, pool.leaving - 1);
                self.begin_anew(thread, strand);
            }
            None => self.take_own(thread, true),
        }
    }

    /// Called when a wake-up has arrived or a system call is over. The worker's thread becomes runnable.
    pub(super) fn arrives(&mut self, thread: Thread) {
        if self.pool(thread.program).is_there() {
            if self.worker(thread).doing == Doing::Rising {
                self.worker_mut(thread).left = self.costs.sleep / 2;
            }
            self.enqueue(thread);
        }
    }

    /// Takes over the queue of a worker without a core.
    fn mug(&mut self, thread: Thread, victim: WorkerId) -> bool {
        let Some(carried) = self.pool_mut(thread.program).mug(thread.worker, victim) else { return false };
        if carried {
            // A worker that looked for tasks while the strands were moved has not seen them.
            self.step(thread.program, |sleep, queues| {
                queues.fence();
                sleep.after_spawn(WorkerId(thread.worker), queues);
            });
        }
        true
    }

    /// Sets the length of the thread's time slices, if the kernel allows it. `None` is the kernel's default.
    fn set_slice(&mut self, thread: Thread, slice: Option<Duration>) {
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &kernel.linux {
            linux.set_slice(&mut pools.worker_mut(thread).entity, slice.map(|slice| slice.as_nanos() as u64));
        }
    }

    fn give_way(&mut self, thread: Thread, peer: Option<WorkerId>) {
        let Place::On(core) = self.worker(thread).place else { return };
        self.worker_mut(thread).gives_way = true;
        self.set_slice(thread, self.pool(thread.program).policy.slice());
        let peer = peer.filter(|_| self.directed_yield).map(|peer| Thread { worker: peer.0, ..thread });
        self.yield_core(core, peer);
    }
}
