//! The measures of a co-run, as formulas over means.
//!
//! Slowdown, unfairness and weighted speedup are defined in Ding et al., EuroSys 2012, section 5.1. Response time,
//! slow-down ratio and its difference are defined in section 4 of Chen, Zheng, Guo, Concurrency and Computation 28,
//! 2016. The bound, the efficiency, the unfairness in processor time and the switches per second are this project's
//! own.

use statrs::statistics::Statistics;

/// The means of one program over its rounds. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// T_s, the time alone.
    pub solo_s: f64,
    /// T_1, the time alone with one worker on one core.
    pub one_core_s: f64,
    /// W, the processor time alone with one worker on one core: T_1 without the time for which the program waited.
    pub work_s: f64,
    /// T_b, the time alone under the baseline.
    pub baseline_s: f64,
    /// T_c, the mean time together, over the counted rounds.
    pub corun_s: f64,
    /// T, the response time (equation 2 of DWS): the mean time together, over all rounds.
    pub overlapped_s: f64,
    /// C_s, the processor time of a round alone.
    pub solo_cpu_s: f64,
    /// C_c, the processor time of a counted round together.
    pub corun_cpu_s: f64,
    /// Voluntary and involuntary context switches of a counted round together.
    pub switches: f64,
}

impl Means {
    /// Returns the slowdown, (T_c − T_s) / T_s. 0: other programs do not slow the program down. 1: it takes twice as
    /// long.
    pub fn slowdown(&self) -> f64 {
        (self.corun_s - self.solo_s) / self.solo_s
    }

    /// Returns the slow-down ratio T/B, where B is T_b. 1: other programs do not slow the program down. 2: it takes
    /// twice as long.
    pub fn slowdown_ratio(&self) -> f64 {
        self.overlapped_s / self.baseline_s
    }

    /// Returns C_c / T_c: the number of cores that the program used while it ran together with the others.
    pub fn cores_used(&self) -> f64 {
        self.corun_cpu_s / self.corun_s
    }
}

/// Returns the mean of one or more times.
pub fn mean(times: &[f64]) -> f64 {
    times.mean()
}

/// Returns the coefficient of variation: sample standard deviation / mean. Returns `None` for a single time.
pub fn variation(times: &[f64]) -> Option<f64> {
    (times.len() > 1).then(|| times.std_dev() / times.mean())
}

/// Returns the unfairness, the largest slowdown minus the smallest. For two programs it is the difference of their
/// slowdowns, as in the BWS paper.
pub fn unfairness(programs: &[Means]) -> f64 {
    span(programs, Means::slowdown)
}

/// Returns D: the largest slow-down ratio minus the smallest. For two programs it is |T_i/B_i − T_j/B_j|, equation 3
/// of DWS.
pub fn slowdown_ratio_difference(programs: &[Means]) -> f64 {
    span(programs, Means::slowdown_ratio)
}

fn span(programs: &[Means], value: fn(&Means) -> f64) -> f64 {
    range(&programs.iter().map(value).collect::<Vec<f64>>())
}

/// Returns the largest value minus the smallest.
pub fn range(values: &[f64]) -> f64 {
    Statistics::max(values) - Statistics::min(values)
}

/// Returns the weighted speedup ΣT_b/T_c. It is 1 if the programs run one after the other.
pub fn weighted_speedup(programs: &[Means]) -> f64 {
    programs.iter().map(|program| program.baseline_s / program.corun_s).sum()
}

/// Returns the upper bound of the weighted speedup of n programs on P cores. It assumes that the cores do only the
/// programs' work W, and that all programs are slowed down equally.
///
/// The bound is n / s. If ΣW/T_c = P, and T_c = s·T_b for all programs, then s = Σ(W/T_b) / P. If the programs
/// together cannot use all cores, no program is slowed down, and s is 1.
pub fn bound(programs: &[Means], cores: usize) -> f64 {
    let shares: f64 = programs.iter().map(|program| program.work_s / program.baseline_s).sum();
    programs.len() as f64 / (shares / cores as f64).max(1.0)
}

/// Returns the cores due to each program (max-min fairness): an equal share, but no more than the program uses alone,
/// C_s / T_s. The rest of its share is divided among the other programs in the same way.
pub fn cores_due(programs: &[Means], cores: usize) -> Vec<f64> {
    let wanted: Vec<f64> = programs.iter().map(|program| program.solo_cpu_s / program.solo_s).collect();
    let mut modest: Vec<usize> = (0..programs.len()).collect();
    modest.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let (mut due, mut left) = (vec![0.0; programs.len()], cores as f64);
    for (nth, program) in modest.into_iter().enumerate() {
        due[program] = wanted[program].min(left / (programs.len() - nth) as f64);
        left -= due[program];
    }
    due
}

/// Returns the largest `cores_used / cores_due` minus the smallest. The result is 0 if `cores_used / cores_due` is
/// the same for all programs. A program with 0 cores due is left out.
pub fn cpu_unfairness(programs: &[Means], cores: usize) -> f64 {
    let due = cores_due(programs, cores);
    let parts = programs.iter().zip(due).filter(|(_, due)| *due > 0.0).map(|(program, due)| program.cores_used() / due);
    range(&parts.collect::<Vec<f64>>())
}

/// Returns the context switches of all programs per second of the co-run. The rate of a program is its switches
/// divided by the wall-clock seconds of the same rounds. The rates are added, because the programs run at the same
/// time.
pub fn switches_per_s(programs: &[Means]) -> f64 {
    programs.iter().map(|program| program.switches / program.corun_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(one_core_s: f64, solo_s: f64, corun_s: f64) -> Means {
        Means {
            solo_s,
            one_core_s,
            work_s: one_core_s,
            baseline_s: solo_s,
            corun_s,
            overlapped_s: corun_s,
            solo_cpu_s: one_core_s,
            corun_cpu_s: one_core_s,
            switches: 0.0,
        }
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn two_programs_slowed_by_100_percent_have_the_papers_weighted_speedup() {
        let programs = [means(6.0, 3.0, 6.0), means(10.0, 5.0, 10.0)];
        assert_close(programs[0].slowdown(), 1.0);
        assert_close(unfairness(&programs), 0.0);
        assert_close(weighted_speedup(&programs), 1.0);
        // Both programs scale perfectly on two cores, so no schedule is better than to run them one after the other.
        assert_close(bound(&programs, 2), 1.0);
    }

    #[test]
    fn a_program_that_does_not_scale_leaves_room_for_another() {
        // A serial program and a program that scales: Σ(W/T_b) is 1 + 2, on two cores.
        let programs = [means(1.0, 1.0, 1.5), means(2.0, 1.0, 1.5)];
        assert_close(bound(&programs, 2), 4.0 / 3.0);
        assert_close(weighted_speedup(&programs), 4.0 / 3.0);
    }

    #[test]
    fn a_baseline_changes_the_speedup_but_not_the_slowdown() {
        let program = Means { baseline_s: 1.0, ..means(4.0, 2.0, 4.0) };
        assert_close(program.slowdown(), 1.0);
        assert_close(weighted_speedup(&[program, program]), 0.5);
        assert_close(bound(&[program, program], 2), 0.5);
    }

    #[test]
    fn programs_that_leave_cores_to_spare_are_not_slowed() {
        // The sleeper works for half of the time.
        let sleeper = Means { work_s: 0.5, ..means(1.0, 1.0, 1.0) };
        assert_close(bound(&[sleeper, sleeper], 2), 2.0);
        assert_close(bound(&[sleeper, means(2.0, 1.0, 1.25)], 2), 2.0 / 1.25);
    }

    /// Makes a program that uses `alone` cores alone and `together` cores together with others.
    fn user(alone: f64, together: f64) -> Means {
        Means { solo_cpu_s: alone, corun_cpu_s: 2.0 * together, ..means(alone, 1.0, 2.0) }
    }

    #[test]
    fn what_one_program_cannot_use_is_due_to_the_others() {
        let due =
            |wanted: &[f64], cores| cores_due(&wanted.iter().map(|cores| user(*cores, 1.0)).collect::<Vec<_>>(), cores);
        for (wanted, cores, expected) in [
            (&[2.0, 2.0][..], 2, &[1.0, 1.0][..]),
            (&[2.0, 0.25], 2, &[1.75, 0.25]),
            (&[0.5, 0.25], 2, &[0.5, 0.25]),
            (&[8.0, 1.0, 4.0, 8.0], 10, &[3.0, 1.0, 3.0, 3.0]),
            (&[8.0, 1.0, 3.0, 8.0], 12, &[4.0, 1.0, 3.0, 4.0]),
        ] {
            let found = due(wanted, cores);
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{found:?}");
        }
    }

    #[test]
    fn a_program_that_uses_little_because_it_can_use_no_more_is_not_treated_unfairly() {
        assert_close(cpu_unfairness(&[user(2.0, 1.0), user(2.0, 1.0)], 2), 0.0);
        assert_close(cpu_unfairness(&[user(2.0, 1.5), user(2.0, 0.5)], 2), 1.0);
        assert_close(cpu_unfairness(&[user(2.0, 1.75), user(0.25, 0.25)], 2), 0.0);
        // A core is partly idle: the first program lacks processor time, although no other program uses that time.
        assert_close(cpu_unfairness(&[user(2.0, 0.875), user(0.25, 0.25)], 2), 0.5);
        assert_close(cpu_unfairness(&[user(2.0, 0.5), user(0.0, 0.0)], 2), 0.0);
    }

    #[test]
    fn unfairness_spans_any_number_of_programs() {
        let programs = [means(1.0, 1.0, 1.07), means(1.0, 1.0, 4.58), means(1.0, 1.0, 2.0)];
        assert_close(unfairness(&programs), 3.51);
    }

    #[test]
    fn the_ratios_of_mix_1_5_are_those_of_the_dws_paper() {
        // Section 4.1 of the paper: the ratios are 1.92 and 1.38 under ABP, and their difference is 0.54.
        let programs = [means(1.0, 2.0, 3.84), means(1.0, 5.0, 6.9)];
        assert_close(programs[0].slowdown_ratio(), 1.92);
        assert_close(programs[1].slowdown_ratio(), 1.38);
        assert_close(slowdown_ratio_difference(&programs), 0.54);
        assert_close(slowdown_ratio_difference(&[programs[1], programs[0]]), 0.54);
    }

    #[test]
    fn without_uncounted_rounds_and_with_its_own_baseline_a_ratio_is_one_more_than_the_slowdown() {
        let programs = [means(1.0, 2.0, 3.0), means(1.0, 4.0, 10.0), means(1.0, 1.0, 2.0)];
        for program in &programs {
            assert_close(program.slowdown_ratio(), 1.0 + program.slowdown());
        }
        assert_close(slowdown_ratio_difference(&programs), unfairness(&programs));
        assert_close(slowdown_ratio_difference(&programs), 1.0);
    }

    #[test]
    fn uncounted_rounds_and_a_baseline_move_the_ratio_and_not_the_slowdown() {
        let fixed = means(1.0, 2.0, 4.0);
        let program = Means { overlapped_s: 3.0, baseline_s: 1.5, ..fixed };
        assert_close(program.slowdown(), 1.0);
        assert_close(program.slowdown_ratio(), 2.0);
        assert_close(unfairness(&[fixed, program]), 0.0);
        assert_close(slowdown_ratio_difference(&[fixed, Means { overlapped_s: 3.0, ..fixed }]), 0.5);
    }

    #[test]
    fn switches_are_added_up_as_rates_however_long_the_rounds_are() {
        // 10 switches in half a second and 30 in two seconds: 20 and 15 per second.
        let programs =
            [Means { switches: 10.0, ..means(1.0, 1.0, 0.5) }, Means { switches: 30.0, ..means(1.0, 1.0, 2.0) }];
        assert_close(switches_per_s(&programs), 35.0);
    }

    #[test]
    fn variation_needs_two_times() {
        assert_eq!(variation(&[3.0]), None);
        assert_close(variation(&[2.0, 4.0]).unwrap(), 2.0_f64.sqrt() / 3.0);
        assert_close(mean(&[2.0, 4.0]), 3.0);
    }
}
