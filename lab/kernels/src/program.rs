//! What every program offers, and the backends it runs on.

use std::time::Duration;

use comity::WorkerCounters;
use comity_graph::{About, Graph};
use comity_os::cpu_clock::ThreadId;
use comity_os::usage::Usage;

use crate::record::{Costs, record};
use crate::{ForkJoin, OnComity, OnRayon, Serial};

/// What a run's output was checked against, and whether it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the output is right.
    pub verified: bool,
    /// One line for a person: what was compared, and the values that were.
    pub detail: String,
}

impl Verdict {
    /// A verdict on one comparison.
    pub fn new(verified: bool, detail: impl Into<String>) -> Verdict {
        Verdict { verified, detail: detail.into() }
    }
}

/// A program written once over a fork-join backend. The value holds its input, built before the clock starts, and is
/// unchanged by a run: the same program runs any number of times.
pub trait Kernel: Send + Sync {
    /// What a run leaves behind to be checked.
    type Output: Send;

    /// The timed part.
    fn compute<J: ForkJoin>(&self, fork_join: J) -> Self::Output;

    /// Compares an output with ground truth. Not timed.
    fn verify(&self, output: &Self::Output) -> Verdict;

    /// Writes what a person would look at (a picture, say) and returns a sentence that says what and where. Most
    /// programs have nothing to show.
    ///
    /// # Errors
    /// A sentence that says what could not be written and why.
    fn present(&self, _output: &Self::Output) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// Where a program runs.
pub enum Backend {
    /// On the calling thread alone.
    Serial,
    /// In a pool of Comity, under whichever policy it was built with.
    Comity(comity::ThreadPool),
    /// In a pool of stock rayon.
    Rayon(rayon::ThreadPool),
}

impl Backend {
    /// What all workers together have done so far; `None` where nothing is counted.
    pub fn counters(&self) -> Option<WorkerCounters> {
        match self {
            Backend::Comity(pool) => Some(WorkerCounters::total(&pool.counters())),
            Backend::Serial | Backend::Rayon(_) => None,
        }
    }
}

/// One timed and checked run. Times and counts are those of [`Kernel::compute`]; the check is not in them.
#[derive(Clone, Debug)]
pub struct Run {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// What the whole process used meanwhile.
    pub used: Usage,
    /// What all workers together did meanwhile; `None` where nothing is counted.
    pub counters: Option<WorkerCounters>,
    /// Whether the output was right.
    pub verdict: Verdict,
    /// What [`Kernel::present`] said, if it was asked for and had something to say.
    pub presented: Option<Result<String, String>>,
}

/// A prepared [`Kernel`] with its type erased: what the catalog hands out.
pub trait Program: Send + Sync {
    /// Runs once on `backend`, times it and checks it. With `present`, also shows the output.
    fn run(&self, backend: &Backend, present: bool) -> Run;

    /// Only [`Kernel::compute`]. What comes back checks the output, for a caller that measures something in
    /// between.
    fn compute_on(&self, backend: &Backend) -> Box<dyn FnOnce() -> Verdict + '_>;

    /// Runs it serially, unmeasured but as a whole: the processor time.
    fn run_plain(&self) -> (Duration, Verdict);

    /// Runs it once serially, and records it: see [`record`].
    fn record(&self, merge_ns: u64, costs: Costs, about: About) -> (Result<Graph, String>, Verdict);
}

impl<K: Kernel> Program for K {
    fn run(&self, backend: &Backend, present: bool) -> Run {
        let (used, counters) = (Usage::of_this_process(), backend.counters());
        let start = std::time::Instant::now();
        let output = output_of(self, backend);
        let seconds = start.elapsed().as_secs_f64();
        let used = Usage::of_this_process().since(used);
        let counters = backend.counters().zip(counters).map(|(now, then)| now.since(&then));
        let verdict = self.verify(&output);
        let presented = if present { self.present(&output).transpose() } else { None };
        Run { seconds, used, counters, verdict, presented }
    }

    fn compute_on(&self, backend: &Backend) -> Box<dyn FnOnce() -> Verdict + '_> {
        let output = output_of(self, backend);
        Box::new(move || self.verify(&output))
    }

    fn run_plain(&self) -> (Duration, Verdict) {
        let thread = ThreadId::current();
        let used = || thread.cpu_time().expect("the calling thread is there");
        let before = used();
        // The code that any serial run has: inlined twice, it may come out otherwise.
        let output = output_of(self, &Backend::Serial);
        (used() - before, self.verify(&output))
    }

    fn record(&self, merge_ns: u64, costs: Costs, about: About) -> (Result<Graph, String>, Verdict) {
        let (output, graph) = record(merge_ns, costs, about, |fork_join| self.compute(fork_join));
        (graph, self.verify(&output))
    }
}

#[inline(never)]
fn output_of<K: Kernel>(kernel: &K, backend: &Backend) -> K::Output {
    match backend {
        Backend::Serial => kernel.compute(Serial),
        Backend::Comity(pool) => pool.install(|| kernel.compute(OnComity)),
        Backend::Rayon(pool) => pool.install(|| kernel.compute(OnRayon)),
    }
}
