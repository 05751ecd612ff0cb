//! Folding: computes how many cores are worth using in a virtual machine whose host takes time away from it.

use crate::{Account, StealTime};

/// Reduces the cores that a program uses (*folds* it) while steal time is high and the program loses nothing by using
/// fewer. Increases them again (*unfolds* it) while there is hardly any steal time.
///
/// A virtual CPU with work either runs or has its time stolen. So over some windows, the host grants `G = run / time`
/// cores. The part of the requested time that it grants is `g = run / (run + steal)`. A program that used `n` cores
/// folds to
///
/// ```text
///   ⌈G⌉                              if it is alone in the guest,
///   max(⌈n · g⌉, ⌈G / programs⌉)     if it is not;        of n at the most, and one at least
/// ```
///
/// Some windows later it is known whether the fold was right. If not, it is undone, and a program that is alone uses
/// the other of the two lines for its next fold. `⌈G⌉` is right if virtual CPUs halt because they wait for a task on a
/// stolen CPU. It is too small if they halt because there are no tasks.
///
/// Some hosts grant a machine a part of the time by its weight, for any number of virtual CPUs with work. After a
/// fold, `G` then stays the same, and steal time disappears. Other hosts grant a part to each virtual CPU, so a guest
/// that uses fewer virtual CPUs gets less. Linux does so if a machine has no control group of its own. So a fold
/// stands if `G` stays the same and steal time disappears or falls. Any other fold is undone.
///
/// The algorithm has these properties:
/// - *It converges.* If `G` stays the same, `m = ⌈G⌉` is a fixed point: with `m` workers awake, `g = G / m`, and so
///   `⌈m · g⌉ = ⌈G⌉ = m`.
/// - *Folds do not add up to a loss.* If steal time falls because the program uses fewer cores, the program folds no
///   further. If the host then grants less, all folds are undone: the reference is `G` before the first of several
///   folds. If other programs in the guest use the time that the program leaves, steal time does not fall, and the
///   fold is undone. No fold goes below an equal part of `G`.
/// - *It unfolds.* Without steal time, it is unknown how much more the host would grant. So the program tries one more
///   core (a probe). While there is no steal time, it adds twice the previous number in each window, until it uses all
///   cores.
/// - *It does not oscillate.* If steal time rises after a probe, the program folds again, by at least one core. The
///   next probe waits for twice the number of windows, up to 8 s. The first fold waits for 16 s. After a fold that was
///   undone, the next fold waits for twice that time, up to about two minutes.
///
/// Folding delays no task for ever. As in any pool with fewer cores than workers, other workers may wake in addition
/// to workers that wait in system calls or make no progress.
///
/// Steal time is the value "steal" of `proc_stat(5)`: the time for which a virtual CPU had work while the host ran
/// something else. VCPU-Bal (Song, Shi, Chen and Zang, "Schedule processes, not VCPUs", APSys 2013) and vScale (Cheng,
/// Rao and Lau, EuroSys 2016) also run no more virtual CPUs than the host grants. In these systems the host provides
/// the number: in vScale, the hypervisor computes how many virtual CPUs a machine can use. Here the guest infers the
/// number.
#[derive(Debug)]
pub(super) struct Fold {
    /// The maximum number of cores that are worth using. `u32::MAX`: all cores.
    most: u32,
    /// The sum of the windows since `most` last changed. Outside a trial, only windows with much steal time are added.
    seen: WindowSum,
    trial: Option<Trial>,
    /// The number of windows until the program may fold. The field below it is half the number to wait for if the next
    /// fold is undone.
    pause: u32,
    caution: u32,
    /// True if a program that is alone folds by the rule for a program that is not alone.
    by_part: bool,
    /// The number of cores that the last window added by unfolding. 0: the last window added none.
    step: u32,
    /// The number of successive windows with hardly any steal time, since the program last folded or unfolded.
    calm: u32,
    /// The number of windows to wait for before a probe.
    patience: u32,
}

/// The sum of several windows.
#[derive(Clone, Copy, Debug, Default)]
struct WindowSum {
    windows: u32,
    time: StealTime,
}

/// A fold on trial: it is not known yet whether the program loses time by it.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// True in the first window after the fold. Workers retire during this window, so its values are used only to undo
    /// a fold after which the host grants far less.
    begins: bool,
    /// The time that the host granted before the first of several folds, in thousandths of a core. The field below it
    /// is the time that the host took before the last fold.
    granted: u64,
    stolen: u64,
}

/// The number of windows that decide whether the program folds, and later whether the fold stands. A host's time
/// slices last up to a tenth of a window.
const WINDOWS: u32 = 4;

/// The part of the requested time, in thousandths, that must be stolen before a program folds. Linux reports steal
/// time in steps of 10 ms for each CPU, a fiftieth of the shortest window.
const HIGH: u64 = 100;

/// The part of the requested time, in thousandths, below which a program unfolds.
const LOW: u64 = 50;

/// The part of the earlier grant, in thousandths, that the host must still grant for a fold to stand.
const AS_MUCH: u64 = 995;

/// The minimum ratio of the steal time before a fold to the steal time after it, in thousandths, for the fold to
/// stand.
const LESS: u64 = 1100;

/// The tolerance, in thousandths, by which the host may grant less before the trial is over. It is divided by the
/// number of windows so far, because the mean over few windows is less reliable.
const SLACK: u64 = 140;

/// The number of windows before the first probe. The constant below it is the maximum number, which is reached after
/// several probes in vain.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 16;

/// The number of windows before the first fold. The constant below it is the maximum number, which is reached after
/// several folds that were undone. On a host that grants each virtual CPU half of its time, an undone fold costs a
/// sixth of a second. At the first distance, that is one hundredth of the time.
const CAUTION: u32 = 32;
const MOST_CAUTION: u32 = 256;

impl Default for Fold {
    fn default() -> Fold {
        let (seen, trial) = (WindowSum::default(), None);
        Fold {
            most: u32::MAX,
            seen,
            trial,
            pause: CAUTION,
            caution: CAUTION,
            by_part: false,
            step: 0,
            calm: 0,
            patience: PATIENCE,
        }
    }
}

impl WindowSum {
    fn add(&mut self, steal: StealTime) {
        let StealTime { lasted_ns, run_ns, steal_ns } = &mut self.time;
        self.windows += 1;
        *lasted_ns = lasted_ns.saturating_add(steal.lasted_ns);
        *run_ns = run_ns.saturating_add(steal.run_ns);
        *steal_ns = steal_ns.saturating_add(steal.steal_ns);
    }

    fn is_high(&self) -> bool {
        has_at_least(self.time, HIGH)
    }

    /// Returns the time that the host granted and the time that it took, in thousandths of a core.
    fn milli(&self) -> [u64; 2] {
        [self.time.run_ns, self.time.steal_ns].map(|time| part(1000, time, self.time.lasted_ns))
    }
}

impl Fold {
    /// Returns the maximum number of cores that are worth using from now on. `u32::MAX`: all cores.
    pub(super) fn look(&mut self, account: &Account) -> u32 {
        if let Some(steal) = account.steal {
            self.note(steal, account);
        }
        self.most
    }

    fn note(&mut self, steal: StealTime, account: &Account) {
        self.pause = self.pause.saturating_sub(1);
        match self.trial {
            Some(trial) => self.judge(trial, steal, account),
            None if has_at_least(steal, HIGH) => {
                self.seen.add(steal);
                self.calm = 0;
                // After a probe, a single window is enough.
                let is_known = self.step > 0 || (self.seen.windows >= WINDOWS && self.pause == 0);
                if is_known {
                    self.fold(account);
                }
            }
            None => {
                self.seen = WindowSum::default();
                if has_at_least(steal, LOW) {
                    (self.step, self.calm) = (0, 0);
                } else {
                    self.unfold(usable(account));
                }
            }
        }
    }

    /// Decides whether a fold on trial stands, is undone, or is followed by another one.
    fn judge(&mut self, trial: Trial, steal: StealTime, account: &Account) {
        self.seen.add(steal);
        let [granted, stolen] = self.seen.milli();
        let is_known = self.seen.windows >= WINDOWS;
        let is_less = !self.seen.is_high() || is_at_least(trial.stolen, LESS, stolen);
        let slack = if is_known { 0 } else { SLACK / u64::from(self.seen.windows) };
        if !is_at_least(granted, AS_MUCH - slack, trial.granted) || (is_known && !is_less) {
            let caution = (2 * self.caution).min(MOST_CAUTION);
            *self = Fold { pause: caution, caution, by_part: !self.by_part, ..Fold::default() };
        } else if trial.begins {
            (self.seen, self.trial) = (WindowSum::default(), Some(Trial { begins: false, ..trial }));
        } else if is_known && self.seen.is_high() {
            self.fold(account);
        } else if is_known {
            (self.seen, self.trial, self.caution) = (WindowSum::default(), None, CAUTION);
        }
    }

    /// Folds the program, because there was much steal time.
    fn fold(&mut self, account: &Account) {
        let used = self.most.min(usable(account));
        let is_probed = core::mem::take(&mut self.step) > 0;
        let [granted, stolen] = self.seen.milli();
        let floor = granted.div_ceil(1000 * u64::from(account.programs.max(1)));
        let is_by_part = self.by_part || !account.alone;
        let enough = if is_by_part { part(used.into(), granted, granted.saturating_add(stolen)) } else { floor };
        let enough = enough.min(used.saturating_sub(is_probed.into()).into());
        let worth = u32::try_from(enough.max(floor).max(1)).unwrap_or(u32::MAX);
        let before = self.trial.take().map_or(granted, |trial| trial.granted);
        self.seen = WindowSum::default();
        if worth < used {
            self.most = worth;
            self.patience = if is_probed { (2 * self.patience).min(MOST_PATIENCE) } else { PATIENCE };
            // The grant before the probe is known, so a fold after a probe needs no trial.
            self.trial = (!is_probed).then_some(Trial { begins: true, granted: before, stolen });
        }
    }

    /// Unfolds the program, because the last window had hardly any steal time.
    fn unfold(&mut self, usable: u32) {
        let used = self.most.min(usable);
        let was_probed = self.step > 0;
        if was_probed {
            self.patience = PATIENCE;
        }
        if used == usable {
            (self.most, self.step, self.calm) = (u32::MAX, 0, 0);
            return;
        }
        self.calm += 1;
        if was_probed || self.calm >= self.patience {
            (self.step, self.calm) = ((2 * self.step).max(1), 0);
            self.most = used.saturating_add(self.step);
        }
    }
}

/// The number of cores that the program can use without steal time. If other programs want cores, its share limits
/// this number.
fn usable(account: &Account) -> u32 {
    let share = account.share_milli.div_ceil(1000).max(1);
    if account.alone { account.usable } else { account.usable.min(share) }
}

/// True if steal time is at least `thousandths` of the requested time.
fn has_at_least(StealTime { run_ns, steal_ns, .. }: StealTime, thousandths: u64) -> bool {
    is_at_least(steal_ns, thousandths, run_ns.saturating_add(steal_ns))
}

/// True if `part` is not 0 and at least `thousandths` of `whole`.
fn is_at_least(part: u64, thousandths: u64, whole: u64) -> bool {
    part > 0 && u128::from(part) * 1000 >= u128::from(whole) * u128::from(thousandths)
}

/// Returns `of · had / asked`, rounded up.
fn part(of: u64, had: u64, asked: u64) -> u64 {
    let part = (u128::from(of) * u128::from(had)).div_ceil(u128::from(asked.max(1)));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const WINDOW: u64 = 500_000_000;

    /// The number of windows that are over before the program folds.
    const FIRST: usize = CAUTION as usize - 1;

    /// The rule by which a host grants its time.
    #[derive(Clone, Copy)]
    enum Grants {
        /// Grants the machine this number of thousandths of a CPU, for any number of virtual CPUs with work.
        Machine(u64),
        /// Grants each virtual CPU with work an equal part. The field is the number of virtual CPUs of other machines
        /// that compete for the `usable` physical CPUs.
        Each(u64),
    }

    struct Guest {
        fold: Fold,
        usable: u32,
        grants: Grants,
        share_milli: u32,
        programs: u32,
        /// The number of other threads in the guest that use CPUs. They never fold.
        others: u32,
        /// True if the program has only one task in half of the time.
        is_half_serial: bool,
    }

    impl Guest {
        fn new(usable: u32, grants: Grants) -> Guest {
            Guest {
                fold: Fold::default(),
                usable,
                grants,
                share_milli: usable * 1000,
                programs: 1,
                others: 0,
                is_half_serial: false,
            }
        }

        fn used(&self) -> u32 {
            self.fold.most.min(self.usable).min(self.share_milli.div_ceil(1000))
        }

        /// Returns the time that the host grants to this number of threads, in thousandths of a core.
        fn granted_milli(&self, threads: u32) -> u64 {
            let asked_milli = u64::from(threads) * 1000;
            let granted_milli = match self.grants {
                Grants::Machine(milli) => milli,
                Grants::Each(others) => u64::from(self.usable) * asked_milli / (asked_milli / 1000 + others),
            };
            granted_milli.min(asked_milli)
        }

        /// Simulates a window in which the program uses all cores that it may use. Returns the number of cores that it
        /// uses from then on.
        fn window(&mut self) -> u32 {
            self.window_where(self.used() + self.others)
        }

        fn windows(&mut self, count: usize) -> Vec<u32> {
            (0..count).map(|_| self.window()).collect()
        }

        /// Simulates a window in which this number of the guest's threads could run.
        fn window_where(&mut self, threads: u32) -> u32 {
            let threads = threads.min(self.usable);
            let halves = [threads, if self.is_half_serial { 1 } else { threads }];
            let asked_milli = halves.map(|threads| u64::from(threads) * 1000).iter().sum::<u64>() / 2;
            let run_milli = halves.map(|threads| self.granted_milli(threads)).iter().sum::<u64>() / 2;
            let steal = StealTime {
                lasted_ns: WINDOW,
                run_ns: run_milli * WINDOW / 1000,
                steal_ns: (asked_milli - run_milli) * WINDOW / 1000,
            };
            self.fold.look(&Account {
                usable: self.usable,
                alone: self.programs == 1,
                share_milli: self.share_milli,
                programs: self.programs,
                steal: Some(steal),
                ..Account::default()
            });
            self.used()
        }
    }

    #[test]
    fn folds_to_what_the_host_grants_and_stays_there() {
        for (usable, granted, worth) in
            [(8, 4000, 4), (8, 3500, 4), (8, 500, 1), (2, 1000, 1), (16, 12_100, 13), (64, 8000, 8), (1, 100, 1)]
        {
            let mut guest = Guest::new(usable, Grants::Machine(granted));
            let used = guest.windows(1000);
            let (before, after) = used.split_at(FIRST);
            assert!(before.iter().all(|used| *used == usable) && after[0] == worth, "{granted}: {used:?}");
            let mut later = after.iter();
            assert!(later.all(|used| (worth..=worth + 1).contains(used)), "{used:?}: a probe tries one more");
        }
    }

    #[test]
    fn probes_in_vain_become_rare() {
        let used = Guest::new(8, Grants::Machine(4000)).windows(600);
        let probes = |used: &[u32]| used.iter().filter(|used| **used == 5).count();
        assert_eq!(probes(&used[FIRST..FIRST + 15]), 2);
        assert!((10..=20).contains(&probes(&used[300..])), "{}", probes(&used[300..]));
    }

    #[test]
    fn unfolds_in_growing_steps_once_the_host_grants_all() {
        let mut guest = Guest::new(64, Grants::Machine(8000));
        guest.windows(FIRST + 6);
        guest.grants = Grants::Machine(64_000);
        assert_eq!(guest.windows(9), [8, 9, 11, 15, 23, 39, 64, 64, 64]);
        assert_eq!(guest.fold.most, u32::MAX);
    }

    #[test]
    fn where_a_host_grants_less_to_fewer_folds_are_undone_and_become_rare() {
        for others in [1, 2, 4, 8, 24] {
            let mut guest = Guest::new(8, Grants::Each(others));
            let used = guest.windows(2000);
            let had = |used: &[u32]| used.iter().map(|used| guest.granted_milli(*used)).sum::<u64>();
            for count in [100, 400, 2000] {
                let all = count * guest.granted_milli(8);
                assert!(had(&used[..count as usize]) >= all * 98 / 100, "{others}: {count} windows");
            }
        }
        let used = Guest::new(8, Grants::Each(8)).windows(FIRST + 2);
        assert_eq!(used[FIRST - 1..], [8, 4, 8], "far too little is known at once");
        let mut guest = Guest::new(8, Grants::Each(8));
        guest.windows(1000);
        guest.grants = Grants::Machine(4000);
        assert!(guest.windows(MOST_CAUTION as usize + 4).contains(&4), "it is tried again");
        assert!(guest.windows(1000).iter().all(|used| (4..=5).contains(used)));
    }

    #[test]
    fn where_what_is_granted_in_the_mean_is_too_little_it_folds_to_its_part() {
        let mut guest = Guest { is_half_serial: true, ..Guest::new(8, Grants::Machine(4000)) };
        let used = guest.windows(400);
        assert_eq!(used[FIRST - 1..FIRST + 2], [8, 3, 8], "2.5 cores in the mean, and 4 in a parallel half");
        assert!(used[200..].iter().all(|used| *used == 5), "{used:?}");
    }

    #[test]
    fn beside_what_never_folds_nothing_is_left_to_it() {
        let mut guest = Guest { others: 8, ..Guest::new(8, Grants::Machine(4000)) };
        let used = guest.windows(2000);
        assert!(used.iter().all(|used| *used >= 4), "no fold goes below what the host grants");
        let folded = used[1000..].iter().filter(|used| **used < 8).count();
        assert!(folded <= 25, "{folded}");
    }

    #[test]
    fn two_programs_fold_to_what_the_host_grants_both() {
        let half = || Guest { share_milli: 4000, programs: 2, ..Guest::new(8, Grants::Machine(4000)) };
        let (mut guests, mut together) = ([half(), half()], Vec::new());
        for _ in 0..200 {
            together.push(guests.iter().map(Guest::used).sum());
            guests.iter_mut().for_each(|guest| _ = guest.window_where(together[together.len() - 1]));
        }
        let (before, after) = together.split_at(FIRST + 1);
        assert!(before.iter().all(|together| *together == 8) && after[0] == 4, "{together:?}");
        assert!(after.iter().all(|together| (4..=6).contains(together)), "{together:?}");
        assert!(after[100..].iter().filter(|together| **together > 4).count() <= 10, "{together:?}");
    }

    #[test]
    fn nothing_changes_where_no_steal_time_is_told() {
        let mut fold = Fold::default();
        let none = Account { usable: 8, alone: true, ..Account::default() };
        let zero = StealTime { lasted_ns: WINDOW, run_ns: 8 * WINDOW, steal_ns: 0 };
        let little = StealTime { run_ns: 8 * WINDOW - WINDOW / 2, steal_ns: WINDOW / 2, ..zero };
        for steal in [None, Some(zero), Some(StealTime::default()), Some(little)] {
            assert_eq!(fold.look(&Account { steal, ..none }), u32::MAX);
        }
    }

    #[test]
    fn any_reading_leaves_one_core_at_least_and_all_come_back() {
        let numbers = [0, 1, 10_000_000, WINDOW, 8 * WINDOW, u64::MAX];
        let mut fold = Fold::default();
        let all = numbers.iter().flat_map(|lasted| numbers.iter().map(move |run| (lasted, run)));
        for (lasted_ns, run_ns) in all {
            for steal_ns in numbers {
                for usable in [0, 1, 2, 8, 512] {
                    let steal = Some(StealTime { lasted_ns: *lasted_ns, run_ns: *run_ns, steal_ns });
                    assert!(fold.look(&Account { usable, steal, ..Account::default() }) >= 1);
                }
            }
        }
        let calm = Some(StealTime { lasted_ns: WINDOW, run_ns: WINDOW, steal_ns: 0 });
        let account = Account { usable: 512, alone: true, steal: calm, ..Account::default() };
        assert!((0..MOST_PATIENCE + 12).any(|_| fold.look(&account) == u32::MAX));
    }
}
