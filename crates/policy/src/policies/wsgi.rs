//! `wsgi`: work stealing with global information.

use alloc::boxed::Box;

use super::abp;
use crate::definition::{Definition, Waking};
use crate::parameters::{Parameter, parameters};
use crate::{Action, Event, Thief, Victims};

parameters! {
    /// The parameters of `wsgi`.
    struct Parameters {
        ratio: u32 = Parameter::number(2, 1..=1024, "number of busy workers per awake thief"),
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "wsgi",
    summary: "Keeps two busy workers per awake thief: counts the roles under one lock. Shows the cost of global state.",
    source: "BWS §5.5, second experiment",
    waking: Waking::Watchdog,
    counts_roles: true,
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { ratio } = Parameters::read(values);
        Box::new(Wsgi { victims, ratio, found: false })
    },
    ..abp::DEFINITION
};

/// The policy that the paper describes in this sentence:
///
/// > "By dynamically putting thieves into sleep or waking up sleeping thieves, WSGI tries to keep a fixed ratio between
/// > the number of busy workers and the number of non-sleeping thieves."
struct Wsgi {
    victims: Victims,
    ratio: u32,
    /// True if the thief holds a task. After the next count it may wake a sleeper, and then it starts the task.
    found: bool,
}

impl Wsgi {
    fn proceed(&mut self) -> Action {
        if core::mem::take(&mut self.found) {
            return Action::Run { wakeups_owed: 0 };
        }
        Action::StealFrom(self.victims.pick())
    }
}

impl Thief for Wsgi {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => {
                self.found = true;
                Action::Count
            }
            Event::StealFailed(_) => Action::Count,
            Event::Counted { busy, thieves, sleepers } => {
                // At least one thief looks for tasks, because a busy worker may create some.
                let wanted = busy.div_ceil(self.ratio).max(1);
                if thieves < wanted && sleepers > 0 {
                    return Action::Wake { sleeper: None, appoint: false };
                }
                if thieves > wanted && !self.found {
                    return Action::Sleep;
                }
                self.proceed()
            }
            _ => self.proceed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    #[test]
    fn keeps_half_as_many_thieves_as_busy_workers() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        let steal = Action::StealFrom(WorkerId(1));
        for (busy, thieves, sleepers, expected) in [
            (4, 2, 2, steal),
            (4, 3, 1, Action::Sleep),
            (4, 1, 3, Action::Wake { sleeper: None, appoint: false }),
            (4, 1, 0, steal),
            (1, 1, 6, steal),
            (0, 1, 7, steal),
            (0, 2, 6, Action::Sleep),
        ] {
            assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::Count);
            assert_eq!(thief.next(Event::Counted { busy, thieves, sleepers }), expected);
        }
    }

    #[test]
    fn counts_once_more_before_it_starts_a_task() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        assert_eq!(thief.next(Event::StealSucceeded(WorkerId(1))), Action::Count);
        assert_eq!(
            thief.next(Event::Counted { busy: 4, thieves: 0, sleepers: 4 }),
            Action::Wake { sleeper: None, appoint: false }
        );
        assert_eq!(thief.next(Event::PeerWoken(Some(WorkerId(1)))), Action::Run { wakeups_owed: 0 });
    }
}
