//! The dialogue between a worker without a task and its policy. One dialogue is one *spell*: the time from the
//! worker's last task to its next.
//!
//! The dialogue returns the driver's next action, an [`Effect`], and then gets its result, an [`Outcome`]. The
//! dialogue itself takes the steps of the [sleep protocol](crate::sleep) and of the pool's
//! [books](crate::activation::Books); the driver moves tasks, gives up the core, and waits. The dialogue is the same
//! for every policy.
//!
//! ```text
//!               found, or business                  farewells, then Run
//!   ┌─ Asks ──────────────────────────▶ Leaves ──────────────────────────▶ Effect::Begin
//!   │   ▲  ▲
//!   │   │  └── Sweeps (SWEEP_AFTER events without a steal: a look into every deque)
//!   │   │
//!   │   │ refused, or woken with a core
//!   ├──▶ announced ──admit──▶ Waits ──woken──┐
//!   │                                        ├── no core ──▶ retired ──pass on──▶ Waits
//!   └──▶ retired ──pass on──▶ Waits ─────────┘
//! ```
//!
//! These invariants hold for every answer of the policy:
//! - A spell ends only when the worker has a task in hand, or [business](Surroundings::has_business): an event that
//!   only it can act on.
//! - *Farewells* are the last actions of the policy in a spell, when the worker has a task in hand: it may wake each
//!   peer and claim each wake-up once. The worker publishes that it is busy before them, and hands its duties over
//!   after them ([`Dialogue::finish`]).
//! - The number of farewells is limited. Then the spell ends.
//! - In a [closed](crate::activation::Activation::close) pool, a worker without business rests and takes no task,
//!   until the pool is open.
//! - If a policy never steals, the dialogue sometimes tries to steal from every worker in its place. If a policy never
//!   sleeps, the dialogue puts the worker to sleep when the pool has no work.
//! - Between two steps of the protocol, the dialogue returns [`Effect::Step`], so that a simulation can let time pass
//!   there.

mod surroundings;

use core::num::NonZeroU32;
use core::time::Duration;

use comity_policy::{Action, Event, Level, SleepRefusal, Sleeper, Thief, Victim, WakeReason, WorkerId};

use crate::activation::{Retirement, Up};
use crate::sleep::{Admission, Parking, Roles, Woken};

pub use surroundings::Surroundings;

/// The number of events without a task after which the dialogue checks whether there is any work in the pool.
const DOUBT_AFTER: u32 = 64;

/// The number of successive events without an attempt to steal after which the dialogue tries to steal from every
/// worker (a sweep). So a policy that never steals delays a task for a limited time. A policy that steals causes no
/// sweep.
const SWEEP_AFTER: u32 = 4096;

/// The time after which the last worker of a pool that [keeps a core](crate::activation::Activation::keeps_core)
/// checks once whether the thread that handed in the last task still runs. The check takes about 10 µs of that
/// thread's core.
pub const KEPT_CORE: Micros = Micros(NonZeroU32::new(500).expect("not zero"));

/// The driver's next action. The driver carries it out, and then answers with the [`Outcome`] that the variant names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Try to take a task of this worker: [`Outcome::Took`]. If it is the thief itself, there is no task to take.
    StealFrom(WorkerId),
    /// Try to take a task that came from outside: [`Outcome::Took`].
    TakeInjected,
    /// Take over the queue of this worker, which has no core: [`Outcome::Took`].
    Mug(WorkerId),
    /// Look at a worker: [`Outcome::Seen`].
    Inspect(WorkerId),
    /// Take over a wake-up that this worker owes: [`Outcome::Took`].
    ClaimWakeup(WorkerId),
    /// Call [`wake_peer`](crate::sleep::Sleep::wake_peer) with these arguments: [`Outcome::Woke`].
    Wake {
        /// The worker to wake. `None`: any sleeper.
        sleeper: Option<WorkerId>,
        /// True if the sleeper becomes the [watchdog](comity_policy::Waking::Watchdog).
        appoint: bool,
    },
    /// Give up the core: [`Outcome::Done`]. If the kernel supports it, this worker gets the core.
    Yield(Option<WorkerId>),
    /// Give the rest of the time slice to this worker, or to its virtual CPU: [`Outcome::Took`], with
    /// [`Take::Nothing`] if the slice is refused.
    Accelerate {
        /// The worker that gets the time slice.
        candidate: WorkerId,
        /// The level of the time slice: that of a thread or of a virtual CPU.
        level: Level,
    },
    /// Stay on the core for this number of spin-loop hints: [`Outcome::Done`].
    Pause {
        /// The number of hints.
        hints: u32,
    },
    /// Do nothing, and call [`Dialogue::next`] again, which takes this step of the protocol: [`Outcome::Done`].
    Step(Step),
    /// Wait until the worker's [parker](crate::sleep::Sleep::parker) holds another value than `at_rest`, or until the
    /// timeout: [`Outcome::Waited`]. The wait may end early.
    Wait {
        /// The value that the parker holds while the worker rests. The comparison and the beginning of the wait are
        /// one atomic step, as with a futex.
        at_rest: u32,
        /// The maximum time of the wait.
        timeout: Option<Micros>,
        /// True if the worker has retired.
        is_retired: bool,
    },
    /// End the spell. The driver must call [`Dialogue::finish`], and then run the task.
    Begin {
        /// The number of wake-ups that the worker owes.
        wakeups_owed: u32,
    },
}

/// The time of a wait, in microseconds. The type is small because a simulator stores one pending effect per thief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(NonZeroU32);

impl Micros {
    /// Rounds down to whole microseconds. The result is at least 1 µs.
    fn of(duration: Duration) -> Micros {
        Micros(NonZeroU32::new(duration.as_micros().try_into().unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN))
    }

    fn duration(self) -> Duration {
        Duration::from_micros(self.0.get().into())
    }
}

/// The driver's implementation of the effects. See [`Effect`] for what each one must do.
pub trait Hands {
    /// Tries to take a task of another worker.
    fn steal(&mut self, victim: WorkerId) -> Take;

    /// Tries to take a task that came from outside. Returns false if there is no such task.
    fn take_injected(&mut self) -> bool;

    /// Takes over the queue of a worker without a core. Returns false if there was no queue to take.
    fn mug(&mut self, victim: WorkerId) -> bool;

    /// Looks at a worker.
    fn inspect(&mut self, victim: WorkerId) -> Victim;

    /// Takes over a wake-up that the worker owes. Returns false if it owes none.
    fn claim_wakeup(&mut self, from: WorkerId) -> bool;

    /// Wakes a sleeper by calling [`wake_peer`](crate::sleep::Sleep::wake_peer).
    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId>;

    /// Gives up the core. `to`: the worker that should get it, if the kernel supports that.
    fn give_way(&mut self, to: Option<WorkerId>);

    /// Gives the rest of the time slice to a worker, or to its virtual CPU. Returns false if the system refuses.
    fn accelerate(&mut self, candidate: WorkerId, level: Level) -> bool;

    /// Stays on the core for this number of spin-loop hints.
    fn pause(&mut self, hints: u32);

    /// Waits, see [`Effect::Wait`], and returns true when the wait is over. Returns false if the wait has only begun;
    /// the driver then continues the dialogue after the wait.
    fn wait(&mut self, at_rest: u32, timeout: Option<Duration>, is_retired: bool) -> bool;
}

/// The result of an attempt to take a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The driver has the task.
    Taken,
    /// There is a task, but this thief did not get it.
    Missed,
    /// There was no task.
    Nothing,
}

impl Effect {
    /// Carries the effect out for `me`, and returns its outcome. `None`: a wait has begun, or the spell is over.
    #[inline]
    pub fn carry_out(self, me: WorkerId, hands: &mut impl Hands) -> Option<Outcome> {
        let took = |taken: bool| Outcome::Took(if taken { Take::Taken } else { Take::Nothing });
        Some(match self {
            Effect::StealFrom(victim) if victim == me => Outcome::Took(Take::Nothing),
            Effect::StealFrom(victim) => Outcome::Took(hands.steal(victim)),
            Effect::TakeInjected => took(hands.take_injected()),
            Effect::Mug(victim) => took(hands.mug(victim)),
            Effect::Inspect(victim) => Outcome::Seen(hands.inspect(victim)),
            Effect::ClaimWakeup(from) => took(hands.claim_wakeup(from)),
            Effect::Wake { sleeper, appoint } => Outcome::Woke(hands.wake(sleeper, appoint)),
            Effect::Yield(to) => {
                hands.give_way(to);
                Outcome::Done
            }
            Effect::Accelerate { candidate, level } => took(hands.accelerate(candidate, level)),
            Effect::Pause { hints } => {
                hands.pause(hints);
                Outcome::Done
            }
            Effect::Step(_) => Outcome::Done,
            Effect::Wait { at_rest, timeout, is_retired } => {
                let is_over = hands.wait(at_rest, timeout.map(Micros::duration), is_retired);
                return is_over.then_some(Outcome::Waited { has_timeout: timeout.is_some() });
            }
            Effect::Begin { .. } => return None,
        })
    }
}

/// A step of the protocol that the next call of [`Dialogue::next`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asks the policy again, because its answer was to run although the worker has no task.
    AskAgain {
        /// The number of wake-ups in the policy's answer.
        wakeups_owed: u32,
    },
    /// Counts the pool's roles.
    Count,
    /// Looks for a worker without a core, to take over its queue.
    LookForQueue,
    /// Retires, or announces sleep.
    Rest,
    /// Checks whether the worker may sleep.
    Admit,
    /// Passes on the duties of a worker that has retired.
    PassOn,
    /// Gets up after a wake-up with this reason: checks whether there is a core.
    Rise(Woken),
}

/// The outcome of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The effect is done, or the dialogue begins.
    Done,
    /// The result of an attempt to take a task, a queue or a wake-up, or to give a time slice away.
    Took(Take),
    /// The observation of a worker.
    Seen(Victim),
    /// The worker that was woken, if any.
    Woke(Option<WorkerId>),
    /// The wait is over.
    Waited {
        /// True if the wait had a timeout. The wait may have ended before it.
        has_timeout: bool,
    },
}

/// The cause of a rest. It determines which event the policy gets afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The policy decided that the worker rests.
    Policy,
    /// There is no work in the pool. If sleep is refused, the policy gets the event at which the dialogue checked for
    /// work.
    Doubt,
    /// More workers were awake than there was [room](crate::activation::Activation::room) for.
    Excess,
    /// The pool is closed.
    Closed,
    /// The pool is closed, and the worker is in the middle of a task or has tasks in its queues. Its policy is not
    /// asked.
    Midway,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The policy gets the pending event next.
    Begins,
    /// The worker rests, and its policy is not asked.
    BeginsToRest,
    /// The driver steals from this worker.
    Robs(WorkerId),
    /// The driver looks for a task from outside, after a steal from this worker that brought no task.
    LooksOutside(WorkerId, Take),
    /// The driver looks at a worker.
    Inspects,
    /// The driver takes over a wake-up that this worker owes.
    Claims(WorkerId),
    /// The driver wakes a peer.
    Wakes,
    /// The driver gives up the core.
    Yields,
    /// The driver gives the rest of the time slice to this worker.
    Accelerates(WorkerId),
    /// The driver stays on the core.
    Pauses,
    /// The driver takes over the queue of this worker.
    Mugs(WorkerId),
    /// The driver steals from this worker in a sweep. If the whole sweep finds no task, the policy gets the pending
    /// event.
    Sweeps(u32),
    /// The next call takes this step.
    Steps(Step, Cause),
    Waits(Cause),
    /// The spell is over.
    Ends,
}

/// A dialogue between a worker without a task and its policy, see the head of the module.
#[derive(Debug)]
pub struct Dialogue {
    me: WorkerId,
    state: State,
    /// The policy's next event, if no other event comes first: the begin of the spell, the event before a sweep, or
    /// the event at which the dialogue checked for work. It is not part of the state, because the state is copied
    /// often.
    pending: Event,
    /// True if the worker has a task in hand or business, and only the policy's farewells remain.
    leaving: bool,
    /// The number of events after which the farewells end.
    farewells: u32,
    /// The number of events without a task.
    events: u32,
    /// The value of `events` at the policy's last attempt to steal, or at the last sweep. Initially 0. (A second
    /// counter that a steal resets took longer. Both counters were stored one by one and loaded as one wide word,
    /// which a processor cannot forward from its store buffer.)
    last_steal: u32,
    /// True if the worker is asleep in the books.
    sleeps: bool,
    /// True if the pool kept a core when the worker fell asleep. The worker calls [`Surroundings::look_at_kept_core`]
    /// after its timeout.
    keeps_core: bool,
    /// The time that a sleeper waits before it looks again.
    timeout: Option<Micros>,
    /// The time for which the policy lets the worker doze. `None`: without a limit.
    dozes: Option<Micros>,
}

// A simulated machine has a dialogue and a pending effect for each of up to 10⁵ thieves.
const _: () = assert!(size_of::<Effect>() <= 12 && size_of::<State>() <= 12 && size_of::<Dialogue>() <= 56);

impl Dialogue {
    /// Begins a spell after the worker's deque ran empty: other workers see this worker as a thief from now on. The
    /// worker owes `wakeups_owed` wake-ups.
    pub fn begin(me: WorkerId, wakeups_owed: u32, crew: &impl Surroundings) -> Dialogue {
        crew.publish_thief(me);
        Dialogue {
            me,
            state: State::Begins,
            pending: Event::DequeEmpty { wakeups_owed },
            leaving: false,
            // The limit lets a policy wake each peer before the spell ends.
            farewells: 2 * crew.workers() + 8,
            events: 0,
            last_steal: 0,
            sleeps: false,
            timeout: None,
            keeps_core: false,
            dozes: None,
        }
    }

    /// Begins a spell in which the worker rests, although tasks are queued at it, until the pool is open or the worker
    /// has business. Other workers see it as a thief. The worker keeps the wake-ups that it owes.
    pub fn begin_to_rest(me: WorkerId, crew: &impl Surroundings) -> Dialogue {
        Dialogue { state: State::BeginsToRest, ..Dialogue::begin(me, 0, crew) }
    }

    /// Passes the duties of this worker on after [`Effect::Begin`], because it no longer looks for tasks.
    pub fn finish(self, crew: &impl Surroundings) {
        crew.hand_over(self.me);
    }

    /// Returns the next effect, given the outcome of the last one. `thief` is the worker's policy.
    ///
    /// # Panics
    /// Panics if the outcome does not fit the effect, which is a bug in the driver.
    #[inline(always)]
    pub fn next(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, outcome: Outcome) -> Effect {
        // This function is optimized, because a simulated machine of 10⁵ processors calls it in each of its steps.
        // Copying a state or an event takes longer than the decision. So the fields of a state are read only where
        // they are needed, and this function, `heard`, `doubt` and `ask` are inlined. The most frequent events of a
        // thief that finds no task have their own copy of the code that follows; rare events are cold.
        let event = match (&self.state, outcome) {
            (State::Begins, Outcome::Done) => return self.ask(thief, self.pending),
            (&State::Robs(victim), Outcome::Took(Take::Taken)) => Event::StealSucceeded(victim),
            // After a steal that brought no task, the thief looks for a task from outside.
            (&State::Robs(victim), Outcome::Took(take)) if crew.takes_from_outside() => {
                return self.go(State::LooksOutside(victim, take), Effect::TakeInjected);
            }
            (State::LooksOutside(..), Outcome::Took(Take::Taken)) => Event::Injected,
            (&State::Robs(victim), Outcome::Took(Take::Nothing)) => {
                return self.heard(thief, crew, Event::StealFailed(victim));
            }
            (&State::Robs(victim), Outcome::Took(Take::Missed))
            | (&State::LooksOutside(victim, Take::Missed), Outcome::Took(_)) => Event::StealMissed(victim),
            (&State::LooksOutside(victim, _), Outcome::Took(_)) => Event::StealFailed(victim),
            (&State::Mugs(victim), Outcome::Took(Take::Taken)) => Event::Mugged(victim),
            (&State::Mugs(victim), Outcome::Took(_)) => match crew.next_without_core(self.me, Some(victim)) {
                Some(next) => return self.go(State::Mugs(next), Effect::Mug(next)),
                None => Event::NothingToMug,
            },
            (State::Steps(Step::LookForQueue, _), Outcome::Done) => match crew.next_without_core(self.me, None) {
                Some(first) => return self.go(State::Mugs(first), Effect::Mug(first)),
                None => return self.heard(thief, crew, Event::NothingToMug),
            },
            (State::Inspects, Outcome::Seen(victim)) => Event::Seen(victim),
            (&State::Claims(from), Outcome::Took(Take::Taken)) => Event::WakeupClaimed(Some(from)),
            (State::Claims(_), Outcome::Took(_)) => Event::WakeupClaimed(None),
            (State::Wakes, Outcome::Woke(woken)) => Event::PeerWoken(woken),
            (State::Yields, Outcome::Done) => return self.heard(thief, crew, Event::Yielded),
            (&State::Accelerates(candidate), Outcome::Took(Take::Taken)) => Event::Accelerated(candidate),
            (&State::Accelerates(candidate), Outcome::Took(_)) => Event::AccelerationRefused(candidate),
            (State::Pauses, Outcome::Done) => {
                let any_busy = crew.any_busy();
                Event::Paused { any_busy, core_is_wanted: crew.is_core_wanted(self.me) }
            }
            // The policy wanted to run without a task. It is asked again with the event of an empty deque.
            (&State::Steps(Step::AskAgain { wakeups_owed }, _), Outcome::Done) => Event::DequeEmpty { wakeups_owed },
            (State::Steps(Step::Count, _), Outcome::Done) => {
                let Roles { busy, thieves, sleepers } = crew.roles();
                Event::Counted { busy, thieves, sleepers }
            }
            _ => return self.sweep_or_rest(thief, crew, outcome),
        };
        self.heard(thief, crew, event)
    }

    /// Returns the next effect for outcomes that are not reported to the policy directly.
    #[cold]
    fn sweep_or_rest(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, outcome: Outcome) -> Effect {
        match (&self.state, outcome) {
            (State::BeginsToRest, Outcome::Done) => self.rest_midway(crew),
            (&State::Sweeps(victim), Outcome::Took(take)) => self.swept(thief, crew, victim, take == Take::Taken),
            (State::Steps(Step::Rest, _), Outcome::Done) => self.rest(thief, crew),
            (&State::Steps(Step::Admit, cause), Outcome::Done) => self.admit(thief, crew, cause),
            (&State::Steps(Step::PassOn, cause), Outcome::Done) => self.pass_on(crew, cause),
            (&State::Steps(Step::Rise(woken), cause), Outcome::Done) => self.rise(thief, crew, cause, woken),
            (&State::Waits(cause), Outcome::Waited { has_timeout }) => self.waited(crew, cause, has_timeout),
            (state, outcome) => unreachable!("worker {} in {state:?} is told {outcome:?}", self.me.0),
        }
    }

    /// Reports the event to the policy, and begins to carry out its answer.
    #[inline(always)]
    fn ask(&mut self, thief: &mut dyn Thief, event: Event) -> Effect {
        match thief.next(event) {
            Action::Run { wakeups_owed } if self.leaving => self.end(wakeups_owed),
            // The policy's answer is a search or a rest, but the worker has work. So the spell ends.
            Action::StealFrom(_)
            | Action::Mug
            | Action::YieldTo(_)
            | Action::YieldCore
            | Action::Accelerate { .. }
            | Action::Pause { .. }
            | Action::Sleep
            | Action::Doze { .. }
                if self.leaving =>
            {
                self.end(0)
            }
            Action::Run { wakeups_owed } => self.step(Step::AskAgain { wakeups_owed }, Cause::Policy),
            Action::StealFrom(victim) => self.go(State::Robs(victim), Effect::StealFrom(victim)),
            Action::Mug => self.step(Step::LookForQueue, Cause::Policy),
            Action::Inspect(victim) => self.go(State::Inspects, Effect::Inspect(victim)),
            Action::ClaimWakeup { from } => self.go(State::Claims(from), Effect::ClaimWakeup(from)),
            Action::YieldTo(peer) => self.go(State::Yields, Effect::Yield(Some(peer))),
            Action::YieldCore => self.go(State::Yields, Effect::Yield(None)),
            Action::Accelerate { candidate, level } => {
                self.go(State::Accelerates(candidate), Effect::Accelerate { candidate, level })
            }
            Action::Pause { hints } => self.go(State::Pauses, Effect::Pause { hints }),
            Action::Count => self.step(Step::Count, Cause::Policy),
            Action::Wake { sleeper, appoint } => self.go(State::Wakes, Effect::Wake { sleeper, appoint }),
            Action::Sleep => {
                self.dozes = None;
                self.step(Step::Rest, Cause::Policy)
            }
            Action::Doze { us } => {
                self.dozes = Some(Micros(NonZeroU32::new(us).unwrap_or(NonZeroU32::MIN)));
                self.step(Step::Rest, Cause::Policy)
            }
        }
    }

    fn go(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    fn end(&mut self, wakeups_owed: u32) -> Effect {
        self.go(State::Ends, Effect::Begin { wakeups_owed })
    }

    fn step(&mut self, step: Step, cause: Cause) -> Effect {
        self.go(State::Steps(step, cause), Effect::Step(step))
    }

    /// Reports the result of the policy's last action to the policy, unless business, a closed pool, a surplus of
    /// workers, a sweep or a check for work comes first.
    #[inline(always)]
    fn heard(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, event: Event) -> Effect {
        if self.leaving {
            self.farewells -= 1;
            return if self.farewells == 0 { self.end(0) } else { self.ask(thief, event) };
        }
        self.events = self.events.wrapping_add(1);
        if matches!(event, Event::StealSucceeded(_) | Event::Injected | Event::Mugged(_)) {
            return self.leave(thief, crew, event);
        }
        if crew.has_business(self.me) {
            return self.leave(thief, crew, Event::Resumed);
        }
        if self.retires_if_closed(crew, Retirement::Surplus) {
            return self.step(Step::PassOn, Cause::Closed);
        }
        if crew.has_excess(self.me) && crew.retire(self.me, Retirement::Surplus) {
            return self.step(Step::PassOn, Cause::Excess);
        }
        if matches!(event, Event::StealFailed(_) | Event::StealMissed(_)) {
            self.last_steal = self.events;
        }
        // The comparison is `>=`, because the difference may exceed the limit: events of a rest are counted too.
        if self.events.wrapping_sub(self.last_steal) >= SWEEP_AFTER {
            self.last_steal = self.events;
            self.pending = event;
            return self.sweep(thief, crew, 0);
        }
        self.doubt(thief, crew, event)
    }

    /// Checks at every 64th event whether any worker of the pool is busy. If no worker is busy, this worker sleeps
    /// under any policy.
    #[inline(always)]
    fn doubt(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, event: Event) -> Effect {
        let is_due = self.events.is_multiple_of(DOUBT_AFTER) && !matches!(event, Event::Woken(_));
        if is_due && !crew.any_busy() {
            self.pending = event;
            return self.announce(crew, Cause::Doubt);
        }
        self.ask(thief, event)
    }

    /// Begins the farewells, because the worker has work again.
    fn leave(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, event: Event) -> Effect {
        self.leaving = true;
        crew.publish_busy(self.me);
        self.ask(thief, event)
    }

    #[cold]
    fn sweep(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, victim: u32) -> Effect {
        if victim == crew.workers() {
            return self.doubt(thief, crew, self.pending);
        }
        self.state = State::Sweeps(victim);
        // Instead of stealing from itself, the thief looks for a task from outside.
        if victim == self.me.0 { Effect::TakeInjected } else { Effect::StealFrom(WorkerId(victim)) }
    }

    fn swept(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, victim: u32, found: bool) -> Effect {
        let event = if victim == self.me.0 { Event::Injected } else { Event::StealSucceeded(WorkerId(victim)) };
        if found { self.leave(thief, crew, event) } else { self.sweep(thief, crew, victim + 1) }
    }

    // A closed pool.

    /// Retires a worker without business if the pool is closed. A worker that the books do not count retires without
    /// their lock, so it checks again after it has passed on its duties.
    fn retires_if_closed(&self, crew: &impl Surroundings, why: Retirement) -> bool {
        // The result is also false if the pool has just been opened.
        crew.is_closed() && !crew.has_business(self.me) && crew.retire(self.me, why)
    }

    /// Rests until the pool is open or the worker has business, and then ends the spell.
    fn rest_midway(&mut self, crew: &impl Surroundings) -> Effect {
        while crew.is_closed() && !crew.has_business(self.me) {
            if self.retires_if_closed(crew, Retirement::Midway) {
                return self.step(Step::PassOn, Cause::Midway);
            }
        }
        self.leaving = true;
        crew.publish_busy(self.me);
        self.end(0)
    }

    /// Reports the event to the policy. In a closed pool, the worker rests instead, because the policy's answer must
    /// not be carried out.
    fn tell(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, event: Event) -> Effect {
        if crew.is_closed() { self.heard(thief, crew, event) } else { self.ask(thief, event) }
    }

    // Rest.

    /// Carries out the policy's decision to sleep. Under [`Sleeper::LeavesCore`] the worker may retire: then the
    /// coordinator wakes it.
    fn rest(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings) -> Effect {
        if let Some(sharing) = crew.sharing(self.me)
            && sharing.sleeper == Sleeper::LeavesCore
        {
            if sharing.plain_alone && crew.is_alone() {
                if crew.any_busy() {
                    return self.heard(thief, crew, Event::SleepRefused(SleepRefusal::Alone));
                }
                // The worker sleeps instead of retiring: the first worker that finds work wakes it, before the
                // coordinator's next look.
            } else if crew.retire(self.me, Retirement::ByItself) {
                return self.step(Step::PassOn, Cause::Policy);
            }
        }
        self.announce(crew, Cause::Policy)
    }

    fn announce(&mut self, crew: &impl Surroundings, cause: Cause) -> Effect {
        self.sleeps = false;
        if cause == Cause::Doubt {
            // In a pool without any work, no worker dozes, because there is nothing to look for.
            self.dozes = None;
        }
        crew.announce(self.me);
        self.step(Step::Admit, cause)
    }

    fn admit(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, cause: Cause) -> Effect {
        match crew.admit(self.me) {
            Admission::Refused(refusal) => {
                let woken = crew.retract(self.me);
                if self.sleeps {
                    // The worker looked again after a timeout and found something.
                    crew.woke(self.me, true);
                }
                match (woken, cause) {
                    (Some(woken), _) => self.woken(thief, crew, cause, woken),
                    (None, Cause::Doubt) => self.tell(thief, crew, self.pending),
                    (None, _) => self.heard(thief, crew, Event::SleepRefused(refusal)),
                }
            }
            Admission::Park(timeout) => {
                // A worker that dozes looks for tasks again when it is up.
                let timeout = self.dozes.or(timeout.map(Micros::of));
                let keeps_core = !self.sleeps && crew.fell_asleep(self.me) && timeout.is_none();
                (self.sleeps, self.keeps_core) = (true, keeps_core);
                self.timeout = if keeps_core { Some(KEPT_CORE) } else { timeout };
                self.wait(crew, cause)
            }
        }
    }

    /// Passes on the duties of the worker, which has retired.
    fn pass_on(&mut self, crew: &impl Surroundings, cause: Cause) -> Effect {
        crew.pass_on(self.me);
        (self.sleeps, self.keeps_core, self.timeout) = (false, false, None);
        let is_open = matches!(cause, Cause::Closed | Cause::Midway) && !crew.is_closed();
        if is_open || crew.has_business(self.me) {
            let woken = crew.retract(self.me).unwrap_or(Woken::Business);
            return self.step(Step::Rise(woken), cause);
        }
        self.wait(crew, cause)
    }

    fn wait(&mut self, crew: &impl Surroundings, cause: Cause) -> Effect {
        match crew.park(self.me) {
            Parking::Over(woken) => self.step(Step::Rise(woken), cause),
            Parking::Waits { at_rest, looks_again } => {
                self.state = State::Waits(cause);
                let timeout = self.timeout.filter(|_| looks_again);
                Effect::Wait { at_rest, timeout, is_retired: !self.sleeps }
            }
        }
    }

    fn waited(&mut self, crew: &impl Surroundings, cause: Cause, has_timeout: bool) -> Effect {
        if has_timeout && crew.is_asleep(self.me) {
            if core::mem::take(&mut self.keeps_core) {
                crew.look_at_kept_core(self.me);
                self.timeout = None;
                return self.wait(crew, cause);
            }
            if self.dozes.is_none() {
                return self.step(Step::Admit, cause);
            }
            // A waker may have been faster.
            let woken = crew.retract(self.me).unwrap_or(Woken::For(WakeReason::Timeout));
            return self.step(Step::Rise(woken), cause);
        }
        self.wait(crew, cause)
    }

    /// Marks the worker as up. If there is no core for it, it rests again.
    fn rise(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, cause: Cause, woken: Woken) -> Effect {
        // In an open pool, a worker that rested in the middle of a task continues, even if too many workers are awake.
        let goes_on = crew.has_business(self.me) || (matches!(cause, Cause::Midway) && !crew.is_closed());
        let why = if matches!(cause, Cause::Midway) { Retirement::Midway } else { Retirement::Surplus };
        if crew.woke(self.me, goes_on) == Up::Retires && crew.retire(self.me, why) {
            // If the pool has been opened, the worker rests because it has no core.
            let for_want = matches!(cause, Cause::Closed) && !crew.is_closed();
            return self.step(Step::PassOn, if for_want { Cause::Excess } else { cause });
        }
        self.woken(thief, crew, cause, woken)
    }

    /// Reports to the policy why the worker is awake. If the worker has business, the spell ends before the policy
    /// acts on the event. A wake-up for business is reported as a wake-up by a peer.
    fn woken(&mut self, thief: &mut dyn Thief, crew: &impl Surroundings, cause: Cause, woken: Woken) -> Effect {
        let event = Event::Woken(match woken {
            Woken::For(reason) => reason,
            Woken::Business => WakeReason::Peer,
        });
        match cause {
            Cause::Policy => self.heard(thief, crew, event),
            Cause::Doubt | Cause::Excess => self.tell(thief, crew, event),
            Cause::Closed => self.heard(thief, crew, Event::Woken(WakeReason::Coordinator)),
            Cause::Midway => self.rest_midway(crew),
        }
    }
}
