//! The weights of nice values.

use crate::census::Stat;

/// The kernel's weights of a thread for the nice values −20 to 19: `sched_prio_to_weight` of `kernel/sched/core.c`.
/// Each weight is about 1.25 times the weight of the next nice value.
const WEIGHTS: [u32; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620, 6_100, 4_904, 3_906,
    3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// The index of nice value 0.
const NOT_NICE: usize = 20;

/// Returns the weight of a nice value, in thousandths of the weight of nice 0. Values outside −20 to 19 are clamped.
pub fn milli_of(nice: i32) -> u32 {
    let nth = usize::try_from(nice.saturating_add(NOT_NICE as i32)).unwrap_or(0).min(WEIGHTS.len() - 1);
    u32::try_from(u64::from(WEIGHTS[nth]) * 1000 / u64::from(WEIGHTS[NOT_NICE])).unwrap_or(u32::MAX)
}

/// Returns the weight of a process, in thousandths of the weight of nice 0. A process of `SCHED_IDLE` has weight 0.
pub fn milli_of_process(stat: &Stat) -> u32 {
    if stat.is_idle_class { 0 } else { milli_of(stat.nice) }
}

/// Returns the default weight of a process: `usual × nice weight × group weight`, at least 1. The nice weight is 1 at
/// nice 0. `group_milli` is the weight of the process's task group, in thousandths of the default weight of a group.
pub fn weight_of(usual: u32, stat: &Stat, group_milli: u32) -> u32 {
    let millionths = u64::from(milli_of_process(stat)) * u64::from(group_milli);
    u32::try_from((u64::from(usual) * millionths + 500_000) / 1_000_000).map_or(u32::MAX, |weight| weight.max(1))
}

/// Returns the nice value, 0 to 19, whose weight is nearest to `milli` thousandths of the weight of nice 0. The
/// distance of two weights is their quotient.
pub fn nice_for(milli: u32) -> i32 {
    let quotient = |nice: &i32| {
        let (one, other) = (f64::from(milli_of(*nice)), f64::from(milli.max(1)));
        (one / other).max(other / one)
    };
    (0..=19).min_by(|one, other| quotient(one).total_cmp(&quotient(other))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_value_counts_as_the_kernel_has_it() {
        assert_eq!([-20, -1, 0, 1, 19].map(milli_of), [86_680, 1_247, 1_000, 800, 14]);
        assert_eq!([i32::MIN, i32::MAX].map(milli_of), [86_680, 14]);
    }

    #[test]
    fn as_little_as_a_weight_says_is_as_nice() {
        assert_eq!([0, 1, 14, 100, 500, 999, 1_000, 9_000].map(nice_for), [19, 19, 19, 10, 3, 0, 0, 0]);
        (0..=19).for_each(|nice| assert_eq!(nice_for(milli_of(nice)), nice));
    }
}
