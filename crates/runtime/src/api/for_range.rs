//! Parallel loops over a range.

use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::api::join::on_worker;
use crate::raw::abort::drop_lost;
use crate::workers::registry::Worker;

/// Calls `body` with each block of `grain` indices of `range`, potentially in parallel. The last block may be
/// shorter. The blocks are the same on every run, for any number of workers.
///
/// The range is halved until a part has `range.len() / (4 * workers)` indices. Smaller parts are halved lazily: when
/// this worker's deque is empty, or when a thief asks for more. So a loop that no thief joins has almost no cost per
/// block. A good grain is a microsecond of work or less. (Tzannes, Caragea, Barua and Vishkin, *Lazy binary
/// splitting*, PPoPP 2010.)
///
/// # Panics
/// Panics if `grain` is zero. A panic of `body` is resumed after all blocks have run. If several blocks panic, the
/// panic of the leftmost block is resumed.
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
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
///
/// Use [`map_reduce`] for a loop that computes a value. `body` cannot borrow a slice mutably, because blocks run at
/// the same time. So a loop that writes into a slice spawns a task for each chunk of the slice in a
/// [`scope`](crate::scope()):
///
/// ```
/// let mut pixels = vec![1_u8; 100_000];
/// comity::scope(|scope| {
///     for (nth, chunk) in pixels.chunks_mut(4096).enumerate() {
///         scope.spawn(move |_| chunk.iter_mut().for_each(|pixel| *pixel += nth as u8));
///     }
/// });
/// assert_eq!((pixels[0], pixels[99_999]), (1, 25));
/// ```
#[doc(alias = "par_iter")]
#[doc(alias = "into_par_iter")]
#[doc(alias = "for_each")]
pub fn for_range<F>(range: Range<usize>, grain: usize, body: F)
where
    F: Fn(Range<usize>) + Sync,
{
    map_reduce(range, grain, body, |(), ()| ());
}

/// Calls `map` with each block of `range`, like [`for_range`], and combines the results with `reduce`. Returns `None`
/// if the range is empty.
///
/// `reduce` must be associative. It gets two neighbouring results, the left one first, so it need not be commutative.
/// The order of the calls of `reduce` differs from run to run, so the last digits of a floating-point sum may differ.
///
/// # Panics
/// Panics if `grain` is zero. A panic of `map` or `reduce` is resumed after `map` has been called with all blocks. If
/// only `map` panics, its leftmost panic is resumed.
/// Panics if the global pool is used and [cannot be built](crate::ThreadPoolBuilder#from-outside-of-the-program).
///
/// ```
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// let sum = comity::map_reduce(0..numbers.len(), 1024, |part| numbers[part].iter().sum(), |a: u64, b| a + b);
/// assert_eq!(sum, Some(5_000_050_000));
///
/// let longest = |a: &'static str, b: &'static str| if a.len() >= b.len() { a } else { b };
/// let words = ["a", "task", "that", "is", "stolen"];
/// assert_eq!(comity::map_reduce(0..words.len(), 1, |part| words[part.start], longest), Some("stolen"));
/// assert_eq!(comity::map_reduce(0..0, 1, |part| words[part.start], longest), None);
/// ```
#[doc(alias = "par_iter")]
#[doc(alias = "into_par_iter")]
#[doc(alias = "reduce")]
#[doc(alias = "sum")]
pub fn map_reduce<T, M, R>(range: Range<usize>, grain: usize, map: M, reduce: R) -> Option<T>
where
    T: Send,
    M: Fn(Range<usize>) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    assert!(grain > 0, "the grain is 0. The minimum is 1");
    if range.is_empty() {
        return None;
    }
    on_worker(|worker| {
        let coarse = range.len() / (4 * worker.registry().workers() as usize);
        let hears = worker.peer.deque.can_be_silent() && worker.registry().sleep.bell_may_stop();
        split_lazily(worker, range, &Loop { grain, coarse, hears, map: &map, reduce: &reduce })
    })
}

struct Loop<'a, M, R> {
    grain: usize,
    /// The length above which a part is halved even if no thief asks.
    coarse: usize,
    /// True if the deque's bell rings only while a thief or a sleeper wants a task. In some pools the bell always
    /// rings.
    hears: bool,
    map: &'a M,
    reduce: &'a R,
}

/// The combined results of the beginning of a part.
enum Sum<T> {
    /// No block has a result yet.
    Nothing,
    Of(T),
    /// A block has panicked, so later results have no left neighbour.
    Lost,
}

impl<T> Sum<T> {
    fn add(&mut self, value: T, reduce: impl FnOnce(T, T) -> T) {
        *self = match mem::replace(self, Sum::Lost) {
            Sum::Nothing => Sum::Of(value),
            Sum::Of(sum) => Sum::Of(reduce(sum, value)),
            Sum::Lost => Sum::Lost,
        };
    }
}

/// Runs the range and returns the combined results, or `None` if the range was empty.
fn split_lazily<T, M, R>(worker: &Worker, mut range: Range<usize>, this: &Loop<'_, M, R>) -> Option<T>
where
    T: Send,
    M: Fn(Range<usize>) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    let mut leftmost = None;
    let mut sum = Sum::Nothing;
    while !range.is_empty() {
        let outcome = catch_unwind(AssertUnwindSafe(|| until_panic(worker, &mut range, &mut sum, this)));
        if let Err(payload) = outcome {
            drop_lost(mem::replace(&mut sum, Sum::Lost));
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
    match sum {
        Sum::Of(sum) => Some(sum),
        Sum::Nothing | Sum::Lost => None,
    }
}

/// Runs the range until it ends or a block panics. Each block is removed from the front of `range` before it begins,
/// so that a second call continues behind a block that panicked.
fn until_panic<T, M, R>(worker: &Worker, range: &mut Range<usize>, sum: &mut Sum<T>, this: &Loop<'_, M, R>)
where
    T: Send,
    M: Fn(Range<usize>) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    let (grain, deque) = (this.grain, &worker.peer.deque);
    while range.len() > grain {
        if deque.is_empty() || this.hears && deque.rings() || range.len() > this.coarse {
            let blocks = range.len().div_ceil(grain);
            let middle = range.start + blocks / 2 * grain;
            let Range { start, end } = mem::take(range);
            let halves = worker.join(
                |worker| split_lazily(worker, start..middle, this),
                |worker| split_lazily(worker, middle..end, this),
            );
            let (Some(left), Some(right)) = halves else { unreachable!("neither half is empty") };
            sum.add((this.reduce)(left, right), this.reduce);
            return;
        }
        let block = range.start..range.start + grain;
        range.start = block.end;
        sum.add((this.map)(block), this.reduce);
    }
    sum.add((this.map)(mem::take(range)), this.reduce);
}
