//! `abp`: a thief yields before every attempt and never sleeps.

use alloc::boxed::Box;

use crate::definition::{Definition, Share, Waking};
use crate::{Action, Event, Place, Thief, Victims};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "abp",
    summary: "Thieves yield before every steal attempt and never sleep. Cilk++ does this; the baseline of the papers.",
    source: "Arora, Blumofe and Plaxton 1998; BWS §2.3, Algorithm 1",
    waking: Waking::AlwaysAwake,
    counts_roles: false,
    batch: 1,
    steal_backs: 0,
    place: Place::Current,
    yield_to: |_| None,
    accelerates: |_| None,
    slice_us: |_| 0,
    share: Share::Time,
    parameters: &[],
    rest: |victims, _| Box::new(Abp { victims }),
};

/// The loop of BWS Algorithm 1, lines 15–18: `yield(); RandomSteal(w)`, until there is a task.
struct Abp {
    victims: Victims,
}

impl Thief for Abp {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => Action::Run { wakeups_owed: 0 },
            Event::Yielded => Action::StealFrom(self.victims.pick()),
            _ => Action::YieldCore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn yields_before_every_attempt_the_first_included() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), Action::YieldCore);
        for _ in 0..100 {
            assert_eq!(thief.next(Event::Yielded), Action::StealFrom(WorkerId(1)));
            assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::YieldCore);
        }
        assert_eq!(thief.next(Event::Yielded), Action::StealFrom(WorkerId(1)));
        assert_eq!(thief.next(Event::StealSucceeded(WorkerId(1))), Action::Run { wakeups_owed: 0 });
    }
}
