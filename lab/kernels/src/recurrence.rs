//! Work of a known length with a known result: a recurrence whose steps can be done one by one or all at once.

use std::hint::black_box;

/// The step x ← `factor`·x + `addend` mod 2⁶⁴. Each step depends on the previous step and accesses no memory, so that
/// its time does not depend on the memory accesses of other cores.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    factor: u64,
    addend: u64,
}

impl Step {
    /// The step of Knuth's MMIX generator.
    pub(crate) const ONE: Step = Step { factor: 6_364_136_223_846_793_005, addend: 1_442_695_040_888_963_407 };

    const NONE: Step = Step { factor: 1, addend: 0 };

    pub(crate) fn apply(self, value: u64) -> u64 {
        value.wrapping_mul(self.factor).wrapping_add(self.addend)
    }

    /// Returns a single step with the effect of this step followed by `next`.
    fn then(self, next: Step) -> Step {
        Step { factor: self.factor.wrapping_mul(next.factor), addend: next.apply(self.addend) }
    }

    /// Returns a single step with the effect of `count` of these steps, in O(log `count`).
    pub(crate) fn repeated(self, mut count: u64) -> Step {
        let (mut power, mut total) = (self, Step::NONE);
        while count > 0 {
            if count & 1 == 1 {
                total = total.then(power);
            }
            power = power.then(power);
            count >>= 1;
        }
        total
    }
}

/// Does `spins` steps one by one from `start`, about 1 ns each.
pub(crate) fn spin(start: u64, spins: u64) -> u64 {
    // A compiler that knows the step could merge several steps into one, as `repeated` does.
    let step = black_box(Step::ONE);
    let mut value = start;
    for _ in 0..spins {
        value = step.apply(value);
    }
    black_box(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaping_is_stepping() {
        for spins in [0, 1, 2, 3, 1000, 12_345] {
            assert_eq!(spin(7, spins), Step::ONE.repeated(spins).apply(7), "{spins}");
        }
    }
}
