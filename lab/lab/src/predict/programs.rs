//! The programs of a predicted co-run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use comity_console::Failure;
use comity_graph::Graph;
use comity_kernels::record::MERGE_NS;

use crate::corun::program::Program as Run;
use crate::record;

/// The number of runs of a kernel with recording, and of runs without. The default of `comity-lab record` is the
/// same.
const ROUNDS: u32 = 5;

/// The end of the name of a recording's file.
const RECORDING: &str = ".graph";

/// A program of a predicted co-run.
pub enum Program {
    /// A kernel, which [`Program::recorded`] records.
    Kernel(Run),
    /// An existing recording, with its path.
    Recording(PathBuf, Arc<Graph>),
}

/// A program that can be simulated.
pub struct Recorded {
    /// The program, as on the command line.
    pub name: String,
    /// The work of one round.
    pub graph: Arc<Graph>,
}

impl Program {
    /// Parses a program, as a co-run does. A text that ends with `.graph` is the path of a recording, which is read
    /// now.
    pub fn parse(text: &str) -> Result<Program, Failure> {
        if text.ends_with(RECORDING) {
            let read = record::read(Path::new(text));
            let graph = read.map_err(|why| Failure::Usage(format!("recording '{text}': {why}")))?;
            return Ok(Program::Recording(text.into(), Arc::new(graph)));
        }
        match Run::parse(text)? {
            Run::Command(text) => Err(Failure::Usage(format!(
                "'{text}' is a command. Build it after `comity rayon enable --record`, record it with `comity-lab \
                 record`, and give the recording, FILE{RECORDING}"
            ))),
            kernel => {
                record::kernel::check(kernel.text())?;
                Ok(Program::Kernel(kernel))
            }
        }
    }

    /// Returns the kernel, if the program is one.
    pub fn kernel(&self) -> Option<&Run> {
        match self {
            Program::Kernel(kernel) => Some(kernel),
            Program::Recording(..) => None,
        }
    }

    /// Returns the program's recording. A kernel is recorded now.
    pub fn recorded(&self) -> Result<Recorded, Failure> {
        match self {
            Program::Kernel(kernel) => {
                let name = kernel.text();
                // The recording has one worker. Other numbers give the same graph, because no kernel divides its work
                // by this number.
                let (graph, _) = record::kernel::record(name, 1, MERGE_NS, ROUNDS)?;
                Ok(Recorded { name: name.to_owned(), graph: Arc::new(graph) })
            }
            Program::Recording(path, graph) => {
                let name = path.display().to_string();
                Ok(Recorded { name, graph: Arc::clone(graph) })
            }
        }
    }
}

/// Formats the program for use in a sentence.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Kernel(kernel) => kernel.fmt(f),
            Program::Recording(path, _) => write!(f, "'{}'", path.display()),
        }
    }
}
