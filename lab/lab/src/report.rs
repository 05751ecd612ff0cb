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

const EXAMPLES: &str = "A FILE is, by its content,
  - what `comity-lab corun --json FILE` wrote: how much slower each program was
    beside the others, under each backend; unfairness and throughput;
  - what `comity-lab simulate --json` printed, or result.json in its --out;
  - what `comity-lab reproduce … --json` printed, or result.json in its --out;
  - what `comity run --report=FILE.json` wrote: cores used and held over time;
  - a timeline: what a program wrote that ran with COMITY_TRACE=FILE, or
    `comity-lab simulate --timeline FILE` of a host. The page has sums: cores
    that each program held, and the parts of its workers' time in each state.
    Perfetto (https://ui.perfetto.dev) draws a timeline, and several of one
    machine after `jq -s add a.trace b.trace >both.trace`. A timeline that was
    cut short is summed up as far as it is complete.

The page has no script and loads nothing: it can be mailed, and read offline.
All files are read before it is written. A page that was there is replaced; any
other file is not.

Examples:
  comity-lab corun mergesort cg --backend rayon,comity --json pair.json
  comity-lab report pair.json
  comity-lab report --out night.html --title 'Night run' pair.json make.json
  COMITY_TRACE=a.trace ./a & COMITY_TRACE=b.trace ./b; wait
  comity-lab report --out sums.html a.trace b.trace

Exit codes: 0 success; 1 the page could not be written; 2 the command line, or
a file that it names, is at fault.";

/// Put co-runs, simulations, runs and timelines on one HTML page
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What is to be shown, in this order; timelines come together
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the page goes; `-` prints it
    #[arg(long, value_name = "PAGE.html", default_value = "report.html")]
    out: PathBuf,
    /// What stands above it all
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

/// Returns the sections in the order of the files. All timelines are in one section, at the place of the first one.
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
            // The section of the first timeline contains all of them.
            Input::Trace(_) if traces.is_empty() => {}
            Input::Trace(_) => sections.push(trace::section(&std::mem::take(&mut traces))),
        }
    }
    sections
}

/// Refuses a page that would replace one of the files to be shown, even under another name.
fn spare_the_inputs(out: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    for (nth, file) in files.iter().enumerate() {
        let known = identity(file);
        if known.is_some() && known == identity(out) {
            let what = "it is one of the files to be shown; choose another file for --out";
            return Err(Failure::Usage(format!("cannot write '{}': {what}", out.display())));
        }
        if known.is_some() && files[..nth].iter().any(|other| identity(other) == known) {
            return Err(Failure::Usage(format!("'{}' is named twice; name it once", file.display())));
        }
    }
    Ok(())
}

/// Refuses to replace a file that is not a page. In `report --out a.json b.json` the user forgot the page's name, and
/// `a.json` may have taken hours.
fn spare_what_is_no_page(path: &Path) -> Result<(), Failure> {
    let mut start = Vec::new();
    // A file that cannot be read is refused too, because it cannot be recognised as a page.
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut start));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(_) if start.is_empty() || page::is_page(&start) => Ok(()),
        _ => Err(Failure::Usage(format!(
            "cannot write '{}': it is there and is no HTML page; choose another file for --out, or delete it",
            path.display()
        ))),
    }
}
