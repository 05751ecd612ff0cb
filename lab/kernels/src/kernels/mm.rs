//! Dense matrix multiplication by divide and conquer: few large tasks that never wait, the easiest program to
//! schedule.
//!
//! MM of the BWS paper (section 5.1: 1600 x 1600) is an example of the Cilk++ package that halves the matrices
//! recursively, as this program does. The matrices are cut into square tiles, and the tiles of the product are stored
//! in the order in which the recursion visits them. Therefore a half of the work is a half of the slice, and no two
//! tasks share memory. The recursion stops at one tile of the product, which is the sum over a row and a column of
//! tiles.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};
use std::ops::Range;

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "mm",
    summary: "product of two dense matrices of f64 by divide and conquer (BWS paper and Cilk++ package: n = 1600)",
    parameters: &[
        Parameter { key: "n", default: "1600", help: "rows and columns of the matrices, 1 to 4096" },
        Parameter {
            key: "grain",
            default: "64",
            help: "rows and columns of the tile that one task computes, 1 to 1024; n is rounded up to a multiple",
        },
        Parameter { key: "seed", default: "1", help: "seed of the matrices, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["n"],
        rule: "n: width and serial by the product's tiles, length by those along a side",
        extents,
    }),
};

/// The largest magnitude of an entry. Entries are whole numbers, so every partial sum is a whole number below 2^53:
/// 64 n for the product, 64 n^2 in the check. Therefore all arithmetic is exact in any order.
const LARGEST_ENTRY: u64 = 8;

/// The number of vectors in the check. A wrong product passes one vector with a probability of at most one half.
const CHECK_VECTORS: u64 = 20;

fn prepare(parameters: &Parameters) -> Result<Mm, ParameterError> {
    let (n, tile) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Mm::random(n, tile, seed as u64))
}

/// Returns the number of rows of a matrix and of a tile.
fn size(parameters: &Parameters) -> Result<(usize, usize), ParameterError> {
    let n = parameters.number("n", 1..=4_096)?;
    Ok((n, parameters.number("grain", 1..=1_024)?.min(n)))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, tile) = size(parameters)?;
    let tiles = n.div_ceil(tile) as f64;
    Ok(Scale { width: tiles * tiles, length: tiles, serial: tiles * tiles, ..Scale::default() })
}

struct Mm {
    /// The number of rows and columns of the matrices. The other entries of the last tiles are zero.
    n: usize,
    /// The number of rows and columns of a tile.
    tile: usize,
    /// The number of tiles along one side.
    tiles: usize,
    /// The tiles of the left matrix, row of tiles by row of tiles.
    a: Vec<f64>,
    /// The tiles of the right matrix, column of tiles by column of tiles.
    b: Vec<f64>,
    seed: u64,
}

impl Mm {
    fn random(n: usize, tile: usize, seed: u64) -> Mm {
        let tiles = n.div_ceil(tile);
        let size = tiles * tiles * tile * tile;
        let mut program = Mm { n, tile, tiles, a: vec![0.0; size], b: vec![0.0; size], seed };
        let mut random = SplitMix::new(seed);
        let mut entry = || random.below(2 * LARGEST_ENTRY + 1) as f64 - LARGEST_ENTRY as f64;
        for row in 0..n {
            for column in 0..n {
                let (at_a, at_b) = (program.at_a(row, column), program.at_b(row, column));
                program.a[at_a] = entry();
                program.b[at_b] = entry();
            }
        }
        program
    }

    fn at_a(&self, row: usize, column: usize) -> usize {
        self.within(row / self.tile * self.tiles + column / self.tile, row, column)
    }

    fn at_b(&self, row: usize, column: usize) -> usize {
        self.within(column / self.tile * self.tiles + row / self.tile, row, column)
    }

    /// Returns the position of an entry in the tile number `tile`.
    fn within(&self, tile: usize, row: usize, column: usize) -> usize {
        (tile * self.tile + row % self.tile) * self.tile + column % self.tile
    }

    /// Computes the tiles of `block`, which are stored in `product` in the order of the recursion.
    fn multiply<J: ForkJoin>(&self, fork_join: J, block: Block, product: &mut [f64]) {
        match block.halves() {
            None => self.multiply_tile(block.rows.start, block.columns.start, product),
            Some((first, second)) => {
                let (left, right) = product.split_at_mut(first.tiles() * self.tile * self.tile);
                fork_join.join(|| self.multiply(fork_join, first, left), || self.multiply(fork_join, second, right));
            }
        }
    }

    /// Computes the tile of the product in row `row` and column `column` of tiles.
    fn multiply_tile(&self, row: usize, column: usize, product: &mut [f64]) {
        let strip = self.tiles * self.tile * self.tile;
        let a_tiles = self.a[row * strip..(row + 1) * strip].chunks_exact(self.tile * self.tile);
        let b_tiles = self.b[column * strip..(column + 1) * strip].chunks_exact(self.tile * self.tile);
        product.fill(0.0);
        for (a, b) in a_tiles.zip(b_tiles) {
            add_product(a, b, product, self.tile);
        }
    }
}

/// Adds the product of the tiles `a` and `b` to `product`. In the order i, k, j, the inner loop runs along rows. With
/// four k at a time, a row of the product is loaded and stored once for eight operations. Both measures make the loop
/// vectorise well.
fn add_product(a: &[f64], b: &[f64], product: &mut [f64], tile: usize) {
    for (a_row, product_row) in a.chunks_exact(tile).zip(product.chunks_exact_mut(tile)) {
        let a_fours = a_row.chunks_exact(4);
        let b_fours = b.chunks_exact(4 * tile);
        let (a_rest, b_rest) = (a_fours.remainder(), b_fours.remainder());
        for (a, b) in a_fours.zip(b_fours) {
            let (b0, b) = b.split_at(tile);
            let (b1, b) = b.split_at(tile);
            let (b2, b3) = b.split_at(tile);
            let rows = b0.iter().zip(b1).zip(b2).zip(b3);
            for (sum, (((b0, b1), b2), b3)) in product_row.iter_mut().zip(rows) {
                *sum += (a[0] * b0 + a[1] * b1) + (a[2] * b2 + a[3] * b3);
            }
        }
        for (a, b) in a_rest.iter().zip(b_rest.chunks_exact(tile)) {
            for (sum, b) in product_row.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
}

/// A rectangle of tiles of the product.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Block {
    fn tiles(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Returns the two halves across the longer side. `None` for a single tile.
    fn halves(&self) -> Option<(Block, Block)> {
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        if rows.len() >= columns.len() && rows.len() > 1 {
            let middle = rows.start + rows.len() / 2;
            let first = Block { rows: rows.start..middle, columns: columns.clone() };
            return Some((first, Block { rows: middle..rows.end, columns }));
        }
        if columns.len() > 1 {
            let middle = columns.start + columns.len() / 2;
            let first = Block { rows: rows.clone(), columns: columns.start..middle };
            return Some((first, Block { rows, columns: middle..columns.end }));
        }
        None
    }

    /// Calls `visit` with the row and column of every tile in the order of the recursion.
    fn visit(&self, visit: &mut impl FnMut(usize, usize)) {
        match self.halves() {
            None => visit(self.rows.start, self.columns.start),
            Some((first, second)) => {
                first.visit(visit);
                second.visit(visit);
            }
        }
    }
}

impl Kernel for Mm {
    /// The tiles of the product in the order of the recursion.
    type Output = Vec<f64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<f64> {
        let mut product = vec![0.0; self.a.len()];
        self.multiply(fork_join, self.whole(), &mut product);
        product
    }

    /// Does Freivalds' check ("Probabilistic machines can use less running time", 1977). If C x = A (B x) for random
    /// vectors x of 1 and -1, then C = A B, except with a probability of 2^-20. The entries are small whole numbers,
    /// so that both sides are exact and are compared for equality.
    fn verify(&self, output: &Vec<f64>) -> Verdict {
        let wrong = if output.len() == self.a.len() { self.wrong_vectors(output) } else { CHECK_VECTORS };
        Verdict::new(
            wrong == 0,
            format!(
                "{n} x {n}: C x = A (B x) exactly for {} of {CHECK_VECTORS} random vectors x (Freivalds)",
                CHECK_VECTORS - wrong,
                n = self.n
            ),
        )
    }
}

impl Mm {
    fn whole(&self) -> Block {
        Block { rows: 0..self.tiles, columns: 0..self.tiles }
    }

    fn wrong_vectors(&self, output: &[f64]) -> u64 {
        let a_places: Vec<_> =
            (0..self.tiles * self.tiles).map(|tile| (tile / self.tiles, tile % self.tiles)).collect();
        let b_places: Vec<_> = a_places.iter().map(|(row, column)| (*column, *row)).collect();
        let mut product_places = Vec::new();
        self.whole().visit(&mut |row, column| product_places.push((row, column)));
        // The seed differs from the seed of the matrices.
        let mut random = SplitMix::new(!self.seed);
        let mut wrong = 0;
        for _ in 0..CHECK_VECTORS {
            let mut x = vec![0.0; self.tiles * self.tile];
            x[..self.n].fill_with(|| if random.next() & 1 == 0 { 1.0 } else { -1.0 });
            let a_b_x = self.times(&self.a, &a_places, &self.times(&self.b, &b_places, &x));
            wrong += u64::from(self.times(output, &product_places, &x)[..self.n] != a_b_x[..self.n]);
        }
        wrong
    }

    /// Returns a matrix times a vector. `places` has the row and column of each tile.
    fn times(&self, matrix: &[f64], places: &[(usize, usize)], x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for (tile, &(row, column)) in matrix.chunks_exact(self.tile * self.tile).zip(places) {
            let x = &x[column * self.tile..][..self.tile];
            for (sum, entries) in y[row * self.tile..].iter_mut().zip(tile.chunks_exact(self.tile)) {
                *sum += entries.iter().zip(x).map(|(entry, x)| entry * x).sum::<f64>();
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
    fn every_shape_of_tile_gives_a_verified_product() {
        for (n, tile) in [(1, 1), (2, 1), (5, 2), (7, 7), (33, 8), (64, 16), (100, 64), (130, 7)] {
            let program = Mm::random(n, tile, n as u64);
            assert!(program.verify(&program.compute(Serial)).verified, "n={n}, tile={tile}");
            assert_eq!(program.compute(OnRayon), program.compute(Serial));
        }
    }

    #[test]
    fn the_product_is_that_of_the_definition() {
        let program = Mm::random(3, 2, 9);
        let mut tiles = Vec::new();
        program.whole().visit(&mut |row, column| tiles.push((row, column)));
        let output = program.compute(Serial);
        for row in 0..3 {
            for column in 0..3 {
                let sum: f64 =
                    (0..3).map(|k| program.a[program.at_a(row, k)] * program.b[program.at_b(k, column)]).sum();
                let tile = tiles.iter().position(|tile| *tile == (row / 2, column / 2)).unwrap();
                assert_eq!(output[program.within(tile, row, column)], sum);
            }
        }
    }

    #[test]
    fn a_grain_larger_than_the_matrix_is_one_task() {
        let row = crate::catalog::prepare("mm:n=3,grain=1024").unwrap();
        assert!(row.run(&crate::Backend::Serial, false).verdict.verified);
    }

    #[test]
    fn a_single_wrong_entry_is_noticed() {
        let program = Mm::random(50, 16, 2);
        let mut output = program.compute(Serial);
        output[20] += 1.0;
        assert!(!program.verify(&output).verified);
        output[20] = f64::NAN;
        assert!(!program.verify(&output).verified);
        output.clear();
        assert!(!program.verify(&output).verified);
    }
}
