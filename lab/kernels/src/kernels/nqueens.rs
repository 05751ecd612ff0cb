//! N-Queens: the number of ways to place n queens on an n × n board so that no two queens attack each other.
//!
//! Source: the bitmask search known from the Cilk and BOTS suites. Every solution is counted without the use of
//! symmetry, because the program is meant to have an irregular search tree. Joins halve the candidate squares of a
//! row. After the first `cutoff` rows, the search is serial.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "nqueens",
    summary: "number of placements of n queens on an n x n board: an irregular search tree",
    parameters: &[
        Parameter { key: "n", default: "12", help: "queens and board size, 1 to 16" },
        Parameter {
            key: "cutoff",
            default: "4",
            help: "rows placed in parallel, 0 to 16; below them the search is serial",
        },
    ],
    prepare: |parameters| Ok(Box::new(queens(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["n"],
        rule: "n: width by the placements of the rows that fork, length by the nodes of the search tree under each \
            placement",
        extents,
    }),
};

/// The number of solutions for n = 1, 2, …: OEIS A000170.
const SOLUTIONS: [u64; 16] =
    [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712, 365_596, 2_279_184, 14_772_512];

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let Queens { n, cutoff } = queens(parameters)?;
    let leaves = Board::empty(n).leaves(cutoff) as f64;
    Ok(Scale { width: leaves, length: NODES[n - 1] as f64 / leaves, ..Scale::default() })
}

/// The number of partial placements that the serial search visits, including the empty one: OEIS A140450.
const NODES: [u64; 16] = [
    2,
    3,
    6,
    17,
    54,
    153,
    552,
    2_057,
    8_394,
    35_539,
    166_926,
    856_189,
    4_674_890,
    27_358_553,
    171_129_072,
    1_141_190_303,
];

fn queens(parameters: &Parameters) -> Result<Queens, ParameterError> {
    let n = parameters.number("n", 1..=SOLUTIONS.len())?;
    Ok(Queens { n, cutoff: parameters.number("cutoff", 0..=SOLUTIONS.len())? })
}

struct Queens {
    n: usize,
    cutoff: usize,
}

impl Kernel for Queens {
    type Output = u64;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> u64 {
        place_row(fork_join, Board::empty(self.n), self.cutoff)
    }

    fn verify(&self, output: &u64) -> Verdict {
        let expected = SOLUTIONS[self.n - 1];
        Verdict::new(*output == expected, format!("{} queens: {output} solutions, expected {expected}", self.n))
    }
}

/// The occupied squares of the rows placed so far, seen from the next row. Each mask has one bit per column.
#[derive(Clone, Copy)]
struct Board {
    /// Columns that hold no queen yet.
    open: u32,
    /// Columns that a queen reaches along the diagonal that moves left from row to row.
    left: u32,
    /// Columns that a queen reaches along the diagonal that moves right from row to row.
    right: u32,
}

impl Board {
    fn empty(n: usize) -> Board {
        Board { open: (1 << n) - 1, left: 0, right: 0 }
    }

    /// Returns the number of leaves of the parallel search: placements of `parallel_rows` rows, or of fewer rows if
    /// the next row has no free square.
    fn leaves(self, parallel_rows: usize) -> u64 {
        let mut columns = self.candidates();
        if parallel_rows == 0 || columns == 0 {
            return 1;
        }
        let mut leaves = 0;
        while columns != 0 {
            let queen = columns & columns.wrapping_neg();
            columns ^= queen;
            leaves += self.with(queen).leaves(parallel_rows - 1);
        }
        leaves
    }

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
    fn small_boards_have_their_number_of_solutions_at_every_cutoff() {
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
    fn the_search_tree_has_as_many_nodes() {
        fn nodes(board: Board) -> u64 {
            let (mut columns, mut found) = (board.candidates(), 1);
            while columns != 0 {
                let queen = columns & columns.wrapping_neg();
                columns ^= queen;
                found += nodes(board.with(queen));
            }
            found
        }
        for n in 1..=12 {
            assert_eq!(nodes(Board::empty(n)), NODES[n - 1], "n={n}");
        }
    }

    #[test]
    fn a_wrong_count_is_refused() {
        let program = Queens { n: 8, cutoff: 2 };
        assert!(program.verify(&92).verified);
        assert!(!program.verify(&91).verified);
    }
}
