//! A sparse square matrix as a tree of quarters, and the recursion over it.

use super::Entry;
use super::block::{self, Block, SIDE};
use crate::ForkJoin;

/// A lower triangular matrix. Additional rows, which fill the last blocks, are rows of a unit matrix.
pub struct Tree {
    /// The number of rows of the matrix.
    rows: usize,
    /// The number of rows including the additional rows: a power of two times [`SIDE`].
    size: usize,
    root: Part,
}

/// A square part of the matrix. Its position in the tree determines its number of rows.
#[derive(Default)]
enum Part {
    /// A part in which all entries are zero.
    #[default]
    Zero,
    /// A block of [`SIDE`] rows.
    Block(Box<Block>),
    /// The quarters: upper left, upper right, lower left, lower right. On the diagonal, the upper right quarter is
    /// zero.
    Quarters(Box<[Part; 4]>),
}

impl Part {
    /// Returns the block of this part. Turns a part of zeros into a block.
    fn block_mut(&mut self) -> &mut Block {
        if let Part::Zero = self {
            *self = Part::Block(Box::new([[0.0; SIDE]; SIDE]));
        }
        match self {
            Part::Block(block) => block,
            _ => unreachable!("a part of {SIDE} rows has no quarters"),
        }
    }

    /// Returns the quarters of this part. Splits a part of zeros into quarters.
    fn quarters_mut(&mut self) -> &mut [Part; 4] {
        if let Part::Zero = self {
            *self = Part::Quarters(Box::default());
        }
        match self {
            Part::Quarters(quarters) => quarters,
            _ => unreachable!("a part of more than {SIDE} rows is no block"),
        }
    }

    fn set(&mut self, size: usize, row: usize, column: usize, value: f64) {
        if size == SIDE {
            self.block_mut()[row][column] = value;
            return;
        }
        let half = size / 2;
        let quarter = &mut self.quarters_mut()[row / half * 2 + column / half];
        quarter.set(half, row % half, column % half, value);
    }

    /// Calls `visit` with every block and the row and column where it starts.
    fn visit(&self, size: usize, row: usize, column: usize, visit: &mut impl FnMut(usize, usize, &Block)) {
        match self {
            Part::Zero => {}
            Part::Block(block) => visit(row, column, block),
            Part::Quarters(quarters) => {
                let half = size / 2;
                for (index, quarter) in quarters.iter().enumerate() {
                    quarter.visit(half, row + index / 2 * half, column + index % 2 * half, visit);
                }
            }
        }
    }
}

impl Tree {
    /// Returns a matrix of zeros.
    pub(super) fn of_rows(rows: usize) -> Tree {
        let size = rows.div_ceil(SIDE).next_power_of_two() * SIDE;
        let mut root = Part::Zero;
        for row in rows..rows.next_multiple_of(SIDE) {
            root.set(size, row, row, 1.0);
        }
        Tree { rows, size, root }
    }

    pub(super) fn set(&mut self, row: usize, column: usize, value: f64) {
        self.root.set(self.size, row, column, value);
    }

    /// Returns all entries that are not zero, without the additional rows.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.root.visit(self.size, 0, 0, &mut |row, column, block| {
            for (row, values) in (row..self.rows).zip(block) {
                let values = (column..).zip(values).filter(|(_, value)| **value != 0.0);
                entries.extend(values.map(|(column, value)| Entry { row, column, value: *value }));
            }
        });
        entries
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        let mut blocks = 0;
        self.root.visit(self.size, 0, 0, &mut |_, _, _| blocks += 1);
        blocks
    }
}

/// The decomposition. The order of summation does not depend on the schedule, so that the results have the same bits.
#[derive(Clone, Copy)]
pub(super) struct Recursion<J> {
    pub(super) fork_join: J,
    /// The number of rows of a part up to which nothing is forked.
    pub(super) grain: usize,
}

impl<J: ForkJoin> Recursion<J> {
    pub(super) fn copy(self, tree: &Tree) -> Tree {
        Tree { root: self.copy_part(&tree.root, tree.size), ..*tree }
    }

    /// Replaces the matrix L Lᵀ by L.
    pub(super) fn decompose(self, tree: &mut Tree) {
        self.decompose_part(&mut tree.root, tree.size);
    }

    /// Runs both closures on the quarters of a part with `size` rows, in parallel if the part is worth a fork.
    fn both<A: Send, B: Send>(self, size: usize, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        if size > self.grain { self.fork_join.join(a, b) } else { (a(), b()) }
    }

    fn copy_part(self, part: &Part, size: usize) -> Part {
        match part {
            Part::Zero => Part::Zero,
            Part::Block(block) => Part::Block(block.clone()),
            Part::Quarters(quarters) => {
                let copy = |quarter: usize| self.copy_part(&quarters[quarter], size / 2);
                let ((a, b), (c, d)) =
                    self.both(size, || (copy(0), copy(1)), || self.both(size, || copy(2), || copy(3)));
                Part::Quarters(Box::new([a, b, c, d]))
            }
        }
    }

    fn decompose_part(self, a: &mut Part, size: usize) {
        match a {
            // The part is beyond the last row.
            Part::Zero => {}
            Part::Block(a) => block::decompose(a),
            Part::Quarters(quarters) => {
                let half = size / 2;
                let [upper_left, _, lower_left, lower_right] = &mut **quarters;
                self.decompose_part(upper_left, half);
                self.solve(lower_left, upper_left, half);
                self.subtract_product(lower_right, lower_left, lower_left, half, Reach::Lower);
                self.decompose_part(lower_right, half);
            }
        }
    }

    /// Replaces `b` = X Lᵀ by X. The rows of X do not depend on each other.
    fn solve(self, b: &mut Part, l: &Part, size: usize) {
        match (b, l) {
            (Part::Zero, _) => {}
            (Part::Block(b), Part::Block(l)) => block::solve(b, l),
            (Part::Quarters(b), Part::Quarters(l)) => {
                let half = size / 2;
                let [l_upper, _, l_corner, l_lower] = &**l;
                let [upper_left, upper_right, lower_left, lower_right] = &mut **b;
                let solve = |left: &mut Part, right: &mut Part| {
                    self.solve(left, l_upper, half);
                    self.subtract_product(right, left, l_corner, half, Reach::All);
                    self.solve(right, l_lower, half);
                };
                self.both(size, || solve(upper_left, upper_right), || solve(lower_left, lower_right));
            }
            _ => unreachable!("parts of one size are both blocks or both quartered, and no diagonal is zero"),
        }
    }

    /// Subtracts `a` times the transpose of `b` from `c`, within `reach`.
    fn subtract_product(self, c: &mut Part, a: &Part, b: &Part, size: usize, reach: Reach) {
        match (a, b) {
            (Part::Zero, _) | (_, Part::Zero) => {}
            (Part::Block(a), Part::Block(b)) => block::subtract_product(c.block_mut(), a, b),
            (Part::Quarters(a), Part::Quarters(b)) => {
                let [a00, a01, a10, a11] = &**a;
                let [b00, b01, b10, b11] = &**b;
                let quarters = c.quarters_mut();
                let [c00, c01, c10, c11] = quarters;
                let subtract = |c: &mut Part, a: [&Part; 2], b: [&Part; 2], reach: Reach| {
                    for (a, b) in a.into_iter().zip(b) {
                        self.subtract_product(c, a, b, size / 2, reach);
                    }
                };
                let upper = || {
                    let mut left = || subtract(c00, [a00, a01], [b00, b01], reach);
                    let right = || subtract(c01, [a00, a01], [b10, b11], Reach::All);
                    match reach {
                        Reach::All => self.both(size, left, right),
                        Reach::Lower => (left(), ()),
                    }
                };
                let lower = || {
                    let left = || subtract(c10, [a10, a11], [b00, b01], Reach::All);
                    let right = || subtract(c11, [a10, a11], [b10, b11], reach);
                    self.both(size, left, right)
                };
                self.both(size, upper, lower);
                // If no entry of `a` was multiplied with an entry of `b`, nothing was filled in.
                if quarters.iter().all(|quarter| matches!(quarter, Part::Zero)) {
                    *c = Part::Zero;
                }
            }
            _ => unreachable!("parts of one size are both blocks or both quartered"),
        }
    }
}

/// The part of a product that is computed.
#[derive(Clone, Copy)]
enum Reach {
    All,
    /// The quarters on and below the diagonal, because the product is symmetric.
    Lower,
}
