//! Writes a run as a timeline, which Perfetto, Chrome and `comity-lab report` read.
//!
//! The format is that of a program under `COMITY_TRACE` (`runtime/src/watching/trace/file.rs`), with additional
//! tracks for the cores. Each program is a process with its workers as threads; the cores are the threads of one more
//! process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::rc::Rc;

use comity_console::Failure;
use comity_console::loudness::hint;
use comity_sim::scenario::{Outcome, Scenario, Written};
use comity_sim::threads::{Activity, Stretch};
use serde_json::json;

use super::lines::Lines;

/// The number of the process whose threads are the cores. The processes of programs have the next numbers.
const CORES: u32 = 1;

/// The largest size of a timeline, which is the same as for a timeline of real threads.
const MOST_BYTES: usize = 1 << 30;

/// The file of a timeline that is being written. A clone refers to the same file.
#[derive(Clone)]
pub struct Timeline(Rc<RefCell<Draft>>);

struct Draft {
    lines: Lines,
    written: usize,
    /// The time of the first event that was left out because the file was full.
    full_at: Option<u64>,
    /// The present stretch of each core, which is not written yet. It lasts as long as the same thread runs without a
    /// pause.
    running: BTreeMap<u32, Stretch>,
    /// The threads that had events, each as its program and worker.
    threads: BTreeSet<(u32, u32)>,
    /// The number of cores. Their threads have the numbers from 1 on, because thread 0 is the idle thread on every
    /// machine.
    cores: u32,
    /// The largest number of workers of a program.
    workers: u32,
}

impl Timeline {
    /// Begins the file of a run on a host.
    pub fn begin(lines: Lines, scenario: &Scenario) -> Timeline {
        let Written { machine, programs, .. } = scenario.written();
        let cores = machine.processors;
        let workers = programs.iter().map(|program| program.workers.unwrap_or(cores)).max().unwrap_or(0);
        let pid = CORES + 1;
        let first =
            format!("[\n{{\"name\":\"comity_trace\",\"ph\":\"M\",\"pid\":{pid},\"tid\":0,\"args\":{{\"version\":1}}}}");
        let (running, threads) = (BTreeMap::new(), BTreeSet::new());
        let draft = Draft { written: first.len(), lines, full_at: None, running, threads, cores, workers };
        draft.lines.write(|file| file.write_all(first.as_bytes()));
        Timeline(Rc::new(RefCell::new(draft)))
    }

    /// Returns the observer that writes the stretches of the run.
    pub fn observer(&self) -> Box<dyn FnMut(Stretch)> {
        let timeline = self.clone();
        Box::new(move |stretch| timeline.0.borrow_mut().take(stretch))
    }

    /// Writes the names of all processes and threads, and ends the file. Must be called after the run.
    pub fn end(self, scenario: &Scenario, outcome: &Outcome) -> Result<(), Failure> {
        let mut draft = self.0.borrow_mut();
        for (_, stretch) in std::mem::take(&mut draft.running) {
            draft.runs(&stretch);
        }
        draft.names(scenario, outcome);
        if let Some(at) = draft.full_at {
            hint(format!(
                "--timeline: the file has reached {} MiB; events after {at} ns are missing",
                MOST_BYTES >> 20
            ));
        }
        draft.lines.write(|file| file.write_all(b"\n]\n"));
        draft.lines.clone().finish()
    }
}

impl Draft {
    fn take(&mut self, stretch: Stretch) {
        self.threads.insert((stretch.program, stretch.worker));
        let thread = self.thread(stretch.program, stretch.worker);
        let (pid, name) = (CORES + 1 + stretch.program, name(stretch.activity));
        self.slice(name, "worker", (pid, thread), &stretch, format_args!(""));
        let Some(core) = stretch.core else { return };
        let before = self.running.get_mut(&core);
        match before {
            Some(before)
                if (before.program, before.worker, before.until) == (stretch.program, stretch.worker, stretch.from) =>
            {
                before.until = stretch.until;
            }
            _ => {
                if let Some(before) = self.running.insert(core, stretch) {
                    self.runs(&before);
                }
            }
        }
    }

    /// Adds a stretch in which a thread runs to the track of its core.
    fn runs(&mut self, stretch: &Stretch) {
        let Stretch { program, worker, core, .. } = *stretch;
        let (core, pid) = (core.expect("it has one"), CORES + 1 + program);
        let args = format_args!(",\"args\":{{\"program\":{pid},\"worker\":{worker},\"core\":{core}}}");
        let name = format!("program {} worker {worker}", program + 1);
        self.slice(&name, "running", (CORES, u64::from(core) + 1), stretch, args);
    }

    fn slice(&mut self, name: &str, category: &str, (pid, tid): (u32, u64), stretch: &Stretch, args: fmt::Arguments) {
        let (from, lasted) = (Micros(stretch.from), Micros(stretch.until - stretch.from));
        let line = format!(
            ",\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"cat\":\"{category}\",\"ts\":{from},\"dur\":{lasted}{args}}}"
        );
        if self.written + line.len() > MOST_BYTES {
            self.full_at.get_or_insert(stretch.from);
        } else {
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        self.written += line.len();
        self.lines.write(|file| file.write_all(line.as_bytes()));
    }

    /// Returns a thread number that is unique in the file.
    fn thread(&self, program: u32, worker: u32) -> u64 {
        1 + u64::from(self.cores) + u64::from(program) * u64::from(self.workers) + u64::from(worker)
    }

    fn names(&mut self, scenario: &Scenario, outcome: &Outcome) {
        self.name("process_name", MACHINE, (CORES, 0), "cores");
        for core in 0..self.cores {
            self.name("thread_name", MACHINE, (CORES, u64::from(core) + 1), &format!("core {core}"));
        }
        for (nth, program) in (0..).zip(&outcome.programs) {
            let name = format!("{} (program {})", program.name, nth + 1);
            self.name("process_name", "program", (CORES + 1 + nth, 0), &name);
        }
        for (program, worker) in std::mem::take(&mut self.threads) {
            let thread = self.thread(program, worker);
            let name = &outcome.programs[program as usize].name;
            let written = scenario.written().programs.iter().find(|one| one.name == *name);
            let policy = &written.expect("it was submitted").policy;
            let name = format!("pool 1 worker {worker} ({policy})");
            self.name("thread_name", "program", (CORES + 1 + program, thread), &name);
        }
    }

    fn name(&mut self, what: &str, category: &str, (pid, tid): (u32, u64), name: &str) {
        let args = json!({ "name": name });
        self.line(&format!(
            ",\n{{\"name\":\"{what}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"cat\":\"{category}\",\"args\":{args}}}"
        ));
    }
}

/// The category of the events that the report leaves out.
pub const MACHINE: &str = "machine";

/// Returns the name of an activity, which is the same as in a timeline of real threads.
fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Task => "task",
        Activity::Thief => "thief",
        Activity::Preempted => "preempted",
        Activity::Blocked => "blocked",
        Activity::Throttled => "throttled",
        Activity::Retired => "retired",
        Activity::Asleep => "asleep",
    }
}

/// A time in nanoseconds. It is formatted in microseconds, with three decimals.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}
