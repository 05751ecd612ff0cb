//! `bws-busy-wakes`: BWS in which busy workers do the waking.

use alloc::boxed::Box;

use super::abp;
use super::bws;
use crate::definition::{Definition, Waking};
use crate::{Action, Event, RunStatus, Thief, Victims};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "bws-busy-wakes",
    summary: "As bws, but a busy worker wakes two sleepers at each new task. Shows the cost of work on the busy path.",
    source: "BWS §5.5, first experiment",
    waking: Waking::EveryPush { sleepers: 2 },
    yield_to: bws::DEFINITION.yield_to,
    parameters: bws::DEFINITION.parameters,
    rest: |victims, values| {
        let sleep_threshold = bws::sleep_threshold(values);
        Box::new(BusyWakes { victims, sleep_threshold, steal_counter: 0 })
    },
    ..abp::DEFINITION
};

/// The policy that the paper describes in one sentence, of which these are the two halves:
///
/// - "When a busy worker generates a new task, it wakes up two sleeping workers if there are any"
/// - "a thief goes to sleep when its number of unsuccessful steals exceeds a threshold"
///
/// A thief still yields to a preempted victim. The wake-up counters are not used.
struct BusyWakes {
    victims: Victims,
    sleep_threshold: u32,
    steal_counter: u32,
}

impl Thief for BusyWakes {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected => {
                self.steal_counter = 0;
                Action::Run { wakeups_owed: 0 }
            }
            Event::Resumed => Action::Run { wakeups_owed: 0 },
            Event::StealFailed(victim) => Action::Inspect(victim),
            Event::Seen(victim) if victim.role.has_task() && victim.run_status == RunStatus::Preempted => {
                Action::YieldTo(victim.id)
            }
            Event::Seen(_) | Event::Yielded => {
                self.steal_counter += 1;
                if self.steal_counter > self.sleep_threshold {
                    self.steal_counter = 0;
                    return Action::Sleep;
                }
                Action::StealFrom(self.victims.pick())
            }
            Event::Woken(_) => {
                self.steal_counter = 0;
                Action::StealFrom(self.victims.pick())
            }
            _ => Action::StealFrom(self.victims.pick()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Role, SleepRefusal, Victim, WorkerId};

    #[test]
    fn sleeps_past_the_threshold_and_claims_no_wakeups() {
        let mut thief = "bws-busy-wakes:sleep_threshold=3".parse::<Policy>().unwrap().thief(WorkerId(0), 2, 1);
        let victim = Victim { id: WorkerId(1), role: Role::Poor, run_status: RunStatus::Running, wakeups_owed: 5 };
        for spell in 0..2 {
            let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
            for _ in 0..4 {
                assert_eq!(action, Action::StealFrom(WorkerId(1)), "spell {spell}");
                assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::Inspect(WorkerId(1)));
                action = thief.next(Event::Seen(victim));
            }
            assert_eq!(action, Action::Sleep);
            // The sleep is refused, and then the task for which the worker waits ends.
            assert_eq!(thief.next(Event::SleepRefused(SleepRefusal::WorkArrived)), Action::StealFrom(WorkerId(1)));
            assert_eq!(thief.next(Event::Resumed), Action::Run { wakeups_owed: 0 });
        }
    }

    #[test]
    fn still_yields_to_a_preempted_victim() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        let victim = Victim { id: WorkerId(1), role: Role::Rich, run_status: RunStatus::Preempted, wakeups_owed: 0 };
        assert_eq!(thief.next(Event::Seen(victim)), Action::YieldTo(WorkerId(1)));
    }
}
