//! The cost of measuring.

use std::hint::black_box;

use comity_graph::About;
use comity_os::stopwatch::Stopwatch;

use crate::session::{fork_join, in_quiet, record};

/// The costs of measuring, which a recorder subtracts from the measured lengths.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The measured length of a stretch that does nothing, in ns.
    pub clock_ns: u64,
    /// The cost, in ns, of a join that is only counted, without reading the clock.
    pub quiet_ns: f64,
}

impl Costs {
    /// Measures the costs. Takes some milliseconds.
    pub fn calibrated() -> Costs {
        Costs { clock_ns: clock_ns(), quiet_ns: quiet_ns() }
    }
}

/// The depth of the binary trees of joins with which the costs are measured.
const LEVELS: u32 = 12;

fn serially<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    (a(), b())
}

/// Runs a tree of joins that do nothing.
macro_rules! tree {
    ($join:path) => {{
        fn tree(levels: u32) -> u64 {
            if levels == 0 {
                return black_box(1);
            }
            let (left, right) = $join(|| tree(levels - 1), || tree(levels - 1));
            left + right
        }
        tree(LEVELS)
    }};
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the mean measured length, in ns, of a stretch of a tree of empty joins.
fn clock_ns() -> u64 {
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let stretches = 3 * ((1u64 << LEVELS) - 1) + 1;
    let each = (0..21).map(|_| {
        let (_, graph) = record(u64::MAX, nothing, About::default(), || tree!(fork_join));
        graph.map_or(0.0, |graph| graph.measure(0).work as f64 / stretches as f64)
    });
    median(each.collect()).round() as u64
}

/// Returns how much longer a tree of empty joins takes in a quiet fork than with serial calls, in ns per join.
fn quiet_ns() -> f64 {
    let time = |body: &dyn Fn() -> u64| {
        let mut watch = Stopwatch::start();
        let began = watch.now();
        black_box(body());
        watch.now() - began
    };
    let each = (0..101).map(|_| {
        let serial = time(&|| tree!(serially));
        let quiet = in_quiet(|| time(&|| tree!(fork_join)));
        (quiet as f64 - serial as f64) / f64::from((1 << LEVELS) - 1)
    });
    median(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_costs_something() {
        let costs = Costs::calibrated();
        assert!((1..10_000).contains(&costs.clock_ns) && costs.quiet_ns.is_finite(), "{costs:?}");
    }
}
