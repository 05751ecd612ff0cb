//! Typical programs that use rayon. They are compiled once with the stock rayon-core and once with the crate that
//! replaces it, without a change to the code. `RAYON_NUM_THREADS` sets the number of threads, as for any rayon program.
//!
//! Every run checks its result, and a wrong result is an error. `comity-lab bench drop-in` starts `rayon-programs
//! serve` of both builds and compares them.

mod catalog;
mod program;
mod programs;
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Run programs that are written with rayon, and check their results
///
/// The time of a run is the wall-clock time of its parallel part. The processor time is that of all threads of the
/// process, user and system, from just before the parallel part until 20 ms after it. It includes threads that still
/// look for work after the job. Neither includes building the input and checking the result.
#[derive(Parser)]
#[command(name = "rayon-programs", version, max_term_width = 120, arg_required_else_help = true)]
struct Arguments {
    /// List the programs
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Run one program and print the times of each round
    Run {
        /// Program to run: `sort`, `sort:1000` with a size, `kernel cg` or `kernel cg:class=W`
        #[arg(required = true, num_args = 1.., value_name = "NAME")]
        name: Vec<String>,
        /// Number of runs, from 1 to 1000000; the input is built once
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rounds: u32,
        /// Do not wait 20 ms after a run to count the time that its threads still use: for measurements of whole
        /// processes
        #[arg(long)]
        no_aftermath: bool,
    },
    /// Run the programs that are named on standard input, one per line, and answer each with a line of JSON
    ///
    /// {"program":…,"seconds":…,"cpu_seconds":…}, or {"program":…,"error":…}. The input of the last program is kept
    /// for the next line. The line `list` is answered with {"programs":[…]}, and `idle SECONDS` with the processor
    /// time of that time without work. The end of the input ends the process.
    Serve,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.verb {
        _ if arguments.list => list(),
        Some(Verb::Run { name, rounds, no_aftermath }) => {
            run(&name.join(" "), rounds, if no_aftermath { Duration::ZERO } else { program::AFTERMATH })
        }
        Some(Verb::Serve) => serve::run(),
        None => Err("say what to do: --list, run or serve; see --help".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("error: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<(), String> {
    catalog::all().try_for_each(|(name, summary)| say(&format!("{name:<18}{summary}")))
}

fn run(name: &str, rounds: u32, aftermath: Duration) -> Result<(), String> {
    let mut program = catalog::prepare(name)?;
    for _ in 0..rounds {
        let took = program.run(aftermath).map_err(|wrong| format!("{name}: {wrong}"))?;
        let (wall_ms, cpu_ms) = (took.wall.as_secs_f64() * 1000.0, took.cpu.as_secs_f64() * 1000.0);
        say(&format!("{name}: {wall_ms:.2} ms, {cpu_ms:.2} ms of processor time; the result is right"))?;
    }
    Ok(())
}

/// Writes a line to standard output and flushes it.
fn say(line: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot write to standard output: {error}"))
}
