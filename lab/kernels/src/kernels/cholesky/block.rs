//! The smallest parts of the matrix, and the operations on them.

/// The number of rows and of columns of a block.
pub(super) const SIDE: usize = 8;

/// The entries by rows.
pub(super) type Block = [[f64; SIDE]; SIDE];

/// Replaces `a` = L Lᵀ by L. Entries of `a` above the diagonal are not read. The result of a block that is not
/// positive definite contains NaN.
pub(super) fn decompose(a: &mut Block) {
    for column in 0..SIDE {
        let (above, below) = a.split_at_mut(column + 1);
        let pivot_row = &mut above[column];
        let pivot = pivot_row[column].sqrt();
        pivot_row[column] = pivot;
        pivot_row[column + 1..].fill(0.0);
        // The entries of this column of L below the diagonal.
        let mut factors = [0.0; SIDE];
        for (row, factor) in below.iter_mut().zip(&mut factors[column + 1..]) {
            row[column] /= pivot;
            *factor = row[column];
        }
        for row in below {
            let factor = row[column];
            for (entry, other) in row[column + 1..].iter_mut().zip(&factors[column + 1..]) {
                *entry -= factor * other;
            }
        }
    }
}

/// Replaces `b` = X Lᵀ by X.
pub(super) fn solve(b: &mut Block, l: &Block) {
    let transposed = transpose(l);
    for row in b {
        for column in 0..SIDE {
            row[column] /= l[column][column];
            let solved = row[column];
            for (entry, factor) in row[column + 1..].iter_mut().zip(&transposed[column][column + 1..]) {
                *entry -= solved * factor;
            }
        }
    }
}

/// Subtracts `a` times the transpose of `b` from `c`.
pub(super) fn subtract_product(c: &mut Block, a: &Block, b: &Block) {
    // With the rows of the transpose, the inner loop runs along the rows of c and vectorises.
    let transposed = transpose(b);
    for (c, a) in c.iter_mut().zip(a) {
        let mut sum = [0.0; SIDE];
        for (factor, b) in a.iter().zip(&transposed) {
            for (sum, b) in sum.iter_mut().zip(b) {
                *sum += factor * b;
            }
        }
        for (c, sum) in c.iter_mut().zip(sum) {
            *c -= sum;
        }
    }
}

fn transpose(block: &Block) -> Block {
    std::array::from_fn(|row| std::array::from_fn(|column| block[column][row]))
}
