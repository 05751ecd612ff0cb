//! A parallel phase over several vectors at once.

use crate::ForkJoin;

/// Slices of one length that a phase reads and writes together, as nested pairs.
pub(super) trait Rows: Sized + Send {
    fn length(&self) -> usize;
    fn split_at(self, middle: usize) -> (Self, Self);
}

impl Rows for &[f64] {
    fn length(&self) -> usize {
        self.len()
    }

    fn split_at(self, middle: usize) -> (Self, Self) {
        <[f64]>::split_at(self, middle)
    }
}

impl Rows for &mut [f64] {
    fn length(&self) -> usize {
        self.len()
    }

    fn split_at(self, middle: usize) -> (Self, Self) {
        self.split_at_mut(middle)
    }
}

impl<A: Rows, B: Rows> Rows for (A, B) {
    fn length(&self) -> usize {
        debug_assert_eq!(self.0.length(), self.1.length());
        self.0.length()
    }

    fn split_at(self, middle: usize) -> (Self, Self) {
        let (left_a, right_a) = self.0.split_at(middle);
        let (left_b, right_b) = self.1.split_at(middle);
        ((left_a, left_b), (right_a, right_b))
    }
}

/// Calls `leaf` on parts of at most `grain` rows, and adds the results pairwise. [`ForkJoin::reduce_range`] cannot
/// split several mutable slices. This function halves in the same way, so that its sums have the same bits.
pub(super) fn sum_rows<J, R, F>(fork_join: J, rows: R, grain: usize, leaf: &F) -> f64
where
    J: ForkJoin,
    R: Rows,
    F: Fn(R) -> f64 + Sync,
{
    let length = rows.length();
    if length <= grain {
        return leaf(rows);
    }
    let (left, right) = rows.split_at(length / 2);
    let (left, right) =
        fork_join.join(|| sum_rows(fork_join, left, grain, leaf), || sum_rows(fork_join, right, grain, leaf));
    left + right
}
