//! `comity-lab report`: shows measurements, simulations and traces on one page that needs only a browser.

mod chart;
mod command;
mod corun;
mod input;
mod page;
mod reproduction;
mod simulation;
mod trace;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use comity_console::Failure;
use comity_console::output::{self, ResultFile};

use input::Input;
use page::Section;

const EXAMPLES: &str = "Examples:
  comity-lab corun mergesort cg --backend rayon,comity --json pair.json
  comity-lab report pair.json
  comity-lab report --out night.html --title 'Night run' pair.json make.json
  COMITY_TRACE=a.trace ./a & COMITY_TRACE=b.trace ./b; wait
  comity-lab report --out sums.html a.trace b.trace

A FILE is one of these; the command recognises it by its content:
  - the output of `comity-lab corun --json FILE`: the slowdown of each program
    under each backend, unfairness and throughput;
  - the output of `comity-lab simulate --json`, or result.json in its --out;
  - the output of `comity-lab reproduce … --json`, or result.json in its --out;
  - the output of `comity run --report=FILE.json`: cores used and held over
    time;
  - a timeline, written by a program with COMITY_TRACE=FILE, or by
    `comity-lab simulate --timeline FILE` of a host. The page shows sums: the
    cores that each program held, and its workers' time in each state. If a
    timeline was cut short, the page sums the complete part.

Perfetto (https://ui.perfetto.dev) draws a timeline. It draws several timelines
of one machine after `jq -s add a.trace b.trace >both.trace`.

The page contains no script and loads no other file: you can mail it and read it
offline. The command reads all files before it writes the page. It replaces an
existing page, but no other file.

Exit codes: 0: success; 1: cannot write the page; 2: invalid command line or
file.";

/// Write an HTML page with the results of co-runs, simulations, runs and timelines
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Files to show, in this order; timelines are shown together
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// HTML file to write. `-` prints the page
    #[arg(long, value_name = "PAGE.html", default_value = "report.html")]
    out: PathBuf,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Comity report")]
    title: String,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { files, out, title } = arguments;
    spare_the_inputs(out, files)?;
    let place = ResultFile::check(out, "--out")?;
    if let ResultFile::Regular(path) = &place {
        spare_what_is_no_page(path)?;
    }
    let inputs: Vec<Input> = files.iter().map(|file| input::read(file)).collect::<Result<_, _>>()?;
    let page = page::html(title, &sections(&inputs));
    place.write(&page)?;
    match place {
        ResultFile::Standard => Ok(()),
        _ => {
            let plural = if files.len() == 1 { "" } else { "s" };
            let kilobytes = page.len().div_ceil(1000);
            let text = format!("{}: {} file{plural}, {kilobytes} kB\n", out.display(), files.len());
            output::print(&text)
        }
    }
}

/// Returns the sections in the order of the files. All timelines are in one section, at the place of the first
/// timeline.
fn sections(inputs: &[Input]) -> Vec<Section> {
    let mut traces: Vec<&trace::Trace> = inputs.iter().filter_map(Input::as_trace).collect();
    let mut sections = Vec::new();
    for (nth, input) in inputs.iter().enumerate() {
        let id = format!("file-{}", nth + 1);
        match input {
            Input::Corun(file, report) => sections.push(corun::section(&id, file, report)),
            Input::Simulation(file, report) => sections.push(simulation::section(&id, file, report)),
            Input::Sweep(file, sweep) => sections.push(simulation::sweep::section(&id, file, sweep)),
            Input::Reproduction(file, report) => sections.push(reproduction::section(&id, file, report)),
            Input::Command(file, report) => sections.push(command::section(&id, file, report)),
            // The section at the place of the first timeline contains all timelines.
            Input::Trace(_) if traces.is_empty() => {}
            Input::Trace(_) => sections.push(trace::section(&std::mem::take(&mut traces))),
        }
    }
    sections
}

/// Refuses an output file that is one of the files to be shown, also if another path leads to the same file.
fn spare_the_inputs(out: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    for (nth, file) in files.iter().enumerate() {
        let known = identity(file);
        if known.is_some() && known == identity(out) {
            let what = "it is one of the files to show. Choose another file for --out";
            return Err(Failure::Usage(format!("cannot write '{}': {what}", out.display())));
        }
        if known.is_some() && files[..nth].iter().any(|other| identity(other) == known) {
            return Err(Failure::Usage(format!("'{}' is given twice. Give it once", file.display())));
        }
    }
    Ok(())
}

/// Refuses to replace a file that is not an HTML page. For example, in `report --out a.json b.json` the user forgot
/// the page's name, and measuring `a.json` may have taken hours.
fn spare_what_is_no_page(path: &Path) -> Result<(), Failure> {
    let mut start = Vec::new();
    // A file that cannot be read is refused too, because it may not be a page.
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut start));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(_) if start.is_empty() || page::is_page(&start) => Ok(()),
        _ => Err(Failure::Usage(format!(
            "cannot write '{}': the file exists and is not an HTML page. Choose another file for --out, or delete it",
            path.display()
        ))),
    }
}
