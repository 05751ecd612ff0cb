//! The rules of the completely fair scheduler, 2.6.23 to 6.5: the entity with the least virtual run time is next.

use super::entity::{Entity, UNIT};
use super::{Constants, Version};

/// The one with the least virtual run time; of equals the one that came first (`__pick_first_entity`).
pub(super) fn first<'a, K>(entities: impl Iterator<Item = (K, &'a Entity)>) -> Option<(K, &'a Entity)> {
    entities.min_by_key(|(_, entity)| entity.vruntime)
}

/// After how much more time on its core the running entity has had its turn. Then its ideal time is over, or
/// another is behind it by more than that (`check_preempt_tick`). It is looked at in ticks.
pub(super) fn left_of_turn(constants: &Constants, current: &Entity, first: i64, ideal: u64) -> u64 {
    let over = (ideal + 1).saturating_sub(current.turn());
    let too_far = current.as_real(first + ideal as i64 + 1 - current.vruntime);
    over.min(too_far.max(constants.granularity.saturating_sub(current.turn())))
}

/// Whether one that wakes takes the place of the running one (`wakeup_preempt_entity`).
pub(super) fn preempts(constants: &Constants, woken: &Entity, current: &Entity) -> bool {
    current.vruntime - woken.vruntime > woken.as_virtual(constants.wakeup_granularity as i64)
}

/// The least virtual time at which one that has slept is placed: half a latency before the others (`place_entity` with
/// `GENTLE_FAIR_SLEEPERS`, which all of 2.6.32 to 6.5 have on).
pub(super) fn sleeper_credit(constants: &Constants, floor: i64) -> i64 {
    floor - constants.latency as i64 / 2
}

/// A part of the period as large as the entity's part of the load, in nanoseconds (`sched_slice`).
pub(super) fn slice(constants: &Constants, threads: u64, parts: &[(i64, i64)]) -> u64 {
    let whole = u128::from(constants.period(threads));
    let part = |time: u128, (weight, load): &(i64, i64)| time * *weight as u128 / (*load).max(1) as u128;
    parts.iter().fold(whole, part) as u64
}

/// What a yield does to the entity that yields, the furthest of the queue being there. With `sched_compat_yield` it
/// goes behind all others (`yield_task_fair` of 2.6.32 to 2.6.38); else it stays where it is. From 2.6.39 on the
/// next choice skips it, if another is not too far ahead ([`second`]).
pub(super) fn yields(compat: bool, entity: &mut Entity, furthest: i64) {
    if compat && furthest >= entity.vruntime {
        entity.vruntime = furthest + 1;
    }
}

/// Whether a yield marks the yielder as one to skip.
pub(super) fn skips(version: Version) -> bool {
    version == Version::V3_9
}

/// Whether another may run in place of the first, which is to be skipped (`pick_next_entity`).
pub(super) fn second(constants: &Constants, first: &Entity, other: &Entity) -> bool {
    other.vruntime - first.vruntime <= other.as_virtual(constants.wakeup_granularity as i64)
}

/// The weight of a group's entity on a core: of the group's share as much as its load there is of its load everywhere
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
        // One that is far behind comes after the least granularity.
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
