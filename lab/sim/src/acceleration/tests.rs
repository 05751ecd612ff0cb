use proptest::prelude::*;

use super::*;
use crate::turns::{SLICE, State, Turns, Vcpu};

/// Creates a machine of two nodes with one CPU each. Each node has three entities, of which the first runs.
fn machine() -> Turns {
    let mut machine = Turns::new(1, &[&[(0, 0), (0, 1), (0, 2)], &[(1, 0), (1, 1), (1, 2)]]);
    machine.next(0, 0);
    machine.next(1, 0);
    machine
}

#[test]
fn a_slice_is_refused_across_nodes_to_one_that_is_not_preempted_and_after_its_end() {
    let mut machine = machine();
    assert_eq!(accelerate(&mut machine, (0, 0), (1, 1), false), Err(Refusal::Node));
    assert_eq!(accelerate(&mut machine, (0, 0), (1, 0), true), Err(Refusal::NotPreempted));
    assert_eq!(accelerate(&mut machine, (0, 0), (1, 1), true), Ok(()));
    assert_eq!(accelerate(&mut machine, (1, 0), (1, 1), false), Err(Refusal::Accelerated));
    machine.remove((1, 2));
    machine.state_mut((1, 2)).is_blocked = true;
    assert_eq!(accelerate(&mut machine, (1, 0), (1, 2), false), Err(Refusal::NotPreempted));
    machine.running[1] = Some(((1, 0), 0));
    assert_eq!(accelerate(&mut machine, (1, 0), (0, 2), true), Err(Refusal::NoTime));
    assert_eq!(machine.state((0, 2)).part, Part::default());
}

#[test]
fn a_slice_that_was_given_is_given_on_and_the_first_giver_pays() {
    let mut machine = machine();
    accelerate(&mut machine, (0, 0), (0, 1), false).unwrap();
    machine.next(0, 10_000_000);
    assert_eq!(machine.running[0], Some(((0, 1), 20_000_000)));
    accelerate(&mut machine, (0, 1), (0, 2), false).unwrap();
    machine.next(0, 15_000_000);
    assert_eq!(machine.running[0], Some(((0, 2), 5_000_000)));
    assert_eq!(machine.state((0, 2)).part.initiator, Some((0, 0)));
    machine.next(0, 5_000_000);
    machine.check();
    assert_eq!([0, 1, 2].map(|nth| machine.state((0, nth)).paid), [30_000_000, 0, 0]);
    // The other two entities are in the queue, and the giver is the last.
    assert_eq!(machine.running[0], Some(((0, 1), SLICE)));
    assert_eq!(machine.queues[0], [(0, 2), (0, 0)]);
}

#[test]
fn a_slice_may_come_back_to_its_giver() {
    let mut machine = machine();
    accelerate(&mut machine, (0, 0), (0, 1), false).unwrap();
    machine.next(0, 10_000_000);
    accelerate(&mut machine, (0, 1), (0, 0), false).unwrap();
    machine.next(0, 15_000_000);
    assert_eq!(machine.running[0], Some(((0, 0), 5_000_000)));
    machine.check();
    machine.next(0, 5_000_000);
    machine.check();
    assert_eq!((machine.state((0, 0)).paid, machine.state((0, 1)).paid), (SLICE, 0));
    assert_eq!(machine.queues[0], [(0, 2), (0, 0)]);
}

#[test]
fn one_that_is_accelerated_elsewhere_keeps_its_place_and_is_skipped() {
    let mut machine = machine();
    accelerate(&mut machine, (0, 0), (1, 1), true).unwrap();
    machine.next(0, 0);
    machine.next(1, SLICE);
    machine.check();
    assert_eq!(machine.running[1], Some(((1, 2), SLICE)));
    assert_eq!(machine.queues[1], [(1, 1), (1, 0)]);
    machine.next(0, SLICE);
    machine.check();
    machine.next(1, SLICE);
    assert_eq!(machine.running[1], Some(((1, 1), SLICE)));
}

#[test]
fn one_that_blocks_while_it_is_accelerated_has_no_place_any_more() {
    let mut machine = machine();
    accelerate(&mut machine, (0, 0), (0, 1), false).unwrap();
    machine.next(0, 0);
    machine.state_mut((0, 1)).is_blocked = true;
    machine.next(0, SLICE / 2);
    machine.check();
    assert_eq!(machine.queues[0], [(0, 0)]);
    assert_eq!(machine.state((0, 0)).paid, SLICE / 2);
}

#[test]
fn a_slice_that_is_over_before_the_switch_is_not_given() {
    let mut machine = machine();
    accelerate(&mut machine, (0, 0), (0, 2), false).unwrap();
    machine.next(0, SLICE);
    machine.check();
    assert_eq!(machine.running[0], Some(((0, 1), SLICE)));
    assert_eq!(machine.state((0, 2)).part, Part::default());
}

/// An event on a machine of four CPUs and twelve entities.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The entity that runs on a CPU gives its slice to another entity, if the scheduler allows it.
    Gives(usize, usize, bool),
    /// The entity that runs on a CPU leaves after this percentage of its remaining slice.
    Leaves(usize, u64),
    /// The entity that runs on a CPU blocks after this percentage of its remaining slice.
    Blocks(usize, u64),
    /// A blocked entity wakes.
    Wakes(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_usize, 0..12_usize, any::<bool>()).prop_map(|(cpu, nth, across)| Step::Gives(cpu, nth, across)),
        (0..4_usize, 0..=100_u64).prop_map(|(cpu, part)| Step::Leaves(cpu, part)),
        (0..4_usize, 0..=100_u64).prop_map(|(cpu, part)| Step::Blocks(cpu, part)),
        (0..12_usize).prop_map(Step::Wakes),
    ]
}

proptest! {
    /// Checks that an entity is on one CPU, is accelerated by one entity at most, keeps its place, and leaves its
    /// node only under Robinhood-u. All time is paid for.
    #[test]
    fn whatever_happens_all_keep_their_places_and_all_time_is_paid_for(
        steps in prop::collection::vec(step(), 1..200),
        across_nodes in any::<bool>(),
    ) {
        let queues: Vec<Vec<Vcpu>> = (0..4).map(|vm| (0..3).map(|nth| (vm, nth)).collect()).collect();
        let queues: Vec<&[Vcpu]> = queues.iter().map(Vec::as_slice).collect();
        let mut machine = Turns::new(2, &queues);
        (0..4).for_each(|cpu| machine.next(cpu, 0));
        for step in steps {
            match step {
                Step::Gives(cpu, nth, switches) => {
                    let candidate = (nth as u32 / 3, nth % 3);
                    let Some((current, _)) = machine.running[cpu] else { continue };
                    let payer = machine.part(current).initiator.unwrap_or(current);
                    // The CPU switches at once, so no second decision is made there before the switch.
                    if machine.part(current).candidate.is_none()
                        && accelerate(&mut machine, current, candidate, across_nodes).is_ok()
                    {
                        prop_assert_eq!(machine.part(candidate).initiator, Some(payer));
                        machine.next(cpu, if switches { 0 } else { machine.running[cpu].unwrap().1 });
                    }
                }
                Step::Leaves(cpu, part) | Step::Blocks(cpu, part) => {
                    let Some((current, left)) = machine.running[cpu] else { continue };
                    machine.state_mut(current).is_blocked = matches!(step, Step::Blocks(..));
                    machine.next(cpu, left * part / 100);
                }
                Step::Wakes(nth) => {
                    let entity = (nth as u32 / 3, nth % 3);
                    if machine.state(entity).is_blocked {
                        machine.state_mut(entity).is_blocked = false;
                        machine.insert(entity);
                        let cpu = machine.cpu(entity);
                        if machine.running[cpu].is_none() {
                            machine.next(cpu, 0);
                        }
                    }
                }
            }
            machine.check();
            let sum = |of: fn(&State) -> u64| machine.states.iter().map(|(_, state)| of(state)).sum::<u64>();
            prop_assert_eq!(sum(|state| state.paid), sum(|state| state.ran));
            for (entity, state) in &machine.states {
                prop_assert!(across_nodes || machine.node(state.cpu) == entity.0 as usize / 2);
            }
        }
    }
}
