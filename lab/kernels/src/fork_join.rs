//! The interface between the programs and the backends that run them.

use std::ops::Range;

/// A fork-join backend, which can run two closures, possibly in parallel.
///
/// A value is zero-sized, and a join uses the pool of the worker that calls it. [`Backend`](crate::Backend) enters
/// the pool. All loops and reductions of this trait are built from [`ForkJoin::join`] alone, so that all backends run
/// the same task graph.
pub trait ForkJoin: Copy + Send + Sync {
    /// Runs both closures, possibly in parallel, and returns both results. Passes a panic of either closure to the
    /// caller.
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

    /// Maps sub-ranges of at most `grain` elements. Combines the results pairwise, in the fixed order in which the
    /// range is halved. Therefore floating-point sums are the same on every backend and in every run.
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

    /// Returns a copy of `source`, which is made in parallel. The system provides zeroed memory without touching it,
    /// so the first access to each page of the copy is parallel too.
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

/// The number of elements that a leaf of [`ForkJoin::copy`] copies: tens of µs for elements of eight bytes.
pub(crate) const COPY_GRAIN: usize = 16 * 1024;

/// Does [`ForkJoin::for_chunks_mut`] on the end of a slice. The first chunk of `data` has the index `first` in the
/// whole slice.
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

/// Implements [`ForkJoin`] by a function that runs two closures.
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

/// A backend that runs both closures in sequence on the calling thread: the serial elision.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

joins_by!(Serial, |a: A, b: B| (a(), b()));

/// The backend that joins with Comity. A join uses the pool of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct OnComity;

joins_by!(OnComity, comity::join);

/// The backend that joins with stock rayon. A join uses the pool of the calling thread.
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
