//! Records a kernel in this process.

use comity_console::Failure;
use comity_graph::{About, Graph};
use comity_kernels::record::Costs;
use comity_kernels::scaling::FORKS_NOTHING;
use comity_kernels::{Verdict, catalog};
use comity_os::cpu_clock::ThreadId;

use super::{Rounds, choose, median};
use crate::progress::Progress;

/// Checks that `name` is a kernel with valid parameters, and that the kernel can be recorded.
pub fn check(name: &str) -> Result<(), Failure> {
    let (definition, _) = catalog::parse(name).map_err(|error| Failure::Usage(error.to_string()))?;
    if definition.scaling.err() == Some(FORKS_NOTHING) {
        return Err(Failure::Usage(format!(
            "{name} cannot be recorded, because its tasks wait or have threads of their own; in a scenario, use kind = \
             \"loop\" for the program loop, and sleep or kind = \"scatter-gather\" for tasks that wait"
        )));
    }
    Ok(())
}

/// Runs a kernel `rounds` times with and `rounds` times without recording, in turns.
pub fn record(name: &str, workers: u16, merge_ns: u64, rounds: u32) -> Result<(Graph, Rounds), Failure> {
    let program = catalog::prepare(name).map_err(|error| Failure::Usage(error.to_string()))?;
    let right = |verdict: Verdict| match verdict.verified {
        true => Ok(()),
        false => Err(Failure::Run(format!("{name} gave a wrong result: {}", verdict.detail))),
    };
    check(name)?;
    let costs = Costs::calibrated();
    let progress = Progress::new(2 * rounds as usize + 1, 0, "runs");
    progress.doing(|| format!("{name}, first run"));
    // The first run is not counted, because it allocates and maps memory that later runs use.
    right(program.run_plain().1)?;
    progress.inc();
    let about = About { program: name.to_owned(), workers: workers.into(), ..About::default() };
    let (mut plain, mut checks, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
    let thread = ThreadId::current();
    let used_now = || thread.cpu_time().expect("the calling thread exists");
    for _ in 0..rounds {
        progress.doing(|| format!("{name}, without recording"));
        let before = used_now();
        let (used, verdict) = program.run_plain();
        checks.push((used_now() - before).saturating_sub(used).as_nanos() as u64);
        right(verdict)?;
        plain.push(used.as_nanos() as u64);
        progress.inc();
        progress.doing(|| format!("{name}, with recording"));
        let (graph, verdict) = program.record(merge_ns, costs, about.clone());
        right(verdict)?;
        graphs.push(graph.map_err(|why| Failure::Run(format!("{name} cannot be recorded: {why}")))?);
        progress.inc();
    }
    progress.end();
    let (mut graph, rounds) = choose(plain, graphs);
    graph.about.check_ns = Some(median(&checks));
    Ok((graph, rounds))
}
