//! Child processes that this command talks to: it writes orders to their standard input, one per line, and reads
//! answers from their standard output, one JSON object per line.
//!
//! If a process dies, hangs or writes another text, the error is one sentence, followed by the end of the process's
//! standard error.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::Failure;
use comity_os::process;
use serde::de::DeserializeOwned;

use crate::descendants;

/// The maximum time to wait for the end of a process that has closed its output, and for the rest of its standard
/// error.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The limits of a process's standard error in an error message: the number of bytes that are kept, and of lines that
/// are shown.
const LAST_BYTES: usize = 4096;
const LAST_LINES: usize = 5;

/// Child processes that answer with an `A`. Dropping the value ends all of them and all processes that they started.
pub struct Children<A> {
    processes: Vec<Process>,
    sender: Sender<(usize, Message<A>)>,
    messages: Receiver<(usize, Message<A>)>,
    timeout: Duration,
}

struct Process {
    id: u32,
    /// The name of the process in error messages.
    name: String,
    /// The standard input of the process. When it is closed, the process ends.
    orders: ChildStdin,
    last_words: Receiver<Vec<u8>>,
    /// The time by which the process must answer, if an answer is expected.
    deadline: Option<Instant>,
}

enum Message<A> {
    Answer(A),
    /// A line that is not an answer.
    Garbage(String),
    /// The end of the process's output.
    Closed,
}

/// The reason why a process failed.
enum Trouble {
    Failed(String),
    Ended,
    TimedOut,
}

impl<A: DeserializeOwned + Send + 'static> Children<A> {
    /// Makes an empty set. `timeout` is the time that a process has for an expected answer.
    pub fn new(timeout: Duration) -> Children<A> {
        let (sender, messages) = mpsc::channel();
        Children { processes: Vec::new(), sender, messages, timeout }
    }

    /// Starts a process. Error messages call it `name`. Processes are numbered from 0, in the order of their starts.
    pub fn start(&mut self, name: String, command: &mut Command) -> Result<(), Failure> {
        let cannot = |error: io::Error| Failure::Run(format!("cannot start {name}: {error}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = descendants::start(command).map_err(cannot)?;
        let taken = "a piped stream is there once";
        let (output, errors) = (child.stdout.take().expect(taken), child.stderr.take().expect(taken));
        let (index, sender) = (self.processes.len(), self.sender.clone());
        thread::Builder::new().spawn(move || pass_on(index, output, &sender)).map_err(cannot)?;
        let (send, last_words) = mpsc::channel();
        thread::Builder::new().spawn(move || send.send(tail(errors))).map_err(cannot)?;
        let orders = child.stdin.take().expect(taken);
        self.processes.push(Process { id: child.id(), name, orders, last_words, deadline: None });
        Ok(())
    }

    /// Expects an answer of process `index` within the timeout from now.
    pub fn expect(&mut self, index: usize) {
        self.processes[index].deadline = Some(Instant::now() + self.timeout);
    }

    /// Expects no answer of process `index` any more.
    pub fn excuse(&mut self, index: usize) {
        self.processes[index].deadline = None;
    }

    /// Sends process `index` an order, as one line, and expects an answer.
    pub fn tell(&mut self, index: usize, order: &str) -> Result<(), Failure> {
        self.expect(index);
        let line = format!("{order}\n");
        self.processes[index].orders.write_all(line.as_bytes()).map_err(|_gone| self.trouble(index, Trouble::Ended))
    }

    /// Waits for the next answer of any process. Until the next order, no further answer is expected of that process.
    pub fn hear(&mut self) -> Result<(usize, A), Failure> {
        let deadlines =
            self.processes.iter().enumerate().filter_map(|(index, process)| Some((process.deadline?, index)));
        let (deadline, late) = deadlines.min().expect("a process is expected to answer");
        match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((from, Message::Answer(answer))) => {
                self.processes[from].deadline = None;
                Ok((from, answer))
            }
            Ok((from, Message::Garbage(line))) => Err(self.fail(from, format!("wrote to standard output: {line}"))),
            Ok((from, Message::Closed)) => Err(self.trouble(from, Trouble::Ended)),
            Err(_timeout) => Err(self.trouble(late, Trouble::TimedOut)),
        }
    }

    /// Ends all processes. Returns an error that names process `index` as the cause. `how` is the rest of the
    /// sentence.
    pub fn fail(&mut self, index: usize, how: String) -> Failure {
        self.trouble(index, Trouble::Failed(how))
    }

    /// Ends all processes and all processes that they started.
    pub fn close(mut self) -> Result<(), Failure> {
        self.processes.clear();
        descendants::end_all()
    }

    fn trouble(&mut self, index: usize, trouble: Trouble) -> Failure {
        let process = &self.processes[index];
        let what = match trouble {
            Trouble::Failed(sentence) => sentence,
            Trouble::Ended => match process::wait_at_most(process.id, LAST_WORDS) {
                Some(status) => format!("ended unexpectedly: {status}"),
                None => "ended unexpectedly".to_owned(),
            },
            Trouble::TimedOut => format!(
                "took longer than {} s and was ended. Choose a larger --timeout if it needs more time",
                self.timeout.as_secs()
            ),
        };
        let ended = descendants::end_all();
        let last_words = process.last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
        let sentence = format!("{} {what}{}", process.name, in_words(&last_words));
        match ended {
            Ok(()) => Failure::Run(sentence),
            Err(more) => Failure::Run(format!("{sentence}; also, {}", more.into_sentence())),
        }
    }
}

impl<A> Drop for Children<A> {
    fn drop(&mut self) {
        // An error is ignored: after `close` or `fail`, no process is left, and in other cases the caller already
        // returns an error.
        let _best = descendants::end_all();
    }
}

fn pass_on<A: DeserializeOwned>(index: usize, output: ChildStdout, sender: &Sender<(usize, Message<A>)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let message = serde_json::from_str(&line).map_or(Message::Garbage(line), Message::Answer);
        if sender.send((index, message)).is_err() {
            return;
        }
    }
    let _no_listener_is_left = sender.send((index, Message::Closed));
}

/// Reads to the end and returns the last bytes.
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
    if lines.is_empty() { String::new() } else { format!(". The end of its standard error:\n  {}", lines.join("\n  ")) }
}
