//! Fast Fourier transform: a join of two half-size transforms, with linear passes before and after them.
//!
//! FFT of the DWS paper (Table III, p-1, compute-intensive), which takes it from MIT Cilk's examples. The method is
//! that of J. Cooley and J. Tukey, "An algorithm for the machine calculation of complex Fourier series" (Math. Comp.
//! 19, 1965), decimated in time. The points of even and of odd index are dealt into two halves, which are transformed
//! separately and combined by butterflies. Deviation: Cilk's program splits into up to 32 parts at a time, with
//! generated code for each number. This program splits into two parts at a time, which gives the same tree with more
//! levels and needs only a page of code.
//!
//! A leaf transforms 2048 points in about 20 µs, and a leaf of the linear passes takes 10 to 20 µs.

use std::f64::consts::{PI, TAU};

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::largest;
use crate::random::SplitMix;
use crate::scaling::{Scaling, forked};
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Serial, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "fft",
    summary: "fast Fourier transform of complex f64, halved recursively (DWS paper, compute-intensive; MIT Cilk)",
    parameters: &[
        Parameter { key: "class", default: "medium", help: "small, medium or paper (2^17, 2^20, 2^22 points)" },
        Parameter { key: "n", default: "", help: "points, a power of two up to 16777216; empty: the class's number" },
        Parameter {
            key: "grain",
            default: "2048",
            help: "points that a leaf transforms, 1 to 16777216; leaves of linear passes are four times as long",
        },
        Parameter { key: "seed", default: "1", help: "seed of the points, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling { keys: &["class", "n"], rule: "n: width by the leaves of all levels, serial by n", extents }),
};

/// The number of points by class. The paper gives no size. The classes medium and paper have the sizes of the
/// standard and the long benchmark of Cilk 5.4.6's example.
const POINTS: [usize; 3] = [1 << 17, 1 << 20, 1 << 22];

const MOST_POINTS: usize = 1 << 24;

/// The number of points in a leaf of a linear pass / the number of points in a leaf of the transform. A point costs
/// one butterfly in a linear pass, and one per level in the transform.
const LINEAR_POINTS_PER_POINT: usize = 4;

/// The number of bins of the spectrum that the check computes by definition.
const BINS: usize = 4;

/// The number of values between the bins that the check compares.
const BETWEEN: usize = 3;

/// The largest accepted error of a bin / √n, where n is the number of points and √n is about the size of a bin. For
/// 2²² points, rounding causes less than a tenth of it.
const BIN_TOLERANCE: f64 = 1e-12;

/// The largest accepted error of a value between the bins / n, where n is the number of points and about the size of
/// the value. Rounding causes less than a tenth of it.
const BETWEEN_TOLERANCE: f64 = 1e-12;

/// The real and the imaginary part. The type is an array because arrays of zeros are allocated without being touched.
type Complex = [f64; 2];

fn prepare(parameters: &Parameters) -> Result<Fft, ParameterError> {
    let (n, grain) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Fft::random(n, grain, seed as u64))
}

/// Returns the number of points, and of points in a leaf.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    let n = parameters.number_or("n", parameters.class(&POINTS)?, 1..=MOST_POINTS)?;
    if !n.is_power_of_two() {
        return Err(ParameterError::new(format!("fft: n={n} is not a power of two")));
    }
    Ok((n, parameters.number("grain", 1..=MOST_POINTS)?))
}

/// Returns the number of pairs that a leaf of a linear pass deals or combines.
fn linear_leaf(grain: usize) -> usize {
    grain * LINEAR_POINTS_PER_POINT / 2
}

/// Returns the number of leaves of the transform and of the linear passes together.
fn leaves(n: usize, grain: usize) -> usize {
    if n <= grain { 1 } else { 2 * leaves(n / 2, grain) + 2 * forked(n / 2, linear_leaf(grain)) }
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, grain) = size(parameters)?;
    Ok(Scale { width: leaves(n, grain) as f64, serial: n as f64, ..Scale::default() })
}

struct Fft {
    points: Vec<Complex>,
    /// The first m/2 powers of e^(-2πi/m), for each power of two m up to the number of points.
    roots: Vec<Vec<Complex>>,
    /// The number of points per leaf.
    grain: usize,
    /// The indices of the checked bins, with their expected values.
    bins: Vec<(usize, Complex)>,
    /// Indices j, with the expected values of the spectrum at j + 1/2: see [`between_by_points`].
    between: Vec<(usize, Complex)>,
}

impl Fft {
    /// Returns a program whose points have random real and imaginary parts from -1 to 1.
    fn random(n: usize, grain: usize, seed: u64) -> Fft {
        let mut random = SplitMix::new(seed);
        let mut part = || 2.0 * random.unit() - 1.0;
        let points: Vec<Complex> = (0..n).map(|_| [part(), part()]).collect();
        let roots = (0..=n.trailing_zeros())
            .map(|level| (0..(1 << level) / 2).map(|power| root_of_unity(power, 1 << level)).collect())
            .collect();
        let mut place = || random.below(n as u64) as usize;
        let bins = [0, n / 2].into_iter().chain((2..BINS).map(|_| place()));
        let bins = bins.map(|bin| (bin, bin_by_definition(&points, bin))).collect();
        let between = (0..BETWEEN).map(|_| place()).map(|bin| (bin, between_by_points(&points, bin))).collect();
        Fft { points, roots, grain, bins, between }
    }

    /// Writes the transform of `input` to `output`, and overwrites `input`.
    fn transform<J: ForkJoin>(&self, fork_join: J, input: &mut [Complex], output: &mut [Complex]) {
        if output.len() <= self.grain {
            self.transform_serially(input, output);
            return;
        }
        let (half, leaf) = (output.len() / 2, linear_leaf(self.grain));
        // The halves are dealt into the output, and transformed back into the input.
        let (even, odd) = output.split_at_mut(half);
        deal(fork_join, input, even, odd, leaf);
        let (even_spectrum, odd_spectrum) = input.split_at_mut(half);
        fork_join
            .join(|| self.transform(fork_join, even, even_spectrum), || self.transform(fork_join, odd, odd_spectrum));
        combine(fork_join, self.roots_for(2 * half), (even_spectrum, odd_spectrum), (even, odd), leaf);
    }

    fn transform_serially(&self, input: &[Complex], output: &mut [Complex]) {
        let bits = output.len().trailing_zeros();
        for (index, point) in output.iter_mut().enumerate() {
            // Dealing at every level would bring the point with the reversed index to this place. A single point has
            // no bits to reverse.
            let reversed = index.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
            *point = input[reversed];
        }
        for level in 1..=bits {
            let roots = self.roots_for(1 << level);
            for block in output.chunks_exact_mut(1 << level) {
                let (low, high) = block.split_at_mut(roots.len());
                for ((low, high), root) in low.iter_mut().zip(high).zip(roots) {
                    (*low, *high) = butterfly(*low, *high, *root);
                }
            }
        }
    }

    fn roots_for(&self, n: usize) -> &[Complex] {
        &self.roots[n.trailing_zeros() as usize]
    }
}

/// Deals the points to `even` and `odd` alternately, at most `leaf` pairs at a time.
fn deal<J: ForkJoin>(fork_join: J, points: &[Complex], even: &mut [Complex], odd: &mut [Complex], leaf: usize) {
    if even.len() <= leaf.max(1) {
        for (pair, (even, odd)) in points.chunks_exact(2).zip(even.iter_mut().zip(odd)) {
            (*even, *odd) = (pair[0], pair[1]);
        }
        return;
    }
    let middle = even.len() / 2;
    let (left, right) = points.split_at(2 * middle);
    let (even_left, even_right) = even.split_at_mut(middle);
    let (odd_left, odd_right) = odd.split_at_mut(middle);
    fork_join.join(
        || deal(fork_join, left, even_left, odd_left, leaf),
        || deal(fork_join, right, even_right, odd_right, leaf),
    );
}

/// Combines the spectra of the even and of the odd points into the lower and the upper half of the whole spectrum, at
/// most `leaf` butterflies at a time.
fn combine<J: ForkJoin>(
    fork_join: J,
    roots: &[Complex],
    (even, odd): (&[Complex], &[Complex]),
    (low, high): (&mut [Complex], &mut [Complex]),
    leaf: usize,
) {
    if roots.len() <= leaf.max(1) {
        let parts = even.iter().zip(odd).zip(roots);
        for ((low, high), ((even, odd), root)) in low.iter_mut().zip(high).zip(parts) {
            (*low, *high) = butterfly(*even, *odd, *root);
        }
        return;
    }
    let middle = roots.len() / 2;
    let (roots_left, roots_right) = roots.split_at(middle);
    let ((even_left, even_right), (odd_left, odd_right)) = (even.split_at(middle), odd.split_at(middle));
    let (low_left, low_right) = low.split_at_mut(middle);
    let (high_left, high_right) = high.split_at_mut(middle);
    fork_join.join(
        || combine(fork_join, roots_left, (even_left, odd_left), (low_left, high_left), leaf),
        || combine(fork_join, roots_right, (even_right, odd_right), (low_right, high_right), leaf),
    );
}

#[inline]
fn butterfly(even: Complex, odd: Complex, root: Complex) -> (Complex, Complex) {
    let turned = times(root, odd);
    (plus(even, turned), [even[0] - turned[0], even[1] - turned[1]])
}

#[inline]
fn plus(a: Complex, b: Complex) -> Complex {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline]
fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Returns e^(-2πi `power`/`n`).
fn root_of_unity(power: usize, n: usize) -> Complex {
    let (sine, cosine) = (TAU * (power % n) as f64 / n as f64).sin_cos();
    [cosine, -sine]
}

/// Returns the sum of all terms. It adds pairwise, so that the rounding error does not grow with the number of terms.
fn sum(terms: usize, term: impl Fn(usize) -> Complex + Sync) -> Complex {
    Serial.reduce_range(0..terms, 32, &|part| part.map(&term).fold([0.0; 2], plus), &plus)
}

/// Returns a bin of the spectrum by its definition.
fn bin_by_definition(points: &[Complex], bin: usize) -> Complex {
    let n = points.len();
    sum(n, |index| times(points[index], root_of_unity(index * bin, n)))
}

/// Returns the value at the place `bin` + 1/2, computed from the bins: the sum of all bins X_k times z^k with z =
/// e^(2πi (`bin` + 1/2)/n). Each bin has the same weight in the sum, so that one wrong bin is visible.
fn between_by_bins(bins: &[Complex], bin: usize) -> Complex {
    const PART: usize = 32;
    let n = bins.len();
    // The number z is a root of unity of order 2n, with a negative exponent.
    let power = |exponent: usize| root_of_unity(2 * n - exponent * (2 * bin + 1) % (2 * n), 2 * n);
    let z = power(1);
    // Horner's rule is applied to a part at a time. A sine and a cosine per bin would take longer than the transform.
    let horner = |bins: &[Complex]| bins.iter().rev().fold([0.0; 2], |sum, bin| plus(times(sum, z), *bin));
    let part = |part: usize| times(horner(&bins[part * PART..n.min((part + 1) * PART)]), power(part * PART));
    sum(n.div_ceil(PART), part)
}

/// Returns the value at the place `bin` + 1/2, computed from the points x_j. If the definition of the bins is
/// inserted, the sum over k is a geometric series. The result is the sum of all x_j (1 + i cot(π (`bin` + 1/2 -
/// j)/n)).
fn between_by_points(points: &[Complex], bin: usize) -> Complex {
    let n = points.len();
    sum(n, |index| {
        // The weights repeat after n points, and are most exact close to their pole.
        let away = (bin + n - index) % n;
        let away = if 2 * away < n { away as f64 } else { away as f64 - n as f64 };
        times(points[index], [1.0, 1.0 / (PI * (away + 0.5) / n as f64).tan()])
    })
}

/// Returns the distance of two numbers. NaN if one of their parts is NaN.
fn distance(a: Complex, b: Complex) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

impl Kernel for Fft {
    /// The spectrum: bin k is the sum of all points x_j e^(-2πi jk/n).
    type Output = Vec<Complex>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<Complex> {
        let mut input = fork_join.copy(&self.points);
        let mut output = vec![[0.0; 2]; input.len()];
        self.transform(fork_join, &mut input, &mut output);
        output
    }

    /// Compares some bins with their definition, and values between the bins at random places with values that follow
    /// from the points alone. This is as reliable as an inverse transform, takes linear time, and does not use the
    /// checked code.
    fn verify(&self, output: &Vec<Complex>) -> Verdict {
        let n = self.points.len();
        if output.len() != n {
            return Verdict::new(false, format!("{} bins, expected {n}", output.len()));
        }
        let bins = self.bins.iter().map(|(bin, expected)| distance(output[*bin], *expected));
        let between = self.between.iter().map(|(bin, expected)| distance(between_by_bins(output, *bin), *expected));
        let (bins, between) = (largest(bins) / (n as f64).sqrt(), largest(between) / n as f64);
        Verdict::new(
            bins <= BIN_TOLERANCE && between <= BETWEEN_TOLERANCE,
            format!(
                "{n} points: largest error of {} bins {bins:.1e}, allowed {BIN_TOLERANCE:.0e}; of the spectrum at \
                 {} places between bins {between:.1e}, allowed {BETWEEN_TOLERANCE:.0e}",
                self.bins.len(),
                self.between.len()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnRayon;

    #[test]
    fn every_size_and_grain_gives_the_same_verified_spectrum() {
        for n in [1, 2, 4, 8, 512, 4096] {
            let serial = Fft::random(n, 1, 7).compute(Serial);
            for grain in [1, 2, 3, 64, MOST_POINTS] {
                let program = Fft::random(n, grain, 7);
                let output = program.compute(OnRayon);
                assert!(program.verify(&output).verified, "n={n}, grain={grain}: {}", program.verify(&output).detail);
                assert_eq!(output, serial, "n={n}, grain={grain}");
            }
        }
    }

    #[test]
    fn every_bin_is_that_of_the_definition() {
        let program = Fft::random(64, 8, 3);
        for (bin, found) in program.compute(Serial).iter().enumerate() {
            assert!(distance(*found, bin_by_definition(&program.points, bin)) < 1e-13, "{bin}");
        }
    }

    #[test]
    fn the_inverse_is_the_transform_read_backwards() {
        let mut program = Fft::random(1 << 10, 64, 5);
        let points = program.points.clone();
        program.points = program.compute(Serial);
        let back = program.compute(Serial);
        for (index, point) in points.iter().enumerate() {
            let found = back[(points.len() - index) % points.len()].map(|part| part / points.len() as f64);
            assert!(distance(found, *point) < 1e-14, "{index}");
        }
    }

    #[test]
    fn rounding_stays_far_below_the_tolerances() {
        let program = Fft::random(1 << 18, 2048, 1);
        let output = program.compute(OnRayon);
        let n = output.len() as f64;
        for (bin, expected) in &program.bins {
            assert!(distance(output[*bin], *expected) < BIN_TOLERANCE * n.sqrt() / 10.0);
        }
        for (bin, expected) in &program.between {
            assert!(distance(between_by_bins(&output, *bin), *expected) < BETWEEN_TOLERANCE * n / 10.0);
        }
    }

    #[test]
    fn any_wrong_bin_swapped_bins_and_a_missing_one_are_noticed() {
        let program = Fft::random(1 << 12, 64, 2);
        let output = program.compute(Serial);
        assert!(program.verify(&output).verified);
        for bin in [0, 1, 1234, 4095] {
            for wrong in [1e-7, f64::NAN, f64::INFINITY] {
                let mut output = output.clone();
                output[bin][1] += wrong;
                assert!(!program.verify(&output).verified, "{bin}, {wrong}");
            }
        }
        let mut swapped = output.clone();
        swapped.swap(100, 3000);
        assert!(!program.verify(&swapped).verified);
        assert!(!program.verify(&output[1..].to_vec()).verified);
        assert!(!program.verify(&vec![[0.0; 2]; 1 << 12]).verified);
    }

    #[test]
    fn only_powers_of_two_are_taken() {
        let error = crate::catalog::prepare("fft:n=1000").err().unwrap().to_string();
        assert_eq!(error, "fft: n=1000 is not a power of two");
    }
}
