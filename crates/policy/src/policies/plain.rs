//! `plain`: work stealing as in most programs today.

use alloc::boxed::Box;

use super::abp;
use crate::definition::{Definition, Waking};
use crate::parameters::{Parameter, parameters};
use crate::{Action, Event, Thief, Victims};

parameters! {
    /// The parameters of `plain`.
    struct Parameters {
        rounds: u32 = Parameter::number(33, 1..=65_536, "rounds of steals over all peers before a thief sleeps"),
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "plain",
    summary: "Thieves yield after each round of failed steals and sleep after 33 rounds, as in stock rayon.",
    source: "rayon-core 1.13, sleep/README.md",
    waking: Waking::Hungry,
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { rounds } = Parameters::read(values);
        let peers = victims.peers().max(1);
        Box::new(Plain { victims, peers, rounds, tried: 0, round: 0 })
    },
    ..abp::DEFINITION
};

/// A thief that tries to steal once per peer, yields, and starts the next round. This follows rayon, in which a thief
/// announces after 32 such rounds that it is about to sleep, and looks for tasks once more. It then sleeps until a
/// push or an injection wakes it.
///
/// There are two differences from rayon. First, this thief draws each victim of a round at random, as under all
/// policies here; in rayon it visits all peers in a circle from a random one. Second, it does not announce its sleep
/// before the last round. This is not necessary, because the sleep protocol of the runtime and the simulator
/// ([`Waking::Hungry`]) looks for tasks itself after it has announced the sleep.
struct Plain {
    victims: Victims,
    peers: u32,
    rounds: u32,
    /// Steals that this round has tried.
    tried: u32,
    /// Rounds without a task since the worker last ran out of tasks, or since it was woken.
    round: u32,
}

impl Plain {
    fn search(&mut self) -> Action {
        self.tried += 1;
        Action::StealFrom(self.victims.pick())
    }
}

impl Thief for Plain {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => Action::Run { wakeups_owed: 0 },
            // A steal is missed if the victim has tasks, but the thief got none. As in rayon, the thief then repeats
            // the round, and the round does not count as failed.
            Event::StealMissed(_) => {
                self.tried = 0;
                self.search()
            }
            Event::StealFailed(_) if self.tried >= self.peers => {
                self.tried = 0;
                self.round += 1;
                if self.round < self.rounds { Action::YieldCore } else { Action::Sleep }
            }
            Event::DequeEmpty { .. } | Event::Woken(_) | Event::SleepRefused(_) => {
                self.tried = 0;
                self.round = 0;
                self.search()
            }
            _ => self.search(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WakeReason, WorkerId};

    #[test]
    fn yields_between_rounds_and_sleeps_after_the_last() {
        let mut thief = "plain:rounds=3".parse::<crate::Policy>().unwrap().thief(WorkerId(1), 3, 1);
        for spell in [Event::DequeEmpty { wakeups_owed: 0 }, Event::Woken(WakeReason::Peer)] {
            let mut action = thief.next(spell);
            for round in 1..=3 {
                for _ in 0..2 {
                    let Action::StealFrom(victim) = action else { panic!("round {round}: {action:?}") };
                    action = thief.next(Event::StealFailed(victim));
                }
                let expected = if round < 3 { Action::YieldCore } else { Action::Sleep };
                assert_eq!(action, expected, "round {round}");
                if round < 3 {
                    action = thief.next(Event::Yielded);
                }
            }
        }
        assert_eq!(thief.next(Event::StealSucceeded(WorkerId(0))), Action::Run { wakeups_owed: 0 });
    }
}
