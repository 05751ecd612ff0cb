//! Merge sort of 64-bit keys with a parallel merge.
//!
//! Source: T. Cormen et al., *Introduction to Algorithms*, "Multithreaded merge sort" (P-MERGE), the program known as
//! cilksort. It is not in place: the two halves are sorted into the scratch space and merged back, so that the input
//! is copied only once, by the leaves. Deviation: leaves use the standard library's serial sort.
//!
//! This program is also Mergesort of the DWS paper (Table III, p-8, data-intensive), which sorts 4 million numbers.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::{Scaling, halved};
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "mergesort",
    summary: "merge sort of random 64-bit keys with a parallel merge: uneven joins (DWS paper, data-intensive)",
    parameters: &[
        Parameter {
            key: "class",
            default: "large",
            help: "small, medium, paper or large (10^5, 10^6, 4 x 10^6, 10^7 keys); paper: the size of the DWS paper",
        },
        Parameter {
            key: "n",
            default: "",
            help: "keys to sort, 0 to 10^11 (24 bytes of memory each); empty: the class's number",
        },
        Parameter { key: "grain", default: "4096", help: "keys that a leaf sorts or merges serially, 1 to 10^9" },
        Parameter { key: "seed", default: "1", help: "seed of the random keys" },
    ],
    prepare: |parameters| {
        let (n, grain) = size(parameters)?;
        let seed = parameters.number("seed", 0..=usize::MAX)? as u64;
        parameters.must_fit(24 * n as u64)?;
        Ok(Box::new(MergeSort { keys: random_keys(n, seed), grain }))
    },
    scaling: Ok(Scaling { keys: &["class", "n"], rule: "n: width by the leaves of all levels, serial by n", extents }),
};

/// The number of keys by class. The class large is the default, because `docs/results` has results for it.
const CLASSES: [usize; 4] = [100_000, 1_000_000, 4_000_000, 10_000_000];

/// Returns the number of keys, and of keys in a leaf.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    let class = CLASSES[parameters.choice("class", &["small", "medium", "paper", "large"])?];
    let n = parameters.number_or("n", class, 0..=100_000_000_000)?;
    Ok((n, parameters.number("grain", 1..=1_000_000_000)?))
}

/// Returns the number of leaves that sort and of leaves that merge.
fn leaves(n: usize, grain: usize) -> usize {
    if n <= grain { 1 } else { 2 * leaves(n / 2, grain) + halved(n, grain) }
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, grain) = size(parameters)?;
    Ok(Scale { width: leaves(n, grain) as f64, serial: n as f64, ..Scale::default() })
}

struct MergeSort {
    keys: Vec<u64>,
    grain: usize,
}

impl Kernel for MergeSort {
    type Output = Vec<u64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<u64> {
        // The system provides zeroed memory untouched, so that the first access to a page is in the parallel part.
        let mut sorted = vec![0; self.keys.len()];
        let mut scratch = vec![0; self.keys.len()];
        sort(fork_join, &self.keys, &mut sorted, &mut scratch, self.grain);
        sorted
    }

    fn verify(&self, output: &Vec<u64>) -> Verdict {
        let ordered = output.is_sorted();
        let same_keys = Fingerprint::of(output) == Fingerprint::of(&self.keys);
        Verdict::new(
            ordered && same_keys,
            format!(
                "{} keys {}in order, {} as a multiset as the {} of the input",
                output.len(),
                if ordered { "" } else { "not " },
                if same_keys { "the same" } else { "not the same" },
                self.keys.len()
            ),
        )
    }
}

/// Sorts `keys` into `target`. Both `target` and `scratch` have the length of `keys`.
fn sort<J: ForkJoin>(fork_join: J, keys: &[u64], target: &mut [u64], scratch: &mut [u64], grain: usize) {
    if keys.len() <= grain {
        target.copy_from_slice(keys);
        target.sort_unstable();
        return;
    }
    let middle = keys.len() / 2;
    let (left_keys, right_keys) = keys.split_at(middle);
    {
        let (left_target, right_target) = target.split_at_mut(middle);
        let (left_scratch, right_scratch) = scratch.split_at_mut(middle);
        fork_join.join(
            || sort(fork_join, left_keys, left_scratch, left_target, grain),
            || sort(fork_join, right_keys, right_scratch, right_target, grain),
        );
    }
    let (left, right) = scratch.split_at(middle);
    merge(fork_join, left, right, target, grain);
}

/// Merges two sorted slices into `target`, whose length is the sum of their lengths. The middle key of the longer
/// slice is put directly in its place, so that each half is strictly shorter for any keys.
fn merge<J: ForkJoin>(fork_join: J, a: &[u64], b: &[u64], target: &mut [u64], grain: usize) {
    if target.len() <= grain {
        merge_serially(a, b, target);
        return;
    }
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let middle = longer.len() / 2;
    let pivot = longer[middle];
    let (shorter_low, shorter_high) = shorter.split_at(shorter.partition_point(|key| *key < pivot));
    let (longer_low, longer_high) = (&longer[..middle], &longer[middle + 1..]);
    let (target_low, rest) = target.split_at_mut(longer_low.len() + shorter_low.len());
    let (target_pivot, target_high) = rest.split_first_mut().expect("the pivot has a place in the target");
    *target_pivot = pivot;
    fork_join.join(
        || merge(fork_join, longer_low, shorter_low, target_low, grain),
        || merge(fork_join, longer_high, shorter_high, target_high, grain),
    );
}

fn merge_serially(a: &[u64], b: &[u64], target: &mut [u64]) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        // The outcome of the comparison is unpredictable, so that selecting a value without a branch is cheaper than
        // mispredicted branches.
        let (from_a, from_b) = (a[i], b[j]);
        let takes_a = from_a <= from_b;
        target[i + j] = if takes_a { from_a } else { from_b };
        i += usize::from(takes_a);
        j += usize::from(!takes_a);
    }
    let (rest_a, rest_b) = target[i + j..].split_at_mut(a.len() - i);
    rest_a.copy_from_slice(&a[i..]);
    rest_b.copy_from_slice(&b[j..]);
}

/// A fingerprint of the keys of a slice in any order. Slices with different keys hardly ever have the same
/// fingerprint.
#[derive(PartialEq)]
struct Fingerprint {
    length: usize,
    sum: u64,
    xor: u64,
    mixed_sum: u64,
}

impl Fingerprint {
    fn of(keys: &[u64]) -> Fingerprint {
        let mut print = Fingerprint { length: keys.len(), sum: 0, xor: 0, mixed_sum: 0 };
        for key in keys {
            print.sum = print.sum.wrapping_add(*key);
            print.xor ^= key;
            print.mixed_sum = print.mixed_sum.wrapping_add(SplitMix::new(*key).next());
        }
        print
    }
}

fn random_keys(count: usize, seed: u64) -> Vec<u64> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| random.next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    fn assert_sorts(keys: Vec<u64>, grain: usize) {
        let mut expected = keys.clone();
        expected.sort_unstable();
        let program = MergeSort { keys, grain };
        let output = program.compute(Serial);
        assert_eq!(output, expected, "grain {grain}");
        assert!(program.verify(&output).verified);
    }

    #[test]
    fn agrees_with_the_standard_sort_on_short_inputs() {
        for n in [0, 1, 2, 3, 4, 5, 7, 8, 64, 1000] {
            for grain in [1, 2, 3, 10, 5000] {
                assert_sorts(random_keys(n, 7), grain);
            }
        }
    }

    #[test]
    fn equal_descending_and_few_distinct_keys_are_sorted() {
        for grain in [1, 16] {
            assert_sorts(vec![5; 300], grain);
            assert_sorts((0..300).rev().collect(), grain);
            assert_sorts(random_keys(300, 3).iter().map(|key| key % 4).collect(), grain);
            assert_sorts(vec![u64::MAX, 0, u64::MAX, 0, 1], grain);
        }
    }

    #[test]
    fn keys_depend_on_the_seed_alone() {
        assert_ne!(random_keys(10, 1), random_keys(10, 2));
        assert_eq!(random_keys(10, 1), random_keys(10, 1));
    }

    #[test]
    fn disorder_and_changed_keys_are_refused() {
        let program = MergeSort { keys: random_keys(100, 1), grain: 8 };
        let output = program.compute(Serial);
        assert!(program.verify(&output).verified);
        let mut swapped = output.clone();
        swapped.swap(3, 4);
        assert!(!program.verify(&swapped).verified);
        let mut repeated = output.clone();
        repeated[4] = repeated[3];
        assert!(!program.verify(&repeated).verified);
        assert!(!program.verify(&output[1..].to_vec()).verified);
    }
}
