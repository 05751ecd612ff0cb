//! Files with one measurement per line, so that an interrupted command can continue.
//!
//! The first line contains the settings on which the other lines depend. A file with other settings is refused. If
//! the command was killed while it wrote, the last line is incomplete and is removed.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use comity_console::{Failure, loudness, machine};
use comity_os::file_lock::LockFile;
use comity_os::writes::without_signals;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first line of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    schema: String,
    setting: String,
    runs: usize,
}

impl Header {
    /// Makes the header of a file of `runs` runs, which depend only on `setting` and on the number of runs.
    pub fn new(setting: String, runs: usize) -> Header {
        Header { schema: "comity-sweep/1".to_owned(), setting, runs }
    }
}

/// A line of a file after the header.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    run: usize,
    outcome: R,
}

/// The name of the folder of these files, within the folder for results.
pub const RUNS: &str = "runs";

/// The time between two attempts to lock a file.
const AGAIN: Duration = Duration::from_millis(100);

/// The name of the file with all results, in the folder for results.
pub const RESULT: &str = "result.json";

/// Describes the settings on which measurements on this machine depend: `what`, the build of this command, and
/// environment variables that can change the measurements.
pub fn measured(what: &str) -> String {
    let built = built(Path::new("/proc/self/exe"));
    let variables = ["COMITY", "COMITY_POLICY", "COMITY_TABLE", "COMITY_WEIGHT", "COMITY_CORES"].map(|name| {
        comity_os::environment::variable(name).map(|value| format!("; {name}={}", value.to_string_lossy()))
    });
    let variables: String = variables.into_iter().flatten().collect();
    let (machine, versions) = (machine::describe(None), machine::versions());
    let machine::Machine { cpu, cores, allowed_cores, kernel, .. } = machine;
    let machine::Versions { comity, rayon, rustc } = versions;
    format!(
        "{what}; {cpu}, {cores} of {allowed_cores} cores, kernel {kernel}; comity {comity}{built}, rayon {rayon}, {rustc}{variables}"
    )
}

/// Describes the build of a program's file, to append to its name or version. Empty if the file cannot be read.
pub fn built(path: &Path) -> String {
    let file = fs::metadata(path).and_then(|file| Ok((file.len(), file.modified()?)));
    let file = file.ok().and_then(|(size, at)| Some((size, at.duration_since(SystemTime::UNIX_EPOCH).ok()?)));
    file.map_or_else(String::new, |(size, at)| {
        format!(", built {}.{:09} ({size} bytes)", at.as_secs(), at.subsec_nanos())
    })
}

/// The behaviour if another command writes its runs to the same file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Returns an error.
    Refuse,
    /// Waits until the other command has ended, and continues after its last line.
    Wait,
}

/// A file to which lines are appended. A lock keeps other commands from writing to it, because a second command would
/// repeat the runs.
pub struct Filing {
    path: PathBuf,
    file: Mutex<File>,
    _lock: LockFile,
}

impl Filing {
    /// Makes the folder [`RUNS`] in the folder for results, and returns its path.
    pub fn folder(out: &Path) -> Result<PathBuf, Failure> {
        let folder = out.join(RUNS);
        fs::create_dir_all(&folder).map_err(|error| {
            Failure::Usage(format!("cannot create the folder '{}': {error}. Choose another --out", out.display()))
        })?;
        Ok(folder)
    }

    /// Opens a file to append lines, and stores the outcomes of its lines in `outcomes`. Removes an incomplete last
    /// line.
    pub fn open<R: DeserializeOwned>(
        path: &Path,
        header: &Header,
        outcomes: &[OnceLock<R>],
        check: Check<'_, R>,
        meanwhile: Meanwhile,
    ) -> Result<Filing, Failure> {
        let failed = |error: io::Error| {
            Failure::Usage(format!("cannot write '{}': {error}. Choose another --out", path.display()))
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let lock = LockFile::open(path).map_err(failed)?;
        // On a file system without locks, the command assumes that no other command uses the file.
        let mut is_locked = lock.try_lock(0).unwrap_or(true);
        if !is_locked && meanwhile == Meanwhile::Refuse {
            let what = "another command saves its runs there. Wait until it ends, or choose another --out";
            return Err(Failure::Run(format!("'{}': {what}", path.display())));
        }
        if !is_locked {
            loudness::hint(format!("'{}': waiting for another command that saves its runs there", path.display()));
        }
        // The kernel releases the lock at the end of the process that holds it, so this loop ends too.
        while !is_locked {
            thread::sleep(AGAIN);
            is_locked = lock.try_lock(0).unwrap_or(true);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut head = serde_json::to_vec(header).expect("it has string keys");
        head.push(b'\n');
        let whole = take(path, &bytes, header, outcomes, check)?;
        if whole == 0 && !head.starts_with(&bytes) {
            let what = "it is not a file of runs. Choose another folder, or remove that file";
            return Err(Failure::Usage(format!("'{}': {what}", path.display())));
        }
        if whole < bytes.len() {
            let what = "its last line was cut off; that run is done again";
            loudness::hint(format!("'{}': {what}", path.display()));
        }
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        if whole == 0 {
            without_signals(|| file.write_all(&head)).map_err(failed)?;
        }
        Ok(Filing { path: path.to_owned(), file: Mutex::new(file), _lock: lock })
    }

    /// Appends an outcome with a single write, so that an interruption loses no outcome.
    pub fn note(&self, run: usize, outcome: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(&Line { run, outcome }).expect("outcomes have string keys");
        text.push(b'\n');
        let written = without_signals(|| comity_os::lock(&self.file).write_all(&text));
        written.map_err(|error| Failure::Run(format!("cannot write '{}': {error}", self.path.display())))
    }
}

/// A function that checks the filed outcome of the run with this number. The error is a sentence about the fault.
pub type Check<'a, R> = &'a dyn Fn(usize, &R) -> Result<(), String>;

/// Accepts every outcome: a [`Check`] for outcomes that cannot be checked.
pub fn unchecked<R>(_run: usize, _outcome: &R) -> Result<(), String> {
    Ok(())
}

/// Stores the outcomes of the complete lines of a file, and returns the number of bytes of these lines.
pub fn take<R: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    header: &Header,
    outcomes: &[OnceLock<R>],
    check: Check<'_, R>,
) -> Result<usize, Failure> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next() else { return Ok(0) };
    let wrong = |line: usize, what: String| Failure::Usage(format!("'{}', line {line}: {what}", path.display()));
    let found: Header = serde_json::from_slice(first)
        .map_err(|error| wrong(1, format!("not the first line of a file of runs ({error}). Choose another folder")))?;
    if found != *header {
        let what = format!(
            "it has runs of another setting ({}); the setting of this command is {}",
            found.setting, header.setting
        );
        return Err(wrong(1, format!("{what}. Choose another folder, or remove that folder")));
    }
    let mut seen = HashMap::new();
    for (nth, line) in lines.enumerate() {
        let line_number = nth + 2;
        let Line { run, outcome }: Line<R> = serde_json::from_slice(line).map_err(|error| {
            wrong(line_number, format!("not a run ({error}). Remove the line, and the run is done again"))
        })?;
        let place = outcomes.get(run).ok_or_else(|| {
            wrong(line_number, format!("it is run {run}, and there are {} runs. Remove the line", outcomes.len()))
        })?;
        if let Some(before) = seen.insert(run, line_number) {
            return Err(wrong(line_number, format!("run {run} is in line {before} too. Remove one of the two lines")));
        }
        check(run, &outcome).map_err(|why| {
            wrong(
                line_number,
                format!("not the outcome of run {run} ({why}). Remove the line, and the run is done again"),
            )
        })?;
        // The place may be filled already, because several folders may contain the same run.
        let _ = place.set(outcome);
    }
    Ok(whole)
}
