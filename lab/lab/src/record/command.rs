//! Records a user's program, which was built after `comity rayon enable --record` and so records itself.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use comity_console::Failure;
use comity_console::loudness::hint;
use comity_graph::Graph;
use comity_os::writes::to_stderr;
use comity_os::{cpu_clock, process};

use super::{Arguments, Rounds, choose};
use crate::choices;
use crate::progress::Progress;

/// Runs a program with and without recording, in turns. The first run is not counted. It shows the program's output,
/// and tests that the program records itself.
pub fn record(command: &[OsString], arguments: &Arguments) -> Result<(Graph, Rounds), Failure> {
    let name = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    choices::tell(&format!("record {name}, {} rounds", arguments.rounds));
    let progress = &Progress::new(2 * arguments.rounds as usize + 1, 0, "runs");
    let program = Program { name, command, arguments, progress };
    progress.doing(|| format!("{}, first run", program.name));
    progress.aside(|| program.recorded(true))?;
    progress.inc();
    let (mut plain, mut graphs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        progress.doing(|| format!("{}, without recording", program.name));
        plain.push(program.plain()?);
        progress.inc();
        progress.doing(|| format!("{}, with recording", program.name));
        graphs.push(program.recorded(false)?);
        progress.inc();
    }
    progress.end();
    let (mut graph, rounds) = choose(plain, graphs);
    graph.about.program = program.name;
    Ok((graph, rounds))
}

struct Program<'a> {
    /// The program's name in sentences.
    name: String,
    /// The command and its arguments; not empty.
    command: &'a [OsString],
    arguments: &'a Arguments,
    progress: &'a Progress,
}

/// The kind of file that a run must write. Each process in which a task has forked writes its own file.
#[derive(Clone, Copy)]
enum Wanted {
    Graph,
    Time,
}

impl Program<'_> {
    fn recorded(&self, is_first: bool) -> Result<Graph, Failure> {
        let text = self.run(Wanted::Graph, is_first)?;
        Graph::read(&mut text.as_slice()).map_err(|why| self.failed(&format!("wrote a bad recording: {why}")))
    }

    /// Returns the processor time of a run that is not recorded, in nanoseconds.
    fn plain(&self) -> Result<u64, Failure> {
        let text = self.run(Wanted::Time, false)?;
        let time = String::from_utf8(text).ok().and_then(|text| text.parse().ok());
        time.ok_or_else(|| self.failed("did not write a number of nanoseconds"))
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Run(format!("{} {why}", self.name))
    }

    /// Runs the program once and returns its output file.
    fn run(&self, wanted: Wanted, is_loud: bool) -> Result<Vec<u8>, Failure> {
        let no_place = |error: io::Error| Failure::Run(format!("cannot create a temporary folder or file: {error}"));
        let folder = tempfile::tempdir().map_err(no_place)?;
        if folder.path().as_os_str().as_encoded_bytes().windows(2).any(|two| two == b"%p") {
            return Err(Failure::Usage(format!(
                "TMPDIR is in '{}', and a recorder replaces %p by its process's number; set TMPDIR to another folder",
                folder.path().display()
            )));
        }
        let [program, words @ ..] = self.command else { return Err(Failure::Usage("name a COMMAND".into())) };
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        let mut said = None;
        if is_loud {
            let errors = rustix::stdio::stderr().try_clone_to_owned();
            command.stdout(errors.map_or_else(|_| Stdio::null(), Stdio::from)).stderr(Stdio::inherit());
        } else {
            let file = said.insert(tempfile::tempfile().map_err(no_place)?);
            command.stdout(Stdio::null()).stderr(file.try_clone().map_err(no_place)?);
        }
        for variable in ["COMITY_RECORD", "COMITY_RECORD_TIME"] {
            command.env_remove(variable);
        }
        let variable = match wanted {
            Wanted::Graph => "COMITY_RECORD",
            Wanted::Time => "COMITY_RECORD_TIME",
        };
        command
            .env(variable, folder.path().join("%p"))
            .env("COMITY_RECORD_MERGE_NS", self.arguments.merge_ns.to_string());
        if let Some(workers) = self.arguments.workers {
            command.env("COMITY_NUM_THREADS", workers.to_string());
        }
        let cannot = |error: io::Error| Failure::Usage(format!("cannot run '{}': {error}", program.display()));
        let child = process::die_with_this_thread(&mut command).spawn().map_err(cannot)?;
        let status = self.wait(child.id())?;
        let outcome = self.outcome(program, status, folder.path());
        if let Some(said) = said {
            // An error is ignored: standard error may be closed together with the terminal, and the recording is
            // still valid.
            let _ = self.progress.aside(|| pass_on(said, outcome.is_err()));
        }
        outcome
    }

    /// Returns the output file of a run that has ended.
    fn outcome(&self, program: &OsString, status: ExitStatus, folder: &Path) -> Result<Vec<u8>, Failure> {
        let written =
            written(folder).map_err(|error| self.failed(&format!("wrote text that cannot be read: {error}")))?;
        match written.as_slice() {
            [] => Err(self.failed(&why_nothing(program, status))),
            [text] if text.is_empty() => Err(self.failed(&why_not_all(status))),
            [_] if !status.success() => {
                Err(self.failed(&format!("failed ({status}): only a run that succeeds is kept")))
            }
            [text] => Ok(text.clone()),
            several => Err(self.failed(&format!(
                "started {} processes that record. Record one of these programs alone",
                several.len()
            ))),
        }
    }

    /// Waits until a run ends, however long it takes. Prints a hint once if the run seems to stand still.
    fn wait(&self, child: u32) -> Result<ExitStatus, Failure> {
        let (mut used, mut since, mut is_said) = (cpu_clock::of_process(child), Instant::now(), false);
        loop {
            if let Some(status) = process::wait_at_most(child, LOOK) {
                return Ok(status);
            }
            let now = cpu_clock::of_process(child);
            if now.is_none() {
                return Err(self.failed("cannot be waited for"));
            }
            if now != used {
                (used, since) = (now, Instant::now());
            }
            if since.elapsed() > STILL && !is_said {
                is_said = true;
                hint(format!(
                    "{} has used no processor time itself for {STILL:?} (processes that it starts, as a script does, \
                     are not counted). It runs serially, so it stands still if its tasks wait for each other. It \
                     cannot be recorded then: stop this command",
                    self.name
                ));
            }
        }
    }
}

/// The time between two looks at a run.
const LOOK: Duration = Duration::from_secs(1);

/// The time without use of processor time after which a hint says that the program may stand still.
const STILL: Duration = Duration::from_secs(10);

/// Prints what a run has written to standard error: the lines of the recorder, or with `all` all lines.
fn pass_on(mut said: File, all: bool) -> io::Result<()> {
    said.rewind()?;
    for line in BufReader::new(said).split(b'\n') {
        let line = line?;
        if all || line.starts_with(b"comity:") {
            to_stderr(&format!("{}\n", String::from_utf8_lossy(&line)));
        }
    }
    Ok(())
}

/// Reads the files that the processes of a run have written.
fn written(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // A file with an extension is incomplete: its process ended while it wrote.
        if path.extension().is_none() {
            found.push(fs::read(path)?);
        }
    }
    Ok(found)
}

/// Returns the reason why a process that had begun to record wrote no recording.
fn why_not_all(status: ExitStatus) -> String {
    format!(
        "ended ({status}) without writing its recording. A program writes it when it returns from main or calls exit, \
         but not when it is killed, aborts, calls _exit or executes another program. Its standard error is above"
    )
}

/// Returns the reason why no process began to record.
fn why_nothing(program: &OsString, status: ExitStatus) -> String {
    let Some(path) = find(program) else { return format!("ended ({status}) and recorded nothing") };
    let bytes = fs::read(&path).unwrap_or_default();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let place = path.display();
    let mend = "run `comity rayon enable --record` in its project and build it again";
    if has("COMITY_RECORD_TIME") {
        format!("ended ({status}) before it called a function of rayon that forks, so it has no task graph")
    } else if bytes.starts_with(b"#!") {
        format!("recorded nothing: '{place}' is a script; if it starts a program that uses rayon, {mend}")
    } else if has("COMITY_POLICY") {
        format!("recorded nothing: '{place}' was enabled without --record; {mend}")
    } else if has("RAYON_NUM_THREADS") {
        format!("recorded nothing: '{place}' links the stock rayon; {mend}")
    } else {
        format!("recorded nothing: '{place}' links no rayon; if it starts a program that does, {mend}")
    }
}

/// Returns the path of a program, as the shell finds it.
fn find(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    #[expect(clippy::disallowed_methods, reason = "it is the shell's variable")]
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}
