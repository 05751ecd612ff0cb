//! The trace file: a JSON array in the Trace Event Format of Chromium's tracing, which Perfetto and `comity-lab
//! report` read. Each event is one line, so that the whole lines of a trace that was cut short can be read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use comity_os::cpu_clock::ThreadId;
use comity_os::file_lock::LockFile;
use comity_os::files;
use comity_os::writes::{say, without_signals};
use comity_policy::{Policy, WorkerId};

use super::{Event, Holding, Mode, Nanos, State, Taking};
use crate::watching::counters::{Refusal, Refusals};

/// The beginning of every trace. A file that begins otherwise is never overwritten.
const BEGINNING: &str = "[\n{\"name\":\"comity_trace\"";

/// The maximum size of a trace, in bytes. A larger trace does not help a reader, and could fill the disk of a server.
const MOST_BYTES: u64 = 1 << 30;

/// The byte that a process locks while it writes. It is far behind the end of the file.
const LOCKED_BYTE: u64 = i64::MAX as u64 - 1;

pub(super) struct Output {
    file: File,
    path: PathBuf,
    /// A lock that shows other processes that this one writes.
    _lock: LockFile,
    /// The text between the phase and the thread's number of each event.
    of_process: String,
    text: String,
    written: u64,
    /// The cores that each program holds. A process is a separate program under each policy.
    held: Vec<(Policy, usize)>,
    modes: Vec<(Policy, Mode)>,
}

impl Output {
    /// Opens the file `name`, with the process's number in place of `%p`. If another process writes into that file,
    /// opens a file with this process's number before the extension.
    ///
    /// # Errors
    /// A sentence that begins with the name.
    pub(super) fn open(name: &OsStr) -> Result<Output, String> {
        let process = std::process::id();
        let path = with_number(name, process);
        match Output::open_at(&path, process)? {
            Some(output) => Ok(output),
            None => {
                let own = with_number_before_extension(&path, process);
                let taken = || {
                    format!(
                        "{}: other processes write to it and to {}. Name another file",
                        path.display(),
                        own.display()
                    )
                };
                let output = Output::open_at(&own, process)?.ok_or_else(taken)?;
                say(&format!(
                    "COMITY_TRACE={}: another process writes to this file. This process writes its trace to {}.",
                    path.display(),
                    own.display()
                ));
                Ok(output)
            }
        }
    }

    /// Opens the file at `path`. Returns `None` if another process writes into it.
    fn open_at(path: &Path, process: u32) -> Result<Option<Output>, String> {
        let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        if !files::ARE_SHARED {
            return Err(failed(&"traces are only available on Linux"));
        }
        let refused = |error: std::io::Error| failed(&format!("cannot write a trace to this file: {error}"));
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(failed(&"this is not a regular file. Name a regular file"));
        }
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(path).map_err(refused)?;
        let lock = path.canonicalize().and_then(|path| LockFile::open(&path)).map_err(refused)?;
        if !lock.try_lock(LOCKED_BYTE).map_err(refused)? {
            return Ok(None);
        }
        let mut beginning = Vec::new();
        (&mut file).take(BEGINNING.len() as u64).read_to_end(&mut beginning).map_err(refused)?;
        if !beginning.is_empty() && beginning != BEGINNING.as_bytes() {
            return Err(failed(&"this file exists and is not a trace. Name another file, or remove this one"));
        }
        file.set_len(0).map_err(refused)?;
        std::io::Seek::rewind(&mut file).map_err(refused)?;
        let mut output = Output {
            file,
            path: path.to_owned(),
            _lock: lock,
            of_process: format!("\",\"pid\":{process},\"tid\":"),
            text: String::new(),
            written: 0,
            held: Vec::new(),
            modes: Vec::new(),
        };
        let program = std::env::current_exe().ok().and_then(|path| path.file_name().map(|name| name.to_owned()));
        let program = program.map_or_else(|| "a program".to_owned(), |name| plain(&name.to_string_lossy()));
        // The first line has no comma before it.
        output.text = format!("{BEGINNING},\"ph\":\"M\",\"pid\":{process},\"tid\":0,\"args\":{{\"version\":1}}}}");
        output.line("process_name", 'M', 0, format_args!("\"args\":{{\"name\":\"{program}\"}}"));
        without_signals(|| output.file.write_all(output.text.as_bytes())).map_err(refused)?;
        output.written = std::mem::take(&mut output.text).len() as u64;
        Ok(Some(output))
    }

    fn line(&mut self, name: &str, phase: char, thread: i32, rest: std::fmt::Arguments) {
        self.begin(name, phase, thread);
        let _ = write!(self.text, "{rest}}}");
    }

    fn begin(&mut self, name: &str, phase: char, thread: i32) {
        let text = &mut self.text;
        text.push_str(",\n{\"name\":\"");
        text.push_str(name);
        text.push_str("\",\"ph\":\"");
        text.push(phase);
        text.push_str(&self.of_process);
        push_number(text, thread.unsigned_abs().into());
        text.push(',');
    }

    pub(super) fn name(&mut self, thread: ThreadId, name: &str) {
        self.line("thread_name", 'M', thread.as_raw(), format_args!("\"args\":{{\"name\":\"{}\"}}", plain(name)));
    }

    pub(super) fn event(&mut self, thread: ThreadId, event: Event) {
        let thread = thread.as_raw();
        match event {
            Event::Was { state, since, until } => {
                let name = match state {
                    State::Task => "task",
                    State::Thief => "thief",
                    State::Asleep => "asleep",
                    State::Retired => "retired",
                };
                self.begin(name, 'X', thread);
                self.text.push_str("\"cat\":\"worker\",\"ts\":");
                push_micros(&mut self.text, since);
                self.text.push_str(",\"dur\":");
                push_micros(&mut self.text, until - since);
                self.text.push('}');
            }
            Event::Took { how, from, at } => {
                let name = match how {
                    Taking::Steal => "steal",
                    Taking::Mug => "mug",
                };
                self.moment(name, thread, at, "from", from);
            }
            Event::Accelerated { candidate, at } => self.moment("acceleration", thread, at, "whom", candidate),
        }
    }

    /// Writes an event of a worker that concerns the worker `other`.
    fn moment(&mut self, name: &str, thread: i32, at: Nanos, role: &str, other: WorkerId) {
        self.begin(name, 'i', thread);
        self.text.push_str("\"cat\":\"worker\",\"s\":\"t\",\"ts\":");
        push_micros(&mut self.text, at);
        self.text.push_str(",\"args\":{\"");
        self.text.push_str(role);
        self.text.push_str("\":");
        push_number(&mut self.text, other.0.into());
        self.text.push_str("}}");
    }

    /// Writes the number of refused accelerations of the worker since the last visit, by reason.
    pub(super) fn refused(&mut self, thread: ThreadId, refusals: Refusals, at: Nanos) {
        let mut reasons = String::new();
        for refusal in Refusal::ALL.iter().copied().filter(|refusal| refusals.of(*refusal) > 0) {
            let comma = if reasons.is_empty() { "" } else { "," };
            let _ = write!(reasons, "{comma}\"{}\":{}", refusal.name(), refusals.of(refusal));
        }
        if !reasons.is_empty() {
            let at = Micros(at);
            self.line(
                "refused",
                'i',
                thread.as_raw(),
                format_args!("\"cat\":\"worker\",\"s\":\"t\",\"ts\":{at},\"args\":{{\"reasons\":{{{reasons}}}}}"),
            );
        }
    }

    /// Writes that the thread waited for a core for `until - since`, at some time before `until`.
    pub(super) fn preempted(&mut self, thread: ThreadId, since: Nanos, until: Nanos) {
        let id = thread.as_raw();
        for (phase, at) in [('b', since), ('e', until)] {
            let at = Micros(at);
            self.line("preempted", phase, id, format_args!("\"cat\":\"preempted\",\"id\":{id},\"ts\":{at}"));
        }
    }

    /// Writes that a program gets or loses a core. If several programs of the process have the core, only the first
    /// gain and the last loss are written.
    pub(super) fn core(&mut self, policy: Policy, core: usize, holding: Holding, at: Nanos) {
        let (phase, how) = match holding {
            Holding::Claimed => ('b', "claimed"),
            Holding::TakenBack => ('b', "taken back"),
            Holding::Released => ('e', "released"),
            Holding::Lost => ('e', "lost"),
        };
        let of_process = |held: &[(Policy, usize)]| held.iter().any(|(_, held)| *held == core);
        let before = of_process(&self.held);
        self.held.retain(|held| *held != (policy, core));
        if phase == 'b' {
            self.held.push((policy, core));
        }
        if before != of_process(&self.held) {
            self.line_of_core(core, phase, at, how);
        }
    }

    fn line_of_core(&mut self, core: usize, phase: char, at: Nanos, how: &str) {
        let at = Micros(at);
        self.line(
            &format!("core {core}"),
            phase,
            0,
            format_args!("\"cat\":\"core\",\"id\":{core},\"ts\":{at},\"args\":{{\"how\":\"{how}\"}}"),
        );
    }

    /// Writes how the program of a policy shares the machine from now on. `None`: the program has left the table.
    pub(super) fn mode(&mut self, policy: Policy, mode: Option<Mode>, at: Nanos) {
        let before = self.modes.iter().position(|(other, _)| *other == policy);
        if before.map(|nth| self.modes[nth].1) == mode {
            return;
        }
        if let Some(nth) = before {
            let (_, mode) = self.modes.swap_remove(nth);
            self.line_of_mode(policy, mode, 'e', at);
        }
        if let Some(mode) = mode {
            self.modes.push((policy, mode));
            self.line_of_mode(policy, mode, 'b', at);
        }
    }

    fn line_of_mode(&mut self, policy: Policy, mode: Mode, phase: char, at: Nanos) {
        let name = match mode {
            Mode::Alone => "alone",
            Mode::Time => "shares time",
            Mode::Cores => "holds cores",
        };
        let (id, at) = (plain(&policy.to_string()), Micros(at));
        self.line(name, phase, 0, format_args!("\"cat\":\"mode\",\"id\":\"{id}\",\"ts\":{at}"));
    }

    /// Writes the number of events that were not noted because there were too many.
    pub(super) fn lost(&mut self, events: u64, at: Nanos) {
        if events > 0 {
            let at = Micros(at);
            self.line(
                "lost",
                'i',
                0,
                format_args!("\"cat\":\"trace\",\"s\":\"p\",\"ts\":{at},\"args\":{{\"events\":{events}}}"),
            );
        }
    }

    /// Writes the text to the file. Returns false if the file takes no more, after printing the reason.
    pub(super) fn flush(&mut self) -> bool {
        if self.written + self.text.len() as u64 > MOST_BYTES {
            self.text.clear();
            let _ = without_signals(|| self.file.write_all(b"\n]\n"));
            self.say(&format!("the trace ends here, at its maximum of {} MiB", MOST_BYTES >> 20));
            return false;
        }
        match without_signals(|| self.file.write_all(self.text.as_bytes())) {
            Ok(()) => {
                // The text keeps its memory for the next visit.
                self.written += self.text.len() as u64;
                self.text.clear();
                true
            }
            Err(error) => {
                self.say(&format!("the trace ends here: {error}"));
                false
            }
        }
    }

    /// Writes the end of the trace when the program ends.
    pub(super) fn end(&mut self, at: Nanos) {
        let held: BTreeSet<usize> = std::mem::take(&mut self.held).into_iter().map(|(_, core)| core).collect();
        for core in held {
            self.line_of_core(core, 'e', at, "released");
        }
        for (policy, mode) in std::mem::take(&mut self.modes) {
            self.line_of_mode(policy, mode, 'e', at);
        }
        self.text.push_str("\n]\n");
        self.flush();
    }

    fn say(&self, what: &str) {
        say(&format!("COMITY_TRACE={}: {what}", self.path.display()));
    }
}

/// Appends a time in microseconds, with three decimals.
fn push_micros(text: &mut String, nanos: Nanos) {
    push_number(text, nanos / 1000);
    text.push('.');
    for unit in [100, 10, 1] {
        text.push(char::from(b'0' + (nanos / unit % 10) as u8));
    }
}

/// Appends a number in decimal. There may be a hundred thousand numbers a second, and the formatting traits would
/// take as long as the rest of the tracer's work. A crate for this would be a further dependency of every program.
fn push_number(text: &mut String, number: u64) {
    let first = number.checked_ilog10().map_or(1, |power| 10_u64.pow(power));
    let mut unit = first;
    while unit > 0 {
        text.push(char::from(b'0' + (number / unit % 10) as u8));
        unit /= 10;
    }
}

/// A time that is formatted like [`push_micros`], for rare events.
struct Micros(Nanos);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        push_micros(&mut text, self.0);
        f.write_str(&text)
    }
}

/// Returns the name with `_` in place of characters that JSON would escape.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '"' | '\\');
    name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// Returns `name` with the process's number in place of each `%p`. A name that is not Unicode is not changed.
fn with_number(name: &OsStr, process: u32) -> PathBuf {
    name.to_str().map_or_else(|| name.into(), |name| name.replace("%p", &process.to_string()).into())
}

fn with_number_before_extension(path: &Path, process: u32) -> PathBuf {
    let mut extension = std::ffi::OsString::from(process.to_string());
    if let Some(usual) = path.extension() {
        extension.push(".");
        extension.push(usual);
    }
    path.with_extension(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_process_comes_where_it_is_asked_for() {
        let name = |text: &str| with_number(OsStr::new(text), 7).into_os_string().into_string().unwrap();
        assert_eq!(name("/tmp/%p/t.%p.json"), "/tmp/7/t.7.json");
        assert_eq!(name("t%.json%"), "t%.json%");
        let before =
            |text: &str| with_number_before_extension(Path::new(text), 7).into_os_string().into_string().unwrap();
        assert_eq!(before("a.b/t.json"), "a.b/t.7.json");
        assert_eq!(before("a.b/t"), "a.b/t.7");
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(Micros(1_234_005).to_string(), "1234.005");
        assert_eq!(Micros(7).to_string(), "0.007");
        assert_eq!(Micros(1_000_999).to_string(), "1000.999");
    }

    #[test]
    fn what_json_would_escape_is_replaced() {
        assert_eq!(plain("a\"b\\c\nd é"), "a_b_c_d é");
    }
}
