//! `comity-lab reproduce`: repeats a paper's experiments and compares the results with the paper's claims.
//!
//! The crate `comity-papers` contains the papers and judges their results. This file contains the arguments that are
//! common to all papers, and does the runs, writes the files and draws the pictures.

mod real;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand, value_parser};
use comity_console::parse::whole;
use comity_console::{Failure, output};
use comity_papers::catalog::papers;
use comity_papers::driver::Definition;
use comity_papers::report::{Pictures, Report};

use crate::figure::{self, heat};
use crate::runs::{self, Sweep};

/// Repeat a paper's experiments on a simulated machine, and check each claim of the paper
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    paper: Paper,
}

/// A paper, with its arguments on the command line.
struct Paper {
    definition: Definition<Sweep>,
    matches: ArgMatches,
}

/// Options that every paper takes after `--json` and `--plot`.
#[derive(Args)]
#[group(skip)]
struct Options {
    /// Seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    #[command(flatten)]
    sweep: runs::Options,
}

fn definitions() -> [Definition<Sweep>; 6] {
    papers::<Sweep, real::ThisMachine>()
}

/// Returns the command of a paper.
fn command(definition: &Definition<Sweep>) -> Command {
    let Definition { name, title, about, schema, draws, .. } = *definition;
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    let plot = Arg::new("plot").long("plot").value_name("DIR").value_parser(value_parser!(PathBuf));
    let command = (definition.arguments)(Command::new(name))
        .arg(json.help(format!("Print JSON (schema {schema})")))
        .arg(plot.help(format!("Draw each {draws} as an SVG file in this folder; --out draws them too")));
    let command = Options::augment_args(command);
    // The description is set last, because `augment_args` sets another description.
    command.about(title).long_about(format!("{title}\n\n{about}")).after_help(definition.examples)
}

impl Subcommand for Paper {
    fn augment_subcommands(parent: Command) -> Command {
        parent.subcommands(definitions().iter().map(command))
    }

    fn augment_subcommands_for_update(parent: Command) -> Command {
        Paper::augment_subcommands(parent)
    }

    fn has_subcommand(name: &str) -> bool {
        definitions().iter().any(|definition| definition.name == name)
    }
}

impl FromArgMatches for Paper {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Paper, Error> {
        let (name, matches) = matches.subcommand().expect("clap requires a paper");
        let definition = definitions()
            .into_iter()
            .find(|definition| definition.name == name)
            .expect("clap accepts only names of papers");
        Ok(Paper { definition, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Paper::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Paper { definition, matches } = arguments.paper;
    let Options { seed, sweep } = Options::from_arg_matches(&matches).expect("clap has parsed it");
    let (json, plot) = (matches.get_flag("json"), matches.get_one::<PathBuf>("plot").cloned());
    let asked = (definition.ask)(&matches, seed)?;
    let sweep = Sweep::new(sweep, asked.setting().to_owned())?;
    match asked.run(&sweep)? {
        Some(report) => present(report, json, sweep.out(), plot.as_deref()),
        None => output::print(&sweep.elsewhere()),
    }
}

/// Prints a report. Writes the report and its pictures to the folder `out`, and the pictures also to `plot`.
fn present(report: Report, json: bool, out: Option<&Path>, plot: Option<&Path>) -> Result<(), Failure> {
    if let Some(out) = out {
        write(&out.join("result.json"), &report.json)?;
    }
    let mut text = if json { report.json } else { report.text };
    for folder in [out, plot].into_iter().flatten() {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::Usage(format!("cannot create the folder '{}': {error}", folder.display())))?;
        let draw = |name: &str, svg: &str| write(&folder.join(format!("{name}.svg")), svg);
        match &report.pictures {
            Pictures::Figures(figures) => {
                figures.iter().try_for_each(|(name, figure)| draw(name, &figure::svg(figure)))?;
                if !json {
                    let numbers = if out == Some(folder) { "result.json and " } else { "" };
                    let _ = writeln!(text, "{numbers}{} figures are in '{}'.", figures.len(), folder.display());
                }
            }
            Pictures::Tables(tables) => tables.iter().try_for_each(|(name, table)| draw(name, &heat::svg(table)))?,
        }
    }
    output::print(&text)?;
    report.failure.map_or(Ok(()), Err)
}

/// Writes a file, or replaces it.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::Run(format!("cannot write '{}': {error}", path.display()));
    output::replace(path, text.as_bytes()).map_err(failed)
}
