//! Gaussian elimination: a parallel phase per pivot over all rows below the pivot. Each phase is a bit shorter than
//! the phase before it.
//!
//! GE of the DWS paper (Table III, p-5, data-intensive), which the authors adapted from an OpenMP program that they
//! do not name. This is row-wise elimination as in Golub and Van Loan, "Matrix computations", chapter 3. For each
//! column, the pivot's row is subtracted from every row below it, so that a phase streams through the rest of the
//! matrix. Rows are not swapped, because the matrix is diagonally dominant, for which elimination without pivoting is
//! stable (Higham, "Accuracy and stability of numerical algorithms", chapter 9). [`mi`](super::mi) is the program
//! that searches for pivots. The remaining triangular system is solved serially, in a hundredth of the time.
//!
//! A leaf updates 32768 entries in 10 to 20 µs. A leaf has more rows if the rows are shorter. In small systems and in
//! the last phases, a phase is a single leaf.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::largest_difference;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "ge",
    summary: "Gaussian elimination of a dense system of f64, a phase per pivot (DWS paper, data-intensive)",
    parameters: &[
        Parameter { key: "class", default: "medium", help: "small, medium or paper (n = 512, 1024, 2048)" },
        Parameter { key: "n", default: "", help: "unknowns, 1 to 4096; empty: the class's number" },
        Parameter {
            key: "grain",
            default: "32768",
            help: "entries that one task updates, 1 to 16777216 (at least one row)",
        },
        Parameter { key: "seed", default: "1", help: "seed of the system, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "n"],
        rule: "n: phases by the pivots with more than one task, width by their tasks",
        extents,
    }),
};

/// The number of unknowns by class. The paper gives no size: the class paper takes about a second on one core.
const UNKNOWNS: [usize; 3] = [512, 1024, 2048];

const MOST_UNKNOWNS: usize = 4096;

/// The largest accepted entry of (A x - b) / n, where n is the number of unknowns and about the size of an entry of
/// b. Rounding causes less than a hundredth of it.
const TOLERANCE: f64 = 1e-13;

fn prepare(parameters: &Parameters) -> Result<Ge, ParameterError> {
    let (n, grain) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Ge { n, system: dominant_system(n, seed as u64), grain })
}

/// Returns the number of unknowns, and of entries per task.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    let n = parameters.number_or("n", parameters.class(&UNKNOWNS)?, 1..=MOST_UNKNOWNS)?;
    Ok((n, parameters.number("grain", 1..=MOST_UNKNOWNS * MOST_UNKNOWNS)?))
}

/// Returns the number of rows per task, if each row has `entries` remaining entries.
fn rows_per_leaf(entries: usize, grain: usize) -> usize {
    (grain / entries).max(1)
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, grain) = size(parameters)?;
    let tasks = (0..n).map(|column| (n - 1 - column).div_ceil(rows_per_leaf(n + 1 - column, grain)));
    let forked: Vec<usize> = tasks.filter(|tasks| *tasks > 1).collect();
    let phases = forked.len().max(1) as f64;
    let tasks = forked.iter().sum::<usize>().max(1) as f64;
    Ok(Scale { phases, width: tasks / phases, ..Scale::default() })
}

struct Ge {
    n: usize,
    /// The equations row by row, each with its right-hand side as the last entry.
    system: Vec<f64>,
    /// The number of entries per task.
    grain: usize,
}

impl Kernel for Ge {
    /// The unknowns.
    type Output = Vec<f64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<f64> {
        let mut system = fork_join.copy(&self.system);
        for column in 0..self.n {
            self.eliminate(fork_join, &mut system, column);
        }
        self.substitute_back(&system)
    }

    /// Inserts the solution into the system: every entry of A x - b must be within [`TOLERANCE`].
    fn verify(&self, output: &Vec<f64>) -> Verdict {
        let n = self.n;
        if output.len() != n {
            return Verdict::new(false, format!("{} unknowns, expected {n}", output.len()));
        }
        let (left, right): (Vec<f64>, Vec<f64>) =
            self.rows().map(|(entries, right)| (dot(entries, output), right)).unzip();
        let residual = largest_difference(&left, &right) / n as f64;
        Verdict::new(
            residual <= TOLERANCE,
            format!("{n} unknowns: largest entry of A x - b is {residual:.1e} n, allowed {TOLERANCE:.0e} n"),
        )
    }
}

impl Ge {
    fn width(&self) -> usize {
        self.n + 1
    }

    /// Clears the entries of `column` below its diagonal.
    fn eliminate<J: ForkJoin>(&self, fork_join: J, system: &mut [f64], column: usize) {
        let width = self.width();
        let (above, below) = system.split_at_mut((column + 1) * width);
        let pivot_row = &above[column * width + column..];
        let rows_per_leaf = rows_per_leaf(pivot_row.len(), self.grain);
        fork_join.for_chunks_mut(below, rows_per_leaf * width, &|_, rows| {
            for row in rows.chunks_exact_mut(width) {
                subtract_multiple(&mut row[column..], pivot_row);
            }
        });
    }

    /// Solves the triangular system that remains after the elimination.
    fn substitute_back(&self, system: &[f64]) -> Vec<f64> {
        let mut unknowns = vec![0.0; self.n];
        for (row, entries) in system.chunks_exact(self.width()).enumerate().rev() {
            let known = dot(&entries[row + 1..self.n], &unknowns[row + 1..]);
            unknowns[row] = (entries[self.n] - known) / entries[row];
        }
        unknowns
    }

    /// Returns the entries and the right-hand side of each equation.
    fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.system.chunks_exact(self.width()).map(|row| (&row[..self.n], row[self.n]))
    }
}

/// Subtracts the multiple of the pivot's row that clears the row's first entry.
fn subtract_multiple(row: &mut [f64], pivot_row: &[f64]) {
    let factor = row[0] / pivot_row[0];
    for (entry, pivot) in row.iter_mut().zip(pivot_row) {
        *entry -= factor * pivot;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns random entries from -1 to 1, and right-hand sides from -n to n. On the diagonal n is added, so that each
/// diagonal entry is larger than the rest of its row.
fn dominant_system(n: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    let mut system: Vec<f64> = (0..n * (n + 1)).map(|_| 2.0 * random.unit() - 1.0).collect();
    for (row, entries) in system.chunks_exact_mut(n + 1).enumerate() {
        entries[row] += if entries[row] < 0.0 { -(n as f64) } else { n as f64 };
        entries[n] *= n as f64;
    }
    system
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn program(n: usize, grain: usize) -> Ge {
        Ge { n, system: dominant_system(n, 7), grain }
    }

    #[test]
    fn every_size_and_grain_gives_the_same_verified_solution() {
        for n in [1, 2, 3, 17, 64, 150] {
            let serial = program(n, 1).compute(Serial);
            for grain in [1, 100, 1_000_000] {
                let program = program(n, grain);
                let solution = program.compute(OnRayon);
                assert!(program.verify(&solution).verified, "n={n}: {}", program.verify(&solution).detail);
                assert_eq!(solution, serial, "n={n}, grain={grain}");
            }
        }
    }

    #[test]
    fn a_known_system_has_its_solution() {
        let program = Ge { n: 2, system: vec![4.0, 1.0, 9.0, 2.0, 8.0, 12.0], grain: 1 };
        assert_eq!(program.compute(Serial), [2.0, 1.0]);
    }

    #[test]
    fn the_residual_stays_far_below_the_tolerance() {
        let program = program(500, 32_768);
        let solution = program.compute(OnRayon);
        for (entries, right) in program.rows() {
            assert!((dot(entries, &solution) - right).abs() < TOLERANCE * 500.0 / 10.0);
        }
    }

    #[test]
    fn a_wrong_unknown_and_a_missing_one_are_noticed() {
        let program = program(100, 1_000);
        let solution = program.compute(Serial);
        for wrong in [1e-10, f64::NAN, f64::INFINITY] {
            let mut solution = solution.clone();
            solution[57] += wrong;
            assert!(!program.verify(&solution).verified, "{wrong}");
        }
        assert!(!program.verify(&solution[1..].to_vec()).verified);
    }
}
