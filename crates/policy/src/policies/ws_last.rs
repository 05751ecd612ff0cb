//! `ws-last`: an unblocked task goes back to the worker that it last ran on.

use alloc::boxed::Box;

use super::abp;
use crate::definition::Definition;
use crate::{Action, Event, Place, Thief, Victims};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "ws-last",
    summary: "An unblocked task is queued where it last ran. Thieves yield after every failed steal and never sleep.",
    source: "WS-LAST §2, §3; place=current is the paper's WS-CUR",
    place: Place::Last,
    rest: |victims, _| Box::new(WsLast { victims }),
    ..abp::DEFINITION
};

/// The loop of §2: a thief "chooses a random thread and tries to steal". If that fails, and the program is not
/// finished, it calls `sched_yield` "before starting the next loop iteration". So it tries once before its first
/// yield; an ABP thief yields first.
struct WsLast {
    victims: Victims,
}

impl Thief for WsLast {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => Action::Run { wakeups_owed: 0 },
            Event::StealFailed(_) | Event::StealMissed(_) => Action::YieldCore,
            _ => Action::StealFrom(self.victims.pick()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn yields_after_every_failed_attempt() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), Action::StealFrom(WorkerId(1)));
        for _ in 0..100 {
            assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::YieldCore);
            assert_eq!(thief.next(Event::Yielded), Action::StealFrom(WorkerId(1)));
        }
        assert_eq!(thief.next(Event::StealSucceeded(WorkerId(1))), Action::Run { wakeups_owed: 0 });
    }
}
