//! `comity-lab bench`: what the runtime costs, side by side with stock rayon in the same run.
//!
//! One file per bench. Contestants take turns, so that a drift of the machine hits all alike; stock rayon runs twice,
//! as itself and as a control, so that a difference can be told from noise.

mod abp;
pub mod blocking;
mod cores_used;
mod drop_in;
mod floor;
mod fork_join;
mod idle;
mod lend;
pub mod phase_loop;
mod quartiles;
mod ratio;
mod simulator;
mod solo;
mod wake;

use clap::{Args, Subcommand};
use comity_console::Failure;

/// Measure what the runtime costs, beside stock rayon in the same run
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    Wake(wake::Arguments),
    Solo(solo::Arguments),
    DropIn(drop_in::Arguments),
    ForkJoin(fork_join::Arguments),
    Loop(phase_loop::Arguments),
    Idle(idle::Arguments),
    Lend(lend::Arguments),
    Use(cores_used::Arguments),
    Simulator(simulator::Arguments),
    Blocking(blocking::Arguments),
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.bench {
        Bench::Wake(arguments) => wake::run(arguments),
        Bench::Solo(arguments) => solo::run(arguments),
        Bench::DropIn(arguments) => drop_in::run(arguments),
        Bench::ForkJoin(arguments) => fork_join::run(arguments),
        Bench::Loop(arguments) => phase_loop::run(arguments),
        Bench::Idle(arguments) => idle::run(arguments),
        Bench::Lend(arguments) => lend::run(arguments),
        Bench::Use(arguments) => cores_used::run(arguments),
        Bench::Simulator(arguments) => simulator::run(arguments),
        Bench::Blocking(arguments) => blocking::run(arguments),
    }
}

/// Says who is missing where this command was built without the feature `peers`.
fn say_without_peers(peers: &str) {
    if !cfg!(feature = "peers") {
        eprintln!("warning: {peers} take no part: build comity-lab with --features peers to compare with them");
    }
}
