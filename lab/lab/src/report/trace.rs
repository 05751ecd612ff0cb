//! What a program writes under `COMITY_TRACE=FILE`, and `comity-lab simulate --timeline` of a simulated host: an
//! event a line, as Perfetto and Chrome read it.
//!
//! A program that is killed leaves the end of its trace unwritten, and perhaps half of a line: what is whole is read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::simulate::MACHINE;

/// What the first event is called, by which the kind is recognised.
const FIRST: &str = "comity_trace";

/// The version of the format.
const VERSION: u64 = 1;

/// A slice may begin so much before the one before it ends: both were rounded.
const ROUNDING: Nanos = 100;

/// The latest time, in microseconds: thirty years after the machine was started.
const LATEST_US: f64 = 1e15;

/// Of the machine's monotonic clock.
pub type Nanos = i64;

/// From when to when.
pub type Interval = (Nanos, Nanos);

/// How long it is.
pub fn seconds((from, to): Interval) -> f64 {
    (to - from) as f64 / 1e9
}

/// How long they are together.
pub fn all_seconds(intervals: impl Iterator<Item = Interval>) -> f64 {
    // The sum of no numbers would be -0.
    intervals.fold(0.0, |sum, interval| sum + seconds(interval))
}

/// What a worker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a task.
    Task,
    /// It looks for one.
    Thief,
    /// It could run, and another thread has its core.
    Preempted,
    /// It rests, for it has no core.
    Retired,
    /// It sleeps, for there is no work.
    Asleep,
}

impl State {
    /// In the order in which they are drawn, from below.
    pub const ALL: [State; 5] = [State::Task, State::Thief, State::Preempted, State::Retired, State::Asleep];

    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            State::Task => "task",
            State::Thief => "thief",
            State::Preempted => "preempted",
            State::Retired => "retired",
            State::Asleep => "asleep",
        }
    }

    /// A simulated thread's are finer: one that waits in a system call has its task, and one that is throttled
    /// waits for a core.
    fn called(name: &str) -> Option<State> {
        match name {
            "blocked" => Some(State::Task),
            "throttled" => Some(State::Preempted),
            name => State::ALL.into_iter().find(|state| state.name() == name),
        }
    }
}

/// How a program takes part in the core table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No other program holds cores or wants some.
    Alone,
    /// It holds cores, beside others.
    Cores,
    /// It holds none: its workers run when they can.
    Time,
}

impl Mode {
    /// In the order in which they are drawn, from below.
    pub const ALL: [Mode; 3] = [Mode::Alone, Mode::Cores, Mode::Time];

    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Alone => "alone",
            Mode::Cores => "holds cores",
            Mode::Time => "shares time",
        }
    }
}

/// What one file has.
#[derive(Debug, Default)]
pub struct Trace {
    /// The file's name.
    pub file: String,
    /// The programs, by their processes.
    pub programs: BTreeMap<u64, Program>,
    /// Whether the end is missing.
    pub is_cut: bool,
    /// Events of kinds that are not known here.
    pub unknown: u64,
}

/// What one process did.
#[derive(Debug, Default)]
pub struct Program {
    /// As the program is called.
    pub name: Option<String>,
    /// The workers, by their threads.
    pub workers: BTreeMap<u64, Worker>,
    /// When it held each core.
    pub cores: BTreeMap<u64, Vec<Interval>>,
    /// How it took part, and when; of each policy in its order.
    pub modes: Vec<(Mode, Interval)>,
    /// How often it came to hold one, by how.
    pub came_by: BTreeMap<String, u64>,
    /// How often it held one no more, by how.
    pub parted_by: BTreeMap<String, u64>,
    /// Events that were dropped.
    pub lost: u64,
}

/// What one thread did.
#[derive(Debug, Default)]
pub struct Worker {
    /// As in the file.
    pub name: Option<String>,
    /// In order, without overlap; where it is preempted, it is in no other state.
    pub slices: Vec<(State, Interval)>,
    /// How often it was preempted.
    pub preemptions: u64,
    /// Tasks that it took from others.
    pub steals: u64,
    /// Whole queues that it took over.
    pub mugs: u64,
    /// Workers that it gave its time slice to.
    pub accelerations: u64,
    /// How often it was refused that, by reason.
    pub refusals: BTreeMap<String, u64>,
}

impl Program {
    /// From its first event to its last; `None` if it has none with a time.
    pub fn span(&self) -> Option<Interval> {
        let slices = self.workers.values().flat_map(|worker| worker.slices.iter().map(|slice| slice.1));
        let modes = self.modes.iter().map(|mode| mode.1);
        let all = slices.chain(self.cores.values().flatten().copied()).chain(modes);
        all.reduce(|(from, to), (begins, ends)| (from.min(begins), to.max(ends)))
    }

    /// Core seconds.
    pub fn held(&self) -> f64 {
        all_seconds(self.cores.values().flatten().copied())
    }
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
    /// On the track of a core: the program that has its thread there.
    program: Option<u64>,
    core: Option<u64>,
    #[serde(default)]
    reasons: BTreeMap<String, u64>,
}

/// One end of an interval, with its line.
struct End {
    at: Nanos,
    begins: bool,
}

/// A process while its lines are read.
#[derive(Default)]
struct Draft {
    program: Program,
    /// By their thread, with the line.
    slices: BTreeMap<u64, Vec<(State, Interval, usize)>>,
    preempted: BTreeMap<u64, Vec<End>>,
    cores: BTreeMap<u64, Vec<End>>,
    /// When a thread of it ran on each core, where that is told and not what was held.
    running: BTreeMap<u64, Vec<Interval>>,
    /// By the policy and the place in [`Mode::ALL`].
    modes: BTreeMap<(String, usize), Vec<End>>,
    /// The last time that it tells.
    latest: Nanos,
}

/// Whether this is a timeline, even if it is damaged further on.
pub fn is_trace(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.next() == Some(b"[")
        && lines.next().is_some_and(|line| {
            line.starts_with(b"{\"name\":\"comity_trace\"")
                || event(line).is_ok_and(|event| event.name == FIRST)
                // It was cut short before the first event was whole.
                || b"{\"name\":\"comity_trace\"".starts_with(line)
        })
}

/// Reads a timeline.
///
/// # Errors
/// Says in which line something is wrong, and what.
pub fn parse(file: String, bytes: &[u8]) -> Result<Trace, String> {
    let mut trace = Trace { file, is_cut: true, ..Trace::default() };
    let mut drafts: BTreeMap<u64, Draft> = BTreeMap::new();
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
            // The program ended while it wrote.
            Err(_) if nth + 1 == lines.len() => break,
            Err(error) => return Err(format!("line {number}: it is no event of a trace ({error})")),
        };
        if !seen {
            let version = event.args.version;
            if event.name != FIRST || version != Some(VERSION) {
                let found =
                    version.map_or("it tells no version".to_owned(), |version| format!("its version is {version}"));
                return Err(format!("line {number}: {found}, and this command reads version {VERSION}"));
            }
            seen = true;
        }
        // A core's name, say, is of no program.
        if event.cat == MACHINE {
            continue;
        }
        let process = event.args.program.unwrap_or(event.pid);
        let known = drafts.entry(process).or_default().take(event, number);
        trace.unknown += u64::from(!known.map_err(|why| format!("line {number}: {why}"))?);
    }
    if !seen {
        return Err("it was cut short before its first event was whole".to_owned());
    }
    for (process, draft) in drafts {
        trace.programs.insert(process, draft.finish()?);
    }
    Ok(trace)
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

impl Draft {
    /// Whether the event's kind is known.
    fn take(&mut self, event: Event, number: usize) -> Result<bool, String> {
        let Event { name, ph, tid, cat, id, ts, dur, args, .. } = event;
        match (ph.as_str(), cat.as_str(), name.as_str()) {
            ("M", _, FIRST) => {}
            ("M", _, "process_name") => self.program.name = args.name,
            ("M", _, "thread_name") => self.worker(tid).name = args.name,
            ("X", "worker", name) => {
                let Some(state) = State::called(name) else { return Ok(false) };
                let interval = self.interval(ts, dur)?;
                self.worker(tid).preemptions += u64::from(state == State::Preempted);
                self.slices.entry(tid).or_default().push((state, interval, number));
            }
            ("X", "running", _) => {
                let core = args.core.ok_or("it has no core")?;
                let interval = self.interval(ts, dur)?;
                self.running.entry(core).or_default().push(interval);
            }
            ("i" | "I", "worker", "steal") => self.worker(tid).steals += 1,
            ("i" | "I", "worker", "mug") => self.worker(tid).mugs += 1,
            ("i" | "I", "worker", "acceleration") => self.worker(tid).accelerations += 1,
            ("i" | "I", "worker", "refused") => add(&mut self.worker(tid).refusals, &args.reasons),
            ("i" | "I", "trace", "lost") => {
                let lost = self.program.lost;
                self.program.lost = lost.saturating_add(args.events.unwrap_or(1));
            }
            ("b" | "e", "preempted", _) => {
                let end = End { at: self.time(ts)?, begins: ph == "b" };
                self.preempted.entry(tid).or_default().push(end);
            }
            ("b" | "e", "core", _) => {
                let end = End { at: self.time(ts)?, begins: ph == "b" };
                let core = id.and_then(|id| id.as_u64()).ok_or("it has no id that is a core's number")?;
                let how = args.how.unwrap_or_else(|| "otherwise".to_owned());
                let by = if end.begins { &mut self.program.came_by } else { &mut self.program.parted_by };
                *by.entry(how).or_default() += 1;
                self.cores.entry(core).or_default().push(end);
            }
            ("b" | "e", "mode", name) => {
                let Some(mode) = Mode::ALL.iter().position(|mode| mode.name() == name) else { return Ok(false) };
                let end = End { at: self.time(ts)?, begins: ph == "b" };
                let policy = id.map_or_else(String::new, |id| id.to_string());
                self.modes.entry((policy, mode)).or_default().push(end);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn worker(&mut self, thread: u64) -> &mut Worker {
        self.program.workers.entry(thread).or_default()
    }

    fn time(&mut self, ts: Option<f64>) -> Result<Nanos, String> {
        let at = time(ts, "ts")?;
        self.latest = self.latest.max(at);
        Ok(at)
    }

    fn interval(&mut self, ts: Option<f64>, dur: Option<f64>) -> Result<Interval, String> {
        let from = self.time(ts)?;
        let to = from + time(dur, "dur")?;
        self.latest = self.latest.max(to);
        Ok((from, to))
    }

    fn finish(mut self) -> Result<Program, String> {
        let latest = self.latest;
        self.program.cores = self.running;
        for (core, ends) in self.cores {
            self.program.cores.insert(core, intervals(ends, latest));
        }
        for ((_, mode), ends) in self.modes {
            let intervals = intervals(ends, latest).into_iter().map(|interval| (Mode::ALL[mode], interval));
            self.program.modes.extend(intervals);
        }
        for (thread, slices) in self.slices {
            let slices = in_order(slices)?;
            self.program.workers.entry(thread).or_default().slices = slices;
        }
        for (thread, ends) in self.preempted {
            let preempted = intervals(ends, latest);
            let worker = self.program.workers.entry(thread).or_default();
            worker.preemptions += preempted.len() as u64;
            worker.slices = cut_out(&worker.slices, &preempted);
        }
        Ok(self.program)
    }
}

/// Adds how often each was to how often it was before.
pub fn add(before: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (what, times) in more {
        let all = before.entry(what.clone()).or_default();
        *all = all.saturating_add(*times);
    }
}

/// Pairs beginnings with ends. Where events were dropped, or the trace was cut short, an interval lasts until the
/// next begins, or until the last time that is told. An end alone tells nothing.
fn intervals(mut ends: Vec<End>, latest: Nanos) -> Vec<Interval> {
    // What has one time stays in the file's order.
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

/// A worker is in one state at a time.
fn in_order(mut slices: Vec<(State, Interval, usize)>) -> Result<Vec<(State, Interval)>, String> {
    slices.sort_by_key(|(_, interval, _)| *interval);
    let (mut ordered, mut until, mut line) = (Vec::with_capacity(slices.len()), 0, 0);
    for (state, (from, to), number) in slices {
        if from < until - ROUNDING {
            let (first, second) = (line.min(number), line.max(number));
            return Err(format!("lines {first} and {second}: a worker is in two states at a time"));
        }
        let from = from.max(until);
        if from < to {
            ordered.push((state, (from, to)));
        }
        (until, line) = if to > until { (to, number) } else { (until, line) };
    }
    Ok(ordered)
}

/// Both are in order. What is preempted counts as that alone, whatever the state under it.
fn cut_out(slices: &[(State, Interval)], preempted: &[Interval]) -> Vec<(State, Interval)> {
    let mut left = Vec::with_capacity(slices.len() + preempted.len());
    let mut holes = preempted.iter().peekable();
    for (state, (mut from, to)) in slices.iter().copied() {
        while let Some((begins, ends)) = holes.peek().copied().copied() {
            if begins >= to {
                break;
            }
            if begins > from {
                left.push((state, (from, begins)));
            }
            from = from.max(ends);
            if ends > to {
                break;
            }
            holes.next();
        }
        if from < to {
            left.push((state, (from, to)));
        }
    }
    left.extend(preempted.iter().filter(|(from, to)| from < to).map(|interval| (State::Preempted, *interval)));
    left.sort_by_key(|(_, interval)| *interval);
    left
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

    #[test]
    fn what_is_preempted_is_nothing_else_meanwhile() {
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
        let worker = &trace.programs[&7].workers[&8];
        use State::{Preempted, Task, Thief};
        let us = |from: Nanos, to: Nanos| (from * 1_000, to * 1_000);
        let expected = [(Task, us(0, 4)), (Preempted, us(4, 6)), (Task, us(6, 9)), (Preempted, us(9, 12))];
        let rest = [(Thief, us(12, 19)), (Preempted, us(19, 20))];
        assert_eq!(worker.slices, [&expected[..], &rest].concat());
        assert_eq!((worker.preemptions, trace.is_cut), (3, false));
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
        let ends = vec![end(1, false), end(2, true), end(5, true), end(7, false), end(9, true)];
        assert_eq!(intervals(ends, 11), [(2, 5), (5, 7), (9, 11)]);
    }

    #[test]
    fn times_that_cannot_be_are_refused_with_their_line() {
        let bad = |event: &str| read(&text(&[&slice("task", 0.0, 10.0), event])).unwrap_err();
        for (event, part) in [
            (slice("thief", 9.0, 5.0).as_str(), "lines 3 and 4: a worker is in two states at a time"),
            (&slice("thief", -1.0, 5.0), "line 4: ts is -1.0, and a time in microseconds"),
            (&slice("thief", 10.0, -5.0), "line 4: dur is -5"),
            (&slice("thief", 1e17, 5.0), "line 4: ts is 1e17"),
            (&slice("thief", 10.0, f64::NAN), "line 4: it is no event"),
            (r#"{"name":"task","cat":"worker","ph":"X","pid":7,"tid":8,"ts":null,"dur":1}"#, "line 4: it has no ts"),
            (
                r#"{"name":"core 1","cat":"core","ph":"b","pid":7,"tid":0,"ts":1}"#,
                "line 4: it has no id that is a core's number",
            ),
            ("[", "line 4: it is no event"),
            ("]", "line 5: something follows the end"),
        ] {
            let why = bad(event);
            assert!(why.contains(part), "{event}: {why}");
        }
        // Both were rounded.
        assert!(read(&text(&[&slice("task", 0.0, 10.0), &slice("thief", 9.999, 5.0)])).is_ok());
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
        assert_eq!(trace.programs.keys().collect::<Vec<_>>(), [&7, &9]);
        assert_eq!(
            (&trace.programs[&7].cores[&3], &trace.programs[&9].cores[&3]),
            (&vec![(0, 5_000)], &vec![(5_000, 10_000)])
        );
        let states: Vec<State> = trace.programs[&7].workers[&8].slices.iter().map(|slice| slice.0).collect();
        assert_eq!(states, [State::Task, State::Preempted, State::Task]);
        assert_eq!((trace.programs[&7].workers[&8].preemptions, trace.unknown), (1, 0));
        let nowhere = r#"{"name":"x","cat":"running","ph":"X","pid":1,"tid":1,"ts":0.000,"dur":5.000}"#;
        assert!(read(&text(&[nowhere])).unwrap_err().contains("line 3: it has no core"));
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
