//! `comity-lab plot`: draws the co-runs of a file.

use std::path::PathBuf;

use clap::Args;
use comity_console::Failure;
use comity_console::output::ResultFile;

use crate::corun;

const EXAMPLES: &str = "Examples:
  comity-lab corun cg mm mi --pairs --backend comity,rayon --json pairs.json
  comity-lab plot pairs.json --out pairs.svg

The figure has one row per co-run and one line per backend. A line connects the
least and the most slowed program. The axis is the time together divided by the
time alone.

Exit codes: 0: success; 1: cannot write the figure; 2: invalid command line or
file.";

/// Draw the co-runs of a `corun --json` file, as SVG
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File that `corun --json` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// SVG file to write. `-` prints the SVG
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let report = corun::read(&arguments.file)?;
    ResultFile::check(&arguments.out, "--out")?.write(&corun::chart::svg(&report))
}
