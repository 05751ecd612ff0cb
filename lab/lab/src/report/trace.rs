//! Sums over timelines: the cores that each program held, and the time of its workers in each state. Perfetto draws
//! timelines, but does not make these tables.
//!
//! A program writes a timeline under `COMITY_TRACE=FILE`, and `comity-lab simulate --timeline` writes one for a
//! simulated host: one event per line, in the Trace Event Format. If a program was killed, the end of its timeline is
//! missing, and its last line may be incomplete. All complete lines are used.

use std::array::from_fn;
use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::page::{Cell, Entry, Section, clean, duration, heading, table, warning};
use crate::corun::table::{percent, shorten};
use crate::simulate::MACHINE;

/// The name of the first event, by which a timeline is recognised.
const FIRST: &str = "comity_trace";

/// The version of the format.
const VERSION: u64 = 1;

/// The latest accepted time, in microseconds: thirty years after the machine was started.
const LATEST_US: f64 = 1e15;

/// The states of a worker, as in the file.
const STATES: [&str; 5] = ["task", "thief", "preempted", "retired", "asleep"];
const PREEMPTED: usize = 2;

/// The modes of a program in the core table, as in the file.
const MODES: [&str; 3] = ["alone", "holds cores", "shares time"];

/// A time of the machine's monotonic clock, in nanoseconds.
type Nanos = i64;

/// The begin and the end.
type Interval = (Nanos, Nanos);

/// The programs of one file.
#[derive(Debug)]
pub struct Trace {
    file: String,
    /// The programs, by process.
    programs: BTreeMap<u64, Program>,
    /// True if the end of the file is missing.
    is_cut: bool,
    /// The number of events of unknown kinds.
    unknown: u64,
}

/// The events of one process.
#[derive(Debug, Default)]
struct Program {
    name: Option<String>,
    /// The workers, by thread.
    workers: BTreeMap<u64, Worker>,
    /// The begins and ends of the intervals in which the program held a core, by core.
    cores: BTreeMap<u64, Vec<End>>,
    /// The time for which the program's threads ran on simulated cores. In a simulated timeline it replaces `cores`,
    /// which is then empty.
    ran: Nanos,
    /// The begins and ends of the intervals of a mode. The key is the policy and the index in [`MODES`].
    modes: BTreeMap<(String, usize), Vec<End>>,
    /// The number of times that the program got a core, by cause.
    came_by: BTreeMap<String, u64>,
    /// The number of times that the program lost a core, by cause.
    parted_by: BTreeMap<String, u64>,
    /// The number of events that the program dropped.
    lost: u64,
    /// The first and the last time of the program's events.
    span: Option<Interval>,
}

/// The events of one thread.
#[derive(Debug, Default)]
struct Worker {
    name: Option<String>,
    slices: Vec<(usize, Interval)>,
    /// The begins and ends of the intervals in which the thread waited for a core. In them, the state in `slices`
    /// does not count.
    preempted: Vec<End>,
    preemptions: u64,
    steals: u64,
    mugs: u64,
    accelerations: u64,
    /// The number of refused accelerations, by reason.
    refusals: BTreeMap<String, u64>,
}

/// The begin or the end of an interval.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Nanos,
    begins: bool,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    ph: String,
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    cat: String,
    id: Option<Value>,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(default)]
    args: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    version: Option<u64>,
    name: Option<String>,
    how: Option<String>,
    events: Option<u64>,
    /// The program whose thread runs on a simulated core, for an event of such a core.
    program: Option<u64>,
    #[serde(default)]
    reasons: BTreeMap<String, u64>,
}

/// True if the file is a timeline, even if a later part of it is damaged.
pub fn is_trace(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.next() == Some(b"[")
        && lines.next().is_some_and(|line| {
            line.starts_with(b"{\"name\":\"comity_trace\"")
                || event(line).is_ok_and(|event| event.name == FIRST)
                // The program may have been killed while it wrote the first event.
                || b"{\"name\":\"comity_trace\"".starts_with(line)
        })
}

/// Reads a timeline.
///
/// # Errors
/// If a line is invalid. The error has the number of the line and the reason.
pub fn parse(file: String, bytes: &[u8]) -> Result<Trace, String> {
    let mut trace = Trace { file, programs: BTreeMap::new(), is_cut: true, unknown: 0 };
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut seen = false;
    for (nth, line) in lines.iter().enumerate().skip(1) {
        let (number, line) = (nth + 1, line.trim_ascii());
        match line {
            b"" => continue,
            _ if !trace.is_cut => return Err(format!("line {number}: something follows the end of the trace")),
            b"]" => {
                trace.is_cut = false;
                continue;
            }
            _ => {}
        }
        let event = match event(line) {
            Ok(event) => event,
            // An incomplete last line is left out: the program ended while it wrote.
            Err(_) if nth + 1 == lines.len() => break,
            Err(error) => return Err(format!("line {number}: it is not an event of a trace ({error})")),
        };
        if !seen {
            let version = event.args.version;
            if event.name != FIRST || version != Some(VERSION) {
                let found =
                    version.map_or("it has no version".to_owned(), |version| format!("its version is {version}"));
                return Err(format!("line {number}: {found}, and this command reads version {VERSION}"));
            }
            seen = true;
        }
        // Events of the simulated machine, for example the name of a core, belong to no program.
        if event.cat == MACHINE {
            continue;
        }
        let process = event.args.program.unwrap_or(event.pid);
        let known = trace.programs.entry(process).or_default().take(event);
        trace.unknown += u64::from(!known.map_err(|why| format!("line {number}: {why}"))?);
    }
    if seen { Ok(trace) } else { Err("it was cut short before its first event was complete".to_owned()) }
}

fn event(line: &[u8]) -> serde_json::Result<Event> {
    serde_json::from_slice(line.strip_suffix(b",").unwrap_or(line))
}

fn time(microseconds: Option<f64>, name: &str) -> Result<Nanos, String> {
    match microseconds {
        Some(time) if (0.0..=LATEST_US).contains(&time) => Ok((time * 1e3).round() as Nanos),
        Some(time) => Err(format!("{name} is {time:?}, and a time in microseconds is from 0 to {LATEST_US:e}")),
        None => Err(format!("it has no {name}")),
    }
}

impl Program {
    /// Adds an event. Returns false if the kind of the event is unknown.
    fn take(&mut self, event: Event) -> Result<bool, String> {
        let Event { name, ph, tid, cat, id, ts, dur, args, .. } = event;
        let begins = ph == "b";
        match (ph.as_str(), cat.as_str(), name.as_str()) {
            ("M", _, FIRST) => {}
            ("M", _, "process_name") => self.name = args.name,
            ("M", _, "thread_name") => self.worker(tid).name = args.name,
            ("X", "worker", name) => {
                // A simulated thread has two more states. A thread that is blocked in a system call has a task. A
                // throttled thread counts as preempted.
                let name = match name {
                    "blocked" => "task",
                    "throttled" => "preempted",
                    name => name,
                };
                let Some(state) = STATES.iter().position(|state| *state == name) else { return Ok(false) };
                let interval = self.interval(ts, dur)?;
                let worker = self.worker(tid);
                worker.preemptions += u64::from(state == PREEMPTED);
                worker.slices.push((state, interval));
            }
            ("X", "running", _) => {
                let (from, to) = self.interval(ts, dur)?;
                self.ran += to - from;
            }
            ("i" | "I", "worker", "steal") => self.worker(tid).steals += 1,
            ("i" | "I", "worker", "mug") => self.worker(tid).mugs += 1,
            ("i" | "I", "worker", "acceleration") => self.worker(tid).accelerations += 1,
            ("i" | "I", "worker", "refused") => add(&mut self.worker(tid).refusals, &args.reasons),
            ("i" | "I", "trace", "lost") => self.lost = self.lost.saturating_add(args.events.unwrap_or(1)),
            ("b" | "e", "preempted", _) => {
                let at = self.time(ts)?;
                let worker = self.worker(tid);
                worker.preemptions += u64::from(begins);
                worker.preempted.push(End { at, begins });
            }
            ("b" | "e", "core", _) => {
                let at = self.time(ts)?;
                let core = id.and_then(|id| id.as_u64()).ok_or("its id is not the number of a core")?;
                let how = args.how.unwrap_or_else(|| "otherwise".to_owned());
                let by = if begins { &mut self.came_by } else { &mut self.parted_by };
                *by.entry(how).or_default() += 1;
                self.cores.entry(core).or_default().push(End { at, begins });
            }
            ("b" | "e", "mode", name) => {
                let Some(mode) = MODES.iter().position(|mode| *mode == name) else { return Ok(false) };
                let at = self.time(ts)?;
                let policy = id.map_or_else(String::new, |id| id.to_string());
                self.modes.entry((policy, mode)).or_default().push(End { at, begins });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn worker(&mut self, thread: u64) -> &mut Worker {
        self.workers.entry(thread).or_default()
    }

    fn time(&mut self, ts: Option<f64>) -> Result<Nanos, String> {
        let at = time(ts, "ts")?;
        let (from, to) = self.span.unwrap_or((at, at));
        self.span = Some((from.min(at), to.max(at)));
        Ok(at)
    }

    fn interval(&mut self, ts: Option<f64>, dur: Option<f64>) -> Result<Interval, String> {
        let from = self.time(ts)?;
        let to = from + time(dur, "dur")?;
        self.span = self.span.map(|(first, last)| (first, last.max(to)));
        Ok((from, to))
    }

    /// Returns the total length of the intervals with these begins and ends. An interval without an end lasts until
    /// the next interval begins, or until the last event of the program.
    fn sum<'a>(&self, ends: impl Iterator<Item = &'a Vec<End>>) -> Nanos {
        ends.flat_map(|ends| intervals(ends, self.latest())).map(|(from, to)| to - from).sum()
    }

    fn latest(&self) -> Nanos {
        self.span.map_or(0, |span| span.1)
    }

    /// Returns the threads that were workers.
    fn working(&self) -> impl Iterator<Item = (&u64, &Worker)> {
        self.workers.iter().filter(|(_, worker)| !worker.slices.is_empty())
    }
}

impl Worker {
    /// Returns the time in each of the [`STATES`]. The time in which a worker is preempted counts only as preempted.
    fn times(&self, latest: Nanos) -> [Nanos; STATES.len()] {
        let mut times = [0; STATES.len()];
        let preempted = intervals(&self.preempted, latest);
        for (state, (from, to)) in &self.slices {
            let first = preempted.partition_point(|(_, ends)| ends <= from);
            let within = preempted[first..].iter().take_while(|(begins, _)| begins < to);
            let lost: Nanos = within.map(|(begins, ends)| ends.min(to) - begins.max(from)).sum();
            times[*state] += to - from - lost;
        }
        times[PREEMPTED] += preempted.iter().map(|(from, to)| to - from).sum::<Nanos>();
        times
    }
}

/// Adds the counts of `more` to `before`.
fn add(before: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (what, times) in more {
        let all = before.entry(what.clone()).or_default();
        *all = all.saturating_add(*times);
    }
}

/// Pairs each begin with the next end, in the order of time. An end without a begin is ignored.
fn intervals(ends: &[End], latest: Nanos) -> Vec<Interval> {
    let mut ends = ends.to_vec();
    // Events of the same time stay in the file's order.
    ends.sort_by_key(|end| end.at);
    let (mut intervals, mut since) = (Vec::new(), None);
    for End { at, begins } in ends {
        if let Some(from) = since.take() {
            intervals.push((from, at));
        }
        since = begins.then_some(at);
    }
    intervals.extend(since.map(|from| (from, latest.max(from))));
    intervals
}

/// Returns the section of all timelines.
pub fn section(traces: &[&Trace]) -> Section {
    let id = "timelines";
    let title = "Cores of the programs, and states of their workers".to_owned();
    let named = |trace: &Trace| -> Vec<String> { trace.programs.iter().map(name).collect() };
    let programs: Vec<String> = traces.iter().flat_map(|trace| named(trace)).collect();
    let plural = if programs.len() == 1 { "" } else { "s" };
    let gist = format!("{} program{plural}", programs.len());
    let mut entries = vec![Entry { id: id.to_owned(), title: title.clone(), gist, is_part: false }];
    for (nth, trace) in traces.iter().enumerate() {
        let (id, title) = (format!("{id}-{}", nth + 1), trace.file.clone());
        entries.push(Entry { id, title, gist: named(trace).join(", "), is_part: true });
    }
    let body = html! {
        (heading(id, "COMITY_TRACE", &title))
        p { "These are sums. Perfetto (ui.perfetto.dev) draws each timeline: open the file there." }
        (held(traces))
        @for (trace, entry) in traces.iter().zip(&entries[1..]) {
            h3 id=(entry.id) { (clean(&trace.file)) }
            @if trace.is_cut {
                (warning("This trace was cut short, for example because the program was killed. The last events are \
                    missing."))
            }
            @if trace.unknown > 0 {
                (warning(&format!("{} events of kinds that this version does not know are left out.", trace.unknown)))
            }
            @for program in &trace.programs { (workers(&name(program), program.1)) }
        }
    };
    Section { entries, body }
}

fn name((process, program): (&u64, &Program)) -> String {
    format!("{} ({process})", shorten(program.name.as_deref().unwrap_or("unnamed")))
}

fn seconds(time: Nanos) -> f64 {
    time as f64 / 1e9
}

/// Formats the quotient of a part and its whole, or a dash if the whole is 0.
fn ratio(part: Nanos, whole: Nanos, words: fn(f64) -> String) -> String {
    if whole > 0 { words(part as f64 / whole as f64) } else { "-".to_owned() }
}

/// Formats counts by name, for example `claimed 2, taken back 1`.
fn counted(how: &BTreeMap<String, u64>) -> String {
    match how.is_empty() {
        true => "-".to_owned(),
        false => how.iter().map(|(how, count)| format!("{how} {count}")).collect::<Vec<_>>().join(", "),
    }
}

/// Makes a table with a row for each program of all files.
fn held(traces: &[&Trace]) -> Markup {
    let mut header = vec![
        "program",
        "lasted",
        "workers",
        "held, core time",
        "cores held",
        "of all on this page",
        "got cores",
        "lost cores",
    ];
    header.extend(MODES);
    let programs = || traces.iter().flat_map(|trace| &trace.programs);
    let core_time = |program: &Program| program.ran + program.sum(program.cores.values());
    let whole: Nanos = programs().map(|(_, program)| core_time(program)).sum();
    let row = |entry: (&u64, &Program)| -> Vec<Cell> {
        let (program, held) = (entry.1, core_time(entry.1));
        let lasted = program.span.map_or(0, |(from, to)| to - from);
        let cells = [
            name(entry),
            duration(seconds(lasted)),
            program.working().count().to_string(),
            duration(seconds(held)),
            ratio(held, lasted, |cores| format!("{cores:.2}")),
            ratio(held, whole, percent),
            counted(&program.came_by),
            counted(&program.parted_by),
        ];
        let in_mode = |mode: usize| {
            let ends = program.modes.iter().filter(move |((_, other), _)| *other == mode);
            duration(seconds(program.sum(ends.map(|(_, ends)| ends))))
        };
        cells.into_iter().chain(from_fn::<_, 3, _>(in_mode)).map(Cell::from).collect()
    };
    let rows: Vec<Vec<Cell>> = programs().map(row).collect();
    table("Programs: cores that each held, and its time in each mode", &header, 1, &rows)
}

/// Makes the tables of a program's workers: the fraction of time in each state, and the counts of events. The rows
/// are all workers together, and each worker.
fn workers(name: &str, program: &Program) -> Markup {
    let workers: Vec<(&u64, &Worker)> = program.working().collect();
    let mut header = vec!["worker", "traced for"];
    header.extend(STATES);
    header.extend(["times preempted", "steals", "mugs"]);
    // The columns about acceleration are left out if their values are 0, because few policies accelerate.
    let accelerate = workers.iter().any(|(_, worker)| worker.accelerations > 0 || !worker.refusals.is_empty());
    if accelerate {
        header.extend(["accelerations", "refused"]);
    }
    let row = |name: &str, workers: &[(&u64, &Worker)]| -> Vec<Cell> {
        let mut times = [0; STATES.len()];
        let mut refusals = BTreeMap::new();
        for (_, worker) in workers {
            worker.times(program.latest()).iter().zip(&mut times).for_each(|(time, sum)| *sum += time);
            add(&mut refusals, &worker.refusals);
        }
        let whole: Nanos = times.iter().sum();
        let count = |of: fn(&Worker) -> u64| workers.iter().map(|(_, worker)| of(worker)).sum::<u64>().to_string();
        let mut cells = vec![name.to_owned(), duration(seconds(whole))];
        cells.extend(times.map(|time| ratio(time, whole, percent)));
        cells.extend([count(|of| of.preemptions), count(|of| of.steals), count(|of| of.mugs)]);
        if accelerate {
            cells.extend([count(|of| of.accelerations), counted(&refusals)]);
        }
        cells.into_iter().map(Cell::from).collect()
    };
    let named = |(thread, worker): (&u64, &Worker)| worker.name.clone().unwrap_or_else(|| format!("thread {thread}"));
    let each: Vec<Vec<Cell>> = workers.iter().map(|worker| row(&named(*worker), &[*worker])).collect();
    html! {
        h4 { (clean(name)) }
        @if program.lost > 0 {
            (warning(&format!("{} events of {name} were dropped, so its sums are too low.", program.lost)))
        }
        @if workers.is_empty() { p { "The file has no worker states of this program." } }
        @else {
            @let title = format!("Workers of {}: parts of their time in each state, and event counts", clean(name));
            (table(&title, &header, 1, &[row("all", &workers)]))
            details { summary { "Each worker" } (table("Each worker", &header, 1, &each)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"name":"comity_trace","ph":"M","pid":7,"tid":0,"args":{"version":1}}"#;

    fn text(events: &[&str]) -> String {
        format!("[\n{START},\n{}\n]\n", events.join(",\n"))
    }

    fn slice(name: &str, ts: f64, dur: f64) -> String {
        format!(r#"{{"name":"{name}","cat":"worker","ph":"X","pid":7,"tid":8,"ts":{ts:.3},"dur":{dur:.3}}}"#)
    }

    fn read(text: &str) -> Result<Trace, String> {
        assert!(is_trace(text.as_bytes()), "{text}");
        parse("file".to_owned(), text.as_bytes())
    }

    /// Returns the microseconds in each state, and the number of preemptions.
    fn times(program: &Program) -> ([Nanos; 5], u64) {
        let worker = &program.workers[&8];
        (worker.times(program.latest()).map(|time| time / 1_000), worker.preemptions)
    }

    #[test]
    fn a_worker_that_is_preempted_is_in_no_other_state_meanwhile() {
        let preempted = |ph, ts| {
            format!(r#"{{"name":"preempted","cat":"preempted","ph":"{ph}","id":8,"pid":7,"tid":8,"ts":{ts}.000}}"#)
        };
        let events = [
            slice("thief", 10.0, 10.0),
            slice("task", 0.0, 10.0),
            preempted("b", 4),
            preempted("e", 6),
            preempted("b", 9),
            preempted("e", 12),
            preempted("b", 19),
        ];
        let trace = read(&text(&events.each_ref().map(String::as_str))).unwrap();
        assert_eq!(times(&trace.programs[&7]), ([7, 7, 6, 0, 0], 3));
        assert!(!trace.is_cut);
    }

    #[test]
    fn a_trace_is_read_as_far_as_it_is_whole_wherever_it_is_cut() {
        let events = [slice("task", 0.0, 10.0), slice("thief", 10.0, 10.0)];
        let text = text(&events.each_ref().map(String::as_str));
        let first = "[\n".len() + START.len();
        for end in 2..text.len() {
            let cut = &text[..end];
            assert!(is_trace(cut.as_bytes()), "{cut}");
            match parse("file".to_owned(), cut.as_bytes()) {
                Ok(trace) => {
                    assert!(end >= first && trace.is_cut == (end < text.len() - 1), "{cut}");
                    let slices = trace.programs[&7].workers.get(&8).map_or(0, |worker| worker.slices.len());
                    let whole = cut[first..].matches('}').count();
                    assert_eq!(slices, whole, "{cut}");
                }
                Err(why) => assert!(end < first && why.contains("before its first event"), "{cut}: {why}"),
            }
        }
    }

    #[test]
    fn an_interval_without_an_end_lasts_until_the_next_or_the_last_time() {
        let end = |at, begins| End { at, begins };
        let ends = [end(1, false), end(2, true), end(5, true), end(7, false), end(9, true)];
        assert_eq!(intervals(&ends, 11), [(2, 5), (5, 7), (9, 11)]);
    }

    #[test]
    fn times_that_cannot_be_are_refused_with_their_line() {
        let bad = |event: &str| read(&text(&[&slice("task", 0.0, 10.0), event])).unwrap_err();
        for (event, part) in [
            (slice("thief", -1.0, 5.0).as_str(), "line 4: ts is -1.0, and a time in microseconds"),
            (&slice("thief", 10.0, -5.0), "line 4: dur is -5"),
            (&slice("thief", 1e17, 5.0), "line 4: ts is 1e17"),
            (&slice("thief", 10.0, f64::NAN), "line 4: it is not an event"),
            (r#"{"name":"task","cat":"worker","ph":"X","pid":7,"tid":8,"ts":null,"dur":1}"#, "line 4: it has no ts"),
            (
                r#"{"name":"core 1","cat":"core","ph":"b","pid":7,"tid":0,"ts":1}"#,
                "line 4: its id is not the number of a core",
            ),
            ("[", "line 4: it is not an event"),
            ("]", "line 5: something follows the end"),
        ] {
            let why = bad(event);
            assert!(why.contains(part), "{event}: {why}");
        }
        let newer = text(&[]).replace("\"version\":1", "\"version\":2");
        assert!(read(&newer).unwrap_err().contains("its version is 2, and this command reads version 1"));
    }

    #[test]
    fn accelerations_and_what_was_refused_are_counted_by_worker() {
        let instant = |name: &str, args: &str| {
            format!(r#"{{"name":"{name}","cat":"worker","ph":"i","s":"t","pid":7,"tid":8,"ts":1,"args":{args}}}"#)
        };
        let refused =
            |times: u64| instant("refused", &format!(r#"{{"reasons":{{"running":{times},"other node":1}}}}"#));
        let events = [instant("acceleration", r#"{"whom":3}"#), refused(40), refused(u64::MAX)];
        let trace = read(&text(&events.each_ref().map(String::as_str))).unwrap();
        let worker = &trace.programs[&7].workers[&8];
        let refusals = BTreeMap::from([("other node".to_owned(), 2), ("running".to_owned(), u64::MAX)]);
        assert_eq!((worker.accelerations, &worker.refusals, trace.unknown), (1, &refusals, 0));
    }

    #[test]
    fn the_tracks_of_simulated_cores_are_of_the_programs_that_ran_there() {
        let runs = |core: u32, program: u32, ts: u32| {
            format!(
                r#"{{"name":"x","cat":"running","ph":"X","pid":1,"tid":{core},"ts":{ts}.000,"dur":5.000,"args":{{"program":{program},"core":{core},"worker":0}}}}"#
            )
        };
        let name = r#"{"name":"process_name","cat":"machine","ph":"M","pid":1,"tid":0,"args":{"name":"cores"}}"#;
        let [throttled, blocked] = [slice("throttled", 5.0, 5.0), slice("blocked", 10.0, 5.0)];
        let events = [name, &runs(3, 7, 0), &runs(3, 9, 5), &slice("task", 0.0, 5.0), &throttled, &blocked];
        let trace = read(&text(&events)).unwrap();
        let ran: Vec<(u64, Nanos)> = trace.programs.iter().map(|(process, program)| (*process, program.ran)).collect();
        assert_eq!(ran, [(7, 5_000), (9, 5_000)]);
        assert_eq!((times(&trace.programs[&7]), trace.unknown), (([10, 0, 5, 0, 0], 1), 0));
    }

    #[test]
    fn what_is_not_known_is_counted_and_does_no_harm() {
        let events = [
            r#"{"name":"temperature","ph":"C","pid":7,"tid":0,"ts":1,"args":{"value":3}}"#,
            r#"{"name":"dreams","cat":"worker","ph":"X","pid":7,"tid":8,"ts":1,"dur":1}"#,
        ];
        assert_eq!(read(&text(&events)).unwrap().unknown, 2);
    }
}
