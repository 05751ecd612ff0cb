//! `robinhood`: as `bws`, but a thief gives its time slice to a poor worker from which it could steal nothing.
//! `robinhood-u`, `robinhood-s`: two variants of the paper's evaluation.

use alloc::boxed::Box;

use super::bws::{self, Bws};
use crate::definition::{Accelerates, Definition, Pull};
use crate::{Action, Event, Level, Role, RunStatus, Thief, Values, Victim, Victims};

/// The pull of `runtime/src/workers/acceleration.rs`: the candidate is not pushed back, and the thief moves to the
/// candidate's old core.
pub(super) const CHANGES_PLACES: Pull = Pull { across_nodes: false, changes_places: true };

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "robinhood",
    summary: "As bws, but a thief gives the rest of its time slice to a poor worker that is off its core.",
    source: "Robinhood §3.2, §4.2, Algorithm 1",
    // A thief yields to a victim with tasks as under BWS, but only within its NUMA node.
    yield_to: |values| (bws::DEFINITION.yield_to)(values).map(|pull| Pull { across_nodes: false, ..pull }),
    accelerates: |_| Some(Accelerates { threads: Some(CHANGES_PLACES), vcpus: true }),
    rest: |victims, values| thief(victims, values, true),
    ..bws::DEFINITION
};

/// The definition of the variant without the rule of NUMA nodes.
pub const DEFINITION_U: Definition = Definition {
    name: "robinhood-u",
    summary: "As robinhood, but also across NUMA nodes. Shows the value of staying within a node.",
    source: "Robinhood §6.7",
    yield_to: bws::DEFINITION.yield_to,
    accelerates: |_| Some(Accelerates { threads: Some(Pull { across_nodes: true, ..CHANGES_PLACES }), vcpus: true }),
    ..DEFINITION
};

/// The definition of the variant that accelerates only virtual CPUs.
pub const DEFINITION_S: Definition = Definition {
    name: "robinhood-s",
    summary: "As bws for threads and as robinhood for virtual CPUs. Shows the value of accelerating threads.",
    source: "Robinhood §6.7",
    yield_to: bws::DEFINITION.yield_to,
    accelerates: |_| Some(Accelerates { threads: None, vcpus: true }),
    rest: |victims, values| thief(victims, values, false),
    ..DEFINITION
};

fn thief(victims: Victims, values: &Values, threads: bool) -> Box<dyn Thief> {
    let bws = Bws::new(victims, bws::sleep_threshold(values));
    Box::new(Robinhood { bws, threads, failed: false, running: None })
}

/// Algorithm 1 between BWS's thief and its shell. BWS's thief gets every event that does not concern a poor worker,
/// and the events that acceleration leaves to it.
struct Robinhood {
    bws: Bws,
    /// True if a preempted thread is accelerated. Otherwise BWS yields to it.
    threads: bool,
    /// True if the last steal failed because there was nothing to take.
    failed: bool,
    /// The victim whose virtual CPU is to be accelerated.
    running: Option<Victim>,
}

impl Thief for Robinhood {
    fn next(&mut self, event: Event) -> Action {
        let running = self.running.take();
        match event {
            // Line 1.
            Event::StealFailed(_) => self.failed = true,
            // "w fails to get the lock of v" (§4.2) is not a failure of this kind.
            Event::StealMissed(_) => self.failed = false,
            // Line 3: the victim "works on an unfinished task", and still has no task to take.
            Event::Seen(victim) if self.failed && victim.role == Role::Poor => match victim.run_status {
                // Lines 4–5.
                RunStatus::Preempted if self.threads => {
                    return Action::Accelerate { candidate: victim.id, level: Level::Thread };
                }
                // Lines 6–7.
                RunStatus::Running => {
                    self.running = Some(victim);
                    return Action::Accelerate { candidate: victim.id, level: Level::Vcpu };
                }
                _ => {}
            },
            Event::Accelerated(_) | Event::AccelerationRefused(_) => {
                // A refused virtual CPU leads to BWS's lines 21–31. Otherwise the call replaced BWS's yield (§5).
                let as_it_was = running.filter(|_| matches!(event, Event::AccelerationRefused(_)));
                return self.bws.next(as_it_was.map_or(Event::Yielded, Event::Seen));
            }
            _ => {}
        }
        self.bws.next(event)
    }
}
