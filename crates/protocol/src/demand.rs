//! The number of cores that a command can use, estimated from observations.
//!
//! The state is the last eight looks; each new look replaces the oldest.
//!
//! # Invariants
//!
//! - A command's desire (the number of cores that it requests) is the maximum that it could use at one of these looks.
//!   So the desire grows at once, and shrinks eight looks later.
//! - A thread that waits for a core counts like a running thread. So the desire does not depend on the cores that the
//!   command has.
//! - While a cgroup quota throttles a command, its demand is the time that it used.
//! - A command counts as a team for `TEAM_LASTS` after a look at which one of its processes had several runnable
//!   threads.

use core::time::Duration;

/// The number of looks that count. If a command could use a core at one of them, it may soon need that core again.
const LOOKS: usize = 8;

/// The divisor for negligible use. A command that uses less than this part of a core is idle: it waits, with an
/// occasional timer.
const NEGLIGIBLE: u32 = 50;

/// The time for which a command counts as a team after the last look that saw several runnable threads in a process.
/// The serial phases of most parallel programs are shorter.
const TEAM_LASTS: Duration = Duration::from_secs(1);

/// The observations of a command at one look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The time since the previous look.
    pub elapsed: Duration,
    /// The processor time that the command's processes used since the previous look, for processes that still exist.
    pub used: Duration,
    /// The processor time in `used` plus the time that these processes waited for a core.
    pub able: Duration,
    /// The number of its threads that were on a core or waited for one.
    pub runnable: u32,
    /// The number of runnable threads in the process that had the most.
    pub team: u32,
    /// True if processes with a nice value above 0, or with `SCHED_IDLE`, had most of the command's time on cores and
    /// waiting for them.
    pub is_nice: bool,
    /// True if the processes of the command can be halted so that no process notices it.
    pub can_rest_unseen: bool,
}

impl Look {
    /// True if the command used almost no time, and did not wait for a core.
    pub fn is_idle(&self) -> bool {
        self.runnable == 0 && self.used <= self.elapsed / NEGLIGIBLE
    }

    /// Returns the look of a command that a cgroup quota throttles. Its threads seem to wait for cores, but could not
    /// use them.
    pub fn throttled(self) -> Look {
        Look { able: self.used, runnable: 0, team: 0, ..self }
    }

    /// Returns the number of cores that the command could use. This is the number of runnable threads or the average
    /// number of cores used, whichever is larger. If many threads run one after another, or start and end between two
    /// looks, the average is more accurate.
    fn cores(&self) -> u32 {
        if self.is_idle() {
            return 0;
        }
        let elapsed = self.elapsed.as_nanos().max(1);
        let on_average = (self.used.as_nanos() + elapsed / 2) / elapsed;
        self.runnable.max(on_average.try_into().unwrap_or(u32::MAX)).max(1)
    }
}

/// The demand of a command, from its last looks.
#[derive(Debug, Default)]
pub struct Demand {
    looks: [Look; LOOKS],
    next: usize,
    /// The time for which the command still counts as a team.
    team_for: Duration,
}

impl Demand {
    /// Adds a look.
    pub fn note(&mut self, look: &Look) {
        self.team_for = if look.team > 1 { TEAM_LASTS } else { self.team_for.saturating_sub(look.elapsed) };
        self.looks[self.next] = *look;
        self.next = (self.next + 1) % LOOKS;
    }

    /// Returns the number of cores to request, at most `most`: the maximum that the command could use at one of the
    /// last eight looks.
    pub fn desire(&self, most: u32) -> u32 {
        self.looks.iter().map(Look::cores).max().unwrap_or(0).min(most)
    }

    /// True if the command could use more than `cores` cores at two successive looks of the last ones. At a single
    /// look, the second thread may belong to a process that has just been started, while its parent is about to wait
    /// for it.
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

    /// Returns the processor time that the command could have used since the previous look on `most` cores of its own.
    ///
    /// If short processes follow one another, a process rarely exists at two looks. The average number of runnable
    /// threads at a look is then more accurate.
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
        // One look in four finds a runnable thread, so the command could use a quarter of a core. A crowd is limited
        // to the cores that it can use.
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
