//! `robinhood`: like `bws`, but a thief gives its time slice to a poor worker: a worker that has a task and no more
//! tasks to steal. `robinhood-u`, `robinhood-s`: two variants of the paper's evaluation.

use alloc::boxed::Box;

use super::bws::{self, Bws};
use crate::definition::{Accelerates, Definition, Pull};
use crate::{Action, Event, Level, Role, RunStatus, Thief, Values, Victim, Victims};

/// The pull that `runtime/src/workers/acceleration.rs` implements: the accelerated thread keeps the thief's core, and
/// the thief moves to that thread's old core.
pub(super) const CHANGES_PLACES: Pull = Pull { across_nodes: false, changes_places: true };

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "robinhood",
    summary: "As bws, but a thief gives the rest of its time slice to a poor worker that is off its core.",
    source: "Robinhood §3.2, §4.2, Algorithm 1",
    // A thief yields to a rich victim as under BWS, but only within its NUMA node.
    yield_to: |values| (bws::DEFINITION.yield_to)(values).map(|pull| Pull { across_nodes: false, ..pull }),
    accelerates: |_| Some(Accelerates { threads: Some(CHANGES_PLACES), vcpus: true }),
    rest: |victims, values| thief(victims, values, true),
    ..bws::DEFINITION
};

/// The definition of the variant that accelerates threads across NUMA nodes.
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

/// Robinhood's Algorithm 1, as a layer between BWS's thief and the shell. It handles events of acceleration, and
/// passes all other events to BWS's thief.
struct Robinhood {
    bws: Bws,
    /// True if preempted threads are accelerated. If false, BWS's thief yields to them.
    threads: bool,
    /// True if the last steal failed because there was nothing to take.
    failed: bool,
    /// The victim whose virtual CPU the shell was asked to accelerate.
    running: Option<Victim>,
}

impl Thief for Robinhood {
    fn next(&mut self, event: Event) -> Action {
        let running = self.running.take();
        match event {
            // Line 1.
            Event::StealFailed(_) => self.failed = true,
            // A failure to get the lock of the victim (§4.2) does not count as "nothing to take".
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
                // If acceleration was refused for a virtual CPU, BWS's lines 21–31 follow. Otherwise the acceleration
                // replaces BWS's yield (§5).
                let as_it_was = running.filter(|_| matches!(event, Event::AccelerationRefused(_)));
                return self.bws.next(as_it_was.map_or(Event::Yielded, Event::Seen));
            }
            _ => {}
        }
        self.bws.next(event)
    }
}
