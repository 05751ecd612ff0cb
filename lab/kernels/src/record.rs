//! A backend that records. A program runs serially, and each stretch between its forks and joins is measured.
//!
//! A graph describes the serial program: a stretch runs with the cache contents of one thread. It does not include
//! the cost of joins on a pool.

use comity_graph::{About, Graph};
use comity_recording::fork_join;
pub use comity_recording::{Costs, MERGE_NS};

use crate::ForkJoin;

/// Runs `body` on [`OnRecorder`], and returns the graph of the run. The recorder fills in the fields of `about` that
/// it knows. Passes a panic of `body` to the caller.
///
/// # Errors
/// A sentence, if the run has more tasks than a graph can hold.
pub fn record<R>(
    merge_ns: u64,
    costs: Costs,
    about: About,
    body: impl FnOnce(OnRecorder) -> R,
) -> (R, Result<Graph, String>) {
    comity_recording::record(merge_ns, costs, about, || body(OnRecorder))
}

/// The backend of the run that [`record`] records on this thread. On other threads, joins are serial and not
/// recorded.
#[derive(Clone, Copy, Debug)]
pub struct OnRecorder;

impl ForkJoin for OnRecorder {
    #[inline]
    fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        fork_join(a, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded<R>(merge_ns: u64, body: impl FnOnce(OnRecorder) -> R) -> (R, Graph) {
        let costs = Costs { clock_ns: 0, quiet_ns: 0.0 };
        let (result, graph) = record(merge_ns, costs, About::default(), body);
        (result, graph.unwrap())
    }

    #[test]
    fn a_halving_has_its_leaves() {
        let ((), graph) = recorded(0, |record| record.for_range(0..1_000, 10, &|_| ()));
        // After seven halvings, 1000 items are in 128 leaves.
        assert_eq!((graph.leaves().count, graph.count_tasks()), (128, 1 + 2 * 127));
        assert!(graph.about.recorded_ns > 0 && graph.about.span_ns <= graph.about.recorded_ns);
    }

    #[test]
    fn rounds_are_kept_once() {
        let ((), graph) = recorded(0, |record| (0..50).for_each(|_| record.for_range(0..64, 1, &|_| ())));
        assert_eq!(graph.count_tasks(), 1 + 50 * 126);
        assert!(graph.tasks().len() < 140, "{}", graph.tasks().len());
    }

    #[test]
    fn what_is_short_is_counted_and_not_kept() {
        fn fib(record: OnRecorder, n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = record.join(|| fib(record, n - 1), || fib(record, n - 2));
            a + b
        }
        let (result, graph) = recorded(100_000_000_000, |record| fib(record, 29));
        assert_eq!(result, 514_229);
        assert_eq!((graph.count_tasks(), graph.merged_joins()), (1, 832_039));
    }

    #[test]
    fn a_panic_passes_and_the_next_run_is_recorded() {
        let panics = std::panic::catch_unwind(|| {
            recorded(0, |record| record.join(|| (), || std::panic::resume_unwind(Box::new(()))))
        });
        assert!(panics.is_err());
        let (_, graph) = recorded(0, |record| record.join(|| (), || ()));
        assert_eq!(graph.count_tasks(), 3);
    }
}
