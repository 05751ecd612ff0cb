//! The `comity` command. It runs any program as a member of the core table, shows which program has which core, puts
//! Comity under a rayon program, and reports what this machine offers.
//!
//! This crate must not depend on the runtime's pools, the simulator or the measured programs, which belong to
//! `comity-lab`: `comity run` must start fast, because users put it before programs that end in a millisecond.
//!
//! There is one file per verb, with its arguments and its `run`. Begin with `run.rs` and `run/coordinate.rs`, the
//! coordinator of a command, or with `table.rs`, which only reads.
//!
//! The types of a verb's JSON output are in the file of the verb. The number of a schema changes when a field is
//! removed or changes its meaning. New fields may be added at any time. Times are in seconds. A number that does not
//! exist is `null`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod adopt;
mod cores;
mod doctor;
mod label;
mod policies;
mod rayon;
mod run;
mod set;
mod shell_init;
mod table;
mod top;
mod weight;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use comity_console::loudness::Loudness;
use comity_console::{Failure, generate, parse};

/// Fair and efficient work stealing for programs that share a machine.
#[derive(Parser)]
#[command(name = "comity", version, max_term_width = 80, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0: success; 1: failure; 2: invalid command line.")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    loudness: Loudness,
}

// Clap builds only the requested verb, because users put `comity run` before programs that end in a millisecond.
#[derive(Subcommand)]
#[command(defer = true)]
enum Verb {
    Run(run::Arguments),
    Adopt(adopt::Arguments),
    Set(set::Arguments),
    Top(top::Arguments),
    Cores(cores::Arguments),
    Table(table::Arguments),
    ShellInit(shell_init::Arguments),
    Rayon(rayon::Arguments),
    Policies(policies::Arguments),
    Doctor(doctor::Arguments),
    Completions(generate::Completions),
    Man(generate::Man),
}

/// Parses the command line.
fn parse() -> Arguments {
    let mut command = Arguments::command();
    // The list of verbs with their descriptions is needed only if the first word is not a verb.
    if std::env::args_os().nth(1).is_none_or(|word| command.find_subcommand(word).is_none()) {
        command.build();
    }
    parse::or_exit(command)
}

fn main() -> ExitCode {
    let Arguments { verb, loudness } = parse();
    loudness.choose();
    let outcome = match verb {
        Verb::Run(arguments) => return run::run(&arguments).unwrap_or_else(Failure::report),
        Verb::Adopt(arguments) => adopt::run(&arguments),
        Verb::Set(arguments) => set::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Cores(arguments) => cores::run(&arguments),
        Verb::Table(arguments) => table::run(&arguments),
        Verb::ShellInit(arguments) => shell_init::run(&arguments),
        Verb::Rayon(arguments) => rayon::run(&arguments),
        Verb::Policies(arguments) => policies::run(&arguments),
        Verb::Doctor(arguments) => return doctor::run(&arguments).unwrap_or_else(Failure::report),
        Verb::Completions(arguments) => generate::completions(&arguments, Arguments::command()),
        Verb::Man(arguments) => generate::man(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
#[path = "../tests/harness/quoted.rs"]
mod quoted;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_that_documents_and_scripts_have_is_understood() {
        quoted::assert_every_quoted_command_parses(Arguments::command(), 40);
    }
}
