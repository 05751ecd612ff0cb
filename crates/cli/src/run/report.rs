//! The option `comity run --report`: this process starts the command and is its coordinator, and reports at the end
//! what sharing cost. `comity run` without `--report` also works in this way in a container whose first process does
//! not wait for orphans. In such a container, a coordinator that is an orphan would remain as a zombie.
//!
//! The report is written after the command has ended, so this process cannot become the command. Therefore the
//! command is a child of this process, as with time(1). This process waits for the command anyway, so it is also the
//! coordinator.

use std::fmt::Write as _;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use comity_console::Failure;
use comity_console::loudness::hint;
use comity_console::output::{ResultFile, to_json};
use comity_os::census::Stat;
use comity_os::pidfd::Pidfd;
use comity_os::process;
use comity_os::usage::Usage;
use comity_os::writes::to_stderr;
use comity_table::{Location, Program};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::coordinate::Account;
use super::history::{History, Stretch};
use super::terms::Terms;
use super::tokens::{JobsAccount, Tokens};
use crate::table::in_units;
use crate::weight;

/// The maximum length of a line of the report, in letters.
const LINE: usize = 80;

/// The width of the name at the beginning of each line.
const MARGIN: usize = 18;

/// The signals that are passed on to the command. SIGINT and SIGQUIT are not among them, because the terminal sends
/// them to the command directly. This process catches and discards them.
const HANDED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The destination of a report.
pub enum Place {
    /// There is no report. This process stays as the command's parent only so that its coordinator does not become a
    /// zombie.
    Nowhere,
    /// The report goes to standard error.
    Errors,
    /// The report goes to a file, as text.
    Text(ResultFile),
    /// The report goes to a file, as JSON.
    Json(ResultFile),
}

impl Place {
    /// Returns the destination for a path, after a check that it can be written. Without a path, returns standard
    /// error.
    pub fn check(path: Option<&Path>) -> Result<Place, Failure> {
        let Some(path) = path else { return Ok(Place::Errors) };
        if path == Path::new("-") {
            let why = "--report=- is not possible: standard output belongs to the command. \
                       Use --report for standard error, or --report=FILE for a file";
            return Err(Failure::Usage(why.to_owned()));
        }
        // The path is made absolute, because the command may remove the current folder.
        let path = std::path::absolute(path)
            .map_err(|error| Failure::Usage(format!("cannot find the current folder for --report: {error}")))?;
        let file = ResultFile::check(&path, "--report")?;
        Ok(if path.extension().is_some_and(|end| end == "json") { Place::Json(file) } else { Place::Text(file) })
    }

    /// Writes the report. If the destination cannot be written, the report goes to standard error, so that it is not
    /// lost.
    fn write(&self, report: &RunReport) {
        let (file, text) = match self {
            Place::Nowhere => return,
            Place::Errors => return to_stderr(&in_words(report)),
            Place::Text(file) => (file, in_words(report)),
            Place::Json(file) => (file, to_json(report)),
        };
        if let Err(failure) = file.write(&text) {
            to_stderr(&format!("comity: {}. The report follows:\n{text}", failure.into_sentence()));
        }
    }
}

/// Runs the command, writes the report, and ends like the command.
///
/// `has_session` is true if the command has its own session. The terminal then sends it no signals, so this process
/// passes on the terminal's signals too.
///
/// # Errors
/// If the command cannot be started.
pub fn run(
    command: &mut Command,
    location: Option<Location>,
    terms: Terms,
    mut tokens: Option<Tokens>,
    place: &Place,
    has_session: bool,
) -> io::Result<ExitCode> {
    // Signals that are ignored stay ignored, also for the command. Signals that this process handles have the default
    // action in the command. With a session, SIGTSTP is handled too: if only this process stopped at Ctrl-Z, the
    // shell would show a running command as stopped.
    let own = if has_session { &[SIGINT, SIGQUIT, SIGTSTP][..] } else { &[SIGINT, SIGQUIT] };
    let handled = own.iter().chain(&HANDED_ON).copied().filter(|signal| !process::ignores(*signal));
    let signals = Signals::new(handled)?;
    let began = Instant::now();
    let spawned = command.spawn();
    if let (Err(_), Some(tokens)) = (&spawned, &tokens) {
        tokens.remove();
    }
    let mut child = spawned?;
    let start = Stat::of_process(child.id()).map_or(0, |stat| stat.start);
    let terms = Terms { process: child.id(), start, ..terms };
    let mut history = attend(&child, location, &terms, &mut tokens, signals, has_session);
    let status = child.wait()?;
    let wall = began.elapsed();
    let jobs = history.as_mut().and_then(|history| history.jobs.take()).or_else(|| Some(tokens?.end()));
    place.write(&RunReport { jobs, ..report(&terms, status, wall, history.as_ref()) });
    end_as(status)
}

/// Passes on signals, and serves as the command's member of the table, until the command has ended.
fn attend(
    child: &Child,
    location: Option<Location>,
    terms: &Terms,
    tokens: &mut Option<Tokens>,
    mut signals: Signals,
    has_session: bool,
) -> Option<History> {
    let command = Pidfd::of_child(child).inspect_err(|error| {
        hint(super::goes_without(&super::unwatched(error)));
    });
    let give_all = |tokens: &mut Option<Tokens>| tokens.iter_mut().for_each(|tokens| tokens.look_alone(terms.cap()));
    let Ok(command) = command else {
        give_all(tokens);
        return None;
    };
    let command = Arc::new(command);
    // The account is opened before other threads start, because its companion is a copy of this process.
    let open = |location| Account::open(&command, location, terms, tokens.as_ref());
    let account = location.as_ref().and_then(|location| {
        open(location).unwrap_or_else(|why| {
            hint(super::goes_without(&why));
            None
        })
    });
    if account.is_none() {
        give_all(tokens);
    }
    let (to, leader) = (Arc::clone(&command), child.id());
    thread::spawn(move || {
        for signal in signals.forever() {
            let is_of_terminal = [SIGINT, SIGQUIT, SIGHUP].contains(&signal);
            // After the end of the command, the signal has its default action, because this process may block while
            // it writes the report into a pipe.
            if has_session && is_of_terminal && !to.has_ended_within(Duration::ZERO) {
                // The signal goes to the whole process group, because a terminal sends it to all foreground
                // processes.
                process::send_to_group(leader, signal);
            } else if HANDED_ON.contains(&signal) && !to.send(signal) {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    let kept = account.zip(location).map(|(account, location)| {
        let never = AtomicBool::new(false);
        account.keep(&command, &location, terms, tokens.take(), &never)
    });
    while !command.has_ended_within(Duration::MAX) {}
    kept
}

/// Ends this process with the exit code of the command, or by the signal that ended the command.
fn end_as(status: ExitStatus) -> io::Result<ExitCode> {
    if let Some(signal) = status.signal() {
        // Only the command writes a core file, not this process.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        signal_hook::low_level::emulate_default_handler(signal)?;
        // A signal that does not end a process by default cannot have ended the command.
        return Ok(ExitCode::from(128_u8.wrapping_add(signal as u8)));
    }
    Ok(ExitCode::from(status.code().unwrap_or(1) as u8))
}

fn report(terms: &Terms, status: ExitStatus, wall: Duration, history: Option<&History>) -> RunReport {
    let usage = Usage::of_ended_children();
    // The kernel's usage lacks processes for which no parent has waited. The coordinator's value includes all
    // processes, so the larger value is reported.
    let seen = history.map_or(Duration::ZERO, |history| history.whole().used);
    RunReport {
        schema: "comity-run/1",
        name: terms.name.clone(),
        exit_code: status.code(),
        signal: status.signal(),
        wall_s: wall.as_secs_f64(),
        cpu_s: usage.cpu.max(seen).as_secs_f64(),
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        weight: terms.weight,
        usable: terms.most,
        jobs: None,
        shared: history.filter(|history| !history.stretches().is_empty()).map(|history| shared(history, wall)),
    }
}

fn shared(history: &History, wall: Duration) -> RunShared {
    let whole = history.whole();
    let count = |of: fn(&Program) -> u64| history.account.as_ref().map(of);
    RunShared {
        due_s: history.due.as_secs_f64(),
        used_s: whole.used.as_secs_f64(),
        held_core_s: whole.held.as_secs_f64(),
        lent_core_s: history.stretches().iter().map(Stretch::lent).sum::<Duration>().as_secs_f64(),
        claimed: count(|program| program.claimed),
        taken_back: count(|program| program.taken_back),
        released: count(|program| program.released),
        lost: count(|program| program.lost),
        waited_s: whole.waited.as_secs_f64(),
        alone_estimate_s: wall.saturating_sub(whole.delayed).as_secs_f64(),
        timeline: history.stretches().iter().map(stretch).collect(),
    }
}

fn stretch(stretch: &Stretch) -> RunStretch {
    let seconds = stretch.elapsed.as_secs_f64();
    let on_average = |time: Duration| if seconds > 0.0 { time.as_secs_f64() / seconds } else { 0.0 };
    RunStretch {
        seconds,
        used_cores: on_average(stretch.used),
        held_cores: on_average(stretch.held),
        owned_cores: on_average(stretch.owned),
    }
}

fn in_words(report: &RunReport) -> String {
    let time = |seconds: f64| in_units(Duration::from_secs_f64(seconds));
    let end = match (report.exit_code, report.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("ended by signal {signal}"),
        _ => "ended".to_owned(),
    };
    let mut text = format!("comity run: {}: {}, {end}\n", report.name, time(report.wall_s));
    let mut line = |name: &str, what: &str| {
        let _ = writeln!(text, "  {name:<width$}{what}", width = MARGIN - 2);
    };
    let average = report.cpu_s / report.wall_s.max(f64::MIN_POSITIVE);
    line("processor time", &format!("{}, {average:.2} cores on average", time(report.cpu_s)));
    if report.weight != weight::USUAL {
        let nice = weight::nice_for(report.weight);
        let outside = if nice > 0 { format!("nice {nice}") } else { "no effect".to_owned() };
        line("weight", &format!("{} in the table; {outside} outside of the table", report.weight));
    }
    let [waited, preempted] = [report.voluntary_switches, report.involuntary_switches];
    line("switches", &format!("{waited} voluntary, {preempted} by preemption"));
    if let Some(jobs) = &report.jobs {
        line("jobs", &jobs.in_words());
    }
    let Some(shared) = &report.shared else {
        line("shared", "no: there was no table, or the command ended before it joined");
        return text;
    };
    let most = shared.timeline.iter().map(|stretch| stretch.used_cores.max(stretch.held_cores)).fold(1.0, f64::max);
    let spark = |of: fn(&RunStretch) -> f64| spark_line(&shared.timeline, of, most);
    line("cores used", &spark(|stretch| stretch.used_cores));
    line("cores held", &format!("{}  to {most:.1}", spark(|stretch| stretch.held_cores)));
    let seconds = shared.timeline.iter().map(|stretch| stretch.seconds).sum::<f64>().max(f64::MIN_POSITIVE);
    let [due, got] = [shared.due_s, shared.used_s].map(|time| time / seconds);
    line("entitled", &format!("{due:.2} cores on average; got {got:.2}, owed {:.2}", (due - got).max(0.0)));
    line("held, lent", &format!("{}, {} of core time", time(shared.held_core_s), time(shared.lent_core_s)));
    if let (Some(claimed), Some(back), Some(lost)) = (shared.claimed, shared.taken_back, shared.lost) {
        line("cores", &format!("claimed {claimed}, taken back {back}, lost to their owner {lost}"));
    }
    line("waited", &format!("{} for a core, sum of all threads", time(shared.waited_s)));
    let times = report.wall_s / shared.alone_estimate_s.max(f64::MIN_POSITIVE);
    line(
        "alone",
        &format!("about {} (estimate); the run took {times:.2} times as long", time(shared.alone_estimate_s)),
    );
    text
}

/// Draws the timeline as bars, one letter for each part of the time. A full bar stands for `most`.
fn spark_line(timeline: &[RunStretch], of: fn(&RunStretch) -> f64, most: f64) -> String {
    let letters = timeline.len().min(LINE - MARGIN - "  to 1024.0".len());
    let whole: f64 = timeline.iter().map(|stretch| stretch.seconds).sum();
    let part = whole / letters as f64;
    let mut ends = 0.0;
    let spans: Vec<(f64, f64, f64)> = timeline
        .iter()
        .map(|stretch| {
            let begins = ends;
            ends += stretch.seconds;
            (begins, ends, of(stretch))
        })
        .collect();
    let level = |letter: usize| {
        let (from, to) = (letter as f64 * part, (letter + 1) as f64 * part);
        let sum: f64 =
            spans.iter().map(|(begins, ends, value)| (ends.min(to) - begins.max(from)).max(0.0) * value).sum();
        let height = sum / part / most * LEVELS.len() as f64;
        LEVELS[(height as usize).min(LEVELS.len() - 1)]
    };
    (0..letters).map(level).collect()
}

/// The JSON schema `comity-run/1`: what a command used, and the cost of sharing cores.
#[derive(Debug, Serialize)]
struct RunReport {
    /// The name of the schema, `comity-run/1`.
    schema: &'static str,
    /// The command's name in the table.
    name: String,
    /// The exit code. `null` if a signal ended the command.
    exit_code: Option<i32>,
    /// The signal that ended the command. `null` if no signal did.
    signal: Option<i32>,
    /// The time from the start to the end of the command, in seconds.
    wall_s: f64,
    /// The processor time of the command and of its descendants that were waited for, in seconds.
    cpu_s: f64,
    /// The context switches of the processes of `cpu_s` because a thread waited.
    voluntary_switches: u64,
    /// The context switches of the processes of `cpu_s` because the kernel took the core away.
    involuntary_switches: u64,
    /// The weight.
    weight: u32,
    /// The number of cores that the affinity and the cgroup quota allowed the command when it began.
    usable: u32,
    /// The record of the jobserver. `null` if the command was offered none.
    jobs: Option<JobsAccount>,
    /// The record in the core table. `null` if the command was not a member, or ended before its coordinator's first
    /// look.
    shared: Option<RunShared>,
}

/// The record of a command in the core table.
#[derive(Debug, Serialize)]
struct RunShared {
    /// The processor time that the command was due, in seconds: its share while it held cores together with other
    /// programs, and its use otherwise.
    due_s: f64,
    /// The processor time that the command used while it was a member, according to the coordinator's looks, in
    /// seconds.
    used_s: f64,
    /// The core time that the command held, in core seconds.
    held_core_s: f64,
    /// The time of the command's own cores that it did not hold, in core seconds.
    lent_core_s: f64,
    /// The number of times that the command began to use a core that no program used. `null` if its entry was gone.
    claimed: Option<u64>,
    /// The number of times that the command took back one of its own cores. `null` if its entry was gone.
    taken_back: Option<u64>,
    /// The number of times that the command released a core. `null` if its entry was gone.
    released: Option<u64>,
    /// The number of times that the command lost a core to the core's owner. `null` if its entry was gone.
    lost: Option<u64>,
    /// The time, in seconds, that threads of the command waited for a core, also for a core that another of them
    /// used. Sum over threads.
    waited_s: f64,
    /// The estimated time that the command would have taken alone, in seconds.
    alone_estimate_s: f64,
    /// The stretches, in order. A command that ran longer has longer stretches, not more.
    timeline: Vec<RunStretch>,
}

/// A stretch of a command's time.
#[derive(Debug, Serialize)]
struct RunStretch {
    /// The length, in seconds.
    seconds: f64,
    /// The mean number of cores that the command used.
    used_cores: f64,
    /// The mean number of cores that the command held.
    held_cores: f64,
    /// The mean number of cores that the command was entitled to.
    owned_cores: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(seconds: f64, used_cores: f64) -> RunStretch {
        RunStretch { seconds, used_cores, held_cores: 0.0, owned_cores: 0.0 }
    }

    #[test]
    fn a_spark_line_is_as_high_as_its_values_and_as_long_as_its_time() {
        let line = |timeline: &[RunStretch]| spark_line(timeline, |stretch| stretch.used_cores, 2.0);
        assert_eq!(line(&[stretch(1.0, 0.0), stretch(1.0, 1.0), stretch(1.0, 2.0)]), "▁▅█");
        // Each of the two letters stands for half of the time, so that a longer stretch has a larger part.
        assert_eq!(line(&[stretch(3.0, 2.0), stretch(1.0, 0.0)]), "█▅");
        let long: Vec<RunStretch> = (0..128).map(|_| stretch(0.1, 2.0)).collect();
        assert_eq!(line(&long).chars().count(), 51);
    }
}
