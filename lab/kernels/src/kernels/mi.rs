//! Matrix inversion: hundreds of short parallel phases with a serial step between them, so that workers often run out
//! of work and find it again.
//!
//! MI of the BWS paper (section 5.1: 500 x 500). The paper does not name its method. This is Gauss-Jordan elimination
//! in place with partial pivoting (Golub and Van Loan, "Matrix computations"; Press et al., "Numerical recipes",
//! section 2.1). For each column, the pivot is found and its row is scaled serially. Then all other rows are reduced
//! in parallel.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "mi",
    summary: "inverse of a dense matrix of f64 by Gauss-Jordan elimination with partial pivoting (BWS paper: n = 500)",
    parameters: &[
        Parameter { key: "n", default: "800", help: "rows and columns of the matrix, 1 to 2000" },
        Parameter { key: "grain", default: "16", help: "rows that one task reduces, 1 to 2000" },
        Parameter { key: "seed", default: "1", help: "seed of the matrix, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling { keys: &["n"], rule: "n: repeats, width by the tasks of n rows, length and serial", extents }),
};

/// The largest accepted entry of A A^-1 - I. The generated matrices are so well conditioned that rounding causes less
/// than a hundredth of it for any allowed n. A wrong row causes about 1.
const TOLERANCE: f64 = 1e-10;

fn prepare(parameters: &Parameters) -> Result<Mi, ParameterError> {
    let (n, grain) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Mi { n, matrix: well_conditioned(n, seed as u64), grain })
}

/// Returns the number of rows, and of rows per task.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    Ok((parameters.number("n", 1..=2_000)?, parameters.number("grain", 1..=2_000)?))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (rows, grain) = size(parameters)?;
    let (n, tasks) = (rows as f64, rows.div_ceil(grain) as f64);
    Ok(Scale { repeats: n, width: tasks, length: n * n / tasks, serial: n, ..Scale::default() })
}

struct Mi {
    n: usize,
    /// The entries row by row.
    matrix: Vec<f64>,
    /// The number of rows per task.
    grain: usize,
}

/// An error: the matrix has no inverse, because column `column` has no pivot.
#[derive(Debug, PartialEq, Eq)]
struct Singular {
    column: usize,
}

impl Kernel for Mi {
    type Output = Result<Vec<f64>, Singular>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Result<Vec<f64>, Singular> {
        let n = self.n;
        let mut matrix = self.matrix.clone();
        let mut pivot_row = vec![0.0; n];
        let mut swaps = Vec::with_capacity(n);
        for column in 0..n {
            let pivot = largest_below(&matrix, n, column)?;
            swap_rows(&mut matrix, n, column, pivot);
            swaps.push(pivot);
            scale_pivot_row(&mut matrix[column * n..(column + 1) * n], column);
            pivot_row.copy_from_slice(&matrix[column * n..(column + 1) * n]);
            fork_join.for_chunks_mut(&mut matrix, self.grain * n, &|chunk, rows| {
                for (row, entries) in (chunk * self.grain..).zip(rows.chunks_exact_mut(n)) {
                    if row != column {
                        reduce_row(entries, &pivot_row, column);
                    }
                }
            });
        }
        undo_swaps(fork_join, &mut matrix, n, self.grain, &swaps);
        Ok(matrix)
    }

    /// Multiplies the matrix by its inverse: every entry of A A^-1 - I must be below [`TOLERANCE`].
    fn verify(&self, output: &Result<Vec<f64>, Singular>) -> Verdict {
        let inverse = match output {
            Ok(inverse) if inverse.len() == self.matrix.len() => inverse,
            Ok(inverse) => {
                return Verdict::new(false, format!("{} entries, expected {}", inverse.len(), self.matrix.len()));
            }
            Err(Singular { column }) => {
                return Verdict::new(false, format!("column {column} has no pivot: the matrix is singular"));
            }
        };
        let residual = residual(&self.matrix, inverse, self.n);
        Verdict::new(
            residual <= TOLERANCE,
            format!("{n} x {n}: largest entry of A A^-1 - I is {residual:.1e}, allowed {TOLERANCE:.0e}", n = self.n),
        )
    }
}

/// Returns the row, from row `column` down, whose entry in column `column` has the largest magnitude.
fn largest_below(matrix: &[f64], n: usize, column: usize) -> Result<usize, Singular> {
    let mut best = column;
    for row in column + 1..n {
        if matrix[row * n + column].abs() > matrix[best * n + column].abs() {
            best = row;
        }
    }
    let pivot = matrix[best * n + column];
    if pivot == 0.0 || !pivot.is_finite() {
        return Err(Singular { column });
    }
    Ok(best)
}

fn swap_rows(matrix: &mut [f64], n: usize, upper: usize, lower: usize) {
    if upper != lower {
        let (above, below) = matrix.split_at_mut(lower * n);
        above[upper * n..(upper + 1) * n].swap_with_slice(&mut below[..n]);
    }
}

/// Divides the row by its pivot. Column `column` of the matrix is not needed after its reduction, so its place takes
/// the column of the inverse.
fn scale_pivot_row(row: &mut [f64], column: usize) {
    let scale = 1.0 / row[column];
    row[column] = 1.0;
    for entry in row {
        *entry *= scale;
    }
}

/// Subtracts the multiple of the pivot row that clears the row's entry in `column`. The entry's place takes the entry
/// of the inverse.
fn reduce_row(row: &mut [f64], pivot_row: &[f64], column: usize) {
    let factor = row[column];
    row[column] = 0.0;
    for (entry, pivot) in row.iter_mut().zip(pivot_row) {
        *entry -= factor * pivot;
    }
}

/// Swaps the columns of the inverse that correspond to swapped rows of the matrix, from the last swap to the first
/// swap.
fn undo_swaps<J: ForkJoin>(fork_join: J, matrix: &mut [f64], n: usize, grain: usize, swaps: &[usize]) {
    fork_join.for_chunks_mut(matrix, grain * n, &|_, rows| {
        for row in rows.chunks_exact_mut(n) {
            for (column, &pivot) in swaps.iter().enumerate().rev() {
                row.swap(column, pivot);
            }
        }
    });
}

/// Returns the largest entry of A B - I in magnitude, or NaN if there is a NaN.
fn residual(a: &[f64], b: &[f64], n: usize) -> f64 {
    let mut worst = 0.0;
    let mut product = vec![0.0; n];
    for (row, a_row) in a.chunks_exact(n).enumerate() {
        product.fill(0.0);
        product[row] = -1.0;
        for (a, b_row) in a_row.iter().zip(b.chunks_exact(n)) {
            for (sum, b) in product.iter_mut().zip(b_row) {
                *sum += a * b;
            }
        }
        for entry in &product {
            if entry.abs() > worst || entry.is_nan() {
                worst = entry.abs();
            }
        }
    }
    worst
}

/// Returns random entries from -1 to 1, with one entry of at least n in each row and column at random places. This
/// entry is larger than the rest of its row and column together, so that the matrix is not singular. It is rarely on
/// the diagonal, so that rows must be swapped.
fn well_conditioned(n: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    let mut matrix: Vec<f64> = (0..n * n).map(|_| 2.0 * random.unit() - 1.0).collect();
    let mut large_in: Vec<usize> = (0..n).collect();
    for row in (1..n).rev() {
        large_in.swap(row, random.below(row as u64 + 1) as usize);
    }
    for (row, &column) in large_in.iter().enumerate() {
        let entry = &mut matrix[row * n + column];
        *entry += if *entry < 0.0 { -(n as f64) } else { n as f64 };
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn program(n: usize, grain: usize) -> Mi {
        Mi { n, matrix: well_conditioned(n, 7), grain }
    }

    #[test]
    fn small_matrices_and_every_grain_are_inverted() {
        for n in [1, 2, 3, 17, 64] {
            for grain in [1, 5, 2_000] {
                let program = program(n, grain);
                let inverse = program.compute(Serial);
                assert!(program.verify(&inverse).verified, "n={n}, grain={grain}");
                assert_eq!(program.compute(OnRayon), inverse);
            }
        }
    }

    #[test]
    fn the_residual_stays_far_below_the_tolerance() {
        let program = program(400, 16);
        assert!(residual(&program.matrix, &program.compute(OnRayon).unwrap(), 400) < TOLERANCE / 100.0);
    }

    #[test]
    fn a_zero_on_the_diagonal_needs_and_gets_a_swap() {
        let program = Mi { n: 2, matrix: vec![0.0, 2.0, 4.0, 0.0], grain: 1 };
        assert_eq!(program.compute(Serial), Ok(vec![0.0, 0.25, 0.5, 0.0]));
    }

    #[test]
    fn a_singular_matrix_is_a_verdict_and_not_a_panic() {
        let program = Mi { n: 2, matrix: vec![1.0, 2.0, 2.0, 4.0], grain: 1 };
        assert_eq!(program.compute(Serial), Err(Singular { column: 1 }));
        let verdict = program.verify(&program.compute(Serial));
        assert!(!verdict.verified && verdict.detail.contains("column 1"));
    }

    #[test]
    fn a_wrong_entry_and_a_missing_one_are_noticed() {
        let program = program(20, 4);
        let inverse = program.compute(Serial).unwrap();
        for wrong in [1e-8, f64::NAN, f64::INFINITY] {
            let mut output = inverse.clone();
            output[123] += wrong;
            assert!(!program.verify(&Ok(output)).verified);
        }
        assert!(!program.verify(&Ok(inverse[1..].to_vec())).verified);
    }
}
