//! A policy outside of Comity's catalog: a thief sleeps after three failed attempts.

use comity_policy::definition::Definition;
use comity_policy::{Action, Event, Place, Share, Thief, Victims, Waking};

/// The number of failed attempts after which a thief sleeps.
const ATTEMPTS: u32 = 3;

/// The definition of the policy, with the same fields as a definition in Comity's catalog.
pub static DEFINITION: Definition = Definition {
    name: "three-attempts",
    summary: "a thief sleeps after three failed attempts",
    source: "this example",
    // A sleeper leaves a flag. The push that sees the flag wakes one sleeper, so no thief has to stay awake.
    waking: Waking::Hungry,
    counts_roles: false,
    batch: 1,
    steal_backs: 0,
    place: Place::Last,
    yield_to: |_| None,
    accelerates: |_| None,
    slice_us: |_| 0,
    share: Share::Time,
    parameters: &[],
    rest: |victims, _| Box::new(ThreeAttempts { victims, failures: 0 }),
};

struct ThreeAttempts {
    victims: Victims,
    /// The number of failed attempts since the worker last had a task or slept.
    failures: u32,
}

impl Thief for ThreeAttempts {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => return Action::Run { wakeups_owed: 0 },
            Event::StealFailed(_) => self.failures += 1,
            Event::DequeEmpty { .. } | Event::Woken(_) | Event::SleepRefused(_) => self.failures = 0,
            // A missed steal is not a failure, because the victim has tasks. This policy never causes the other events.
            _ => {}
        }
        if self.failures == ATTEMPTS { Action::Sleep } else { Action::StealFrom(self.victims.pick()) }
    }
}

#[cfg(test)]
mod tests {
    use comity_policy::{Policy, SleepRefusal, WakeReason, WorkerId};

    use super::*;

    #[test]
    fn a_thief_sleeps_after_three_failures_and_begins_anew_when_it_is_woken() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 4, 1);
        for beginning in [
            Event::DequeEmpty { wakeups_owed: 0 },
            Event::Woken(WakeReason::Peer),
            Event::SleepRefused(SleepRefusal::WorkArrived),
        ] {
            let mut action = thief.next(beginning);
            for _ in 0..ATTEMPTS {
                let Action::StealFrom(victim) = action else { panic!("{action:?}") };
                // A missed steal does not count as a failed attempt.
                assert!(matches!(thief.next(Event::StealMissed(victim)), Action::StealFrom(_)));
                action = thief.next(Event::StealFailed(victim));
            }
            assert_eq!(action, Action::Sleep, "after {beginning:?}");
        }
        assert_eq!(thief.next(Event::StealSucceeded(WorkerId(2))), Action::Run { wakeups_owed: 0 });
    }
}
