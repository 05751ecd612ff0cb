//! `delay-yield`: a thief yields only after many failures.

use alloc::boxed::Box;

use super::abp;
use crate::definition::Definition;
use crate::parameters::{Parameter, parameters};
use crate::{Action, Event, Thief, Victims};

parameters! {
    /// The parameters of `delay-yield`.
    struct Parameters {
        failures_per_worker: u32 =
            Parameter::number(2, 1..=4096, "failed steals before the first yield, per worker of the pool"),
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "delay-yield",
    summary: "A thief yields its core on every failed steal after the first 2 × workers failures. Intel TBB did this.",
    source: "BWS §5.3",
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { failures_per_worker } = Parameters::read(values);
        let workers = victims.peers() + 1;
        Box::new(DelayYield { victims, threshold: failures_per_worker.saturating_mul(workers), failures: 0 })
    },
    ..abp::DEFINITION
};

/// The policy of the paper: "A worker does not yield its core until the number of failed steals exceeds a threshold,
/// which is two times the number of workers. When the threshold is reached, the worker yields its core on each
/// unsuccessful steal."
struct DelayYield {
    victims: Victims,
    threshold: u32,
    failures: u32,
}

impl Thief for DelayYield {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => Action::Run { wakeups_owed: 0 },
            Event::StealFailed(_) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures > self.threshold { Action::YieldCore } else { Action::StealFrom(self.victims.pick()) }
            }
            Event::DequeEmpty { .. } => {
                self.failures = 0;
                Action::StealFrom(self.victims.pick())
            }
            _ => Action::StealFrom(self.victims.pick()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn yields_on_each_failure_past_twice_the_workers() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 3, 1);
        for spell in 0..2 {
            let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
            for failure in 1..=20 {
                let Action::StealFrom(victim) = action else { panic!("spell {spell}: {action:?}") };
                action = thief.next(Event::StealFailed(victim));
                assert_eq!(action == Action::YieldCore, failure > 6, "spell {spell}, failure {failure}");
                if action == Action::YieldCore {
                    action = thief.next(Event::Yielded);
                }
            }
            assert_eq!(thief.next(Event::StealSucceeded(WorkerId(1))), Action::Run { wakeups_owed: 0 });
        }
    }
}
