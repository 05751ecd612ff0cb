//! Reads the files to be shown. The kind of a file is recognised by its content.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use comity_console::Failure;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::command::CommandReport;
use super::reproduction::ReproduceReport;
use super::simulation::SimulateReport;
use super::simulation::sweep::{Sweep, SweepReport};
use super::trace::{self, Trace};
use crate::corun;
use crate::corun::report::CorunReport;

/// A file that was read, with its name.
pub enum Input {
    /// A file of `comity-lab corun --json`.
    Corun(String, CorunReport),
    /// A file of `comity-lab simulate --json`, with one setting.
    Simulation(String, SimulateReport),
    /// A file of `comity-lab simulate --json`, with several settings.
    Sweep(String, Sweep),
    /// A file of `comity-lab reproduce … --json`.
    Reproduction(String, ReproduceReport),
    /// A file of `comity run --report`.
    Command(String, CommandReport),
    /// A timeline of `COMITY_TRACE`. The value includes the file's name.
    Trace(Trace),
}

impl Input {
    /// Returns the timeline, if the file is a timeline.
    pub fn as_trace(&self) -> Option<&Trace> {
        match self {
            Input::Trace(trace) => Some(trace),
            _ => None,
        }
    }
}

/// The largest size of a file. A larger file is refused, because a device may be endless. A program's timeline has at
/// most about two thirds of this size.
const MOST_BYTES: u64 = 3 << 29;

/// The number of bytes that are searched for a zero byte, to recognise a file that is not text.
const START_BYTES: u64 = 1 << 16;

/// The advice for a file of an unknown kind.
const KINDS: &str = "Give a file that `comity-lab corun --json`, `simulate --json`, `reproduce --json` or `comity run \
    --report=FILE.json` wrote, or a program with COMITY_TRACE=FILE";

/// The advice for a damaged file of a known kind.
const ANEW: &str = "Create it again, or leave it out";

/// Reads a file of any kind. The error names the place in the file and the fault.
pub fn read(path: &Path) -> Result<Input, Failure> {
    let refuse = |Refusal { why, what }| Failure::Usage(format!("cannot read '{}': {why}. {what}", path.display()));
    recognise(path).map_err(refuse)
}

/// The reason why a file is refused, and the advice.
struct Refusal {
    why: String,
    what: &'static str,
}

fn no_kind(why: impl ToString) -> Refusal {
    Refusal { why: why.to_string(), what: KINDS }
}

/// Refuses a file that is not text. `place` is the index of the first byte that is not text.
fn no_text(place: usize) -> Refusal {
    no_kind(format!("it is not text from byte {} on", place + 1))
}

fn damaged(why: impl ToString) -> Refusal {
    Refusal { why: why.to_string(), what: ANEW }
}

fn recognise(path: &Path) -> Result<Input, Refusal> {
    let bytes = bytes(path)?;
    let name = path.display().to_string();
    if trace::is_trace(&bytes) {
        return trace::parse(name, &bytes).map(Input::Trace).map_err(damaged);
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| no_text(error.valid_up_to()))?;
    if text.trim().is_empty() {
        return Err(no_kind(if text.is_empty() { "it is empty" } else { "it contains only blanks" }));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| match first_schema(text) {
        Some(schema) if schema == "comity-sweep/1" => Refusal {
            why: "these are single runs of a sweep".to_owned(),
            what: "Give the result.json in the parent folder",
        },
        _ if error.is_eof() => damaged(format!("its JSON is cut short ({error})")),
        _ => no_kind(format!("it is not JSON ({error})")),
    })?;
    let schema = value.get("schema").and_then(Value::as_str).map(str::to_owned);
    match schema.as_deref() {
        Some(corun::SCHEMA) => corun::of_json(value).map(|report| Input::Corun(name, report)).map_err(damaged),
        Some("comity-simulate/1") => {
            let report: SimulateReport = of_json(value)?;
            report.check().map_err(damaged)?;
            Ok(Input::Simulation(name, report))
        }
        Some("comity-simulate-sweep/1") => {
            let report: SweepReport = of_json(value)?;
            report.check().map(|sweep| Input::Sweep(name, sweep)).map_err(damaged)
        }
        Some("comity-reproduce/1") => of_json(value).map(|report| Input::Reproduction(name, report)),
        Some("comity-run/1") => {
            let report: CommandReport = of_json(value)?;
            report.check().map_err(damaged)?;
            Ok(Input::Command(name, report))
        }
        Some(other) => Err(no_kind(format!("its schema is {other}, which this command cannot show"))),
        None => Err(no_kind("it has no schema")),
    }
}

fn of_json<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(damaged)
}

/// Returns the schema in the first line of a file with one object per line.
fn first_schema(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text.lines().next()?).ok()?;
    Some(value.get("schema")?.as_str()?.to_owned())
}

fn bytes(path: &Path) -> Result<Vec<u8>, Refusal> {
    let file = File::open(path).map_err(no_kind)?;
    if file.metadata().map_err(no_kind)?.is_dir() {
        return Err(no_kind("it is a directory"));
    }
    let mut file = file.take(MOST_BYTES + 1);
    let mut bytes = Vec::new();
    file.by_ref().take(START_BYTES).read_to_end(&mut bytes).map_err(no_kind)?;
    // A zero byte means that the file is not text, for example a device or a program. The rest of the file is not
    // read.
    if let Some(place) = bytes.iter().position(|byte| *byte == 0) {
        return Err(no_text(place));
    }
    file.read_to_end(&mut bytes).map_err(no_kind)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(no_kind(format!("it is longer than {} MiB", MOST_BYTES >> 20)));
    }
    Ok(bytes)
}
