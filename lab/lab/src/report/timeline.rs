//! Timelines: which program held which core when, over all of them, and what each program's workers were about.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::chart::{self, Chart, Key, Row, Scale, band};
use super::page::{Cell, Entry, Section, clean, duration, heading, table, warning};
use super::trace::{Interval, Mode, Nanos, Program, State, Trace, Worker, add, all_seconds, seconds};
use crate::corun::table::{percent, shorten};

/// Of a row, where there are few, and where there are many.
const HEIGHTS: [usize; 2] = [26, 16];
const FEW: usize = 4;
/// The time axis is divided into so many columns at most, and into fewer where there are many rows, so that the
/// page stays small.
const COLUMNS: usize = 1_000;
const LEAST_COLUMNS: usize = 100;
/// Columns of all rows together, about.
const CELLS: usize = 60_000;
/// More of a program are not drawn, but are in its totals.
const MOST_WORKERS: usize = 128;

/// One program of one file.
struct Member<'a> {
    /// As in the legend.
    name: String,
    program: &'a Program,
    /// From its first event to its last.
    span: Option<Interval>,
}

/// The time axis of several timelines, in columns.
struct Columns {
    from: Nanos,
    to: Nanos,
    count: usize,
}

/// The timelines' part of the page.
pub fn section(traces: &[&Trace]) -> Section {
    let members: Vec<Vec<Member>> = traces.iter().map(|trace| members(trace)).collect();
    let all: Vec<&Member> = members.iter().flatten().collect();
    let id = "timelines";
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let gist = format!("{} on {}", plural(all.len(), "program"), plural(cores(&all).len(), "core"));
    let title = "Which program held which core when".to_owned();
    let mut entries = vec![Entry { id: id.to_owned(), title: title.clone(), gist, is_part: false }];
    for (nth, (trace, members)) in traces.iter().zip(&members).enumerate() {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let title = trace.file.clone();
        entries.push(Entry { id: format!("{id}-{}", nth + 1), title, gist: names.join(", "), is_part: true });
    }
    let gap = gap(&all);
    // On one axis each would be a hair.
    let apart = gap.is_some() && traces.len() > 1;
    let columns = Columns::of(&all, all.len());
    let body = html! {
        (heading(id, "COMITY_TRACE", &title))
        @if let Some(gap) = gap { (warning(&gap)) }
        @if !apart { (of_all(&all, &columns)) }
        @for ((trace, members), entry) in traces.iter().zip(&members).zip(&entries[1..]) {
            h3 id=(entry.id) { (clean(&trace.file)) }
            (warnings(trace))
            @let own: Vec<&Member> = members.iter().collect();
            @let columns = Columns::of(if apart { &own } else { &all }, all.len());
            @if apart { (of_all(&own, &columns)) }
            @for member in members { (of_program(member, &columns)) }
        }
    };
    Section { entries, body }
}

/// What concerns several programs.
fn of_all(members: &[&Member], columns: &Columns) -> Markup {
    html! { (of_cores(members, columns)) (of_modes(members, columns)) (held(members)) }
}

/// Those that any of them held.
fn cores(members: &[&Member]) -> BTreeSet<u64> {
    members.iter().flat_map(|member| member.program.cores.keys().copied()).collect()
}

fn members(trace: &Trace) -> Vec<Member<'_>> {
    let members = trace.programs.iter().map(|(process, program)| {
        let name = program.name.as_deref().unwrap_or("unnamed");
        Member { name: format!("{} ({process})", shorten(name)), program, span: program.span() }
    });
    members.collect()
}

/// Clocks of two machines, or of one before and after it was started anew, have nothing in common.
fn gap(members: &[&Member]) -> Option<String> {
    let mut spans: Vec<Interval> = members.iter().filter_map(|member| member.span).collect();
    spans.sort_unstable();
    let longest = spans.iter().map(|span| span.1 - span.0).max()?;
    let mut until = spans.first()?.1;
    for (from, to) in spans {
        if from - until > longest.max(1).saturating_mul(10) {
            return Some(format!(
                "Some programs began {} after others had ended. If they are of two machines, or of one that was started anew, their times \
                 have nothing in common. Each file has a time axis of its own.",
                duration(seconds((until, from)))
            ));
        }
        until = until.max(to);
    }
    None
}

impl Columns {
    /// From the first event of these programs to the last, on a page of so many.
    fn of(members: &[&Member], programs: usize) -> Columns {
        let spans = members.iter().filter_map(|member| member.span);
        let (from, to) = spans.reduce(|(from, to), span| (from.min(span.0), to.max(span.1))).unwrap_or((0, 0));
        let workers = members.iter().map(|member| member.program.workers.len().min(MOST_WORKERS)).sum::<usize>();
        let rows = cores(members).len() + workers + programs;
        Columns { from, to, count: (CELLS / rows).clamp(LEAST_COLUMNS, COLUMNS) }
    }

    /// The width of a column.
    fn width(&self) -> f64 {
        ((self.to - self.from) as f64 / self.count as f64).max(1e-3)
    }

    /// From its first event, with the unit that fits.
    fn scale(&self) -> Scale {
        let whole = seconds((self.from, self.to));
        let (unit, scale) = match whole {
            ..1e-3 => ("microseconds", 1e6),
            ..1.0 => ("milliseconds", 1e3),
            _ => ("seconds", 1.0),
        };
        Scale::between(0.0, whole * scale, format!("{unit} since the first event"))
    }

    /// Adds to each column of `row` which part of it lies in the interval, in the `nth` place.
    fn add(&self, row: &mut [Vec<f64>], nth: usize, (from, to): Interval) {
        let width = self.width();
        let place = |time: Nanos| (time - self.from) as f64 / width;
        let (left, right) = (place(from), place(to));
        let last = (right.ceil() as usize).min(self.count);
        for (column, shares) in row.iter_mut().enumerate().take(last).skip(left as usize) {
            let (begins, ends) = (left.max(column as f64), right.min(column as f64 + 1.0));
            shares[nth] += (ends - begins).max(0.0);
        }
    }

    fn row(&self, kinds: usize) -> Vec<Vec<f64>> {
        vec![vec![0.0; kinds]; self.count]
    }

    /// What a column is.
    fn told(&self) -> Markup {
        html! {
            "A column is " (duration(self.width() / 1e9)) " wide; where more than one happened in it, each has the part of its height that it \
            had of its time, in steps of a twentieth."
        }
    }
}

fn height(rows: usize) -> usize {
    HEIGHTS[usize::from(rows > FEW)]
}

fn of_cores(members: &[&Member], columns: &Columns) -> Markup {
    let cores = cores(members);
    if cores.is_empty() {
        return html! { p { "No program held a core: their policies do not share cores, or none took part in a core table." } };
    }
    let classes: Vec<String> = (0..members.len()).map(chart::colour).collect();
    let rows = cores.iter().map(|core| {
        let mut row = columns.row(members.len());
        for (nth, member) in members.iter().enumerate() {
            for interval in member.program.cores.get(core).into_iter().flatten() {
                columns.add(&mut row, nth, *interval);
            }
        }
        Row { name: format!("core {core}"), begins_group: false, picture: band(height(cores.len()), &row, &classes) }
    });
    let rows = rows.collect();
    let repeat = members.len() > classes.iter().collect::<BTreeSet<_>>().len();
    let caption = html! {
        "Which program held each core, over time. " (columns.told()) " Where there is no colour, none of these programs held the core."
        @if repeat { " There are more programs than colours: they repeat in the legend's order." }
    };
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let label = format!(
        "Which of {} held each of {} cores over {}",
        names.join(", "),
        cores.len(),
        duration(seconds((columns.from, columns.to)))
    );
    Chart { label, legend: chart::keys(names), rows, scale: columns.scale(), caption, dense: true }.html()
}

/// Why a program that could use cores held none.
fn of_modes(members: &[&Member], columns: &Columns) -> Markup {
    let told: Vec<&&Member> = members.iter().filter(|member| !member.program.modes.is_empty()).collect();
    let classes: Vec<String> = [5, 2, 4].map(chart::colour).into();
    let rows = told.iter().map(|member| {
        let mut row = columns.row(Mode::ALL.len());
        for (mode, interval) in &member.program.modes {
            let nth = Mode::ALL.iter().position(|other| other == mode).expect("it is one of them");
            columns.add(&mut row, nth, *interval);
        }
        Row { name: member.name.clone(), begins_group: false, picture: band(height(told.len()), &row, &classes) }
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return html! {};
    }
    let meanings =
        ["alone: no other holds cores or wants some", "holds cores", "shares time: holds none, runs when it can"];
    let legend: Vec<Key> = classes.iter().cloned().zip(meanings.map(str::to_owned)).collect();
    let caption = html! {
        "How each program took part in the core table, over time. " (columns.told()) " Where there is no colour, it did not."
    };
    let label = format!("How each of {} programs took part in the core table over time", rows.len());
    Chart { label, legend, rows, scale: columns.scale(), caption, dense: true }.html()
}

/// What each program had of the cores.
fn held(members: &[&Member]) -> Markup {
    let header = [
        "program",
        "began after",
        "lasted",
        "workers",
        "held, core time",
        "cores held",
        "of all held",
        "came by cores",
        "parted by",
    ];
    let whole: f64 = members.iter().map(|member| member.program.held()).sum();
    let began = members.iter().filter_map(|member| member.span).map(|span| span.0).min().unwrap_or(0);
    let rows: Vec<Vec<Cell>> = members
        .iter()
        .map(|Member { name, program, span }| {
            let held = program.held();
            let lasted = span.map_or(0.0, seconds);
            let ratio = |part: f64, whole: f64, words: fn(f64) -> String| {
                if whole > 0.0 { words(part / whole) } else { "-".to_owned() }
            };
            vec![
                name.into(),
                span.map_or_else(|| "-".to_owned(), |span| duration(seconds((began, span.0)))).into(),
                duration(lasted).into(),
                working(program).count().to_string().into(),
                duration(held).into(),
                ratio(held, lasted, |cores| format!("{cores:.2}")).into(),
                ratio(held, whole, percent).into(),
                counted(&program.came_by).into(),
                counted(&program.parted_by).into(),
            ]
        })
        .collect();
    table("Programs: what each held of the cores", &header, 1, &rows)
}

/// How often what was.
fn counted(how: &BTreeMap<String, u64>) -> String {
    match how.is_empty() {
        true => "-".to_owned(),
        false => how.iter().map(|(how, count)| format!("{how} {count}")).collect::<Vec<_>>().join(", "),
    }
}

/// Threads that were workers.
fn working(program: &Program) -> impl Iterator<Item = (&u64, &Worker)> {
    program.workers.iter().filter(|(_, worker)| !worker.slices.is_empty())
}

fn warnings(trace: &Trace) -> Markup {
    let cut = "This trace was cut short, as when a program is killed: what was whole of it is shown, and what the workers did last is \
               missing.";
    html! {
        @if trace.is_cut { (warning(cut)) }
        @if trace.unknown > 0 {
            (warning(&format!("{} events of kinds that this version does not know are left out.", trace.unknown)))
        }
    }
}

fn of_program(Member { name, program, .. }: &Member, columns: &Columns) -> Markup {
    let name_of = |(thread, worker): (&u64, &Worker)| worker.name.clone().unwrap_or_else(|| format!("thread {thread}"));
    let mut workers: Vec<(String, &Worker)> = working(program).map(|entry| (name_of(entry), entry.1)).collect();
    workers.sort_by_cached_key(|(name, _)| natural(name));
    let (policy, names) = without_what_all_have(workers.iter().map(|(name, _)| name.as_str()));
    let workers: Vec<(&str, &Worker)> =
        names.iter().zip(&workers).map(|(name, (_, worker))| (name.as_str(), *worker)).collect();
    let classes = State::ALL.map(|state| state.name().to_owned());
    let meanings = [
        "task: has one",
        "thief: looks for one",
        "preempted: could run, has no core",
        "retired: rests for want of a core",
        "asleep: no work",
    ];
    let legend: Vec<Key> = classes.iter().cloned().zip(meanings.map(str::to_owned)).collect();
    let rows = workers.iter().take(MOST_WORKERS).map(|(name, worker)| {
        let mut row = columns.row(State::ALL.len());
        for (state, interval) in &worker.slices {
            let nth = State::ALL.iter().position(|other| other == state).expect("it is one of them");
            columns.add(&mut row, nth, *interval);
        }
        Row { name: (*name).to_owned(), begins_group: false, picture: band(height(workers.len()), &row, &classes) }
    });
    let rows = rows.collect();
    let left_out = workers.len().saturating_sub(MOST_WORKERS);
    let caption = html! {
        "What each worker of " (clean(name)) " was about, over time. " (columns.told())
        " Where in the time between two looks a worker was preempted is approximate."
        @if left_out > 0 { " " (left_out) " more workers are not drawn; the totals have them." }
    };
    let label = format!("States of {} workers of {name} over time", workers.len());
    html! {
        h4 { (clean(name)) @if let Some(policy) = policy { ", policy " (clean(&policy)) } }
        @if program.lost > 0 {
            (warning(&format!("{} events of {name} were dropped: its bands have gaps, and its totals lack them.", program.lost)))
        }
        @if workers.is_empty() { p { "No worker of it has told a state." } }
        @else {
            (Chart { label, legend, rows, scale: columns.scale(), caption, dense: true }.html())
            (totals(name, &workers))
        }
    }
}

/// Which part of its workers' time went where.
fn totals(program: &str, workers: &[(&str, &Worker)]) -> Markup {
    let mut header = vec!["worker", "traced for"];
    header.extend(State::ALL.map(State::name));
    header.extend(["times preempted", "steals", "mugs"]);
    // Few policies accelerate.
    let accelerate = workers.iter().any(|(_, worker)| worker.accelerations > 0 || !worker.refusals.is_empty());
    if accelerate {
        header.extend(["accelerations", "refused"]);
    }
    let row = |name: &str, workers: &[&Worker]| -> Vec<Cell> {
        let slices = || workers.iter().flat_map(|worker| &worker.slices);
        let whole = all_seconds(slices().map(|(_, interval)| *interval));
        let share = |state: State| {
            let of = all_seconds(slices().filter(|slice| slice.0 == state).map(|(_, interval)| *interval));
            Cell::from(if whole > 0.0 { percent(of / whole) } else { "-".to_owned() })
        };
        let count =
            |of: fn(&Worker) -> u64| Cell::from(workers.iter().map(|worker| of(worker)).sum::<u64>().to_string());
        let counts = [count(|worker| worker.preemptions), count(|worker| worker.steals), count(|worker| worker.mugs)];
        let row = [name.into(), duration(whole).into()].into_iter().chain(State::ALL.map(share)).chain(counts);
        let accelerations = accelerate.then(|| {
            let mut refusals = BTreeMap::new();
            workers.iter().for_each(|worker| add(&mut refusals, &worker.refusals));
            [count(|worker| worker.accelerations), counted(&refusals).into()]
        });
        row.chain(accelerations.into_iter().flatten()).collect()
    };
    let all: Vec<&Worker> = workers.iter().map(|(_, worker)| *worker).collect();
    let each: Vec<Vec<Cell>> = workers.iter().map(|(name, worker)| row(name, &[*worker])).collect();
    let title = format!("Workers of {}: parts of their time, and counts", clean(program));
    html! {
        (table(&title, &header, 1, &[row("all", &all)]))
        details { summary { "Each worker" } (table("Each worker", &header, 1, &each)) }
    }
}

/// A name's words and numbers, so that 10 comes after 9.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0)];
    for piece in name.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = piece.len() - piece.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let (number, rest) = piece.split_at(digits);
        if let Ok(number) = number.parse() {
            parts.last_mut().expect("there is one").1 = number;
            parts.push((String::new(), 0));
        }
        parts.last_mut().expect("there is one").0.push_str(rest);
    }
    parts
}

/// "pool 1 worker 0 (comity)" is worker 0 where there is one pool; the policy is told once, where all have the same.
fn without_what_all_have<'a>(names: impl Iterator<Item = &'a str>) -> (Option<String>, Vec<String>) {
    let names: Vec<&str> = names.collect();
    let parts = |name: &'a str| {
        let (name, policy) = name.strip_suffix(')')?.split_once(" (")?;
        let (pool, worker) = name.split_once(" worker ")?;
        Some((pool, worker, policy))
    };
    let split: Option<Vec<_>> = names.iter().map(|name| parts(name)).collect();
    match split {
        Some(split) if !split.is_empty() && split.iter().all(|(_, _, policy)| *policy == split[0].2) => {
            let one_pool = split.iter().all(|(pool, _, _)| *pool == split[0].0);
            let name = |(pool, worker, _): &(&str, &str, &str)| match one_pool {
                true => format!("worker {worker}"),
                false => format!("{pool} worker {worker}"),
            };
            (Some(split[0].2.to_owned()), split.iter().map(name).collect())
        }
        _ => (None, names.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_part_of_each_interval_that_lies_in_them() {
        let columns = Columns { from: 100, to: 140, count: 4 };
        let mut row = columns.row(2);
        columns.add(&mut row, 0, (100, 115));
        columns.add(&mut row, 1, (115, 120));
        columns.add(&mut row, 1, (120, 140));
        assert_eq!(row, [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]].map(|shares| shares.to_vec()));
    }

    #[test]
    fn workers_are_in_the_order_of_their_numbers() {
        let mut names = ["pool 2 worker 0 (abp)", "pool 1 worker 10 (abp)", "pool 1 worker 9 (abp)"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["pool 1 worker 9 (abp)", "pool 1 worker 10 (abp)", "pool 2 worker 0 (abp)"]);
        let (policy, short) = without_what_all_have(names.into_iter());
        assert_eq!((policy.as_deref(), short[1].as_str()), (Some("abp"), "pool 1 worker 10"));
        let (policy, short) = without_what_all_have(names.into_iter().take(2));
        assert_eq!((policy.as_deref(), short[1].as_str()), (Some("abp"), "worker 10"));
        let (policy, short) = without_what_all_have(["main", names[0]].into_iter());
        assert_eq!((policy, short[1].as_str()), (None, names[0]));
    }

    #[test]
    fn programs_of_two_clocks_are_told_apart_from_those_of_one() {
        let program = Program::default();
        let member = |span| Member { name: String::new(), program: &program, span: Some(span) };
        let told = |spans: [Interval; 2]| {
            let [first, second] = spans.map(member);
            gap(&[&first, &second])
        };
        assert_eq!(told([(0, 1_000_000_000), (1_500_000_000, 2_000_000_000)]), None);
        assert!(
            told([(0, 1_000_000_000), (100_000_000_000, 101_000_000_000)]).unwrap().contains("began 99.00 s after")
        );
    }
}
