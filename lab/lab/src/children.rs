//! The processes that this command speaks with: orders to their standard input, a line each, and answers from their
//! standard output, a JSON object per line.
//!
//! A process that dies, hangs or talks nonsense becomes one sentence with the end of what it wrote to standard error.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use comity_console::Failure;
use comity_os::process;
use serde::de::DeserializeOwned;

use crate::descendants;

/// How long a process that has closed its output may take to end, and its last words to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of a process's standard error is kept, and how many lines of it are shown.
const LAST_BYTES: usize = 4096;
const LAST_LINES: usize = 5;

/// Processes that answer with an `A`. All of them, and whatever they started, have ended when it is gone.
pub struct Children<A> {
    processes: Vec<Process>,
    sender: Sender<(usize, Message<A>)>,
    messages: Receiver<(usize, Message<A>)>,
    timeout: Duration,
}

struct Process {
    id: u32,
    /// What it is called in sentences.
    name: String,
    /// Open as long as the process should live.
    orders: ChildStdin,
    last_words: Receiver<Vec<u8>>,
    /// When it must have said something, if that is expected of it.
    deadline: Option<Instant>,
}

enum Message<A> {
    Answer(A),
    /// Something else than an answer.
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

impl<A: DeserializeOwned + Send + 'static> Children<A> {
    /// No process yet. One that is expected to say something may take `timeout` for it.
    pub fn new(timeout: Duration) -> Children<A> {
        let (sender, messages) = mpsc::channel();
        Children { processes: Vec::new(), sender, messages, timeout }
    }

    /// Starts a process, which sentences call `name`. They are numbered from 0.
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

    /// From now on `index` has the timeout to say something.
    pub fn expect(&mut self, index: usize) {
        self.processes[index].deadline = Some(Instant::now() + self.timeout);
    }

    /// From now on `index` may be silent.
    pub fn excuse(&mut self, index: usize) {
        self.processes[index].deadline = None;
    }

    /// Gives `index` an order, a line, and expects an answer.
    pub fn tell(&mut self, index: usize, order: &str) -> Result<(), Failure> {
        self.expect(index);
        let line = format!("{order}\n");
        self.processes[index].orders.write_all(line.as_bytes()).map_err(|_gone| self.trouble(index, Trouble::Ended))
    }

    /// Waits for the next answer of any process, of which no further one is expected then.
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

    /// Ends everything; the sentence says that `index` is at fault, and how.
    pub fn fail(&mut self, index: usize, how: String) -> Failure {
        self.trouble(index, Trouble::Failed(how))
    }

    /// Ends every process and whatever it started.
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
                "took longer than {} s, so it was ended; see --timeout if it may take longer",
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
        // After `close` or `fail` there is nothing left to do, and on the way out of an error no caller to tell.
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
