//! `comity`: the default.

use alloc::boxed::Box;

use crate::catalog::{Parameter, Row, Waking};
use crate::{Action, Event, Thief, Victims};

/// The catalog row.
pub const ROW: Row = Row {
    name: "comity",
    summary: "the default: thieves spin briefly, then rest; the push that meets a sleeper's flag wakes one, who wakes more",
    source: "BWS §3.2 for resting; docs/decisions/ for what differs and why",
    waking: Waking::Hungry,
    counts_roles: false,
    parameters: &[
        Parameter {
            key: "rounds",
            default: 36,
            least: 0,
            most: 65_536,
            help: "rounds of steals over all peers before a thief sleeps",
        },
        Parameter {
            key: "pause",
            default: 64,
            least: 0,
            most: 65_536,
            help: "spin-loop hints after a round that found nothing, at most; the first rounds have 1, doubled every 4 rounds",
        },
    ],
    rest: |victims, values| {
        let peers = u32::from(victims.peers()).max(1);
        Box::new(Comity { victims, peers, rounds: values[0], pause: values[1], tried: 0, round: 0 })
    },
};

/// Resting as in BWS, with two differences that a kernel with EEVDF asks for.
///
/// A thief never yields the core blindly: a thread that has yielded forfeits its place, and its next wake-up then
/// costs up to 3 ms. And since a sleeper costs a push nothing but one load, nobody has to stay awake as a watchdog
/// beside a long serial task.
///
/// The pauses grow: a program of many short phases has its next task within microseconds, and a thief that then still
/// pauses is late for each. With the default values a spell lasts some 25 to 55 µs, about what a wake-up costs.
struct Comity {
    victims: Victims,
    peers: u32,
    rounds: u32,
    pause: u32,
    /// Steals tried in this round.
    tried: u32,
    /// Rounds that found nothing in this spell.
    round: u32,
}

impl Comity {
    fn hints(&self) -> u32 {
        1u32.checked_shl((self.round - 1) / 4).unwrap_or(u32::MAX).min(self.pause)
    }

    fn search(&mut self) -> Action {
        self.tried += 1;
        Action::StealFrom(self.victims.pick())
    }
}

impl Thief for Comity {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => Action::Run { wakeups_owed: 0 },
            Event::StealFailed(_) if self.tried < self.peers => self.search(),
            Event::StealFailed(_) => {
                self.tried = 0;
                self.round += 1;
                if self.round > self.rounds { Action::Sleep } else { Action::Pause { hints: self.hints() } }
            }
            Event::Paused => self.search(),
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
    use crate::{Policy, WorkerId};
    use alloc::vec::Vec;

    #[test]
    fn spins_for_its_rounds_then_sleeps_and_never_yields() {
        let mut thief = "comity:rounds=14,pause=7".parse::<Policy>().unwrap().thief(WorkerId(0), 3, 1);
        for spell in [Event::DequeEmpty { wakeups_owed: 0 }, Event::Woken(crate::WakeReason::Peer)] {
            let (mut steals, mut pauses) = (0, Vec::new());
            let mut action = thief.next(spell);
            loop {
                action = match action {
                    Action::StealFrom(victim) => {
                        steals += 1;
                        thief.next(Event::StealFailed(victim))
                    }
                    Action::Pause { hints } => {
                        pauses.push(hints);
                        thief.next(Event::Paused)
                    }
                    Action::Sleep => break,
                    other => panic!("{other:?}"),
                };
            }
            assert_eq!(steals, 2 * 15);
            assert_eq!(pauses, [1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 7, 7]);
        }
    }
}
