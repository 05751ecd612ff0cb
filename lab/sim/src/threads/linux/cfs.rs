//! The rules of the completely fair scheduler, 2.6.23 to 6.5: the entity with the least virtual run time runs next.

use super::entity::{Entity, UNIT};
use super::{Constants, Version};

/// Returns the entity with the least virtual run time. Of equal run times, the first wins (`__pick_first_entity`).
pub(super) fn first<'a, K>(entities: impl Iterator<Item = (K, &'a Entity)>) -> Option<(K, &'a Entity)> {
    entities.min_by_key(|(_, entity)| entity.vruntime)
}

/// Returns the time on a core after which the turn of the running entity is over (`check_preempt_tick`). The turn is
/// over when it is longer than `ideal`, or when the entity is ahead of `first` by more than `ideal`. In the second
/// case, it lasts at least the minimum granularity. `first` is the least virtual run time of the other entities. The
/// caller rounds to ticks.
pub(super) fn left_of_turn(constants: &Constants, current: &Entity, first: i64, ideal: u64) -> u64 {
    let over = (ideal + 1).saturating_sub(current.turn());
    let too_far = current.as_real(first + ideal as i64 + 1 - current.vruntime);
    over.min(too_far.max(constants.granularity.saturating_sub(current.turn())))
}

/// True if an entity that wakes preempts the running entity (`wakeup_preempt_entity`).
pub(super) fn preempts(constants: &Constants, woken: &Entity, current: &Entity) -> bool {
    current.vruntime - woken.vruntime > woken.as_virtual(constants.wakeup_granularity as i64)
}

/// Returns the least virtual run time that an entity has after a sleep: half a latency less than the queue's floor
/// (`place_entity` with `GENTLE_FAIR_SLEEPERS`, which is on in all of 2.6.32 to 6.5).
pub(super) fn sleeper_credit(constants: &Constants, floor: i64) -> i64 {
    floor - constants.latency as i64 / 2
}

/// Returns the entity's part of the period, in nanoseconds: the period times weight / load, for the entity and for its
/// group (`sched_slice`). `parts` has these weights and loads.
pub(super) fn slice(constants: &Constants, threads: u64, parts: &[(i64, i64)]) -> u64 {
    let whole = u128::from(constants.period(threads));
    let part = |time: u128, (weight, load): &(i64, i64)| time * *weight as u128 / (*load).max(1) as u128;
    parts.iter().fold(whole, part) as u64
}

/// Applies a yield to the entity. `furthest` is the largest virtual run time of the queue. With `sched_compat_yield`,
/// the entity goes behind all other entities (`yield_task_fair` of 2.6.32 to 2.6.38). Without it, the entity keeps its
/// place. From 2.6.39 on, the next choice skips the entity, unless the second entity is too far ahead ([`second`]).
pub(super) fn yields(compat: bool, entity: &mut Entity, furthest: i64) {
    if compat && furthest >= entity.vruntime {
        entity.vruntime = furthest + 1;
    }
}

/// True if a yield marks the yielding entity to be skipped.
pub(super) fn skips(version: Version) -> bool {
    version == Version::V3_9
}

/// True if `other` may run in place of `first`, which is to be skipped (`pick_next_entity`).
pub(super) fn second(constants: &Constants, first: &Entity, other: &Entity) -> bool {
    other.vruntime - first.vruntime <= other.as_virtual(constants.wakeup_granularity as i64)
}

/// Returns the weight of a group's entity on a core: [`UNIT`] · load on this core / load on all cores
/// (`calc_cfs_shares`).
pub(super) fn group_weight(here: i64, everywhere: i64) -> i64 {
    (UNIT * here / everywhere.max(1)).clamp(2, UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants() -> Constants {
        Constants::of(Version::V2_6_36, 32)
    }

    fn at(vruntime: i64) -> Entity {
        Entity { vruntime, ..Entity::new(0) }
    }

    #[test]
    fn two_alike_take_turns_of_half_a_latency() {
        let ideal = slice(&constants(), 2, &[(UNIT, 2 * UNIT)]);
        assert_eq!(ideal, 12_000_000);
        assert_eq!(slice(&constants(), 4, &[(UNIT, 4 * UNIT)]), 8_000_000);
        assert_eq!(left_of_turn(&constants(), &at(0), 0, ideal), 12_000_001);
        let mut current = at(0);
        current.charge(2_000_000, 0);
        assert_eq!(left_of_turn(&constants(), &current, 0, ideal), 10_000_001);
        // If another entity is far behind, the turn ends after the minimum granularity of 8 ms.
        assert_eq!(left_of_turn(&constants(), &current, -50_000_000, ideal), 6_000_000);
    }

    #[test]
    fn one_that_wakes_must_be_behind_by_a_granularity() {
        assert!(preempts(&constants(), &at(0), &at(4_000_001)));
        assert!(!preempts(&constants(), &at(0), &at(4_000_000)));
    }

    #[test]
    fn a_yield_goes_behind_all_or_nowhere() {
        let mut entity = at(5);
        yields(false, &mut entity, 9);
        assert_eq!(entity.vruntime, 5);
        yields(true, &mut entity, 9);
        assert_eq!(entity.vruntime, 10);
        yields(true, &mut entity, 9);
        assert_eq!(entity.vruntime, 10);
    }
}
