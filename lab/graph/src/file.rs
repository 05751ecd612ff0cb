//! The file format of a graph: a header line, and a line for each task.
//!
//! ```text
//! {"format":"comity-graph","version":1,"tasks":3,"unfold":7,"work_ns":…,"about":{…}}
//! [{"ns":[4980,5011,5240]}]                     a task: a stretch, with lengths of this distribution
//! [12,[0,0],3]                                  12 ns; a fork of two times task 0; 3 ns
//! [20500,{"repeat":1,"times":3},{"ns":80,"joins":4}]     the run
//! ```

//!
//! The format is JSON, written without a JSON library. Linking a library could change a recorded program, for example
//! by adding trait implementations.

#[cfg(feature = "read")]
mod read;

use std::fmt::{self, Display, Write as _};
use std::io::Write;

use crate::graph::{About, Graph, Step};

const FORMAT: &str = "comity-graph";

/// The version of the format. It increases when a new reader would reject or misread the files of an older version.
const VERSION: u64 = 1;

impl Graph {
    /// Writes the graph.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let About { program, workers, merge_ns, clock_ns, plain_ns, recorded_ns, span_ns, check_ns } = &self.about;
        let (tasks, unfold, work) = (self.tasks().len(), self.count_tasks() as u64, self.measure(0).work);
        write!(
            to,
            "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"tasks\":{tasks},\"unfold\":{unfold},\"work_ns\":{work},"
        )?;
        write!(to, "\"about\":{{\"program\":{},\"workers\":{workers},\"merge_ns\":{merge_ns},", Text(program))?;
        write!(
            to,
            "\"clock_ns\":{clock_ns},\"plain_ns\":{plain_ns},\"recorded_ns\":{recorded_ns},\"span_ns\":{span_ns}"
        )?;
        if let Some(check_ns) = check_ns {
            write!(to, ",\"check_ns\":{check_ns}")?;
        }
        write!(to, "}}}}")?;
        for task in self.tasks() {
            write!(to, "\n{}", List(&task.0))?;
        }
        writeln!(to)
    }
}

/// Formats a list in JSON.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (nth, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if nth == 0 { "" } else { "," })?;
        }
        f.write_char(']')
    }
}

/// Formats a step in JSON, as in a graph file.
impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(stretch) => match (stretch.parts(), stretch.joins) {
                ([length], 0) => length.fmt(f),
                ([length], joins) => write!(f, "{{\"ns\":{length},\"joins\":{joins}}}"),
                (lengths, 0) => write!(f, "{{\"ns\":{}}}", List(lengths)),
                (lengths, joins) => write!(f, "{{\"ns\":{},\"joins\":{joins}}}", List(lengths)),
            },
            Step::Fork(children) => List(children).fmt(f),
            Step::Repeat { task, times } => write!(f, "{{\"repeat\":{task},\"times\":{times}}}"),
        }
    }
}

/// Formats a string in JSON.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if u32::from(control) < 0x20 => write!(f, "\\u{:04x}", u32::from(control))?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
