//! The rules of EEVDF, which Linux uses from 6.6 on, as of 6.18.
//!
//! The entity that runs next is the eligible entity with the earliest virtual deadline. An entity is *eligible* if its
//! virtual run time is not above the weighted average of its queue, so it has had no more than its part.

use super::entity::Entity;

/// The weighted average of a queue's virtual run times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    base: i64,
    sum: i128,
    load: i128,
}

impl Average {
    /// Computes the average. Returns `None` if there are no entities.
    pub(super) fn of<'a, K>(mut entities: impl Iterator<Item = (K, &'a Entity)>) -> Option<Average> {
        let (_, first) = entities.next()?;
        let mut average = Average { base: first.vruntime, sum: 0, load: first.weight.into() };
        for (_, entity) in entities {
            average.sum += i128::from(entity.vruntime - average.base) * i128::from(entity.weight);
            average.load += i128::from(entity.weight);
        }
        Some(average)
    }

    /// Returns the average, rounded down (`avg_vruntime`).
    pub(super) fn value(&self) -> i64 {
        self.base + self.sum.div_euclid(self.load) as i64
    }

    /// True if an entity of this virtual run time is eligible: vruntime ≤ average (`entity_eligible`).
    pub(super) fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime - self.base) * self.load <= self.sum
    }

    /// Returns the sum of all weights.
    pub(super) fn load(&self) -> i64 {
        self.load as i64
    }
}

/// Returns the eligible entity with the earliest deadline. Of equal deadlines, the first wins (`pick_eevdf`).
pub(super) fn first<'a, K>(entities: impl Iterator<Item = (K, &'a Entity)> + Clone) -> Option<(K, &'a Entity)> {
    let average = Average::of(entities.clone())?;
    entities.filter(|(_, entity)| average.is_eligible(entity.vruntime)).min_by_key(|(_, entity)| entity.deadline)
}

/// Returns the time on a core after which the turn of the running entity is over: its request is served, or its
/// protection from preemption ends (`update_curr`). The caller rounds to ticks.
pub(super) fn left_of_turn(current: &Entity) -> u64 {
    current.as_real(current.deadline.min(current.protected) - current.vruntime)
}

/// Begins the entity's next request, if its present request is served (`update_deadline`). Returns true if another
/// entity may run, because the request is served or the entity is no longer protected (`update_curr`).
pub(super) fn renew(entity: &mut Entity) -> bool {
    let is_over = entity.vruntime >= entity.deadline;
    if is_over {
        entity.deadline = entity.vruntime + entity.as_virtual(entity.slice);
    }
    is_over || !is_protected(entity)
}

/// Renews the request of an entity that has run for the last `ran` nanoseconds. A request ends only at a tick, so the
/// renewals are at the ticks in this time. Ticks are at multiples of `tick`.
pub(super) fn renew_at_ticks(entity: &mut Entity, ran: u64, now: u64, tick: u64) {
    if entity.vruntime < entity.deadline {
        return;
    }
    let since = entity.as_real(entity.vruntime - entity.deadline).min(ran.saturating_sub(1));
    let last = now / tick * tick;
    let Some(room) = last.checked_sub(now - since) else { return };
    // A request ends at the first tick after it is served. From then on, a request ends and the next begins every
    // `each` ticks. `after` is the time from the last such begin to the last tick.
    let each = (entity.slice as u64).div_ceil(tick).max(1);
    let after = room / tick % each * tick;
    entity.deadline =
        entity.vruntime - entity.as_virtual((now - last + after) as i64) + entity.as_virtual(entity.slice);
}

/// Protects the entity for the shortest slice of its queue (`set_protect_slice` with `RUN_TO_PARITY`).
pub(super) fn protect(entity: &mut Entity, shortest: i64) {
    entity.protected = if shortest < entity.slice { entity.vruntime + entity.as_virtual(shortest) } else { i64::MAX }
        .min(entity.deadline);
}

/// True if the entity `woken` ends the protection of the current entity (`do_preempt_short`). `woken` must have the
/// shorter slice and be eligible. It must also have the earlier deadline, unless the current entity is not eligible.
pub(super) fn ends_protection(woken: &Entity, current: &Entity, average: &Average) -> bool {
    woken.slice < current.slice
        && average.is_eligible(woken.vruntime)
        && (woken.deadline < current.deadline || !average.is_eligible(current.vruntime))
}

pub(super) fn is_protected(entity: &Entity) -> bool {
    entity.vruntime < entity.protected
}

/// Returns the virtual time by which an entity that leaves its queue is behind the queue's average, within bounds
/// (`update_entity_lag`).
pub(super) fn lag(entity: &Entity, average: i64, tick: u64) -> i64 {
    let limit = entity.as_virtual((2 * entity.slice).max(tick as i64));
    (average - entity.vruntime).clamp(-limit, limit)
}

/// Places an entity that joins a queue, so that it is `lag` behind the average of the queue with this entity
/// (`place_entity` with `PLACE_LAG`). Its deadline is a slice after its virtual run time, or half a slice for a new
/// entity (`PLACE_DEADLINE_INITIAL`).
pub(super) fn place(entity: &mut Entity, lag: i64, average: Option<&Average>, floor: i64, is_new: bool) {
    entity.vruntime = match average {
        None => floor,
        Some(average) => {
            let grown =
                i128::from(lag) * i128::from(average.load() + entity.weight) / i128::from(average.load().max(1));
            average.value() - grown as i64
        }
    };
    let slice = if is_new { entity.slice / 2 } else { entity.slice };
    entity.deadline = entity.vruntime + entity.as_virtual(slice);
}

/// Applies a yield: the entity gives up the rest of its request, and begins the next one (`yield_task_fair` since
/// 6.18, only for an eligible entity).
pub(super) fn yields(entity: &mut Entity, average: &Average) {
    if average.is_eligible(entity.vruntime) {
        entity.vruntime = entity.deadline;
        entity.deadline += entity.as_virtual(entity.slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(vruntime: i64, deadline: i64) -> Entity {
        Entity { vruntime, deadline, slice: 1_000, protected: deadline, ..Entity::new(0) }
    }

    #[test]
    fn an_entity_that_has_had_its_part_waits_whatever_its_deadline() {
        let queue = [at(100, 110), at(0, 500), at(20, 400)];
        let queue = queue.iter().enumerate();
        assert_eq!(Average::of(queue.clone()).unwrap().value(), 40);
        assert_eq!(first(queue).unwrap().0, 2);
        assert!(first([(0, &at(7, 9))].into_iter()).is_some());
    }

    #[test]
    fn one_that_comes_back_is_as_far_behind_as_it_was() {
        let queue = [at(0, 1_000), at(600, 1_600)];
        let left = Entity { slice: 1_000, ..Entity::new(0) };
        for lag in [-200, 0, 200] {
            let mut entity = left;
            place(&mut entity, lag, Average::of(queue.iter().enumerate()).as_ref(), 0, false);
            let with = Average::of(queue.iter().chain([&entity]).enumerate()).unwrap();
            assert!((with.value() - entity.vruntime - lag).abs() <= 1, "{entity:?}");
            assert_eq!(entity.deadline, entity.vruntime + 1_000);
        }
    }

    #[test]
    fn a_shorter_slice_ends_protection() {
        let (current, short) = (Entity { slice: 3_000, ..at(50, 3_000) }, at(0, 100));
        let average = Average::of([current, short].iter().enumerate()).unwrap();
        assert!(is_protected(&current) && ends_protection(&short, &current, &average));
        assert!(!ends_protection(&Entity { slice: 3_000, ..short }, &current, &average));
    }

    #[test]
    fn requests_end_at_ticks() {
        // The entity has run for 10,500. A request is 1,000. Ticks are at 4,000, 8,000 and so on, so requests ended at
        // 4,000 and 8,000.
        let mut entity = at(10_500, 1_000);
        renew_at_ticks(&mut entity, 10_500, 10_500, 4_000);
        assert_eq!(entity.deadline, 9_000);
        // There was no tick since the request was served.
        let mut entity = at(1_500, 1_000);
        renew_at_ticks(&mut entity, 1_500, 10_500, 4_000);
        assert_eq!(entity.deadline, 1_000);
        assert!(renew(&mut entity));
        assert_eq!(entity.deadline, 2_500);
        // A request that is longer than a tick ends at the second tick.
        let mut entity = Entity { slice: 5_000, ..at(13_500, 5_000) };
        renew_at_ticks(&mut entity, 13_500, 13_500, 4_000);
        assert_eq!(entity.deadline, 13_000);
    }

    #[test]
    fn a_yield_gives_the_rest_of_the_request_away() {
        let mut entity = at(10, 1_000);
        let average = Average::of([entity, at(20, 1_000)].iter().enumerate()).unwrap();
        yields(&mut entity, &average);
        assert_eq!((entity.vruntime, entity.deadline), (1_000, 2_000));
        yields(&mut entity, &average);
        assert_eq!(entity.vruntime, 1_000);
    }
}
