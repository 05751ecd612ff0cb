//! Files of what has been measured, a line each, so that an interrupted command goes on where it was.
//!
//! The first line tells what the lines depend on: a file of other settings is refused. The last one may be cut off,
//! where the command was killed while it wrote; it goes.

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
    /// That of a file of so many runs, which depend on nothing but `setting` and their number.
    pub fn new(setting: String, runs: usize) -> Header {
        Header { schema: "comity-sweep/1".to_owned(), setting, runs }
    }
}

/// Every other line.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    run: usize,
    outcome: R,
}

/// Where the files are, within a results' folder.
pub const RUNS: &str = "runs";

/// How long until a lock is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The name of the file with everything that came out, in a results' folder.
pub const RESULT: &str = "result.json";

/// What runs depend on that are measured on this machine: a command that was built anew measures something else,
/// and so may one with other variables.
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

/// Which build of a program a file is, after its name or version. Empty if that cannot be told.
pub fn built(path: &Path) -> String {
    let file = fs::metadata(path).and_then(|file| Ok((file.len(), file.modified()?)));
    let file = file.ok().and_then(|(size, at)| Some((size, at.duration_since(SystemTime::UNIX_EPOCH).ok()?)));
    file.map_or_else(String::new, |(size, at)| {
        format!(", built {}.{:09} ({size} bytes)", at.as_secs(), at.subsec_nanos())
    })
}

/// What to do where another command files its runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// Say so.
    Refuse,
    /// Wait until it has ended, and go on where it was.
    Wait,
}

/// A file that takes lines. No other command writes to it meanwhile: both would do the same runs.
pub struct Filing {
    path: PathBuf,
    file: Mutex<File>,
    _lock: LockFile,
}

impl Filing {
    /// Makes the folder of a results' folder.
    pub fn folder(out: &Path) -> Result<PathBuf, Failure> {
        let folder = out.join(RUNS);
        fs::create_dir_all(&folder).map_err(|error| {
            Failure::Usage(format!("cannot make the folder '{}': {error}; choose another --out", out.display()))
        })?;
        Ok(folder)
    }

    /// Opens a file for more lines, and takes those that it has. A line that was cut off goes.
    pub fn open<R: DeserializeOwned>(
        path: &Path,
        header: &Header,
        outcomes: &[OnceLock<R>],
        check: Check<'_, R>,
        meanwhile: Meanwhile,
    ) -> Result<Filing, Failure> {
        let failed = |error: io::Error| {
            Failure::Usage(format!("cannot write '{}': {error}; choose another --out", path.display()))
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let lock = LockFile::open(path).map_err(failed)?;
        // Where locks are unknown, no other command is taken to be there.
        let mut is_locked = lock.try_lock(0).unwrap_or(true);
        if !is_locked && meanwhile == Meanwhile::Refuse {
            let what = "another command files its runs there; let it end, or choose another --out";
            return Err(Failure::Run(format!("'{}': {what}", path.display())));
        }
        if !is_locked {
            loudness::hint(format!("'{}': waiting for another command that files its runs there", path.display()));
        }
        // The kernel ends the lock with its process, so the wait ends too.
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
            let what = "it is not a file of runs; name another folder, or remove that file";
            return Err(Failure::Usage(format!("'{}': {what}", path.display())));
        }
        if whole < bytes.len() {
            let what = "its last line was cut off, and that run is done again";
            loudness::hint(format!("'{}': {what}", path.display()));
        }
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        if whole == 0 {
            without_signals(|| file.write_all(&head)).map_err(failed)?;
        }
        Ok(Filing { path: path.to_owned(), file: Mutex::new(file), _lock: lock })
    }

    /// Files an outcome, in one write: an interruption loses none that is done.
    pub fn note(&self, run: usize, outcome: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(&Line { run, outcome }).expect("outcomes have string keys");
        text.push(b'\n');
        let written = without_signals(|| comity_os::lock(&self.file).write_all(&text));
        written.map_err(|error| Failure::Run(format!("cannot write '{}': {error}", self.path.display())))
    }
}

/// Says what is wrong with an outcome that is filed for the run of this number.
pub type Check<'a, R> = &'a dyn Fn(usize, &R) -> Result<(), String>;

/// A [`Check`] of outcomes of which nothing is known before.
pub fn unchecked<R>(_run: usize, _outcome: &R) -> Result<(), String> {
    Ok(())
}

/// Takes the whole lines of a file, and says how many bytes they have.
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
        .map_err(|error| wrong(1, format!("not the head of a file of runs ({error}); name another folder")))?;
    if found != *header {
        let what = format!("it has runs of another setting ({}), and this is {}", found.setting, header.setting);
        return Err(wrong(1, format!("{what}; name another folder, or remove that one")));
    }
    let mut seen = HashMap::new();
    for (nth, line) in lines.enumerate() {
        let line_number = nth + 2;
        let Line { run, outcome }: Line<R> = serde_json::from_slice(line).map_err(|error| {
            wrong(line_number, format!("not a run ({error}); remove the line, and it is run again"))
        })?;
        let place = outcomes
            .get(run)
            .ok_or_else(|| wrong(line_number, format!("run {run} of {} runs; remove the line", outcomes.len())))?;
        if let Some(before) = seen.insert(run, line_number) {
            return Err(wrong(line_number, format!("run {run} stands in line {before} too; remove one of both")));
        }
        check(run, &outcome).map_err(|why| {
            wrong(line_number, format!("not the outcome of run {run} ({why}); remove the line, and it is run again"))
        })?;
        // Another folder may have it too.
        let _ = place.set(outcome);
    }
    Ok(whole)
}
