//! `selective-yield`: a thief yields once per fixed number of failures.

use alloc::boxed::Box;

use super::abp;
use crate::definition::Definition;
use crate::parameters::{Parameter, parameters};
use crate::{Action, Event, Thief, Victims};

parameters! {
    /// The parameters of `selective-yield`.
    struct Parameters {
        every: u32 = Parameter::number(64, 1..=65_536, "number of failed steals per yield"),
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "selective-yield",
    summary: "A thief yields its core once every 64 failed steals.",
    source: "BWS §5.3",
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { every } = Parameters::read(values);
        Box::new(SelectiveYield { victims, every, failures: 0 })
    },
    ..abp::DEFINITION
};

/// The policy of the paper: "A worker yields its core once every time it has conducted a number (e.g., 64 …) of failed
/// steals."
struct SelectiveYield {
    victims: Victims,
    every: u32,
    failures: u32,
}

impl Thief for SelectiveYield {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => return Action::Run { wakeups_owed: 0 },
            Event::StealFailed(_) => self.failures += 1,
            _ => {}
        }
        if self.failures >= self.every {
            self.failures = 0;
            return Action::YieldCore;
        }
        Action::StealFrom(self.victims.pick())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn a_thief_yields_once_in_64_failures() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        let mut event = Event::DequeEmpty { wakeups_owed: 0 };
        let (mut yields, mut steals) = (0, 0);
        while steals < 640 {
            event = match thief.next(event) {
                Action::YieldCore => {
                    yields += 1;
                    Event::Yielded
                }
                Action::StealFrom(victim) => {
                    steals += 1;
                    Event::StealFailed(victim)
                }
                other => panic!("{other:?}"),
            };
        }
        // The thief answers the last failure with one more yield, after the loop.
        assert_eq!((yields, thief.next(event)), (9, Action::YieldCore));
    }
}
