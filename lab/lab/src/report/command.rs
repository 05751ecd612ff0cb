//! The section of a file that `comity run --report=FILE.json` wrote: one command, and its use of the core table.

use maud::html;
use serde::Deserialize;

use super::chart::{Scale, Steps, Stroke, colour, steps};
use super::page::{Entry, Section, clean, duration as seconds, facts, heading, table};
use crate::corun::table::{percent, shorten};

/// The fields of `comity-run/1` that the page shows. The crate of the command `comity` documents the schema.
#[derive(Debug, Deserialize)]
pub struct CommandReport {
    name: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall_s: f64,
    cpu_s: f64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    weight: u32,
    usable: u32,
    shared: Option<Shared>,
}

#[derive(Debug, Deserialize)]
struct Shared {
    held_core_s: f64,
    lent_core_s: f64,
    claimed: Option<u64>,
    taken_back: Option<u64>,
    released: Option<u64>,
    lost: Option<u64>,
    waited_s: f64,
    alone_estimate_s: f64,
    timeline: Vec<Stretch>,
}

#[derive(Debug, Deserialize)]
struct Stretch {
    seconds: f64,
    used_cores: f64,
    held_cores: f64,
    owned_cores: f64,
}

impl CommandReport {
    /// Checks that the numbers are possible.
    ///
    /// # Errors
    /// If a number is negative or too large. The error names the number.
    pub fn check(&self) -> Result<(), String> {
        let whole = [("wall_s", self.wall_s), ("cpu_s", self.cpu_s)];
        let shared = self.shared.iter().flat_map(|shared| {
            let sums = [("held_core_s", shared.held_core_s), ("lent_core_s", shared.lent_core_s)];
            let times = [("waited_s", shared.waited_s), ("alone_estimate_s", shared.alone_estimate_s)];
            let timeline = shared.timeline.iter().flat_map(|stretch| {
                let Stretch { seconds, used_cores, held_cores, owned_cores } = *stretch;
                [
                    ("seconds", seconds),
                    ("used_cores", used_cores),
                    ("held_cores", held_cores),
                    ("owned_cores", owned_cores),
                ]
            });
            sums.into_iter().chain(times).chain(timeline)
        });
        match whole.into_iter().chain(shared).find(|(_, number)| !(0.0..1e12).contains(number)) {
            Some((name, number)) => Err(format!("its {name} is {number}, which is invalid")),
            None => Ok(()),
        }
    }

    fn end(&self) -> String {
        match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("ended by signal {signal}"),
            _ => "ended".to_owned(),
        }
    }

    fn average(&self) -> String {
        format!("{:.2}", self.cpu_s / self.wall_s.max(f64::MIN_POSITIVE))
    }
}

/// Returns the command's section of the page.
pub fn section(id: &str, file: &str, report: &CommandReport) -> Section {
    let name = shorten(&report.name);
    let gist = format!("{name}: {}, {} cores on average", seconds(report.wall_s), report.average());
    let body = html! {
        (heading(id, "comity run", file))
        (facts(&[
            ("command", html! { code { (clean(&report.name)) } }),
            ("ended with", html! { (report.end()) }),
            ("time", html! { (seconds(report.wall_s)) }),
            ("processor time", html! { (seconds(report.cpu_s)) ", " (report.average()) " cores on average" }),
            ("cores that it could use", html! { (report.usable) }),
            ("weight", html! { (report.weight) }),
        ]))
        @match &report.shared {
            None => p { "The command shared no cores: there was no core table, or the command ended before it joined \
                the table." }
            Some(shared) => {
                @if !shared.timeline.is_empty() { (cores(&name, shared)) }
            }
        }
        (numbers(report))
    };
    Section { entries: vec![Entry { id: id.to_owned(), title: file.to_owned(), gist, is_part: false }], body }
}

fn cores(name: &str, shared: &Shared) -> maud::Markup {
    let mut at = 0.0;
    let mut times: Vec<f64> = Vec::new();
    for stretch in &shared.timeline {
        times.push(at);
        at += stretch.seconds;
    }
    let line = |of: fn(&Stretch) -> f64| {
        let values = times.iter().copied().zip(shared.timeline.iter().map(of));
        values.chain([(at, 0.0)]).collect::<Vec<_>>()
    };
    let series = |name, nth, stroke, of| Steps { name, class: colour(nth), stroke, values: line(of) };
    let series = [
        series("used", 5, Stroke::Area, |stretch: &Stretch| stretch.used_cores),
        series("entitled to", 1, Stroke::Broad, |stretch: &Stretch| stretch.owned_cores),
        series("held", 0, Stroke::Line, |stretch: &Stretch| stretch.held_cores),
    ];
    let time = Scale::between(0.0, at, "seconds since the command joined the core table");
    let longest = shared.timeline.iter().map(|stretch| stretch.seconds).fold(0.0, f64::max);
    let caption = html! {
        "Cores that the command used, held and was entitled to, over time. Each value is a mean over at most "
        (seconds(longest)) ". If it held fewer cores than it was entitled to, it lent the others. If it used more \
            cores than it held, it ran on cores of other programs."
    };
    let label = format!("Cores that {name} used, held and was entitled to over {}", seconds(at));
    steps(&label, &time, &series, "cores", &caption)
}

fn numbers(report: &CommandReport) -> maud::Markup {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let mut rows = vec![
        ["context switches to wait".to_owned(), report.voluntary_switches.to_string()],
        ["context switches because it was preempted".to_owned(), report.involuntary_switches.to_string()],
    ];
    if let Some(shared) = &report.shared {
        let times = report.wall_s / shared.alone_estimate_s.max(f64::MIN_POSITIVE);
        let all = shared.held_core_s + shared.lent_core_s;
        let lent = if all > 0.0 { format!(" ({})", percent(shared.lent_core_s / all)) } else { String::new() };
        rows.extend([
            ["cores held, in core time".to_owned(), seconds(shared.held_core_s)],
            [
                "cores lent, in core time (of held and lent)".to_owned(),
                format!("{}{lent}", seconds(shared.lent_core_s)),
            ],
            ["cores claimed that no program used".to_owned(), count(shared.claimed)],
            ["cores taken back from programs that had borrowed them".to_owned(), count(shared.taken_back)],
            ["cores released".to_owned(), count(shared.released)],
            ["cores lost to their owners".to_owned(), count(shared.lost)],
            ["time that its threads waited for a core, in total".to_owned(), seconds(shared.waited_s)],
            ["time alone, an estimate".to_owned(), format!("about {}", seconds(shared.alone_estimate_s))],
            ["time / that estimate".to_owned(), format!("{times:.2}")],
        ]);
    }
    let rows: Vec<_> = rows.into_iter().map(|row| row.map(Into::into).into()).collect();
    table("Counts and times of the command, and the cost of sharing", &["", "in all"], 1, &rows)
}
