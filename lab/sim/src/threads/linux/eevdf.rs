//! The rules of EEVDF, from 6.6 on, as 6.18 has them.
//!
//! Of the entities that have not had more than their part, the one with the earliest virtual deadline is next.

use super::entity::Entity;

/// The weighted average of a queue's virtual run times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    base: i64,
    sum: i128,
    load: i128,
}

impl Average {
    /// `None`: there are none.
    pub(super) fn of<'a, K>(mut entities: impl Iterator<Item = (K, &'a Entity)>) -> Option<Average> {
        let (_, first) = entities.next()?;
        let mut average = Average { base: first.vruntime, sum: 0, load: first.weight.into() };
        for (_, entity) in entities {
            average.sum += i128::from(entity.vruntime - average.base) * i128::from(entity.weight);
            average.load += i128::from(entity.weight);
        }
        Some(average)
    }

    /// Rounded down (`avg_vruntime`).
    pub(super) fn value(&self) -> i64 {
        self.base + self.sum.div_euclid(self.load) as i64
    }

    /// Whether one of that virtual run time has had no more than its part (`entity_eligible`).
    pub(super) fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime - self.base) * self.load <= self.sum
    }

    /// The weights of all.
    pub(super) fn load(&self) -> i64 {
        self.load as i64
    }
}

/// Of the eligible the one with the earliest deadline; of equals the one that came first (`pick_eevdf`).
pub(super) fn first<'a, K>(entities: impl Iterator<Item = (K, &'a Entity)> + Clone) -> Option<(K, &'a Entity)> {
    let average = Average::of(entities.clone())?;
    entities.filter(|(_, entity)| average.is_eligible(entity.vruntime)).min_by_key(|(_, entity)| entity.deadline)
}

/// After how much more time on its core the running entity has had its turn: it has had what it asked for, or is no
/// longer left alone (`update_curr`). It is looked at in ticks.
pub(super) fn left_of_turn(current: &Entity) -> u64 {
    current.as_real(current.deadline.min(current.protected) - current.vruntime)
}

/// One that has had what it asked for asks for as much again (`update_deadline`). Whether it has, or is no longer
/// left alone, so that another may run if there is one (`update_curr`).
pub(super) fn renew(entity: &mut Entity) -> bool {
    let is_over = entity.vruntime >= entity.deadline;
    if is_over {
        entity.deadline = entity.vruntime + entity.as_virtual(entity.slice);
    }
    is_over || !is_protected(entity)
}

/// The same at the ticks that came while it ran the last so many nanoseconds: they are at multiples of `tick`.
pub(super) fn renew_at_ticks(entity: &mut Entity, ran: u64, now: u64, tick: u64) {
    if entity.vruntime < entity.deadline {
        return;
    }
    let since = entity.as_real(entity.vruntime - entity.deadline).min(ran.saturating_sub(1));
    let last = now / tick * tick;
    let Some(room) = last.checked_sub(now - since) else { return };
    // As many ticks after the first as are whole requests, each of which ends at one.
    let each = (entity.slice as u64).div_ceil(tick).max(1);
    let after = room / tick % each * tick;
    entity.deadline =
        entity.vruntime - entity.as_virtual((now - last + after) as i64) + entity.as_virtual(entity.slice);
}

/// It is left alone for the shortest of its queue's slices (`set_protect_slice` with `RUN_TO_PARITY`).
pub(super) fn protect(entity: &mut Entity, shortest: i64) {
    entity.protected = if shortest < entity.slice { entity.vruntime + entity.as_virtual(shortest) } else { i64::MAX }
        .min(entity.deadline);
}

/// One that wakes with a shorter slice ends that, if it is eligible and its deadline is earlier (`do_preempt_short`).
pub(super) fn ends_protection(woken: &Entity, current: &Entity, average: &Average) -> bool {
    woken.slice < current.slice
        && average.is_eligible(woken.vruntime)
        && (woken.deadline < current.deadline || !average.is_eligible(current.vruntime))
}

pub(super) fn is_protected(entity: &Entity) -> bool {
    entity.vruntime < entity.protected
}

/// How far one that leaves is behind the average, within bounds (`update_entity_lag`).
pub(super) fn lag(entity: &Entity, average: i64, tick: u64) -> i64 {
    let limit = entity.as_virtual((2 * entity.slice).max(tick as i64));
    (average - entity.vruntime).clamp(-limit, limit)
}

/// Places one that comes: as far behind the average as it is to be once it is in it (`place_entity` with
/// `PLACE_LAG`). Its deadline is a slice later, of a new one half a slice (`PLACE_DEADLINE_INITIAL`).
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

/// A yield gives away what is left of the request, and asks for the next (`yield_task_fair` since 6.18: of an
/// eligible entity alone).
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
        // It has run for 10,500 of which 10,000 were asked for in requests of 1,000; ticks are at 4,000, 8,000 and
        // so on.
        let mut entity = at(10_500, 1_000);
        renew_at_ticks(&mut entity, 10_500, 10_500, 4_000);
        assert_eq!(entity.deadline, 9_000);
        // There was no tick since it had what it asked for,
        let mut entity = at(1_500, 1_000);
        renew_at_ticks(&mut entity, 1_500, 10_500, 4_000);
        assert_eq!(entity.deadline, 1_000);
        assert!(renew(&mut entity));
        assert_eq!(entity.deadline, 2_500);
        // and of requests of more than a tick each ends at the second.
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
