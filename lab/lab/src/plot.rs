//! `comity-lab plot`: draws filed co-runs.

use std::path::PathBuf;

use clap::Args;
use comity_console::Failure;
use comity_console::output::ResultFile;

use crate::corun;

const EXAMPLES: &str = "A row for each co-run, in it a line for each backend, from the program that
was slowed least to the one that was slowed most, in times of its time alone.

Examples:
  comity-lab corun cg mm mi --pairs --backend comity,rayon --json pairs.json
  comity-lab plot pairs.json --out pairs.svg

Exit codes: 0 success; 1 the picture could not be written; 2 the command line,
or a file that it names, is at fault.";

/// Draw co-runs that `corun --json` filed, as SVG
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What `corun --json` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the picture goes; `-` prints it
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let report = corun::read(&arguments.file)?;
    ResultFile::check(&arguments.out, "--out")?.write(&corun::chart::svg(&report))
}
