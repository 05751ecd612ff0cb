//! `abp-mug`: ABP whose thieves take over the queues of workers without a core.

use alloc::boxed::Box;

use super::abp_eq;
use crate::definition::Definition;
use crate::{Action, Event, Thief, Victims};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "abp-mug",
    summary: "As abp-eq, but a thief mugs before it steals. Separates the effect of mugging from that of feedback.",
    source: "A-STEAL §9, future work",
    rest: |victims, _| Box::new(AbpMug { victims }),
    ..abp_eq::DEFINITION
};

/// Algorithm 1 of BWS with A-STEAL's mugging (taking over the queue of a worker without a core). A thief yields, then
/// mugs, and if there is no queue to mug, steals.
struct AbpMug {
    victims: Victims,
}

impl Thief for AbpMug {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed | Event::Mugged(_) => {
                Action::Run { wakeups_owed: 0 }
            }
            Event::Yielded => Action::Mug,
            Event::NothingToMug => Action::StealFrom(self.victims.pick()),
            _ => Action::YieldCore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn mugs_before_it_steals_and_yields_before_both() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), Action::YieldCore);
        assert_eq!(thief.next(Event::Yielded), Action::Mug);
        assert_eq!(thief.next(Event::NothingToMug), Action::StealFrom(WorkerId(1)));
        assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::YieldCore);
        assert_eq!(thief.next(Event::Yielded), Action::Mug);
        assert_eq!(thief.next(Event::Mugged(WorkerId(1))), Action::Run { wakeups_owed: 0 });
    }
}
