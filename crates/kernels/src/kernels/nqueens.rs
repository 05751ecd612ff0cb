//! N-Queens: how many ways n queens stand on an n × n board with no two in reach of each other.
//!
//! Source: the bitmask search known from the Cilk and BOTS suites. Every solution is counted, with no use of symmetry,
//! because an irregular search tree is what the program is for. The candidate squares of a row are halved by joins;
//! below `cutoff` rows the search is serial.

use crate::catalog::Row;
use crate::{ForkJoin, Kernel, Parameter, Verdict};

/// The catalog row.
pub const ROW: Row = Row {
    name: "nqueens",
    summary: "counts the placements of n queens on an n x n board: an irregular search tree",
    parameters: &[
        Parameter { key: "n", default: "12", help: "queens and board size, 1 to 16" },
        Parameter {
            key: "cutoff",
            default: "4",
            help: "rows placed in parallel, 0 to 16; below them the search is serial",
        },
    ],
    prepare: |parameters| {
        Ok(Box::new(Queens {
            n: parameters.number("n", 1..=SOLUTIONS.len())?,
            cutoff: parameters.number("cutoff", 0..=SOLUTIONS.len())?,
        }))
    },
};

/// The number of solutions for n = 1, 2, …: OEIS A000170.
const SOLUTIONS: [u64; 16] =
    [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712, 365_596, 2_279_184, 14_772_512];

struct Queens {
    n: usize,
    cutoff: usize,
}

impl Kernel for Queens {
    type Output = u64;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> u64 {
        let board = Board { open: (1 << self.n) - 1, left: 0, right: 0 };
        place_row(fork_join, board, self.cutoff)
    }

    fn verify(&self, output: &u64) -> Verdict {
        let expected = SOLUTIONS[self.n - 1];
        Verdict::new(*output == expected, format!("{} queens: {output} solutions, expected {expected}", self.n))
    }
}

/// The rows placed so far, seen from the next row. One bit per column.
#[derive(Clone, Copy)]
struct Board {
    /// Columns that hold no queen yet.
    open: u32,
    /// Columns that a queen reaches along the diagonal which moves left from row to row.
    left: u32,
    /// The same for the other diagonal.
    right: u32,
}

impl Board {
    fn candidates(self) -> u32 {
        self.open & !(self.left | self.right)
    }

    fn with(self, queen: u32) -> Board {
        Board { open: self.open & !queen, left: (self.left | queen) << 1, right: (self.right | queen) >> 1 }
    }
}

fn place_row<J: ForkJoin>(fork_join: J, board: Board, parallel_rows: usize) -> u64 {
    if parallel_rows == 0 || board.open == 0 {
        return count_serially(board);
    }
    try_columns(fork_join, board, board.candidates(), parallel_rows)
}

/// Tries each of `columns` in the next row.
fn try_columns<J: ForkJoin>(fork_join: J, board: Board, columns: u32, parallel_rows: usize) -> u64 {
    match columns.count_ones() {
        0 => 0,
        1 => place_row(fork_join, board.with(columns), parallel_rows - 1),
        several => {
            let mut upper = columns;
            for _ in 0..several / 2 {
                upper &= upper - 1;
            }
            let (a, b) = fork_join.join(
                || try_columns(fork_join, board, columns & !upper, parallel_rows),
                || try_columns(fork_join, board, upper, parallel_rows),
            );
            a + b
        }
    }
}

fn count_serially(board: Board) -> u64 {
    if board.open == 0 {
        return 1;
    }
    let mut columns = board.candidates();
    let mut solutions = 0;
    while columns != 0 {
        let queen = columns & columns.wrapping_neg();
        columns ^= queen;
        solutions += count_serially(board.with(queen));
    }
    solutions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn small_boards_at_every_cutoff() {
        for n in 1..=9 {
            for cutoff in [0, 1, n / 2, n, 16] {
                let output = Queens { n, cutoff }.compute(Serial);
                assert_eq!(output, SOLUTIONS[n - 1], "n={n} cutoff={cutoff}");
            }
        }
    }

    #[test]
    fn the_largest_board_fits_the_masks() {
        let board = Board { open: (1 << SOLUTIONS.len()) - 1, left: 0, right: 0 };
        let corner = board.with(1 << 15).with(1 << 13).with(1 << 11);
        assert_eq!(corner.open.count_ones(), 13);
    }

    #[test]
    fn a_wrong_count_is_refused() {
        let program = Queens { n: 8, cutoff: 2 };
        assert!(program.verify(&92).verified);
        assert!(!program.verify(&91).verified);
    }
}
