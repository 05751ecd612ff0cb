//! The measures of a co-run, as formulas over seconds. Sources: Ding et al., EuroSys 2012, section 5.1 (slowdown,
//! unfairness, weighted speedup); the bound and the efficiency are this project's.

use statrs::statistics::Statistics;

/// One program's mean times.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// T_s, alone.
    pub solo_s: f64,
    /// T_1, alone with one worker on one core.
    pub one_core_s: f64,
    /// T_b, the baseline alone.
    pub baseline_s: f64,
    /// T_c, together.
    pub corun_s: f64,
}

impl Means {
    /// (T_c − T_s) / T_s: 0 is undisturbed, 1 takes twice as long.
    pub fn slowdown(&self) -> f64 {
        (self.corun_s - self.solo_s) / self.solo_s
    }
}

/// The mean of one or more times.
pub fn mean(times: &[f64]) -> f64 {
    times.mean()
}

/// The coefficient of variation: sample standard deviation over mean. `None` for a single time.
pub fn variation(times: &[f64]) -> Option<f64> {
    (times.len() > 1).then(|| times.std_dev() / times.mean())
}

/// The largest slowdown minus the smallest. For two programs, their difference, as in the paper.
pub fn unfairness(programs: &[Means]) -> f64 {
    let slowdowns: Vec<f64> = programs.iter().map(Means::slowdown).collect();
    Statistics::max(&slowdowns) - Statistics::min(&slowdowns)
}

/// ΣT_b/T_c: 1 is as good as one after the other.
pub fn weighted_speedup(programs: &[Means]) -> f64 {
    programs.iter().map(|program| program.baseline_s / program.corun_s).sum()
}

/// The weighted speedup of n programs if P cores did nothing but the programs' work T_1 and all programs were slowed
/// alike: from ΣT_1/T_c = P and T_c = s·T_b for all follows n/s = n·P / Σ(T_1/T_b).
pub fn bound(programs: &[Means], cores: usize) -> f64 {
    let shares: f64 = programs.iter().map(|program| program.one_core_s / program.baseline_s).sum();
    programs.len() as f64 * cores as f64 / shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(one_core_s: f64, solo_s: f64, corun_s: f64) -> Means {
        Means { solo_s, one_core_s, baseline_s: solo_s, corun_s }
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn the_papers_example_two_programs_slowed_by_100_percent() {
        let programs = [means(6.0, 3.0, 6.0), means(10.0, 5.0, 10.0)];
        assert_close(programs[0].slowdown(), 1.0);
        assert_close(unfairness(&programs), 0.0);
        assert_close(weighted_speedup(&programs), 1.0);
        // Both scale perfectly on two cores, so nothing better than one after the other exists.
        assert_close(bound(&programs, 2), 1.0);
    }

    #[test]
    fn a_program_that_does_not_scale_leaves_room_for_another() {
        // Serial work beside work that scales: 1 + 2 core seconds per second of baseline, on two cores.
        let programs = [means(1.0, 1.0, 1.5), means(2.0, 1.0, 1.5)];
        assert_close(bound(&programs, 2), 4.0 / 3.0);
        assert_close(weighted_speedup(&programs), 4.0 / 3.0);
    }

    #[test]
    fn a_baseline_changes_the_speedup_but_not_the_slowdown() {
        let program = Means { solo_s: 2.0, one_core_s: 4.0, baseline_s: 1.0, corun_s: 4.0 };
        assert_close(program.slowdown(), 1.0);
        assert_close(weighted_speedup(&[program, program]), 0.5);
        assert_close(bound(&[program, program], 2), 0.5);
    }

    #[test]
    fn unfairness_spans_any_number_of_programs() {
        let programs = [means(1.0, 1.0, 1.07), means(1.0, 1.0, 4.58), means(1.0, 1.0, 2.0)];
        assert_close(unfairness(&programs), 3.51);
    }

    #[test]
    fn variation_needs_two_times() {
        assert_eq!(variation(&[3.0]), None);
        assert_close(variation(&[2.0, 4.0]).unwrap(), 2.0_f64.sqrt() / 3.0);
        assert_close(mean(&[2.0, 4.0]), 3.0);
    }
}
