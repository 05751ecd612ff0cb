//! The seam between the programs and whatever runs them.

use std::ops::Range;

/// A fork-join backend: something that can run two closures, possibly in parallel.
///
/// The values are zero-sized: the pool is that of the worker that calls (see [`Backend`](crate::Backend), which
/// enters it). Every loop and reduction below is built from [`ForkJoin::join`] alone, so that two backends are
/// compared on the same task graph.
pub trait ForkJoin: Copy + Send + Sync {
    /// Runs both closures, potentially in parallel, and returns both results. A panic of either reaches the caller.
    fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send;

    /// Calls `body` with disjoint sub-ranges that cover `range`, each at most `grain` long.
    ///
    /// # Panics
    /// If `grain` is zero, or if `body` panics.
    fn for_range<F>(self, range: Range<usize>, grain: usize, body: &F)
    where
        F: Fn(Range<usize>) + Sync,
    {
        assert!(grain > 0, "a grain of zero would never end");
        if range.len() <= grain {
            if !range.is_empty() {
                body(range);
            }
            return;
        }
        let middle = range.start + range.len() / 2;
        self.join(
            || self.for_range(range.start..middle, grain, body),
            || self.for_range(middle..range.end, grain, body),
        );
    }

    /// Maps sub-ranges of at most `grain` and combines the results pairwise, in the fixed shape of the range's
    /// halving. So floating-point sums come out the same on every backend and every run.
    ///
    /// # Panics
    /// If `grain` is zero, or if `map` or `combine` panics.
    fn reduce_range<T, M, C>(self, range: Range<usize>, grain: usize, map: &M, combine: &C) -> T
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        C: Fn(T, T) -> T + Sync,
    {
        assert!(grain > 0, "a grain of zero would never end");
        if range.len() <= grain {
            return map(range);
        }
        let middle = range.start + range.len() / 2;
        let (left, right) = self.join(
            || self.reduce_range(range.start..middle, grain, map, combine),
            || self.reduce_range(middle..range.end, grain, map, combine),
        );
        combine(left, right)
    }

    /// Splits `data` into chunks of `chunk` elements (the last may be shorter) and calls `body` with each chunk's
    /// index and contents.
    ///
    /// # Panics
    /// If `chunk` is zero, or if `body` panics.
    fn for_chunks_mut<T, F>(self, data: &mut [T], chunk: usize, body: &F)
    where
        T: Send,
        F: Fn(usize, &mut [T]) + Sync,
    {
        assert!(chunk > 0, "a chunk of zero would never end");
        for_chunks_mut_from(self, data, chunk, 0, body);
    }

    /// A copy of `source`. Zeroed memory comes untouched from the system, so that its first touch falls into the
    /// parallel part as well.
    fn copy<T>(self, source: &[T]) -> Vec<T>
    where
        T: Copy + Default + Send + Sync,
    {
        let mut copy = vec![T::default(); source.len()];
        self.for_chunks_mut(&mut copy, COPY_GRAIN, &|chunk, part| {
            part.copy_from_slice(&source[chunk * COPY_GRAIN..][..part.len()]);
        });
        copy
    }
}

/// Elements that a leaf of [`ForkJoin::copy`] copies: tens of microseconds for numbers of eight bytes.
pub(crate) const COPY_GRAIN: usize = 16 * 1024;

/// [`ForkJoin::for_chunks_mut`] on the tail of a slice; its first chunk has the index `first`.
fn for_chunks_mut_from<J, T, F>(fork_join: J, data: &mut [T], chunk: usize, first: usize, body: &F)
where
    J: ForkJoin,
    T: Send,
    F: Fn(usize, &mut [T]) + Sync,
{
    let chunks = data.len().div_ceil(chunk);
    if chunks <= 1 {
        if !data.is_empty() {
            body(first, data);
        }
        return;
    }
    let half = chunks / 2;
    let (left, right) = data.split_at_mut(half * chunk);
    fork_join.join(
        || for_chunks_mut_from(fork_join, left, chunk, first, body),
        || for_chunks_mut_from(fork_join, right, chunk, first + half, body),
    );
}

/// Implements [`ForkJoin`] by a function of both closures.
macro_rules! joins_by {
    ($runtime:ident, $join:expr) => {
        impl ForkJoin for $runtime {
            fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
            where
                A: FnOnce() -> RA + Send,
                B: FnOnce() -> RB + Send,
                RA: Send,
                RB: Send,
            {
                $join(a, b)
            }
        }
    };
}

/// One after the other on the calling thread: the serial elision.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

joins_by!(Serial, |a: A, b: B| (a(), b()));

/// Comity, in whichever of its pools the caller is.
#[derive(Clone, Copy, Debug)]
pub struct OnComity;

joins_by!(OnComity, comity::join);

/// Stock rayon, in whichever of its pools the caller is.
#[derive(Clone, Copy, Debug)]
pub struct OnRayon;

joins_by!(OnRayon, rayon::join);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_same_at_any_length() {
        for length in [0, 1, COPY_GRAIN - 1, COPY_GRAIN, COPY_GRAIN + 1, 5 * COPY_GRAIN + 7] {
            let source: Vec<usize> = (0..length).collect();
            assert_eq!(OnRayon.copy(&source), source, "{length}");
        }
    }
}
