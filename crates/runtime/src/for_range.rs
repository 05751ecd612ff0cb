//! A parallel loop over a range.

use std::ops::Range;

use crate::join;

/// Calls `body` with disjoint sub-ranges that cover `range`, each at most `grain` long, potentially in parallel.
///
/// The range is halved down to the grain, so the sub-ranges are the same on every run, whatever the number of workers.
/// A good grain is some microseconds of work.
///
/// # Panics
/// If `grain` is zero; with a panic of `body`, after all calls that had begun have ended.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let sum = AtomicU64::new(0);
/// comity::for_range(0..1_000, 64, |part| {
///     sum.fetch_add(part.map(|i| i as u64).sum(), Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
pub fn for_range<F>(range: Range<usize>, grain: usize, body: F)
where
    F: Fn(Range<usize>) + Sync,
{
    assert!(grain > 0, "a grain of zero would never end");
    if !range.is_empty() {
        halve(range, grain, &body);
    }
}

fn halve<F>(range: Range<usize>, grain: usize, body: &F)
where
    F: Fn(Range<usize>) + Sync,
{
    if range.len() <= grain {
        return body(range);
    }
    let middle = range.start + range.len() / 2;
    join(|| halve(range.start..middle, grain, body), || halve(middle..range.end, grain, body));
}
