//! The child process of a co-run: it runs one program, by orders of the command `comity-lab corun`.
//!
//! Orders come on standard input, one per line: `go N` runs N rounds, `go` runs until the end. Answers go to standard
//! output, one JSON object per line: [`Event`]. The end of the input is the order to end at once. The input also ends
//! when the command dies, for any reason.

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio, exit};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use clap::Args;
use comity_console::Failure;
use comity_os::{process, task_group};
use comity_policy::Policy;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::backend::{Backend, BackendName};
use crate::trial::Round;
use crate::trial::Trial;

/// The time that a shell command gets to end after SIGTERM, before it is killed, at the end of a co-run.
pub const COMMAND_GRACE: Duration = Duration::from_secs(1);

/// Runs one program of a co-run; started by `comity-lab corun`
#[derive(Args)]
pub struct Arguments {
    /// The process to live and die with
    #[arg(long)]
    pub parent: u32,
    /// Lead a session instead of a process group
    #[arg(long)]
    pub session: bool,
    /// The only core to use
    #[arg(long)]
    pub core: Option<usize>,
    /// The runtime of a kernel
    #[arg(long, value_enum)]
    pub backend: BackendName,
    /// The policy of Comity's workers
    #[arg(long)]
    pub policy: Option<Policy>,
    /// Workers of the pool
    #[arg(long)]
    pub workers: u16,
    /// Run a kernel
    #[arg(long, required_unless_present = "shell")]
    pub kernel: Option<String>,
    /// Run a shell command
    #[arg(long, conflicts_with = "kernel")]
    pub shell: Option<String>,
}

/// A message of a program's process to the command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The program is ready to run. A kernel has run once to warm up.
    Ready,
    /// The program has run one more round.
    Round(Round),
    /// The program cannot run, or has failed, and this process ends. The text is a sentence without the program's
    /// name.
    Failed(String),
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let cannot = |what: &str, error: io::Error| Failure::Run(format!("cannot {what}: {error}"));
    if arguments.session {
        task_group::stand_apart().map_err(|error| cannot("start a session", error))?;
    } else {
        process::new_group().map_err(|error| cannot("start a process group", error))?;
    }
    if let Some(core) = arguments.core {
        process::pin_to_core(core).map_err(|error| cannot(&format!("use core {core}"), error))?;
    }
    match &arguments.shell {
        None => {
            process::die_with_parent(arguments.parent).map_err(|error| cannot("outlive the command", error))?;
            let orders = listen(|| exit(0));
            serve(&orders, || prepare_kernel(&arguments))
        }
        Some(text) => {
            let shell = Arc::new(Shell { text: text.clone(), execution: Mutex::new(None) });
            process::adopt_orphans().map_err(|error| cannot("adopt orphans", error))?;
            // No death signal is set: after the command's death, this process must still end the shell command. It
            // notices the death by the end of its input.
            let mut signals =
                Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| cannot("listen to signals", error))?;
            let ended = Arc::clone(&shell);
            std::thread::spawn(move || signals.forever().next().map(|_| ended.end()));
            let ended = Arc::clone(&shell);
            let orders = listen(move || ended.end());
            serve(&orders, || Ok(move || shell.execute()))
        }
    }
}

/// Prepares the program, and runs rounds as ordered, until another process ends this one or the program fails.
fn serve<E>(orders: &Receiver<usize>, prepare: impl FnOnce() -> Result<E, String>) -> Result<(), Failure>
where
    E: FnMut() -> Result<Round, String>,
{
    let failed = |sentence: String| tell(&Event::Failed(sentence));
    let mut execute = match prepare() {
        Ok(execute) => execute,
        Err(sentence) => return failed(sentence),
    };
    tell(&Event::Ready)?;
    for rounds in orders {
        for _ in 0..rounds {
            match execute() {
                Ok(round) => tell(&Event::Round(round))?,
                Err(sentence) => return failed(sentence),
            }
        }
    }
    Ok(())
}

fn tell(event: &Event) -> Result<(), Failure> {
    let mut line = serde_json::to_string(event).expect("an event has string keys and no failing serializer");
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Run(format!("cannot report to the command: {error}")))
}

/// Reads orders on a thread, and returns a channel of numbers of rounds. Calls `end` at the end of the input, or at
/// an unknown order.
fn listen(end: impl FnOnce() + Send + 'static) -> Receiver<usize> {
    let (send, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let order = line.ok().and_then(|line| parse_order(&line));
            match order {
                Some(rounds) if send.send(rounds).is_ok() => {}
                _ => break,
            }
        }
        end();
    });
    orders
}

fn parse_order(line: &str) -> Option<usize> {
    match line.strip_prefix("go")?.trim() {
        "" => Some(usize::MAX),
        rounds => rounds.parse().ok(),
    }
}

/// Prepares a kernel and runs it once to warm up: the first run includes the costs of new pages and of starting
/// threads, which do not depend on the policy.
fn prepare_kernel(arguments: &Arguments) -> Result<impl FnMut() -> Result<Round, String> + use<>, String> {
    let name = arguments.kernel.as_deref().unwrap_or_default();
    let backend = Backend::new(arguments.backend, arguments.policy).map_err(Failure::into_sentence)?;
    let trial = Trial::prepare(name, &backend, arguments.workers).map_err(Failure::into_sentence)?;
    trial.run(false).map_err(Failure::into_sentence)?;
    Ok(move || trial.run(false).map(|shown| shown.round).map_err(Failure::into_sentence))
}

/// A shell command that is executed repeatedly.
struct Shell {
    text: String,
    /// The leader of the running execution. While the lock is held, no other execution starts.
    execution: Mutex<Option<u32>>,
}

impl Shell {
    fn lock(&self) -> MutexGuard<'_, Option<u32>> {
        self.execution.lock().expect("no thread panics while holding the lock")
    }

    /// Executes the command once, in its own process group. Processes that the command leaves in this group are
    /// killed.
    fn execute(&self) -> Result<Round, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.text]).stdin(Stdio::null()).stdout(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        process::die_with_this_thread(&mut command);
        let mut execution = self.lock();
        let start = Instant::now();
        let leader = command.spawn().map_err(|error| format!("cannot start /bin/sh: {error}"))?.id();
        *execution = Some(leader);
        drop(execution);
        let ended = process::wait_and_end_group(leader);
        let seconds = start.elapsed().as_secs_f64();
        // After an order to end, `end` keeps the lock, so this line blocks and no round is reported for this
        // execution.
        *self.lock() = None;
        let (status, usage) = ended.map_err(|error| format!("cannot be waited for: {error}"))?;
        if !status.success() {
            return Err(format!("failed: {status}"));
        }
        Ok(Round {
            seconds,
            verified: true,
            detail: status.to_string(),
            cpu_s: usage.cpu.as_secs_f64(),
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            counters: None,
        })
    }

    /// Ends the running execution, every descendant, and this process.
    fn end(&self) {
        let execution = self.lock();
        if let Some(leader) = *execution {
            process::ask_group_to_end(leader);
        }
        let _best = process::end_children(COMMAND_GRACE);
        exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::parse_order;

    #[test]
    fn orders_are_a_number_of_rounds_or_all_there_are() {
        assert_eq!(parse_order("go 12"), Some(12));
        assert_eq!(parse_order("go"), Some(usize::MAX));
        assert_eq!(parse_order("stop"), None);
        assert_eq!(parse_order("go home"), None);
    }
}
