//! The processes that run at one time: one program alone, or all together.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use comity_os::process;

use super::Grouping;
use super::program::Program;
use crate::contestant::Contestant;
use crate::descendants;
use crate::failure::Failure;
use crate::json::Round;
use crate::serve::Event;

/// How long a process that has closed its output may take to end, and its last words to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of a program's standard error is kept, and how many lines of it are shown.
const LAST_BYTES: usize = 4096;
const LAST_LINES: usize = 5;

/// One program as it should be run.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// What.
    pub program: &'a Program,
    /// Under whom.
    pub contestant: &'a Contestant,
    /// With how many workers.
    pub workers: u16,
    /// On this core only.
    pub core: Option<usize>,
    /// In which task group.
    pub grouping: Grouping,
}

/// The processes of one stage. All of them, and whatever they started, have ended when it is gone.
pub struct Stage {
    processes: Vec<Process>,
    messages: Receiver<(usize, Message)>,
    timeout: Duration,
}

struct Process {
    id: u32,
    /// The program, for sentences.
    name: String,
    /// Open as long as the program should live.
    orders: ChildStdin,
    last_words: Receiver<Vec<u8>>,
    /// When it must have said something.
    deadline: Instant,
}

enum Message {
    Event(Event),
    /// Something else than an event.
    Garbage(String),
    /// The end of its output.
    Closed,
}

/// What went wrong with a process.
enum Trouble {
    Failed(String),
    Ended,
    TimedOut,
}

impl Stage {
    /// Starts all processes and waits until each can run.
    pub fn open(launches: &[Launch<'_>], timeout: Duration) -> Result<Stage, Failure> {
        let (send, messages) = mpsc::channel();
        let mut stage = Stage { processes: Vec::new(), messages, timeout };
        for launch in launches {
            let process = Process::start(stage.processes.len(), launch, &send, timeout)?;
            stage.processes.push(process);
        }
        let mut ready = 0;
        while ready < launches.len() {
            match stage.next()? {
                (_, Event::Ready) => ready += 1,
                (from, event) => return Err(stage.fail(from, Trouble::Failed(format!("said {event:?} too early")))),
            }
        }
        Ok(stage)
    }

    /// Lets every program run `rounds` rounds, or as long as the stage lasts.
    pub fn go(&mut self, rounds: Option<usize>) -> Result<(), Failure> {
        let order = rounds.map_or_else(|| "go\n".to_owned(), |rounds| format!("go {rounds}\n"));
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            process.deadline = Instant::now() + self.timeout;
            if process.orders.write_all(order.as_bytes()).is_err() {
                return Err(self.fail(index, Trouble::Ended));
            }
        }
        Ok(())
    }

    /// Waits for the next round that any program ends.
    pub fn next_round(&mut self) -> Result<(usize, Round), Failure> {
        match self.next()? {
            (from, Event::Round(round)) => Ok((from, round)),
            (from, event) => Err(self.fail(from, Trouble::Failed(format!("said {event:?} out of turn")))),
        }
    }

    /// Ends every process and whatever it started.
    pub fn close(mut self) -> Result<(), Failure> {
        self.processes.clear();
        descendants::end_all()
    }

    fn next(&mut self) -> Result<(usize, Event), Failure> {
        let (late, deadline) = self
            .processes
            .iter()
            .map(|process| process.deadline)
            .enumerate()
            .min_by_key(|(_, deadline)| *deadline)
            .expect("a stage has processes");
        match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((from, Message::Event(Event::Failed(sentence)))) => Err(self.fail(from, Trouble::Failed(sentence))),
            Ok((from, Message::Event(event))) => {
                self.processes[from].deadline = Instant::now() + self.timeout;
                Ok((from, event))
            }
            Ok((from, Message::Garbage(line))) => {
                Err(self.fail(from, Trouble::Failed(format!("wrote to standard output: {line}"))))
            }
            Ok((from, Message::Closed)) => Err(self.fail(from, Trouble::Ended)),
            // Every process's reader sends `Closed` before it lets go of the channel.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(self.fail(late, Trouble::TimedOut)),
        }
    }

    /// Ends everything and puts the trouble into a sentence.
    fn fail(&mut self, index: usize, trouble: Trouble) -> Failure {
        let process = &self.processes[index];
        let what = match trouble {
            Trouble::Failed(sentence) => sentence,
            Trouble::Ended => match process::wait_at_most(process.id, LAST_WORDS) {
                Some(status) => format!("ended unexpectedly: {status}"),
                None => "ended unexpectedly".to_owned(),
            },
            Trouble::TimedOut => format!(
                "took longer than {} s, so it was ended; see --timeout if it may take longer",
                self.timeout.as_secs()
            ),
        };
        let ended = descendants::end_all();
        let last_words = process.last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
        let sentence = format!("{} {what}{}", process.name, in_words(&last_words));
        match ended {
            Ok(()) => Failure::Run(sentence),
            Err(Failure::Run(more) | Failure::Usage(more)) => Failure::Run(format!("{sentence}; also, {more}")),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After `close` or `fail` there is nothing left to do, and on the way out of an error nobody to tell.
        let _best = descendants::end_all();
    }
}

impl Process {
    fn start(
        index: usize,
        launch: &Launch<'_>,
        messages: &Sender<(usize, Message)>,
        timeout: Duration,
    ) -> Result<Process, Failure> {
        let cannot = |error: io::Error| Failure::Run(format!("cannot start {}: {error}", launch.program));
        let mut child = descendants::start(&mut command(launch)).map_err(cannot)?;
        let taken = "a piped stream is there once";
        let (output, errors) = (child.stdout.take().expect(taken), child.stderr.take().expect(taken));
        let messages = messages.clone();
        thread::Builder::new().spawn(move || pass_on(index, output, &messages)).map_err(cannot)?;
        let (send, last_words) = mpsc::channel();
        thread::Builder::new().spawn(move || send.send(tail(errors))).map_err(cannot)?;
        Ok(Process {
            id: child.id(),
            name: launch.program.to_string(),
            orders: child.stdin.take().expect(taken),
            last_words,
            deadline: Instant::now() + timeout,
        })
    }
}

/// This same executable, even if its file has been replaced since.
fn command(launch: &Launch<'_>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("serve").args(["--parent", &std::process::id().to_string()]);
    command.args(["--backend", launch.contestant.backend(), "--workers", &launch.workers.to_string()]);
    command.env_remove("COMITY_POLICY");
    if let Some(policy) = launch.contestant.policy() {
        command.args(["--policy", &policy.to_string()]).env("COMITY_POLICY", policy.to_string());
    }
    for variable in ["COMITY_NUM_THREADS", "RAYON_NUM_THREADS"] {
        command.env(variable, launch.workers.to_string());
    }
    if launch.grouping == Grouping::Separate {
        command.arg("--session");
    }
    if let Some(core) = launch.core {
        command.args(["--core", &core.to_string()]);
    }
    match launch.program {
        Program::Kernel(text) => command.arg(format!("--kernel={text}")),
        Program::Command(text) => command.arg(format!("--shell={text}")),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn pass_on(index: usize, output: ChildStdout, messages: &Sender<(usize, Message)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let message = serde_json::from_str(&line).map_or(Message::Garbage(line), Message::Event);
        if messages.send((index, message)).is_err() {
            return;
        }
    }
    let _nobody_listens = messages.send((index, Message::Closed));
}

/// Reads to the end and keeps the last bytes.
fn tail(mut errors: ChildStderr) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; LAST_BYTES]);
    while let Ok(read @ 1..) = errors.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(LAST_BYTES));
    }
    kept
}

fn in_words(last_words: &[u8]) -> String {
    let text = String::from_utf8_lossy(last_words);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if lines.is_empty() { String::new() } else { format!("; its last words:\n  {}", lines.join("\n  ")) }
}
