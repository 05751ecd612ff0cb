//! The scheduling state of a thread, or of a group of threads, in a queue.

/// The weight of a thread of nice 0, and of a group.
pub(in super::super) const UNIT: i64 = 1_024;

/// The weights of nice −20 to 19 (`prio_to_weight` of `kernel/sched.c`, `sched_prio_to_weight` today).
const WEIGHTS: [i64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620, 6_100, 4_904, 3_906,
    3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// A `sched_entity`. Times are in nanoseconds. Virtual times are in nanoseconds of a thread of nice 0.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Entity {
    pub(super) weight: i64,
    /// The virtual run time: run time · [`UNIT`] / weight, plus corrections when the entity joins a queue.
    pub(super) vruntime: i64,
    /// The run time.
    pub(super) ran: u64,
    /// The run time at the moment when the entity was chosen last.
    pub(super) ran_before: u64,
    /// The time at which the entity was on a core last.
    pub(super) seen: u64,
    /// The core whose queue has the entity, or had it last.
    pub(super) home: usize,
    /// True if the entity is in the queue of `home`, or runs on that core.
    pub(super) queued: bool,
    /// The length of the entity's requests (EEVDF).
    pub(super) slice: i64,
    /// The virtual deadline of the request.
    pub(super) deadline: i64,
    /// The virtual time until which the entity is not preempted once it runs.
    pub(super) protected: i64,
    /// The virtual time by which the entity was behind the average of its queue when it left the queue.
    pub(super) lag: i64,
}

impl Entity {
    /// Creates an entity of this nice value, −20 to 19, that has been in no queue yet.
    pub(in super::super) fn new(nice: i8) -> Entity {
        let weight = WEIGHTS[(i32::from(nice).clamp(-20, 19) + 20) as usize];
        Entity {
            weight,
            vruntime: 0,
            ran: 0,
            ran_before: 0,
            seen: 0,
            home: usize::MAX,
            queued: false,
            slice: 0,
            deadline: 0,
            protected: 0,
            lag: 0,
        }
    }

    /// True if the entity has never been in a queue.
    pub(super) fn is_new(&self) -> bool {
        self.home == usize::MAX
    }

    /// True if the entity is in a queue, or runs.
    pub(in super::super) fn is_in_queue(&self) -> bool {
        self.queued
    }

    /// Converts time on a core to virtual time (`calc_delta_fair`).
    pub(super) fn as_virtual(&self, time: i64) -> i64 {
        if self.weight == UNIT { time } else { (i128::from(time) * i128::from(UNIT) / i128::from(self.weight)) as i64 }
    }

    /// Converts virtual time to time on a core.
    pub(super) fn as_real(&self, time: i64) -> u64 {
        if time <= 0 {
            return 0;
        }
        if self.weight == UNIT {
            return time as u64;
        }
        (time as u128 * self.weight as u128).div_ceil(UNIT as u128) as u64
    }

    /// Adds `time` nanoseconds to the entity's run time.
    pub(super) fn charge(&mut self, time: u64, now: u64) {
        self.ran += time;
        self.vruntime += self.as_virtual(time as i64);
        self.seen = now;
    }

    #[cfg(test)]
    pub(in super::super) fn vruntime(&self) -> i64 {
        self.vruntime
    }

    /// Returns the entity's run time since it was last chosen.
    pub(super) fn turn(&self) -> u64 {
        self.ran - self.ran_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_nice_is_a_quarter_more_or_less() {
        assert_eq!(WEIGHTS[20], UNIT);
        for pair in WEIGHTS.windows(2) {
            let ratio = pair[0] as f64 / pair[1] as f64;
            assert!((1.15..1.35).contains(&ratio), "{pair:?}");
        }
    }

    #[test]
    fn virtual_time_passes_slower_for_the_heavy() {
        let (mut light, mut heavy) = (Entity::new(5), Entity::new(-5));
        light.charge(1_000_000, 9);
        heavy.charge(1_000_000, 9);
        assert_eq!((light.vruntime, heavy.vruntime), (3_056_716, 328_099));
        for entity in [light, heavy] {
            let real = entity.as_real(entity.vruntime);
            assert!(real.abs_diff(1_000_000) <= 10, "{real}");
        }
    }
}
