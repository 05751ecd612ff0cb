//! The `comity-lab` command, for people who measure. It runs the papers' programs, runs any programs together,
//! compares the runtime with others, and repeats the papers' experiments on machines that the user does not have.
//!
//! It uses the crates as a user's program does, and must not depend on the way in which they decide: it has no
//! policy, table or protocol of its own. Cores are shared by the command `comity`, which `comity-lab` only starts.
//!
//! There is one file per verb, with its arguments and its `run`; a folder of the same name contains its parts. Begin
//! with `corun.rs`, or with `bench.rs` and `bench/harness.rs`, which contains the measuring loop of every bench.
//! `children.rs` and `descendants.rs` start and end processes. `filing.rs` and `runs.rs` write finished runs to
//! files, so that an interrupted command can continue.
//!
//! The types of a verb's JSON are in the file of the verb. The number of a schema changes when a field is removed or
//! changes its meaning; fields can be added at any time. Times are in seconds. A number that does not exist (the
//! variation of a single round, the steals of a backend without counters) is `null`.
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod backend;
mod bench;
mod beside;
mod children;
mod choices;
mod corun;
mod descendants;
mod figure;
mod filing;
mod kernel;
mod plot;
mod progress;
mod record;
mod report;
mod reproduce;
mod runs;
mod serve;
mod simulate;
mod sweep;
mod trial;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use comity_console::loudness::Loudness;
use comity_console::{generate, parse};

/// Measure what sharing a machine costs, and repeat the papers' experiments.
#[derive(Parser)]
#[command(name = "comity-lab", version, max_term_width = 80, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0: success; 1: a run failed or gave a wrong result;\n2: invalid command line.")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    loudness: Loudness,
}

#[derive(Subcommand)]
enum Verb {
    Corun(corun::Arguments),
    Kernel(kernel::Arguments),
    Record(record::Arguments),
    Bench(bench::Arguments),
    Simulate(simulate::Arguments),
    Reproduce(reproduce::Arguments),
    Sweep(sweep::Arguments),
    Plot(plot::Arguments),
    Report(report::Arguments),
    Completions(generate::Completions),
    Man(generate::Man),
    #[command(hide = true)]
    Serve(serve::Arguments),
}

fn main() -> ExitCode {
    let Arguments { verb, loudness } = parse::or_exit(parse::with_negative_numbers(Arguments::command()));
    loudness.choose();
    let outcome = match verb {
        Verb::Corun(arguments) => corun::run(&arguments),
        Verb::Kernel(arguments) => kernel::run(&arguments),
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Simulate(arguments) => simulate::run(arguments),
        Verb::Reproduce(arguments) => reproduce::run(arguments),
        Verb::Sweep(arguments) => sweep::run(arguments),
        Verb::Plot(arguments) => plot::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Completions(arguments) => generate::completions(&arguments, Arguments::command()),
        Verb::Man(arguments) => generate::man(&arguments, Arguments::command()),
        Verb::Serve(arguments) => serve::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
#[path = "../../../crates/cli/tests/harness/quoted.rs"]
mod quoted;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_verbs_say_of_their_options_is_about_options_that_they_have() {
        parse::with_negative_numbers(Arguments::command()).debug_assert();
    }

    #[test]
    fn every_command_line_that_documents_and_scripts_have_is_understood() {
        quoted::assert_every_quoted_command_parses(Arguments::command(), 40);
    }
}
