//! What is co-run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use comity_console::Failure;
use comity_graph::Graph;
use comity_kernels::record::MERGE_NS;

use crate::corun::program::Program as Run;
use crate::record;

/// How often a kernel runs with and without being measured, as `comity-lab record` has it.
const ROUNDS: u32 = 5;

/// How the name of a recording ends.
const RECORDING: &str = ".graph";

/// One program of a co-run.
pub enum Program {
    /// Recorded when it is wanted.
    Kernel(Run),
    /// Recorded before, and where.
    Recording(PathBuf, Arc<Graph>),
}

/// A program that can be simulated.
pub struct Recorded {
    /// As on the command line.
    pub name: String,
    /// What it does in a round.
    pub graph: Arc<Graph>,
}

impl Program {
    /// Decides by the text alone, as a co-run does; what ends with `.graph` is a recording.
    pub fn parse(text: &str) -> Result<Program, Failure> {
        if text.ends_with(RECORDING) {
            let read = record::read(Path::new(text));
            let graph = read.map_err(|why| Failure::Usage(format!("recording '{text}': {why}")))?;
            return Ok(Program::Recording(text.into(), Arc::new(graph)));
        }
        match Run::parse(text)? {
            Run::Command(text) => Err(Failure::Usage(format!(
                "'{text}' is a command; build it after `comity rayon enable --record`, record it with `comity-lab record`, and \
                 name the recording, FILE{RECORDING}"
            ))),
            kernel => {
                record::kernel::check(kernel.text())?;
                Ok(Program::Kernel(kernel))
            }
        }
    }

    /// The kernel, if it is one.
    pub fn kernel(&self) -> Option<&Run> {
        match self {
            Program::Kernel(kernel) => Some(kernel),
            Program::Recording(..) => None,
        }
    }

    /// Its recording, which is made now if there is none.
    pub fn recorded(&self) -> Result<Recorded, Failure> {
        match self {
            Program::Kernel(kernel) => {
                let name = kernel.text();
                // No kernel divides its work by the number of workers.
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

/// For use in a sentence.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Kernel(kernel) => kernel.fmt(f),
            Program::Recording(path, _) => write!(f, "'{}'", path.display()),
        }
    }
}
