//! The `comity` command: run the papers' programs, co-run any programs or have them share cores, see what this machine offers,
//! and repeat the papers' experiments on machines that one does not have.
//!
//! One file per verb. Every verb says on standard error, in one sentence, why it failed; the exit code is 2 where the
//! command line was at fault and nothing has run, and 1 where something ran and failed.
// Only `bench/abp.rs`, a pool to compare with, allows it.
#![deny(unsafe_code)]

mod bench;
mod children;
mod contestant;
mod corun;
mod descendants;
mod doctor;
mod failure;
mod json;
mod kernel;
mod machine;
mod output;
mod policies;
mod rayon;
mod reproduce;
mod run;
mod serve;
mod simulate;
mod sweep;
mod table;
mod trial;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Fair and efficient work stealing for programs that share a machine.
#[derive(Parser)]
#[command(name = "comity", version, max_term_width = 120, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 success; 1 a run failed or gave a wrong result; 2 the command line is at fault.")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

// Only the verb that is asked for is built up: `run` stands before programs that end in a millisecond.
#[derive(Subcommand)]
#[command(defer = true)]
enum Verb {
    Kernel(kernel::Arguments),
    Corun(corun::Arguments),
    Run(run::Arguments),
    Table(table::Arguments),
    Bench(bench::Arguments),
    Rayon(rayon::Arguments),
    Simulate(simulate::Arguments),
    Reproduce(reproduce::Arguments),
    Policies(policies::Arguments),
    Doctor(doctor::Arguments),
    #[command(hide = true)]
    Serve(serve::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Kernel(arguments) => kernel::run(&arguments),
        Verb::Corun(arguments) => corun::run(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Table(arguments) => table::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Rayon(arguments) => rayon::run(&arguments),
        Verb::Simulate(arguments) => simulate::run(arguments),
        Verb::Reproduce(arguments) => reproduce::run(arguments),
        Verb::Policies(arguments) => policies::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Serve(arguments) => serve::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
