//! How many cores a command can use, from what it was seen doing.

use std::time::Duration;

/// How many looks count. What a command could use at one of them it may want again at once.
const LOOKS: usize = 10;

/// A command that uses less than this part of a core does nothing to speak of: it waits, and something in it ticks.
const NEGLIGIBLE: u32 = 50;

/// What was seen of a command at one look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Since the last one.
    pub elapsed: Duration,
    /// The processor time that its processes had in that time.
    pub used: Duration,
    /// How many of its threads were on a core or waited for one.
    pub runnable: u32,
}

impl Look {
    /// Whether it did nothing to speak of, and not for want of a core.
    pub fn is_idle(&self) -> bool {
        self.runnable == 0 && self.used < self.elapsed / NEGLIGIBLE
    }

    /// Threads that wait for a core count as those that have one: so what a command can use is seen however few cores it
    /// has. Where many threads take turns, or come and go between two looks, the time that they had says more.
    fn cores(&self) -> u32 {
        if self.is_idle() {
            return 0;
        }
        let elapsed = self.elapsed.as_nanos().max(1);
        let on_average = (self.used.as_nanos() + elapsed / 2) / elapsed;
        self.runnable.max(on_average.try_into().unwrap_or(u32::MAX)).max(1)
    }
}

/// The desire of a command: the most that it could use at one of the last looks, so that it grows at once and shrinks
/// only after a while. 0 after nothing but idle looks.
#[derive(Debug)]
pub struct Demand {
    looks: [u32; LOOKS],
    next: usize,
}

impl Demand {
    /// Of a command that begins, for which it needs a core.
    pub fn starting() -> Demand {
        let mut demand = Demand { looks: [0; LOOKS], next: 0 };
        demand.looks[LOOKS - 1] = 1;
        demand
    }

    /// Notes a look.
    pub fn note(&mut self, look: &Look) {
        self.looks[self.next] = look.cores();
        self.next = (self.next + 1) % LOOKS;
    }

    /// How many cores to ask for, of at most `most`.
    pub fn desire(&self, most: u32) -> u32 {
        self.looks.iter().copied().max().unwrap_or(0).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(used_us: u64, runnable: u32) -> Look {
        Look { elapsed: Duration::from_millis(10), used: Duration::from_micros(used_us), runnable }
    }

    #[test]
    fn grows_at_once_and_shrinks_when_all_looks_say_so() {
        let mut demand = Demand::starting();
        assert_eq!(demand.desire(8), 1);
        demand.note(&look(10_000, 5));
        assert_eq!((demand.desire(8), demand.desire(2)), (5, 2));
        for _ in 1..LOOKS {
            demand.note(&look(10_000, 1));
            assert_eq!(demand.desire(8), 5);
        }
        demand.note(&look(10_000, 1));
        assert_eq!(demand.desire(8), 1);
    }

    #[test]
    fn who_does_nearly_nothing_desires_nothing_unless_it_waits_for_a_core() {
        let mut demand = Demand::starting();
        demand.note(&look(9_000, 1));
        for _ in 0..LOOKS {
            assert_eq!(demand.desire(8), 1);
            demand.note(&look(150, 0));
        }
        assert_eq!(demand.desire(8), 0);
        demand.note(&look(0, 2));
        assert_eq!(demand.desire(8), 2);
        (0..LOOKS).for_each(|_| demand.note(&look(0, 0)));
        demand.note(&look(300, 0));
        assert_eq!(demand.desire(8), 1);
    }

    #[test]
    fn time_counts_where_it_says_more_than_a_look() {
        let mut demand = Demand::starting();
        demand.note(&look(26_000, 0));
        assert_eq!(demand.desire(8), 3);
        demand.note(&Look { elapsed: Duration::ZERO, used: Duration::MAX, runnable: 0 });
        assert_eq!(demand.desire(8), 8);
    }
}
