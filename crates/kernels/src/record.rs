//! A backend that records: a program runs serially, and each stretch between its forks and joins is measured.
//!
//! What a graph has is what the serial program does, so a stretch has in it what a worker finds in its own cache; what
//! joins cost on a pool is not in it.

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use comity_graph::{About, Graph, Recorder};
use comity_os::stopwatch::Stopwatch;

use crate::{ForkJoin, Serial};

/// The merge length where none is chosen: a steal costs less than a tenth of it.
pub const MERGE_NS: u64 = 2_000;

/// What is measured on this thread.
struct Session {
    watch: Stopwatch,
    recorder: Recorder,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
    /// In a quiet fork, one more than the joins that it has had; elsewhere 0.
    static QUIET: Cell<u64> = const { Cell::new(0) };
}

/// What measuring costs, which is subtracted.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// What is measured of a stretch in which nothing is done, in nanoseconds.
    pub clock_ns: u64,
    /// What a join costs that is counted and not measured, in nanoseconds.
    pub quiet_ns: f64,
}

impl Costs {
    /// Measures them, in some milliseconds.
    pub fn calibrated() -> Costs {
        Costs { clock_ns: clock_ns(), quiet_ns: quiet_ns() }
    }
}

/// Runs `body` on [`OnRecorder`], and makes its graph. Of `about` it fills in what it knows. A panic of `body` reaches the
/// caller.
///
/// # Errors
/// The run has more tasks than a graph may have; says so in a sentence.
pub fn record<R>(
    merge_ns: u64,
    costs: Costs,
    about: About,
    body: impl FnOnce(OnRecorder) -> R,
) -> (R, Result<Graph, String>) {
    let mut watch = Stopwatch::start();
    let began = watch.now();
    let recorder = Recorder::new(began, merge_ns, costs.clock_ns, costs.quiet_ns);
    QUIET.set(0);
    SESSION.set(Some(Session { watch, recorder }));
    let result = body(OnRecorder);
    let mut session = SESSION.take().expect("it was begun above");
    let now = session.watch.now();
    session.recorder.stop(now);
    (result, session.recorder.finish(About { recorded_ns: now - began, ..about }))
}

fn with<R>(what: impl FnOnce(&mut Session) -> R) -> R {
    SESSION.with_borrow_mut(|session| what(session.as_mut().expect("OnRecorder is used within record")))
}

/// The run that is recorded on this thread: [`record`].
///
/// # Panics
/// A join outside of [`record`], or on another thread.
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
        let quiet = QUIET.get();
        if quiet > 0 {
            QUIET.set(quiet + 1);
            return Serial.join(a, b);
        }
        loud(a, b)
    }
}

/// A join that is measured, or one that begins to be quiet.
#[inline(never)]
fn loud<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let began = with(|Session { watch, recorder }| {
        recorder.stop(watch.now());
        if recorder.wants_quiet() {
            return Some(watch.now());
        }
        recorder.fork();
        recorder.go(watch.now());
        None
    });
    if let Some(began) = began {
        QUIET.set(2);
        let results = (a(), b());
        let joins = QUIET.replace(0) - 1;
        with(|Session { watch, recorder }| {
            recorder.was_quiet(began, watch.now(), joins);
            recorder.go(watch.now());
        });
        return results;
    }
    let left = a();
    with(|Session { watch, recorder }| {
        recorder.stop(watch.now());
        recorder.next();
        recorder.go(watch.now());
    });
    let right = b();
    with(|Session { watch, recorder }| {
        recorder.stop(watch.now());
        recorder.join();
        recorder.go(watch.now());
    });
    (left, right)
}

/// The levels of the trees of joins on which costs are measured.
const LEVELS: u32 = 12;

/// Joins that do nothing.
fn tree<J: ForkJoin>(fork_join: J, levels: u32) -> u64 {
    if levels == 0 {
        return black_box(1);
    }
    let (left, right) = fork_join.join(|| tree(fork_join, levels - 1), || tree(fork_join, levels - 1));
    left + right
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// What is measured of a stretch of such a tree, in the mean.
fn clock_ns() -> u64 {
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let stretches = 3 * ((1u64 << LEVELS) - 1) + 1;
    let each = (0..21).map(|_| {
        let (_, graph) = record(u64::MAX, nothing, About::default(), |fork_join| tree(fork_join, LEVELS));
        graph.map_or(0.0, |graph| graph.measure(0).work as f64 / stretches as f64)
    });
    median(each.collect()).round() as u64
}

/// By how much a tree of joins that do nothing takes longer in quiet than serially, per join.
fn quiet_ns() -> f64 {
    let time = |body: &dyn Fn() -> u64| {
        let mut watch = Stopwatch::start();
        let began = watch.now();
        black_box(body());
        watch.now() - began
    };
    let each = (0..101).map(|_| {
        let serial = time(&|| tree(Serial, LEVELS));
        QUIET.set(1);
        let quiet = time(&|| tree(OnRecorder, LEVELS));
        QUIET.set(0);
        (quiet as f64 - serial as f64) / f64::from((1 << LEVELS) - 1)
    });
    median(each.collect())
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
        // Halved seven times, 1000 items are in 128 leaves.
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

    #[test]
    fn measuring_costs_something() {
        let costs = Costs::calibrated();
        assert!((1..10_000).contains(&costs.clock_ns) && costs.quiet_ns.is_finite(), "{costs:?}");
    }
}
