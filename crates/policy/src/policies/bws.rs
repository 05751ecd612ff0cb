//! `bws`: thieves rest, wake each other, and yield to preempted peers.

use alloc::boxed::Box;

use super::abp;
use crate::definition::{Definition, Pull, Waking};
use crate::parameters::{Field, Parameter, parameters};
use crate::{Action, Event, Role, RunStatus, SleepRefusal, Thief, Values, Victim, Victims, WakeReason, WorkerId};

parameters! {
    /// The parameters of `bws`, `bws-busy-wakes` and `robinhood`.
    struct Parameters {
        sleep_threshold: u32 = Parameter::number(
            64,
            1..=65_536,
            "failed steals after which a thief considers sleeping",
        ),
        yield_to: YieldTo = Parameter::choice(
            0,
            &YieldTo::NAMES,
            "on threads: pull moves a preempted peer to the thief's core first; plain leaves it where it is",
        ),
    }
}

/// The meaning of "yield to" a peer for threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum YieldTo {
    /// The peer is moved to the caller's core and stays there, as with BWS's system call (§4).
    Pull,
    /// The peer stays where it is.
    Plain,
}

impl YieldTo {
    const NAMES: [&str; 2] = ["pull", "plain"];
}

impl Field for YieldTo {
    fn of(value: u32) -> YieldTo {
        [YieldTo::Pull, YieldTo::Plain][value as usize]
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "bws",
    summary: "Thieves sleep after 64 failures, wake each other and yield to preempted peers. A watchdog stays awake.",
    source: "BWS §3.2, Algorithm 2; §4",
    waking: Waking::Watchdog,
    yield_to: |values| match Parameters::read(values).yield_to {
        YieldTo::Pull => Some(Pull { across_nodes: true, changes_places: false }),
        YieldTo::Plain => None,
    },
    parameters: Parameters::TABLE,
    rest: |victims, values| Box::new(Bws::new(victims, sleep_threshold(values))),
    ..abp::DEFINITION
};

/// SleepThreshold of `bws`, `bws-busy-wakes` and `robinhood` (BWS §5.1; §5.4 varies it from 32 to 4096).
pub(super) fn sleep_threshold(values: &Values) -> u32 {
    Parameters::read(values).sleep_threshold
}

/// BWS Algorithm 2, line by line, and the watchdog of §4.
pub(super) struct Bws {
    victims: Victims,
    sleep_threshold: u32,
    /// `w.n`: unsuccessful steals since the last reset.
    steal_counter: u32,
    /// `w.c`: wake-ups that this worker still has to cause. Unbounded in the paper; saturates here at 2³² − 1.
    wakeup_counter: u32,
    watchdog: bool,
    /// True if a watchdog has found a task and wakes peers before it starts the task.
    leaving: bool,
    /// True if the last steal was missed.
    missed: bool,
}

impl Thief for Bws {
    fn next(&mut self, event: Event) -> Action {
        match event {
            // Line 8: the procedure begins. The worker gets back the wake-ups that other thieves did not claim.
            Event::DequeEmpty { wakeups_owed } => {
                self.wakeup_counter = wakeups_owed;
                self.missed = false;
                self.random_steal()
            }
            // Lines 11–15. A task from outside counts as stolen, because more tasks may follow it, as they may follow
            // a stolen task.
            Event::StealSucceeded(_) | Event::Injected => {
                self.wakeup_counter = self.wakeup_counter.saturating_add(2);
                self.steal_counter = 0;
                self.leave()
            }
            Event::Resumed => self.leave(),
            Event::StealFailed(victim) => Action::Inspect(victim),
            Event::Seen(victim) => self.inspected(victim),
            // Line 19, then line 32.
            Event::Yielded => self.count_failure(),
            // Lines 22–23, then line 32.
            Event::WakeupClaimed(claimed) => {
                self.wakeup_counter = self.wakeup_counter.saturating_add(u32::from(claimed.is_some()));
                self.count_failure()
            }
            Event::PeerWoken(woken) if self.leaving => self.watchdog_woke(woken),
            // Line 29, then line 32.
            Event::PeerWoken(woken) => {
                self.wakeup_counter -= u32::from(woken.is_some());
                self.count_failure()
            }
            Event::SleepRefused(refusal) => {
                self.watchdog |= refusal == SleepRefusal::YouAreWatchdog;
                self.random_steal()
            }
            // The coordinator can make the thief sleep before line 34. The counter is reset after such a sleep too.
            Event::Woken(reason) => {
                self.watchdog = reason == WakeReason::Appointed;
                self.steal_counter = 0;
                self.random_steal()
            }
            // A missed steal is no failure in the sense of line 32. But the thief inspects the victim, because a
            // victim that does not answer may be preempted (lines 18–19).
            Event::StealMissed(victim) => {
                self.missed = true;
                Action::Inspect(victim)
            }
            Event::Counted { .. }
            | Event::Paused { .. }
            | Event::Mugged(_)
            | Event::NothingToMug
            | Event::Accelerated(_)
            | Event::AccelerationRefused(_) => self.random_steal(),
        }
    }
}

impl Bws {
    pub(super) fn new(victims: Victims, sleep_threshold: u32) -> Bws {
        Bws {
            victims,
            sleep_threshold,
            steal_counter: 0,
            wakeup_counter: 0,
            watchdog: false,
            leaving: false,
            missed: false,
        }
    }

    /// Steals from a random victim (line 10).
    fn random_steal(&mut self) -> Action {
        Action::StealFrom(self.victims.pick())
    }

    /// Answers the inspection of a victim (lines 17–31).
    fn inspected(&mut self, victim: Victim) -> Action {
        if victim.role.has_task() {
            if victim.run_status == RunStatus::Preempted {
                return Action::YieldTo(victim.id);
            }
            if victim.wakeups_owed > 0 {
                return Action::ClaimWakeup { from: victim.id };
            }
        } else if victim.role == Role::Sleeper && self.wakeup_counter != 0 {
            return Action::Wake { sleeper: Some(victim.id), appoint: false };
        }
        self.count_failure()
    }

    /// Counts a failed steal (lines 32–40).
    fn count_failure(&mut self) -> Action {
        if core::mem::take(&mut self.missed) {
            return self.random_steal();
        }
        self.steal_counter += 1;
        if self.steal_counter > self.sleep_threshold {
            // Line 39. The paper resets the counter after the sleep. If the sleep ends because the worker's own task
            // can continue, the policy hears only `Resumed`.
            self.steal_counter = 0;
            if self.wakeup_counter == 0 {
                return Action::Sleep;
            }
            // The thief does not sleep: its sleep and a wake-up that it owes cancel each other.
            self.wakeup_counter -= 1;
        }
        self.random_steal()
    }

    /// Starts the task in hand (line 15). A watchdog first wakes sleepers itself and appoints the first one (§4).
    fn leave(&mut self) -> Action {
        if self.watchdog {
            self.leaving = true;
            return Action::Wake { sleeper: None, appoint: true };
        }
        Action::Run { wakeups_owed: self.wakeup_counter }
    }

    /// Handles the wake-ups of a watchdog that leaves: it wakes at least the worker that it appoints, and one worker
    /// for each wake-up that it owes. If no worker sleeps, the next worker that asks to sleep becomes the watchdog.
    fn watchdog_woke(&mut self, woken: Option<WorkerId>) -> Action {
        self.wakeup_counter = self.wakeup_counter.saturating_sub(u32::from(woken.is_some()));
        if woken.is_some() && self.wakeup_counter > 0 {
            return Action::Wake { sleeper: None, appoint: false };
        }
        self.watchdog = false;
        self.leaving = false;
        Action::Run { wakeups_owed: self.wakeup_counter }
    }
}
