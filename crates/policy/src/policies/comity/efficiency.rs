//! The efficiency of a program: its speed on all cores, compared with its speed per core in its share.

use crate::allotment::{Division, EFFICIENCIES, LINEAR};
use crate::{Account, Mode};

/// Measures the efficiency of a program. Let `u(x)` be the rate of useful work of a program with `x` of `N` cores. Its
/// slowdown with a share of `x` cores is `u(N) / u(x)`, and its rate per core is `a = u(x) / x`. All programs have the
/// same slowdown if their shares are in proportion to `u(N) / a`. A program publishes `u(N) / (a · N)`. If `a` is the
/// rate of one core alone, this is the efficiency of Eager, Zahorjan and Lazowska (IEEE TC 1989).
///
/// The coordinator measures both rates. It measures `u(N)` while the program is alone, or is a *gang*: a program that
/// has all cores in its turn. It measures `a` while the program holds its share together with other programs. So equal
/// slowdown is the fixed point for any `u`.
///
/// Useful work is the time for which workers had a task, as in A-STEAL, but at most the processor time that the
/// program had. In a gang's turn, the coordinator adds the time for which the gang's workers waited because other
/// programs' threads still ran on their cores. The effect of caches and memory on the work per time is not measured.
/// To measure it, the coordinator would need the processor's own counters.
///
/// A program that has never had all cores publishes [`LINEAR`].
#[derive(Debug, Default)]
pub(super) struct Efficiency {
    alone: Rate,
    beside: Rate,
    /// The value of [`Company::of`] at the last look.
    company: Option<Company>,
    published: Option<u32>,
}

/// The situation of a program: whether other programs want cores, and which cores it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// No other program wants any core.
    Alone,
    /// The program is in its turn, in which it has all cores.
    Gang,
    /// The program has its share, and holds cores.
    Beside,
    /// The program shares time, or is out of turn.
    Neither,
}

impl Company {
    fn of(account: &Account, mode: Mode) -> Company {
        // The test uses owned cores instead of held cores, because the program may lend some between two tasks.
        let is_its_turn = account.owned >= account.usable;
        match (account.division, mode) {
            _ if account.programs <= 1 => Company::Alone,
            // The other programs share time, and run on cores that this program holds.
            _ if account.alone => Company::Neither,
            (Division::Time, Mode::Cores) if is_its_turn => Company::Gang,
            (Division::Equal | Division::Slowdown, Mode::Cores) => Company::Beside,
            _ => Company::Neither,
        }
    }
}

/// The useful work per core and the time, summed over several looks.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    work_ns: u64,
    time_ns: u64,
}

/// The minimum time of a measurement. It is not shorter, because a program begins with fewer tasks than it has later.
/// It is not longer, so that the turn of one probe is enough.
const LEAST_NS: u64 = 50_000_000;

/// The time after which an old measurement has about half of its weight.
const HALF_NS: u64 = 2_000_000_000;

/// The longest look that is used. In a longer look the program was stopped.
const LONGEST_NS: u64 = 500_000_000;

/// The smallest change that is published, in thousandths. Smaller changes would change the owners of cores for a small
/// gain.
const STEP: u32 = 25;

impl Rate {
    /// Adds the work that `milli` thousandths of a core did in the time `time_ns`.
    fn note(&mut self, work_ns: u64, milli: u32, time_ns: u64) {
        self.work_ns += work_ns * 1000 / u64::from(milli.max(1));
        self.time_ns += time_ns;
        if self.time_ns > 2 * HALF_NS {
            (self.work_ns, self.time_ns) = (self.work_ns / 2, self.time_ns / 2);
        }
    }

    /// Returns the work per core and time, in thousandths. `None`: the measured time is too short.
    fn milli(&self) -> Option<u64> {
        (self.time_ns >= LEAST_NS).then(|| self.work_ns * 1000 / self.time_ns)
    }
}

impl Efficiency {
    /// Notes a look. `mode` is the mode of the program in the past quantum.
    pub(super) fn note(&mut self, account: &Account, mode: Mode) {
        let now = Company::of(account, mode);
        let before = self.company.replace(now);
        // If the situation changed, it is unknown when in the quantum it did. A program that was stopped for long did
        // no work in that time.
        if before != Some(now) || account.lasted_ns > LONGEST_NS {
            return;
        }
        // For a command, the time with tasks is unknown.
        let tasks_ns = if account.usage_ns > 0 { account.usage_ns } else { account.used_ns };
        let (lasted_ns, all) = (account.lasted_ns, account.usable.saturating_mul(1000));
        // The rate is per core of the share instead of per held core, because the program still owns a core that it
        // lends between two tasks.
        match now {
            Company::Alone => self.alone.note(tasks_ns.min(account.used_ns), all, lasted_ns),
            Company::Gang => {
                let able_ns = account.able_ns.max(account.used_ns).min(lasted_ns * u64::from(account.usable));
                self.alone.note(tasks_ns.min(able_ns), all, lasted_ns);
            }
            Company::Beside => self.beside.note(tasks_ns.min(account.used_ns), account.share_milli, lasted_ns),
            Company::Neither => {}
        }
    }

    /// Returns the efficiency to publish, in thousandths.
    pub(super) fn published(&mut self) -> u32 {
        let Some(alone) = self.alone.milli() else { return LINEAR };
        let measured = alone * u64::from(LINEAR) / self.beside.milli().unwrap_or(1000).max(1);
        let efficiency = measured.clamp((*EFFICIENCIES.start()).into(), LINEAR.into()) as u32;
        let published = self.published.filter(|published| published.abs_diff(efficiency) < STEP);
        *self.published.insert(published.unwrap_or(efficiency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;

    /// The account of a quantum of 10 ms on 16 cores. `working`: the number of cores that worked. `share`: the number
    /// of cores of the program's share.
    fn look(programs: u32, working: u64, share: u32) -> Account {
        let (elapsed_ns, usage_ns) = (10 * MS, working * 10 * MS);
        let account = Account { programs, usable: 16, elapsed_ns, usage_ns, used_ns: usage_ns, ..Account::default() };
        Account { lasted_ns: elapsed_ns, share_milli: share * 1000, ..account }
    }

    fn after(looks: &[(Account, u32)]) -> u32 {
        let mut efficiency = Efficiency::default();
        for (account, times) in looks {
            (0..*times).for_each(|_| efficiency.note(account, Mode::Cores));
        }
        efficiency.published()
    }

    #[test]
    fn efficiency_is_work_alone_over_work_of_a_core_of_its_share() {
        assert_eq!(after(&[]), LINEAR, "never seen alone");
        assert_eq!(after(&[(look(2, 4, 8), 100)]), LINEAR);
        assert_eq!(after(&[(look(2, 10, 8), 100)]), LINEAR, "also where it has cores of others");
        assert_eq!(after(&[(look(1, 8, 16), 1)]), LINEAR, "and hardly");
        assert_eq!(after(&[(look(1, 12, 16), 100)]), 750);
        assert_eq!(after(&[(look(1, 12, 16), 100), (look(2, 8, 8), 100)]), 750);
        assert_eq!(
            after(&[(look(1, 12, 16), 100), (look(2, 6, 8), 100)]),
            LINEAR,
            "as much of each core beside others"
        );
        assert_eq!(after(&[(look(1, 2, 16), 100)]), 500, "no share is moved further");
    }

    #[test]
    fn tasks_that_wait_do_no_work_nor_do_thieves() {
        let waits = Account { usage_ns: 160 * MS, ..look(1, 12, 16) };
        let searches = Account { used_ns: 160 * MS, ..look(1, 12, 16) };
        let command = Account { usage_ns: 0, ..look(1, 12, 16) };
        assert_eq!([waits, searches, command].map(|account| after(&[(account, 100)])), [750; 3]);
    }

    #[test]
    fn a_look_during_which_others_came_or_the_program_was_stopped_says_nothing() {
        let came = Account { lasted_ns: 160 * MS, usage_ns: 2560 * MS, used_ns: 2560 * MS, ..look(2, 0, 8) };
        assert_eq!(after(&[(look(1, 16, 16), 100), (came, 1)]), LINEAR);
        let stopped = Account { lasted_ns: 3_600_000 * MS, ..look(1, 0, 16) };
        assert_eq!(after(&[(look(1, 16, 16), 100), (stopped, 1)]), LINEAR);
    }

    #[test]
    fn a_gang_in_its_turn_has_all_cores_as_one_that_is_alone() {
        let gang = |owned, look: Account| Account { division: Division::Time, owned, ..look };
        // Two turns of ten looks each, and the same number of looks out of turn after each turn.
        let turns = |working| {
            let [all, none] = [(gang(16, look(2, working, 8)), 10), (gang(0, look(2, 0, 8)), 10)];
            [all, none, all, none]
        };
        assert_eq!(after(&turns(12)), 750);
        assert_eq!(after(&turns(16)), LINEAR);
        // Another program runs on in the gang's turn: the gang's workers have tasks, and wait for the core.
        let kept_waiting = Account { used_ns: 80 * MS, able_ns: 120 * MS, ..gang(16, look(2, 12, 8)) };
        assert_eq!(after(&[(kept_waiting, 10)]), 750);
        // Work out of turn proves nothing about a core of the program's share. The same is true of a look in which a
        // turn begins or ends.
        assert_eq!(after(&[(look(1, 12, 16), 100), (gang(0, look(2, 2, 8)), 100)]), 750);
        let changes = [(gang(16, look(2, 1, 8)), 1), (gang(0, look(2, 16, 8)), 1)];
        assert_eq!(after(&[turns(12).to_vec(), vec![changes; 50].concat()].concat()), 750);
    }

    #[test]
    fn efficiency_follows_changes_in_steps() {
        let mut efficiency = Efficiency::default();
        let mut alone = |working, times| {
            (0..times).for_each(|_| efficiency.note(&look(1, working, 16), Mode::Cores));
            efficiency.published()
        };
        assert_eq!(alone(16, 200), 1000);
        let changes: Vec<u32> = (0..2000).map(|_| alone(8, 1)).collect();
        assert!(changes.is_sorted_by(|one, next| one == next || one >= &(next + STEP)), "{changes:?}");
        assert!(changes[1999] < 530, "{changes:?}");
    }
}
