//! `bws`: thieves rest, wake each other, and yield to preempted peers.

use alloc::boxed::Box;

use crate::catalog::{Accelerates, Pull, Row, Share, Waking};
use crate::parameters::{Field, Parameter, parameters};
use crate::{Action, Event, Level, Place, RunStatus, SleepRefusal, Thief, Victim, Victims, WakeReason};
use crate::{Role, WorkerId};

/// SleepThreshold, as `bws` and its ablations take it (BWS §5.1; §5.4 varies it from 32 to 4096).
pub(super) const SLEEP_THRESHOLD: Parameter =
    Parameter::number(64, 1..=65_536, "a thief considers sleeping when it has failed more often than this");

parameters! {
    /// What can be set.
    struct Parameters {
        sleep_threshold: u32 = SLEEP_THRESHOLD,
        yield_to: YieldTo = Parameter::choice(
            0,
            &YieldTo::NAMES,
            "plain: to whichever thread is next; pull: the preempted peer comes to the thief's core first",
        ),
    }
}

/// What "yield to" a peer is (BWS §4: the call moves the peer to the caller's core, and leaves it there).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YieldTo {
    /// A yield, which the kernel directs.
    Plain,
    /// The peer is moved, and is among those that may be next.
    Pull,
}

impl YieldTo {
    const NAMES: [&str; 2] = ["plain", "pull"];
}

impl Field for YieldTo {
    fn of(value: u32) -> YieldTo {
        [YieldTo::Plain, YieldTo::Pull][value as usize]
    }
}

/// The catalog row.
pub const ROW: Row = Row {
    name: "bws",
    summary: "thieves rest after 64 failures, wake each other, yield to preempted peers; a watchdog stays awake",
    source: "BWS §3.2, Algorithm 2; §4",
    waking: Waking::Watchdog,
    counts_roles: false,
    batch: 1,
    steal_backs: 0,
    place: Place::Current,
    accelerates: |values| match Parameters::read(values).yield_to {
        YieldTo::Plain => None,
        YieldTo::Pull => {
            Some(Accelerates { threads: Some(Pull { across_nodes: true, changes_places: false }), vcpus: false })
        }
    },
    share: Share::Time,
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { sleep_threshold, yield_to } = Parameters::read(values);
        Box::new(Bws::new(victims, sleep_threshold, yield_to))
    },
};

/// BWS Algorithm 2, line by line, and the watchdog of §4.
pub(super) struct Bws {
    victims: Victims,
    sleep_threshold: u32,
    yield_to: YieldTo,
    /// `w.n`: unsuccessful steals since the last reset.
    steal_counter: u32,
    /// `w.c`: wake-ups that this worker wants to see done. Unbounded in the paper; saturates here at 2³².
    wakeup_counter: u32,
    watchdog: bool,
    /// A watchdog that has a task in hand and wakes peers before it starts it.
    leaving: bool,
    /// The last steal was missed.
    missed: bool,
}

impl Thief for Bws {
    fn next(&mut self, event: Event) -> Action {
        match event {
            // Line 8: the procedure begins. What other thieves did not claim is this worker's again.
            Event::DequeEmpty { wakeups_owed } => {
                self.wakeup_counter = wakeups_owed;
                self.missed = false;
                self.random_steal()
            }
            // Lines 11–15. A task from outside counts as stolen: it may bring more, as a stolen one may.
            Event::StealSucceeded(_) | Event::Injected => {
                self.wakeup_counter = self.wakeup_counter.saturating_add(2);
                self.steal_counter = 0;
                self.leave()
            }
            Event::Resumed => self.leave(),
            Event::StealFailed(victim) => Action::Inspect(victim),
            Event::Seen(victim) => self.inspected(victim),
            // Line 19, then line 32.
            Event::Yielded | Event::Accelerated(_) | Event::AccelerationRefused(_) => self.count_failure(),
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
                self.steal_counter = 0;
                self.random_steal()
            }
            // Line 39: the steal counter is reset after a sleep too.
            Event::Woken(reason) => {
                self.watchdog = reason == WakeReason::Appointed;
                self.steal_counter = 0;
                self.random_steal()
            }
            // None of line 32's unsuccessful ones; but a victim that cannot answer may be preempted (lines 18–19).
            Event::StealMissed(victim) => {
                self.missed = true;
                Action::Inspect(victim)
            }
            Event::Counted { .. } | Event::Paused { .. } | Event::Mugged(_) | Event::NothingToMug => {
                self.random_steal()
            }
        }
    }
}

impl Bws {
    pub(super) fn new(victims: Victims, sleep_threshold: u32, yield_to: YieldTo) -> Bws {
        Bws {
            victims,
            sleep_threshold,
            yield_to,
            steal_counter: 0,
            wakeup_counter: 0,
            watchdog: false,
            leaving: false,
            missed: false,
        }
    }

    /// Line 10.
    fn random_steal(&mut self) -> Action {
        Action::StealFrom(self.victims.pick())
    }

    /// Lines 17–31.
    fn inspected(&mut self, victim: Victim) -> Action {
        if victim.role.has_task() {
            if victim.run_status == RunStatus::Preempted {
                return match self.yield_to {
                    YieldTo::Plain => Action::YieldTo(victim.id),
                    YieldTo::Pull => Action::Accelerate { who: victim.id, level: Level::Thread },
                };
            }
            if victim.wakeups_owed > 0 {
                return Action::ClaimWakeup { from: victim.id };
            }
        } else if victim.role == Role::Sleeper && self.wakeup_counter != 0 {
            return Action::Wake { whom: Some(victim.id), appoint: false };
        }
        self.count_failure()
    }

    /// Lines 32–40.
    fn count_failure(&mut self) -> Action {
        if core::mem::take(&mut self.missed) {
            return self.random_steal();
        }
        self.steal_counter += 1;
        if self.steal_counter > self.sleep_threshold {
            if self.wakeup_counter == 0 {
                return Action::Sleep;
            }
            // A sleep and a wake-up cancel out.
            self.wakeup_counter -= 1;
            self.steal_counter = 0;
        }
        self.random_steal()
    }

    /// Line 15; a watchdog first wakes sleepers itself and appoints the first of them (§4).
    fn leave(&mut self) -> Action {
        if self.watchdog {
            self.leaving = true;
            return Action::Wake { whom: None, appoint: true };
        }
        Action::Run { wakeups_owed: self.wakeup_counter }
    }

    /// The watchdog's own wake-ups: at least the one that it appoints, and then as many as it owes. When nobody sleeps
    /// the shell keeps the post vacant for the next who would.
    fn watchdog_woke(&mut self, woken: Option<WorkerId>) -> Action {
        self.wakeup_counter = self.wakeup_counter.saturating_sub(u32::from(woken.is_some()));
        if woken.is_some() && self.wakeup_counter > 0 {
            return Action::Wake { whom: None, appoint: false };
        }
        self.watchdog = false;
        self.leaving = false;
        Action::Run { wakeups_owed: self.wakeup_counter }
    }
}
