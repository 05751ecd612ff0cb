//! The section of a file that `comity-lab simulate --json` printed: programs on a simulated machine.

pub mod sweep;

use comity_papers::fit::Estimate;
use comity_sim::scenario::Outcome;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::{self, Chart, Measured, Row, Scale, bar, dot, picture};
use super::page::{Cell, Entry, Section, clean, facts, heading, table};
use crate::corun::table::{percent, shorten};
use crate::simulate::statistics;

/// The fields of `comity-simulate/1` that the page shows.
#[derive(Debug, Deserialize)]
pub struct SimulateReport {
    comity: String,
    scenario: Scenario,
    runs: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    seed: u64,
    machine: Machine,
    programs: Vec<Submission>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    model: String,
    processors: u32,
}

#[derive(Debug, Deserialize)]
struct Submission {
    name: String,
    policy: String,
}

/// The largest number of programs that are drawn one by one.
const MOST_PROGRAMS: usize = 40;

/// The largest accepted number. The sum of such numbers over all programs of a file fits into 64 bits.
const MOST: u64 = 1 << 50;

impl SimulateReport {
    /// Checks that the times are possible.
    ///
    /// # Errors
    /// If no run has a program, or if a time is too large or before the start of the program.
    pub fn check(&self) -> Result<(), String> {
        if self.runs.iter().all(|run| run.programs.is_empty()) {
            return Err("it has no run with a program".to_owned());
        }
        for (nth, run) in self.runs.iter().enumerate() {
            let of_all = [run.steps, run.cycles.work, run.cycles.steal, run.cycles.mug];
            for program in &run.programs {
                let cycles = program.cycles;
                let ends = [program.ended, program.died].map(|end| end.unwrap_or(program.came));
                let numbers = [program.came, program.work, cycles.work, cycles.steal, cycles.mug];
                let all = of_all.iter().chain(&numbers);
                let ends = ends.iter().chain(&program.executions);
                if ends.clone().any(|end| !(program.came..=MOST).contains(end))
                    || all.into_iter().any(|number| *number > MOST)
                {
                    return Err(format!("run {nth} has an invalid time of '{}'", shorten(&program.name)));
                }
            }
        }
        Ok(())
    }

    /// Returns the unit of time in the charts, and the length of a step of the machine in that unit.
    fn unit(&self) -> (&'static str, f64) {
        match self.scenario.machine.model.as_str() {
            "host" => ("milliseconds", 1e-6),
            _ => ("steps", 1.0),
        }
    }
}

/// Returns the simulation's section of the page.
pub fn section(id: &str, file: &str, report: &SimulateReport) -> Section {
    let numbers = statistics::of(&report.runs);
    let machine = &report.scenario.machine;
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let processors = plural(machine.processors as usize, "processor");
    let gist = format!(
        "{} on {}, {}",
        plural(numbers.rows.len(), "kind") + " of programs",
        processors,
        plural(report.runs.len(), "run")
    );
    let policies: Vec<String> = report
        .scenario
        .programs
        .iter()
        .map(|program| format!("{} under {}", shorten(&program.name), program.policy))
        .collect();
    let rows: Vec<_> = numbers.rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
    let body = html! {
        (heading(id, "comity-lab simulate", file))
        (facts(&[
            ("simulated machine", html! { (clean(&machine.model)) ", " (processors) }),
            ("programs", html! { (clean(&policies.join(", "))) }),
            ("runs", html! { (report.runs.len()) ", from seed " (report.scenario.seed) }),
            ("simulated by", html! { "comity-lab " (clean(&report.comity)) }),
        ]))
        h3 { "Time" }
        (times(report))
        h3 { "Processor time" }
        (spent(report))
        (presence(report))
        (table("Programs of one name, over all runs (± 95 % confidence over the runs)", &numbers.header, 1, &rows))
        @for sentence in &numbers.sentences { p { (sentence) } }
        (percentiles(&[], &[(Vec::new(), report)]))
    };
    Section { entries: vec![Entry { id: id.to_owned(), title: file.to_owned(), gist, is_part: false }], body }
}

/// Makes a table of percentiles for each setting of `keys`, with the programs of which more than one ended.
fn percentiles(keys: &[String], points: &[(Vec<String>, &SimulateReport)]) -> Markup {
    let each: Vec<_> = points.iter().map(|(values, report)| (values, statistics::percentiles(&report.runs))).collect();
    let columns = each.iter().map(|(_, (header, _))| header.clone()).max_by_key(Vec::len).unwrap_or_default();
    let rows = each.iter().flat_map(|(values, (_, rows))| rows.iter().map(move |row| values.iter().chain(row)));
    let rows: Vec<Vec<String>> = rows.map(|cells| cells.cloned().collect()).collect();
    html! {
        @if !rows.is_empty() {
            (settings("Percentiles over the programs that ended, in all runs: p50 / p90 / p99", keys, &columns, rows))
        }
    }
}

/// Makes a table whose first columns are the settings.
fn settings(title: &str, keys: &[String], columns: &[&str], rows: Vec<Vec<String>>) -> Markup {
    let header: Vec<&str> = keys.iter().map(String::as_str).chain(columns.iter().copied()).collect();
    let cells = |row: Vec<String>| {
        let mut row: Vec<Cell> = row.into_iter().map(Into::into).collect();
        // Some machines have fewer columns than others.
        row.resize_with(header.len(), || "".into());
        row
    };
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(cells).collect();
    table(title, &header, keys.len() + 1, &rows)
}

fn measured(Estimate { value, half_width }: Estimate) -> Measured {
    let interval = (half_width > 0.0).then_some((value - half_width, value + half_width));
    Measured { value, interval }
}

fn row(name: &str, picture: Markup) -> Row {
    Row { name: shorten(name), begins_group: false, picture }
}

/// Draws the mean time of each program.
fn times(report: &SimulateReport) -> Markup {
    let (unit, scale) = report.unit();
    let time =
        |name: &str| measured(statistics::mean_of(&report.runs, name, |program| statistics::time(program) * scale));
    let names: Vec<&str> = statistics::names(&report.runs);
    let axis =
        Scale::from_zero(names.iter().flat_map(|name| time(name).ends()), format!("time from arrival to end, {unit}"));
    let rows = names.iter().map(|name| {
        let time = time(name);
        let words = format!("{}: {:.3} {unit}", shorten(name), time.value);
        row(name, picture(22, &axis, &dot(&axis, time, 11, "c0", &words)))
    });
    let caption = html! {
        "Mean time from a program's arrival to its end, in " (unit) ", of the programs that ended. Lines are 95 % \
            confidence intervals of the mean over " (report.runs.len()) " runs; a single run has none."
    };
    let label = format!("Mean time of each program in {unit}");
    Chart { label, legend: Vec::new(), rows: rows.collect(), scale: axis, caption, dense: false }.html()
}

/// Draws the parts of the programs' processor time by use.
fn spent(report: &SimulateReport) -> Markup {
    let axis = Scale::between(0.0, 100.0, "percent of the processor time spent");
    let names = statistics::names(&report.runs);
    let legend = chart::keys(["work", "stealing", "mugging"]);
    let rows = names.iter().map(|name| {
        let all = || report.runs.iter().flat_map(|run| &run.programs).filter(|program| program.name == *name);
        let sum =
            |of: fn(&comity_sim::scenario::ProgramOutcome) -> u64| all().map(|program| of(program) as f64).sum::<f64>();
        let parts = [
            sum(|program| program.cycles.work),
            sum(|program| program.cycles.steal),
            sum(|program| program.cycles.mug),
        ];
        let whole = parts.iter().sum::<f64>().max(1.0);
        let mut from = 0.0;
        let bars = parts.iter().zip(&legend).map(|(part, (class, what))| {
            let to = from + 100.0 * part / whole;
            let words = format!("{}: {what} {}", shorten(name), percent(part / whole));
            let bar = bar(&axis, (from, to), (4, 14), class, &words);
            from = to;
            bar
        });
        row(name, picture(22, &axis, &html! { @for bar in bars { (bar) } }))
    });
    let caption = html! {
        "Use of the programs' processor time, in percent, over all runs. Only work advances a program; stealing and \
         mugging (taking over the queue of a worker without a processor) do not."
    };
    let rows = rows.collect();
    let label = "Processor time of each program spent working, stealing and mugging".to_owned();
    Chart { label, legend: legend.clone(), rows, scale: axis, caption, dense: false }.html()
}

/// Draws the time from the beginning to the end of each program of the first run.
fn presence(report: &SimulateReport) -> Markup {
    let run = &report.runs[0];
    if run.programs.len() < 2 || run.programs.len() > MOST_PROGRAMS {
        return html! {};
    }
    let (unit, scale) = report.unit();
    let axis = Scale::between(0.0, run.steps as f64 * scale, format!("time, {unit}"));
    let names = statistics::names(&report.runs);
    let rows = run.programs.iter().map(|program| {
        let end = program.ended.or(program.died);
        let [from, to] = [program.came, end.unwrap_or(run.steps)].map(|time| time as f64 * scale);
        let nth = names.iter().position(|name| *name == program.name).unwrap_or(0);
        let fate = match (program.ended, program.died) {
            (Some(_), _) => "ended",
            (_, Some(_)) => "died",
            _ => "did not end",
        };
        let words = format!("{}: arrived at {from:.3}, {fate} at {to:.3} {unit}", shorten(&program.name));
        let class = chart::colour(nth);
        let drawn = html! {
            (bar(&axis, (from, to), (3, 12), &class, &words))
            @if program.died.is_some() {
                line.bound x1=(chart::percent(axis.place(to))) x2=(chart::percent(axis.place(to))) y1="0" y2="18" {}
            }
        };
        row(&program.name, picture(18, &axis, &drawn))
    });
    let caption = html! {
        "Time from arrival to end of each program in the first run (seed " (run.seed) "), in " (unit)
        ". A vertical line at the end of a bar marks a program that died."
    };
    let label = format!("Arrival and end of each of {} programs", run.programs.len());
    let rows = rows.collect();
    html! {
        h3 { "Programs over time" }
        (Chart { label, legend: Vec::new(), rows, scale: axis, caption, dense: true }.html())
    }
}
