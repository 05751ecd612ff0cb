//! NPB EP: Gaussian pairs by the polar method, counted in square annuli.
//!
//! Source: D. Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, section 2.2.1; constants and reference sums
//! as in the NPB 3 codes. Each batch of 2¹⁶ pairs computes its own seed, so batches are independent until their
//! tallies are added. Deviation: the numbers of a batch are drawn and used in blocks that fit into a cache, whereas
//! the reference codes first draw all numbers of a batch.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::randlc::Randlc;
use crate::scaling::{Scaling, halved};
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "ep",
    summary: "NPB EP: Gaussian pairs by rejection, wide and evenly parallel",
    parameters: &[
        Parameter {
            key: "class",
            default: "S",
            help: "NPB problem class: S, W, A or B (2^24, 2^25, 2^28, 2^30 pairs)",
        },
        Parameter { key: "grain", default: "1", help: "batches of 65536 pairs in a leaf, 1 to 16384" },
    ],
    prepare: |parameters| {
        let (class, grain) = size(parameters)?;
        Ok(Box::new(Ep { class, grain }))
    },
    scaling: Ok(Scaling { keys: &["class"], rule: "class: width by the batches", extents }),
};

const SEED: u64 = 271_828_183;

/// The binary logarithm of the number of pairs in a batch: `MK` in the reference codes.
const BATCH_BITS: u32 = 16;

/// The number of annuli that are counted: `NQ` in the reference codes.
const ANNULI: usize = 10;

/// The maximum relative error of a sum.
const TOLERANCE: f64 = 1e-8;

/// Returns the class, and the number of batches in a leaf.
fn size(parameters: &Parameters) -> Result<(&'static Class, usize), ParameterError> {
    let class = &CLASSES[parameters.choice("class", &["S", "W", "A", "B"])?];
    Ok((class, parameters.number("grain", 1..=1 << (30 - BATCH_BITS))?))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (class, grain) = size(parameters)?;
    Ok(Scale { width: halved(class.batches(), grain) as f64, ..Scale::default() })
}

/// A problem class and its published results.
struct Class {
    name: &'static str,
    /// The binary logarithm of the number of pairs that are tried.
    pair_bits: u32,
    sum_x: f64,
    sum_y: f64,
    /// The number of pairs in each annulus. Their sum is the number of accepted pairs.
    counts: [u64; ANNULI],
}

impl Class {
    fn batches(&self) -> usize {
        1 << (self.pair_bits - BATCH_BITS)
    }
}

static CLASSES: [Class; 4] = [
    Class {
        name: "S",
        pair_bits: 24,
        sum_x: -3.247_834_652_034_74e3,
        sum_y: -6.958_407_078_382_297e3,
        counts: [6_140_517, 5_865_300, 1_100_361, 68_546, 1_648, 17, 0, 0, 0, 0],
    },
    Class {
        name: "W",
        pair_bits: 25,
        sum_x: -2.863_319_731_645_753e3,
        sum_y: -6.320_053_679_109_499e3,
        counts: [12_281_576, 11_729_692, 2_202_726, 137_368, 3_371, 36, 0, 0, 0, 0],
    },
    Class {
        name: "A",
        pair_bits: 28,
        sum_x: -4.295_875_165_629_892e3,
        sum_y: -1.580_732_573_678_431e4,
        counts: [98_257_395, 93_827_014, 17_611_549, 1_110_028, 26_536, 245, 0, 0, 0, 0],
    },
    Class {
        name: "B",
        pair_bits: 30,
        sum_x: 4.033_815_542_441_498e4,
        sum_y: -2.660_669_192_809_235e4,
        counts: [393_058_470, 375_280_898, 70_460_742, 4_438_852, 105_691, 948, 5, 0, 0, 0],
    },
];

struct Ep {
    class: &'static Class,
    grain: usize,
}

/// The sum over a set of batches.
#[derive(Clone, Debug, PartialEq)]
struct Tally {
    sum_x: f64,
    sum_y: f64,
    counts: [u64; ANNULI],
}

impl Tally {
    const EMPTY: Tally = Tally { sum_x: 0.0, sum_y: 0.0, counts: [0; ANNULI] };

    fn and(mut self, other: Tally) -> Tally {
        self.sum_x += other.sum_x;
        self.sum_y += other.sum_y;
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self
    }

    fn pairs(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Kernel for Ep {
    type Output = Tally;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Tally {
        fork_join.reduce_range(
            0..self.class.batches(),
            self.grain,
            &|leaf| leaf.map(batch).fold(Tally::EMPTY, Tally::and),
            &Tally::and,
        )
    }

    fn verify(&self, output: &Tally) -> Verdict {
        let class = self.class;
        let sums_hold = close(output.sum_x, class.sum_x) && close(output.sum_y, class.sum_y);
        let expected_pairs: u64 = class.counts.iter().sum();
        Verdict::new(
            sums_hold && output.counts == class.counts,
            format!(
                "class {}: sums {:.12e} {:.12e}, expected {:.12e} {:.12e}; {} pairs, expected {expected_pairs}; annuli \
                 {:?}",
                class.name,
                output.sum_x,
                output.sum_y,
                class.sum_x,
                class.sum_y,
                output.pairs(),
                output.counts
            ),
        )
    }
}

fn close(value: f64, expected: f64) -> bool {
    ((value - expected) / expected).abs() <= TOLERANCE
}

/// The number of pairs in a block. The pairs of a block fit into the first-level cache while they are tried, scaled
/// and tallied.
const BLOCK: usize = 256;

/// Tries the 2¹⁶ pairs of one batch.
///
/// The work is split into blocks so that no addition to a sum waits for a logarithm. With a single loop, one run in
/// ten took a third longer on a Sapphire Rapids: one thread ran the same instructions at half speed, and ran at full
/// speed while a profiler sampled it.
fn batch(index: usize) -> Tally {
    let mut numbers = Randlc::new(SEED).skip((index as u64) << (BATCH_BITS + 1));
    let mut tally = Tally::EMPTY;
    let mut accepted = [(0.0, 0.0, 0.0); BLOCK];
    for _ in 0..(1 << BATCH_BITS) / BLOCK {
        let mut len = 0;
        for _ in 0..BLOCK {
            let x = 2.0 * numbers.draw() - 1.0;
            let y = 2.0 * numbers.draw() - 1.0;
            let square: f64 = x * x + y * y;
            accepted[len] = (x, y, square);
            len += usize::from(square <= 1.0);
        }
        let accepted = &mut accepted[..len];
        for (_, _, square) in &mut *accepted {
            *square = (-2.0 * square.ln() / *square).sqrt();
        }
        for (x, y, scale) in accepted {
            let (x, y) = (*x * *scale, *y * *scale);
            tally.counts[x.abs().max(y.abs()) as usize] += 1;
            tally.sum_x += x;
            tally.sum_y += y;
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn a_grain_longer_than_the_range_changes_no_count() {
        let class = &CLASSES[0];
        let output = Ep { class, grain: 1 << 20 }.compute(Serial);
        assert_eq!(output.counts, class.counts);
        assert_eq!(output.pairs(), 13_176_389);
    }

    #[test]
    fn published_pair_totals_agree_with_the_annuli() {
        let totals = CLASSES.each_ref().map(|class| class.counts.iter().sum::<u64>());
        assert_eq!(totals, [13_176_389, 26_354_769, 210_832_767, 843_345_606]);
    }

    #[test]
    fn a_wrong_tally_is_refused() {
        let class = &CLASSES[0];
        let program = Ep { class, grain: 1 };
        let right = Tally { sum_x: class.sum_x, sum_y: class.sum_y, counts: class.counts };
        assert!(program.verify(&right).verified);
        assert!(!program.verify(&Tally { sum_x: class.sum_x * (1.0 + 1e-7), ..right.clone() }).verified);
        assert!(!program.verify(&Tally { sum_y: f64::NAN, ..right.clone() }).verified);
        let mut moved = right.clone();
        moved.counts[0] -= 1;
        moved.counts[1] += 1;
        assert!(!program.verify(&moved).verified, "the total alone is not enough");
    }
}
