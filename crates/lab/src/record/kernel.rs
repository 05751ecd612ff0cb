//! A kernel that is recorded in this process.

use comity_console::Failure;
use comity_graph::{About, Graph};
use comity_kernels::record::Costs;
use comity_kernels::scaling::FORKS_NOTHING;
use comity_kernels::{Verdict, catalog};

use super::{Arguments, Rounds, choose};
use crate::backend::default_workers;
use crate::choices;
use crate::progress::Progress;

/// Runs a kernel in turns with and without being measured.
pub fn record(name: &str, arguments: &Arguments) -> Result<(Graph, Rounds), Failure> {
    let workers = match arguments.workers {
        Some(workers) => workers,
        None => default_workers()?,
    };
    choices::tell(&format!("record {name}, {} rounds", arguments.rounds));
    choices::tell_workers(workers, arguments.workers.is_some());
    let program = catalog::prepare(name).map_err(|error| Failure::Usage(error.to_string()))?;
    let right = |verdict: Verdict| match verdict.verified {
        true => Ok(()),
        false => Err(Failure::Run(format!("{name} gave a wrong result: {}", verdict.detail))),
    };
    let (row, _) = catalog::parse(name).map_err(|error| Failure::Usage(error.to_string()))?;
    if row.scaling.err() == Some(FORKS_NOTHING) {
        return Err(Failure::Usage(format!(
            "{name} cannot be recorded: its tasks wait or have threads of their own; in a scenario kind = \"loop\" is that \
             program, and sleep and kind = \"scatter-gather\" are tasks that wait"
        )));
    }
    let costs = Costs::calibrated();
    let progress = Progress::new(2 * arguments.rounds as usize + 1, 0, "runs");
    progress.doing(|| format!("{name}, for the first time"));
    // What is allocated and mapped once only is not in what is compared.
    right(program.run_plain().1)?;
    progress.inc();
    let about = About { program: name.to_owned(), workers: workers.into(), ..About::default() };
    let (mut plain, mut graphs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        progress.doing(|| format!("{name}, as it is"));
        let (used, verdict) = program.run_plain();
        right(verdict)?;
        plain.push(used.as_nanos() as u64);
        progress.inc();
        progress.doing(|| format!("{name}, recorded"));
        let (graph, verdict) = program.record(arguments.merge_ns, costs, about.clone());
        right(verdict)?;
        graphs.push(graph.map_err(|why| Failure::Run(format!("{name} cannot be recorded: {why}")))?);
        progress.inc();
    }
    progress.end();
    Ok(choose(plain, graphs))
}
