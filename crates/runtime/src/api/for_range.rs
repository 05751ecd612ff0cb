//! A parallel loop over a range.

use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::api::join::on_worker;
use crate::raw::abort::drop_lost;
use crate::workers::registry::Worker;

/// Calls `body` with the blocks of `grain` that `range` consists of, the last of which may be shorter, potentially in
/// parallel. The blocks are the same on every run, whatever the number of workers.
///
/// The range is halved down to a quarter of a worker's share. From there on it is halved lazily: when there is nothing
/// else that a thief could take from this worker, or a thief asks for more. So a loop that no thief helps with costs
/// next to nothing per block; a good grain is a microsecond of work or less. (Tzannes, Caragea, Barua and Vishkin,
/// *Lazy binary splitting*, PPoPP 2010.)
///
/// # Panics
/// If `grain` is zero. With the leftmost panic of `body`, after it has been called with all blocks.
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
        on_worker(|worker| {
            let coarse = range.len() / (4 * worker.registry().workers() as usize);
            let hears = worker.peer.deque.can_be_silent() && worker.registry().sleep.bell_may_stop();
            split_lazily(worker, range, &Loop { grain, coarse, hears, body: &body });
        });
    }
}

struct Loop<'a, F> {
    grain: usize,
    /// Longer parts than that are halved in any case.
    coarse: usize,
    /// Whether a bell that rings means that a thief or a sleeper is hungry: in some pools it always rings.
    hears: bool,
    body: &'a F,
}

fn split_lazily<F>(worker: &Worker, mut range: Range<usize>, this: &Loop<'_, F>)
where
    F: Fn(Range<usize>) + Sync,
{
    let mut leftmost = None;
    while !range.is_empty() {
        let outcome = catch_unwind(AssertUnwindSafe(|| until_panic(worker, &mut range, this)));
        if let Err(payload) = outcome {
            if leftmost.is_none() {
                leftmost = Some(payload);
            } else {
                drop_lost(payload);
            }
        }
    }
    if let Some(payload) = leftmost {
        resume_unwind(payload);
    }
}

/// Runs the range, and cuts off in front what it has begun.
fn until_panic<F>(worker: &Worker, range: &mut Range<usize>, this: &Loop<'_, F>)
where
    F: Fn(Range<usize>) + Sync,
{
    let (grain, deque) = (this.grain, &worker.peer.deque);
    while range.len() > grain {
        if deque.is_empty() || this.hears && deque.rings() || range.len() > this.coarse {
            let blocks = range.len().div_ceil(grain);
            let middle = range.start + blocks / 2 * grain;
            let Range { start, end } = mem::take(range);
            worker.join(
                |worker| split_lazily(worker, start..middle, this),
                |worker| split_lazily(worker, middle..end, this),
            );
            return;
        }
        let block = range.start..range.start + grain;
        range.start = block.end;
        (this.body)(block);
    }
    (this.body)(mem::take(range));
}
