//! `comity-lab bench`: measures what the runtime costs, compared with stock rayon in the same run.
//!
//! There is one file per bench. Backends take turns, so that a drift of the machine affects all of them equally.
//! Stock rayon runs twice. The difference between its two runs is noise, so it shows which differences between
//! backends are noise.

mod accelerate;
pub mod blocking;
mod child;
mod drop_in;
mod floor;
mod fork_join;
mod harness;
mod idle;
mod latency;
mod lend;
pub mod r#loop;
pub mod quartiles;
mod ratio;
mod run_queue;
mod simulator;
mod solo;
mod steal;
mod r#use;
mod wake;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use comity_console::Failure;
use comity_console::loudness::hint;

/// Measure the costs of the runtime, compared with stock rayon in the same run
///
/// A signal that ends the command (Ctrl-C, SIGTERM, SIGHUP) makes it print and save the rounds measured so far, marked
/// as partial. A second signal ends it at once.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
    /// Folder for results. Each finished round is saved there at once. With the same folder, an interrupted command
    /// continues. DIR/bench-NAME.json is the output of --json
    #[arg(long, value_name = "DIR", global = true, display_order = 800)]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Bench {
    Wake(wake::Arguments),
    Solo(solo::Arguments),
    DropIn(drop_in::Arguments),
    ForkJoin(fork_join::Arguments),
    Loop(r#loop::Arguments),
    Idle(idle::Arguments),
    Lend(lend::Arguments),
    Steal(steal::Arguments),
    Latency(latency::Arguments),
    Accelerate(accelerate::Arguments),
    Use(r#use::Arguments),
    Simulator(simulator::Arguments),
    Blocking(blocking::Arguments),
    RunQueue(run_queue::Arguments),
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out.as_deref();
    match &arguments.bench {
        Bench::Wake(arguments) => wake::run(arguments, out),
        Bench::Solo(arguments) => solo::run(arguments, out),
        Bench::DropIn(arguments) => drop_in::run(arguments, out),
        Bench::ForkJoin(arguments) => fork_join::run(arguments, out),
        Bench::Loop(arguments) => r#loop::run(arguments, out),
        Bench::Idle(arguments) => idle::run(arguments, out),
        Bench::Lend(arguments) => lend::run(arguments, out),
        Bench::Steal(arguments) => steal::run(arguments, out),
        Bench::Latency(arguments) => latency::run(arguments, out),
        Bench::Accelerate(arguments) => accelerate::run(arguments, out),
        Bench::Use(arguments) => r#use::run(arguments, out),
        Bench::Simulator(arguments) => simulator::run(arguments, out),
        Bench::Blocking(arguments) => blocking::run(arguments, out),
        Bench::RunQueue(arguments) => run_queue::run(arguments, out),
    }
}

/// Warns that `peers` are missing if this command was built without the feature `peers`.
fn say_without_peers(peers: &str) {
    if !cfg!(feature = "peers") {
        hint(format!(
            "warning: {peers} are not measured. To compare with them, build comity-lab with --features peers"
        ));
    }
}
