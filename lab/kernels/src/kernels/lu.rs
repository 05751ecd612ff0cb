//! LU decomposition by recursive quarters: joins of very different sizes, most of them in one large product.
//!
//! LU of the DWS paper (Table III, p-4, compute-intensive), which takes it from MIT Cilk's examples. The matrix is
//! split into quarters. The upper left quarter is decomposed, and the upper right and the lower left quarters are
//! solved for in parallel. Their product is subtracted from the lower right quarter, which is then decomposed. Like
//! Cilk's program, it does not pivot. The matrix is diagonally dominant, for which elimination without pivoting is
//! stable (Higham, "Accuracy and stability of numerical algorithms", chapter 9). Each quarter is contiguous in
//! memory, down to square tiles, so that no two tasks share memory. Deviation: quarters need not be equal, so that
//! the number of tiles need not be a power of two.
//!
//! A leaf is one operation on tiles of 64 x 64 entries: 20 to 50 µs.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::largest_difference;
use crate::fork_join::COPY_GRAIN;
use crate::random::SplitMix;
use crate::scaling::{Scaling, quarters_on_path};
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "lu",
    summary: "LU decomposition of a dense matrix of f64 by recursive quarters (DWS paper, compute-intensive; MIT Cilk)",
    parameters: &[
        Parameter { key: "class", default: "medium", help: "small, medium or paper (n = 512, 1024, 2048)" },
        Parameter { key: "n", default: "", help: "rows and columns, 1 to 4096; empty: the class's number" },
        Parameter {
            key: "grain",
            default: "64",
            help: "rows and columns of a tile, 1 to 1024; n is rounded up to a multiple",
        },
        Parameter { key: "seed", default: "1", help: "seed of the matrix, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "n"],
        rule: "n: phases by the operations on tiles on the longest path, width by all operations / these operations",
        extents,
    }),
};

/// The number of rows by class. The paper gives no size: the class paper has the size of the long benchmark of Cilk
/// 5.4.6's example. The standard benchmark there has 256 rows, which take only a millisecond today.
const ROWS: [usize; 3] = [512, 1024, 2048];

/// The number of random vectors in the check.
const CHECK_VECTORS: usize = 3;

/// The largest accepted entry of (L (U x) - A x) / n, where n is the number of rows and about the size of an entry of
/// A x. Rounding causes less than a hundredth of it.
const TOLERANCE: f64 = 1e-12;

fn prepare(parameters: &Parameters) -> Result<Lu, ParameterError> {
    let (n, side) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Lu::random(n, side, seed as u64))
}

/// Returns the number of rows of the matrix and of a tile.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    let n = parameters.number_or("n", parameters.class(&ROWS)?, 1..=4_096)?;
    Ok((n, parameters.number("grain", 1..=1_024)?.min(n)))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, side) = size(parameters)?;
    let tiles = n.div_ceil(side);
    if !tiles.is_power_of_two() {
        return Err(ParameterError::new(format!(
            "lu: n={n} is {tiles} tiles along a side; only powers of two have quarters of equal size, so record the \
             requested size"
        )));
    }
    // The operations are solutions, products of squares with 1 to `tiles` - 1 tiles along each side, and copies.
    let squares = tiles * (tiles - 1) * (2 * tiles - 1) / 6;
    let operations = tiles * (tiles - 1) + squares + (tiles * side).pow(2).div_ceil(COPY_GRAIN);
    let phases = quarters_on_path(tiles as f64);
    Ok(Scale { phases, width: operations as f64 / phases, ..Scale::default() })
}

struct Lu {
    /// The number of rows and columns of the matrix. Additional entries of the last tiles are the entries of a unit
    /// matrix.
    n: usize,
    tiles: Tiles,
    /// The tiles in the order of [`Shape::visit`].
    matrix: Vec<f64>,
    /// The row and column of each tile.
    places: Vec<(usize, usize)>,
    seed: u64,
}

impl Lu {
    fn random(n: usize, side: usize, seed: u64) -> Lu {
        let tiles = n.div_ceil(side);
        let mut places = Vec::with_capacity(tiles * tiles);
        Shape { rows: tiles, columns: tiles }.visit(0, 0, &mut |row, column| places.push((row, column)));
        let dense = dominant_matrix(n, seed);
        let mut matrix = Vec::with_capacity(places.len() * side * side);
        for (row, column) in &places {
            for row in row * side..(row + 1) * side {
                let entry =
                    |column| if row.max(column) < n { dense[row * n + column] } else { f64::from(row == column) };
                matrix.extend((column * side..(column + 1) * side).map(entry));
            }
        }
        Lu { n, tiles: Tiles { side }, matrix, places, seed }
    }

    fn shape(&self) -> Shape {
        let tiles = self.n.div_ceil(self.tiles.side);
        Shape { rows: tiles, columns: tiles }
    }
}

/// Returns random entries from -1 to 1, with n added on the diagonal so that each diagonal entry is larger than the
/// rest of its row.
fn dominant_matrix(n: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    let mut matrix: Vec<f64> = (0..n * n).map(|_| 2.0 * random.unit() - 1.0).collect();
    for row in 0..n {
        matrix[row * n + row] += n as f64;
    }
    matrix
}

/// The number of rows and columns of a rectangle of tiles.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    columns: usize,
}

impl Shape {
    fn tiles(self) -> usize {
        self.rows * self.columns
    }

    /// Returns the quarters: upper left, upper right, lower left, lower right. The first half of a single row or
    /// column is empty. The place of a cut depends only on the length of the side, so that the quarters of two
    /// factors fit together.
    fn quarters(self) -> [Shape; 4] {
        let (upper, left) = (self.rows / 2, self.columns / 2);
        let (lower, right) = (self.rows - upper, self.columns - left);
        [(upper, left), (upper, right), (lower, left), (lower, right)].map(|(rows, columns)| Shape { rows, columns })
    }

    /// Calls `visit` with the row and column of every tile in memory order, which is quarter by quarter. The upper
    /// left tile has the given row and column.
    fn visit(self, row: usize, column: usize, visit: &mut impl FnMut(usize, usize)) {
        match self.tiles() {
            0 => {}
            1 => visit(row, column),
            _ => {
                let (below, right) = (row + self.rows / 2, column + self.columns / 2);
                let [upper_left, upper_right, lower_left, lower_right] = self.quarters();
                upper_left.visit(row, column, visit);
                upper_right.visit(row, right, visit);
                lower_left.visit(below, column, visit);
                lower_right.visit(below, right, visit);
            }
        }
    }
}

/// A rectangle of tiles to read.
#[derive(Clone, Copy)]
struct Part<'a> {
    shape: Shape,
    entries: &'a [f64],
}

impl<'a> Part<'a> {
    fn quarters(self, tiles: Tiles) -> [Part<'a>; 4] {
        let mut rest = self.entries;
        self.shape.quarters().map(|shape| {
            let (entries, after) = rest.split_at(shape.tiles() * tiles.entries());
            rest = after;
            Part { shape, entries }
        })
    }
}

/// A rectangle of tiles to write.
struct PartMut<'a> {
    shape: Shape,
    entries: &'a mut [f64],
}

impl<'a> PartMut<'a> {
    fn quarters(self, tiles: Tiles) -> [PartMut<'a>; 4] {
        let mut rest = self.entries;
        self.shape.quarters().map(|shape| {
            let (entries, after) = std::mem::take(&mut rest).split_at_mut(shape.tiles() * tiles.entries());
            rest = after;
            PartMut { shape, entries }
        })
    }

    fn as_ref(&self) -> Part<'_> {
        Part { shape: self.shape, entries: self.entries }
    }

    fn as_mut(&mut self) -> PartMut<'_> {
        PartMut { shape: self.shape, entries: self.entries }
    }
}

/// The recursion over quarters. Each function returns at once for a part without tiles.
#[derive(Clone, Copy)]
struct Tiles {
    /// The number of rows and of columns of a tile.
    side: usize,
}

impl Tiles {
    fn entries(self) -> usize {
        self.side * self.side
    }

    /// Replaces the square `a` = L U by L and U. The diagonal of L is all ones and is not stored.
    fn decompose<J: ForkJoin>(self, fork_join: J, a: PartMut<'_>) {
        match a.shape.tiles() {
            0 => {}
            1 => decompose_tile(a.entries, self.side),
            _ => {
                let [mut upper_left, mut upper_right, mut lower_left, mut lower_right] = a.quarters(self);
                self.decompose(fork_join, upper_left.as_mut());
                let done = upper_left.as_ref();
                fork_join.join(
                    || self.solve_lower(fork_join, done, upper_right.as_mut()),
                    || self.solve_upper(fork_join, done, lower_left.as_mut()),
                );
                let (left, right) = (lower_left.as_ref(), upper_right.as_ref());
                self.subtract_product(fork_join, lower_right.as_mut(), left, right);
                self.decompose(fork_join, lower_right);
            }
        }
    }

    /// Replaces `b` = L X by X, for the L in `l`. The columns of X do not depend on each other.
    fn solve_lower<J: ForkJoin>(self, fork_join: J, l: Part<'_>, b: PartMut<'_>) {
        match (l.shape.tiles(), b.shape.tiles()) {
            (_, 0) => {}
            (1, 1) => solve_lower_tile(l.entries, b.entries, self.side),
            _ => {
                let [l_upper, _, l_corner, l_lower] = l.quarters(self);
                let [upper_left, upper_right, lower_left, lower_right] = b.quarters(self);
                let solve = |mut upper: PartMut<'_>, mut lower: PartMut<'_>| {
                    self.solve_lower(fork_join, l_upper, upper.as_mut());
                    self.subtract_product(fork_join, lower.as_mut(), l_corner, upper.as_ref());
                    self.solve_lower(fork_join, l_lower, lower);
                };
                fork_join.join(|| solve(upper_left, lower_left), || solve(upper_right, lower_right));
            }
        }
    }

    /// Replaces `b` = X U by X, for the U in `u`. The rows of X do not depend on each other.
    fn solve_upper<J: ForkJoin>(self, fork_join: J, u: Part<'_>, b: PartMut<'_>) {
        match (u.shape.tiles(), b.shape.tiles()) {
            (_, 0) => {}
            (1, 1) => solve_upper_tile(u.entries, b.entries, self.side),
            _ => {
                let [u_left, u_corner, _, u_right] = u.quarters(self);
                let [upper_left, upper_right, lower_left, lower_right] = b.quarters(self);
                let solve = |mut left: PartMut<'_>, mut right: PartMut<'_>| {
                    self.solve_upper(fork_join, u_left, left.as_mut());
                    self.subtract_product(fork_join, right.as_mut(), left.as_ref(), u_corner);
                    self.solve_upper(fork_join, u_right, right);
                };
                fork_join.join(|| solve(upper_left, upper_right), || solve(lower_left, lower_right));
            }
        }
    }

    /// Subtracts the product of `a` and `b` from `c`. One task subtracts both terms of a quarter of `c` in a fixed
    /// order, so that the result has the same bits in every schedule.
    fn subtract_product<J: ForkJoin>(self, fork_join: J, c: PartMut<'_>, a: Part<'_>, b: Part<'_>) {
        match (c.shape.tiles(), a.shape.columns) {
            (0, _) | (_, 0) => {}
            (1, 1) => subtract_tile_product(c.entries, a.entries, b.entries, self.side),
            _ => {
                let [c00, c01, c10, c11] = c.quarters(self);
                let [a00, a01, a10, a11] = a.quarters(self);
                let [b00, b01, b10, b11] = b.quarters(self);
                let subtract = |mut c: PartMut<'_>, a: [Part<'_>; 2], b: [Part<'_>; 2]| {
                    for (a, b) in a.into_iter().zip(b) {
                        self.subtract_product(fork_join, c.as_mut(), a, b);
                    }
                };
                fork_join.join(
                    || {
                        fork_join
                            .join(|| subtract(c00, [a00, a01], [b00, b10]), || subtract(c01, [a00, a01], [b01, b11]))
                    },
                    || {
                        fork_join
                            .join(|| subtract(c10, [a10, a11], [b00, b10]), || subtract(c11, [a10, a11], [b01, b11]))
                    },
                );
            }
        }
    }
}

/// Adds `factor` times `source` to `target`, which may be shorter.
fn add_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += factor * source;
    }
}

fn decompose_tile(a: &mut [f64], side: usize) {
    for pivot in 0..side {
        let (above, below) = a.split_at_mut((pivot + 1) * side);
        let pivot_row = &above[pivot * side..];
        for row in below.chunks_exact_mut(side) {
            row[pivot] /= pivot_row[pivot];
            let factor = row[pivot];
            add_multiple(&mut row[pivot + 1..], -factor, &pivot_row[pivot + 1..]);
        }
    }
}

fn solve_lower_tile(l: &[f64], b: &mut [f64], side: usize) {
    for (row, factors) in l.chunks_exact(side).enumerate() {
        let (above, from_here) = b.split_at_mut(row * side);
        for (solved, factor) in above.chunks_exact(side).zip(factors) {
            add_multiple(&mut from_here[..side], -factor, solved);
        }
    }
}

fn solve_upper_tile(u: &[f64], b: &mut [f64], side: usize) {
    for row in b.chunks_exact_mut(side) {
        for (column, factors) in u.chunks_exact(side).enumerate() {
            row[column] /= factors[column];
            let solved = row[column];
            add_multiple(&mut row[column + 1..], -solved, &factors[column + 1..]);
        }
    }
}

/// Subtracts a product of tiles. It takes four rows of `b` at a time, so that a row of `c` is loaded and stored once
/// for eight operations, and the loop vectorises well.
fn subtract_tile_product(c: &mut [f64], a: &[f64], b: &[f64], side: usize) {
    for (a_row, c_row) in a.chunks_exact(side).zip(c.chunks_exact_mut(side)) {
        let (a_fours, b_fours) = (a_row.chunks_exact(4), b.chunks_exact(4 * side));
        let (a_rest, b_rest) = (a_fours.remainder(), b_fours.remainder());
        for (a, b) in a_fours.zip(b_fours) {
            let (b0, b) = b.split_at(side);
            let (b1, b) = b.split_at(side);
            let (b2, b3) = b.split_at(side);
            for (c, (((b0, b1), b2), b3)) in c_row.iter_mut().zip(b0.iter().zip(b1).zip(b2).zip(b3)) {
                *c -= (a[0] * b0 + a[1] * b1) + (a[2] * b2 + a[3] * b3);
            }
        }
        for (a, b) in a_rest.iter().zip(b_rest.chunks_exact(side)) {
            add_multiple(c_row, -a, b);
        }
    }
}

impl Kernel for Lu {
    /// The tiles of L and U in one matrix, in the order of the input's tiles.
    type Output = Vec<f64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<f64> {
        let mut entries = fork_join.copy(&self.matrix);
        self.tiles.decompose(fork_join, PartMut { shape: self.shape(), entries: &mut entries });
        entries
    }

    /// Does Freivalds' check with a tolerance ("Probabilistic machines can use less running time", 1977): L (U x)
    /// must be A x for random vectors x of 1 and -1. The check is sufficient because a triangular factorisation is
    /// unique.
    fn verify(&self, output: &Vec<f64>) -> Verdict {
        let n = self.n;
        if output.len() != self.matrix.len() {
            return Verdict::new(false, format!("{} entries, expected {}", output.len(), self.matrix.len()));
        }
        // The seed differs from the seed of the matrix.
        let mut random = SplitMix::new(!self.seed);
        let residual = crate::difference::largest((0..CHECK_VECTORS).map(|_| self.residual(output, &mut random)));
        Verdict::new(
            residual <= TOLERANCE,
            format!(
                "{n} x {n}: largest entry of L (U x) - A x is {residual:.1e} n for {CHECK_VECTORS} random vectors x, \
                 allowed {TOLERANCE:.0e} n"
            ),
        )
    }
}

impl Lu {
    /// Returns the largest entry of (L (U x) - A x) / n for a random x, where n is the number of rows.
    fn residual(&self, output: &[f64], random: &mut SplitMix) -> f64 {
        let mut x = vec![0.0; self.shape().rows * self.tiles.side];
        x.fill_with(|| if random.next() & 1 == 0 { 1.0 } else { -1.0 });
        let a_x = self.times(&self.matrix, &x, |_, _| true);
        let u_x = self.times(output, &x, |row, column| row <= column);
        let mut l_u_x = self.times(output, &u_x, |row, column| row > column);
        add_multiple(&mut l_u_x, 1.0, &u_x);
        largest_difference(&l_u_x, &a_x) / self.n as f64
    }

    /// Returns the product of a matrix and a vector. It uses only the entries for whose row and column `counts` is
    /// true.
    fn times(&self, matrix: &[f64], x: &[f64], counts: impl Fn(usize, usize) -> bool) -> Vec<f64> {
        let side = self.tiles.side;
        let mut y = vec![0.0; x.len()];
        for (tile, (tile_row, tile_column)) in matrix.chunks_exact(self.tiles.entries()).zip(&self.places) {
            for (row, entries) in (tile_row * side..).zip(tile.chunks_exact(side)) {
                let columns = tile_column * side..;
                let terms = columns.zip(entries).filter(|(column, _)| counts(row, *column));
                y[row] += terms.map(|(column, entry)| entry * x[column]).sum::<f64>();
            }
        }
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    #[test]
    fn every_shape_of_tile_gives_a_verified_decomposition() {
        for (n, side) in [(1, 1), (2, 1), (3, 1), (5, 2), (7, 7), (33, 8), (64, 16), (100, 64), (130, 7), (37, 1)] {
            let program = Lu::random(n, side, n as u64);
            let output = program.compute(Serial);
            assert!(program.verify(&output).verified, "n={n}, side={side}: {}", program.verify(&output).detail);
            assert_eq!(program.compute(OnRayon), output, "n={n}, side={side}");
        }
    }

    #[test]
    fn the_factors_are_those_of_the_definition() {
        let program = Lu::random(6, 2, 9);
        let mut dense = dominant_matrix(6, 9);
        decompose_tile(&mut dense, 6);
        let output = program.compute(Serial);
        for (tile, (row, column)) in output.chunks_exact(4).zip(&program.places) {
            for (within, entry) in tile.iter().enumerate() {
                let expected = dense[(2 * row + within / 2) * 6 + 2 * column + within % 2];
                assert!((entry - expected).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn the_residual_stays_far_below_the_tolerance() {
        let program = Lu::random(500, 32, 1);
        let output = program.compute(OnRayon);
        assert!(program.residual(&output, &mut SplitMix::new(5)) < TOLERANCE / 10.0);
    }

    #[test]
    fn a_single_wrong_entry_and_a_missing_one_are_noticed() {
        let program = Lu::random(50, 16, 2);
        let output = program.compute(Serial);
        for place in [0, 20, 700] {
            for wrong in [1e-6, f64::NAN, f64::INFINITY] {
                let mut output = output.clone();
                output[place] += wrong;
                assert!(!program.verify(&output).verified, "{place}, {wrong}");
            }
        }
        assert!(!program.verify(&output[1..].to_vec()).verified);
        assert!(!program.verify(&program.matrix).verified);
    }
}
