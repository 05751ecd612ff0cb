//! Rules that scale the recorded graph of a program's small input to the graph of a larger input. A rule says which
//! parameters may differ, and gives the factors.
//!
//! The rule of a program is in its definition. For each field of [`Scale`], the rule computes the *extent* of an input
//! in the program's own units, for example its number of samples. The factor that scales the graph is the extent of
//! the larger input / the extent of the small input. Extents that count tasks and leaves are exact, because they are
//! computed by the program's own halving. Extents for lengths count the work of a leaf, without the effect of caches.
//! If only the small input fits into a cache, the predicted lengths are too short.

use comity_graph::Scale;

use crate::{ParameterError, Parameters};

/// The reason why some programs have no rule and cannot be recorded: their tasks wait for each other or sleep, or
/// they have their own threads.
pub const FORKS_NOTHING: &str = "it forks no tasks that can be recorded";

/// A rule that scales a program's graph.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// The parameters that may differ, in addition to `seed`.
    pub keys: &'static [&'static str],
    /// The rule, in words.
    pub rule: &'static str,
    /// Returns the extent of an input for each factor. A factor is the ratio of the extents of two inputs.
    pub extents: fn(&Parameters) -> Result<Scale, ParameterError>,
}

/// Returns the number of leaves of a range that is halved until no part is longer than `grain`, as
/// [`ForkJoin`](crate::ForkJoin) does.
pub(crate) fn halved(length: usize, grain: usize) -> usize {
    let grain = grain.max(1);
    // The parts of a level have at most two lengths: `shorter` and `shorter + 1`.
    let (mut shorter, mut short, mut long) = (length, 1, 0);
    let mut leaves = 0;
    while shorter + 1 > grain && short + long > 0 {
        if shorter <= grain {
            leaves += std::mem::take(&mut short);
        }
        (short, long) = if shorter % 2 == 0 { (2 * short + long, long) } else { (short, short + 2 * long) };
        shorter /= 2;
    }
    leaves + short + long
}

/// Returns the number of leaves of a range that is halved, or 0 if it is too short for a fork.
pub(crate) fn forked(length: usize, grain: usize) -> usize {
    if length <= grain.max(1) { 0 } else { halved(length, grain) }
}

/// Returns the length of the critical path, in operations on parts, of a recursive triangular decomposition (LU or
/// Cholesky). The matrix has `side` × `side` parts, and each level of the recursion splits it into quarters.
///
/// With t × t parts, the path of a product has p(t) = 2 p(t/2) = t operations, and the path of a solution has
/// s(t) = 2 s(t/2) + p(t/2). The path of a decomposition has d(t) = 2 d(t/2) + s(t/2) + p(t/2) operations. All three
/// begin with p(1) = s(1) = d(1) = 1. This function returns d(`side`).
pub(crate) fn quarters_on_path(side: f64) -> f64 {
    let levels = side.log2();
    side * (1.0 + levels * (7.0 + levels) / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_through_quarters_is_that_of_its_recursion() {
        let (mut product, mut solution, mut path) = (1.0, 1.0, 1.0);
        for levels in 0..12 {
            assert_eq!(quarters_on_path(f64::from(1 << levels)), path);
            (product, solution, path) = (2.0 * product, 2.0 * solution + product, 2.0 * path + solution + product);
        }
    }

    #[test]
    fn leaves_are_those_of_halving() {
        fn by_hand(length: usize, grain: usize) -> usize {
            if length <= grain { 1 } else { by_hand(length / 2, grain) + by_hand(length.div_ceil(2), grain) }
        }
        for (length, grain) in (1..600).flat_map(|length| (1..40).map(move |grain| (length, grain))) {
            assert_eq!(halved(length, grain), by_hand(length, grain), "{length}, {grain}");
        }
        assert_eq!(halved(100_000_000_000, 1), 100_000_000_000);
        assert_eq!(
            [(1, 1), (64, 64), (65, 64), (1_000, 10)].map(|(length, grain)| halved(length, grain)),
            [1, 1, 2, 128]
        );
        assert_eq!([(64, 64), (65, 64)].map(|(length, grain)| forked(length, grain)), [0, 2]);
    }
}
