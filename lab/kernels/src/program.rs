//! The interface of every program, and the backends that it runs on.

use std::time::Duration;

use comity::WorkerCounters;
use comity_graph::{About, Graph};
use comity_os::cpu_clock::ThreadId;
use comity_os::usage::Usage;

use crate::record::{Costs, record};
use crate::{ForkJoin, OnComity, OnRayon, Serial};

/// The result of checking a run's output against a known result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the output is correct.
    pub verified: bool,
    /// A line for the user: what was compared, and the values.
    pub detail: String,
}

impl Verdict {
    /// Returns a verdict on one comparison.
    pub fn new(verified: bool, detail: impl Into<String>) -> Verdict {
        Verdict { verified, detail: detail.into() }
    }
}

/// A program that is written once for all fork-join backends. The value holds its input, which is built before the
/// clock starts. A run does not change the value, so that the same program can run many times.
pub trait Kernel: Send + Sync {
    /// The output of a run, which is then checked.
    type Output: Send;

    /// Does the timed part of the program.
    fn compute<J: ForkJoin>(&self, fork_join: J) -> Self::Output;

    /// Compares an output with a known result. Not timed.
    fn verify(&self, output: &Self::Output) -> Verdict;

    /// Writes a result for the user to look at (for example a picture), and returns a sentence that says what was
    /// written and where. Most programs have nothing to show.
    ///
    /// # Errors
    /// A sentence that says what could not be written and why.
    fn present(&self, _output: &Self::Output) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// A backend: the runtime on which a program runs.
pub enum Backend {
    /// The calling thread alone.
    Serial,
    /// A pool of Comity, with its policy.
    Comity(comity::ThreadPool),
    /// A pool of stock rayon.
    Rayon(rayon::ThreadPool),
}

impl Backend {
    /// Returns the counters until now, summed over all workers. `None` if the backend counts nothing.
    pub fn counters(&self) -> Option<WorkerCounters> {
        match self {
            Backend::Comity(pool) => Some(WorkerCounters::total(&pool.counters())),
            Backend::Serial | Backend::Rayon(_) => None,
        }
    }
}

/// The outcome of a timed and checked run. Times and counts are for [`Kernel::compute`], without the check.
#[derive(Clone, Debug)]
pub struct Run {
    /// The elapsed time, in seconds.
    pub seconds: f64,
    /// The resources that the whole process used during the run.
    pub used: Usage,
    /// The counters of the run, summed over all workers. `None` if the backend counts nothing.
    pub counters: Option<WorkerCounters>,
    /// The verdict on the output.
    pub verdict: Verdict,
    /// The sentence of [`Kernel::present`], if it was called and returned a sentence.
    pub presented: Option<Result<String, String>>,
}

/// A prepared [`Kernel`] with its type erased, as the catalog returns it.
pub trait Program: Send + Sync {
    /// Runs once on `backend`, times the run and checks the output. With `present`, also presents the output.
    fn run(&self, backend: &Backend, present: bool) -> Run;

    /// Runs only [`Kernel::compute`]. Returns a closure that checks the output, for a caller that measures something
    /// between the run and the check.
    fn compute_on(&self, backend: &Backend) -> Box<dyn FnOnce() -> Verdict + '_>;

    /// Runs the program once serially. Returns the processor time of [`Kernel::compute`], and the verdict on the
    /// output.
    fn run_plain(&self) -> (Duration, Verdict);

    /// Runs the program once serially, and records it: see [`record`].
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
        // Uses the machine code of all serial runs, because a second inlined copy may be compiled differently.
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
