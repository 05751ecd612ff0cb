//! `comity-lab sweep`: runs everything that a file lists, on this machine or as an array of tasks on a cluster.
//!
//! The engine (HyperQueue or Slurm) queues the shards, places them on machines, and restarts a shard that lost its
//! machine. This verb builds the array of shards, waits for it, and merges the runs that the shards wrote. The files
//! of results are the same, byte for byte, as after a run on one machine.

mod engine;
mod file;
mod part;

use std::path::{self, Path, PathBuf};

use clap::Args;
use comity_console::Failure;
use comity_console::loudness::hint;

use crate::backend::workers_range;
use crate::runs::Shard;
use engine::{Array, Engine};
use file::Campaign;
use part::{Part, Role};

const EXAMPLES: &str = "Examples:
  comity-lab sweep sweep.toml
  comity-lab sweep sweep.toml --engine hyperqueue
  comity-lab sweep sweep.toml --engine slurm
  comity-lab sweep sweep.toml --shard 3/8
  comity-lab sweep sweep.toml --merge first --merge second

docs/guide/src/clusters.md documents the file, and the requirements of each
engine.";

/// Run all parts of a sweep file, here or as a task array on a cluster
///
/// The file lists scenarios and their varied values, papers to reproduce, a folder for results, and the number of
/// shards. Each finished run is saved there at once, so the same command continues after an interruption. With an
/// engine, the shards are the tasks of one array. The command waits for the array and merges its runs. The results
/// equal those of a run here, byte for byte.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Sweep file
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Engine that runs the sweep
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// Run shard I of N here, and save its runs. For batch systems that --engine does not support
    #[arg(long, value_name = "I/N", conflicts_with = "engine")]
    shard: Option<Shard>,
    /// Do no runs. Use the runs saved in this folder: the sweep file's `out`, or a copy of it; can be repeated
    #[arg(long, value_name = "DIR", conflicts_with_all = ["engine", "shard"])]
    merge: Vec<PathBuf>,
    /// Number of threads of this command [default: the usable cores]. With --engine, the file's `cpus` is used instead
    #[arg(long, value_name = "N", value_parser = workers_range())]
    workers: Option<u16>,
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { file, engine, shard, merge, workers } = arguments;
    // The path is made absolute, because a task of the engine can have another current folder.
    let file = path::absolute(&file).unwrap_or(file);
    let campaign = Campaign::read(&file)?;
    let parts = part::parts(&campaign)?;
    // All parts are checked first, so that an error in the last part is reported before the first part has run.
    parts.iter().try_for_each(Part::check)?;
    match (shard, engine) {
        (Some(shard), _) => each(&parts, |part| part.run(&Role::Shard(shard), workers)),
        (None, Engine::Local) => each(&parts, |part| part.run(&Role::of_merge(&merge, part), workers)),
        (None, _) if workers.is_some() => Err(Failure::Usage(format!(
            "--workers is only for runs here; set the threads of a shard with `cpus` in '{}' (now {})",
            file.display(),
            campaign.cpus
        ))),
        (None, engine) => on_a_cluster(&file, &campaign, &parts, engine),
    }
}

fn each(parts: &[Part], mut run: impl FnMut(&Part) -> Result<(), Failure>) -> Result<(), Failure> {
    for (nth, part) in parts.iter().enumerate() {
        if parts.len() > 1 {
            hint(format!("{} ({} of {})", part.name, nth + 1, parts.len()));
        }
        run(part)?;
    }
    Ok(())
}

/// Runs the shards that are not done, by an engine, and then merges all shards.
fn on_a_cluster(file: &Path, campaign: &Campaign, parts: &[Part], engine: Engine) -> Result<(), Failure> {
    let shards = missing(campaign, parts);
    if !shards.is_empty() {
        let array = Array::new(file, campaign, shards)?;
        let ended = engine.run(&array)?;
        let left = missing(campaign, parts);
        if !left.is_empty() {
            return Err(Failure::Run(array.not_done(&left, &ended)));
        }
    }
    each(parts, |part| part.run(&Role::Merge(vec![part.out.clone()]), None))
}

/// Returns the shards that have not ended successfully, counted from 1.
fn missing(campaign: &Campaign, parts: &[Part]) -> Vec<usize> {
    let is_done = |nth: usize| {
        let shard = Shard::new(nth, campaign.shards);
        parts.iter().all(|part| part.is_done(shard))
    };
    (1..=campaign.shards).filter(|nth| !is_done(*nth)).collect()
}
