//! How many cores a command can use, from what it was seen doing.
//!
//! The state is the last eight looks; each new one replaces the oldest.
//!
//! # Invariants
//!
//! - A command desires what it could use at any of these looks: its desire grows at once, and shrinks eight looks
//!   later.
//! - A thread that waits for a core counts as one that has it: what a command could use does not depend on the cores
//!   that it has.
//! - A command that a quota stops could use what it used, and no more.
//! - A command counts as a team for `TEAM_LASTS` after a look at which one of its processes had several runnable
//!   threads.

use core::time::Duration;

/// How many looks count. What a command could use at one of them it may want again at once.
const LOOKS: usize = 8;

/// A command that uses less than this part of a core does nothing to speak of: it waits, and something in it ticks.
const NEGLIGIBLE: u32 = 50;

/// The time for which a command counts as a team after the last look that saw several runnable threads in a process.
/// The serial phases of most parallel programs are shorter.
const TEAM_LASTS: Duration = Duration::from_secs(1);

/// What was seen of a command at one look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Since the last one.
    pub elapsed: Duration,
    /// The processor time that its processes had in that time, as far as they are still there.
    pub used: Duration,
    /// The same, and the time that they waited for a core.
    pub able: Duration,
    /// How many of its threads were on a core or waited for one.
    pub runnable: u32,
    /// The number of runnable threads in the process that had the most.
    pub team: u32,
    /// True if most of the time that the command used or waited for a core was that of processes with a nice value above
    /// 0, or of `SCHED_IDLE`.
    pub is_nice: bool,
    /// True if the processes of the command can be halted so that no process notices it.
    pub can_rest_unseen: bool,
}

impl Look {
    /// Whether it did nothing to speak of, and not for want of a core.
    pub fn is_idle(&self) -> bool {
        self.runnable == 0 && self.used <= self.elapsed / NEGLIGIBLE
    }

    /// The same of one that a quota stops: its threads seem to wait for cores, and could not use them.
    pub fn throttled(self) -> Look {
        Look { able: self.used, runnable: 0, team: 0, ..self }
    }

    /// Threads that wait for a core count as those that have one: so what a command can use is seen however few cores
    /// it has. Where many threads take turns, or come and go between two looks, the time that they had says more.
    fn cores(&self) -> u32 {
        if self.is_idle() {
            return 0;
        }
        let elapsed = self.elapsed.as_nanos().max(1);
        let on_average = (self.used.as_nanos() + elapsed / 2) / elapsed;
        self.runnable.max(on_average.try_into().unwrap_or(u32::MAX)).max(1)
    }
}

/// What the last looks say of a command.
#[derive(Debug, Default)]
pub struct Demand {
    looks: [Look; LOOKS],
    next: usize,
    /// The time for which the command still counts as a team.
    team_for: Duration,
}

impl Demand {
    /// Notes a look.
    pub fn note(&mut self, look: &Look) {
        self.team_for = if look.team > 1 { TEAM_LASTS } else { self.team_for.saturating_sub(look.elapsed) };
        self.looks[self.next] = *look;
        self.next = (self.next + 1) % LOOKS;
    }

    /// How many cores to ask for, of at most `most`: what it could use at any of the last looks. So the desire grows
    /// at once, and shrinks only after a while.
    pub fn desire(&self, most: u32) -> u32 {
        self.looks.iter().map(Look::cores).max().unwrap_or(0).min(most)
    }

    /// True if the command could use more than `cores` cores at two successive looks of the last. At a single look, the
    /// second thread may be that of a process that has just been started, while its parent is about to wait for it.
    pub fn is_wider_than(&self, cores: u32) -> bool {
        let nth = |nth: usize| self.looks[(self.next + nth) % LOOKS].cores() > cores;
        (1..LOOKS).any(|later| nth(later - 1) && nth(later))
    }

    /// True if the command is a team: one of its processes has several runnable threads, which may wait for each other.
    pub fn is_team(&self) -> bool {
        !self.team_for.is_zero()
    }

    /// Returns the number of runnable threads, on average over the last looks, rounded up.
    pub fn crowd(&self) -> u32 {
        self.looks.iter().map(|look| look.runnable).sum::<u32>().div_ceil(LOOKS as u32)
    }

    /// The processor time that it could have used since the last look, had it not waited for any of `most` cores.
    ///
    /// Where one process follows the other, few are there at two looks. Then what runs on average at a look says more.
    pub fn able(&self, most: u32) -> Duration {
        let last = self.looks[(self.next + LOOKS - 1) % LOOKS];
        let seen: u32 = self.looks.iter().map(|look| look.runnable.min(most)).sum();
        let on_average = last.elapsed * seen / LOOKS as u32;
        last.able.max(on_average).min(last.elapsed * most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(used_us: u64, runnable: u32) -> Look {
        let used = Duration::from_micros(used_us);
        Look { elapsed: Duration::from_millis(10), used, able: used, runnable, ..Look::default() }
    }

    #[test]
    fn desire_grows_at_once_and_shrinks_when_all_looks_say_so() {
        let mut demand = Demand::default();
        assert_eq!(demand.desire(8), 0);
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
    fn a_program_that_does_nearly_nothing_desires_nothing_unless_it_waits_for_a_core() {
        let mut demand = Demand::default();
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
        let mut demand = Demand::default();
        demand.note(&look(26_000, 0));
        assert_eq!(demand.desire(8), 3);
        demand.note(&Look { used: Duration::MAX, able: Duration::MAX, ..Look::default() });
        assert_eq!(demand.desire(8), 8);
    }

    #[test]
    fn a_team_is_one_until_none_was_seen_for_a_while() {
        let mut demand = Demand::default();
        demand.note(&look(10_000, 3));
        assert!(!demand.is_team(), "three processes of one thread each");
        demand.note(&Look { team: 2, ..look(20_000, 2) });
        let looks = TEAM_LASTS.as_millis() / 10;
        for _ in 0..looks {
            assert!(demand.is_team());
            demand.note(&look(10_000, 1));
        }
        assert!(!demand.is_team());
    }

    #[test]
    fn a_command_is_wider_than_cores_if_two_successive_looks_say_so() {
        let mut demand = Demand::default();
        for _ in 0..LOOKS {
            demand.note(&look(10_000, 2));
            demand.note(&look(10_000, 1));
            assert!(!demand.is_wider_than(1));
        }
        demand.note(&look(10_000, 2));
        demand.note(&look(10_000, 3));
        for _ in 2..LOOKS {
            assert!(demand.is_wider_than(1) && !demand.is_wider_than(2));
            demand.note(&look(10_000, 1));
        }
        demand.note(&look(10_000, 1));
        assert!(!demand.is_wider_than(1));
    }

    #[test]
    fn a_crowd_is_counted_on_average() {
        let mut demand = Demand::default();
        [8, 0, 0, 1].into_iter().for_each(|runnable| demand.note(&look(10_000, runnable)));
        assert_eq!(demand.crowd(), 2);
    }

    #[test]
    fn able_time_is_what_was_used_or_waited_for_and_no_more_than_there_is() {
        let mut demand = Demand::default();
        demand.note(&look(7_000, 0));
        assert_eq!(demand.able(2), Duration::from_millis(7));
        demand.note(&Look { able: Duration::from_millis(40), ..look(7_000, 4) });
        assert_eq!((demand.able(2), demand.able(8)), (Duration::from_millis(20), Duration::from_millis(40)));
    }

    #[test]
    fn processes_that_follow_each_other_are_able_on_average() {
        let mut demand = Demand::default();
        // One look in four meets something: no more than a quarter of a core. A crowd is no more than the cores that
        // it can use.
        for (crowd, able_us) in [(1, 2_500), (20, 5_000)] {
            for runnable in [0, 0, 0, crowd, 0, 0, 0, crowd] {
                demand.note(&look(1_000, runnable));
            }
            assert_eq!(demand.able(2), Duration::from_micros(able_us));
        }
        (0..LOOKS).for_each(|_| demand.note(&look(1_000, 3)));
        assert_eq!(demand.able(2), Duration::from_millis(20));
    }
}
