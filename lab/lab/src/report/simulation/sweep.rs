//! The section of a file that `comity-lab simulate --json` printed with `--policy` or `--set`: one scenario with
//! several settings.

use comity_sim::scenario::Outcome;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Scenario, SimulateReport, measured, percentiles, settings, statistics};
use crate::corun::table::shorten;
use crate::report::chart::{Chart, Row, Scale, dot, picture};
use crate::report::page::{Entry, Section, clean, facts, heading};

/// The fields of `comity-simulate-sweep/1` that the page shows.
#[derive(Debug, Deserialize)]
pub struct SweepReport {
    comity: String,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    settings: Map<String, Value>,
    scenario: Scenario,
    runs: Vec<Outcome>,
}

impl Point {
    /// Returns the values of the varied settings.
    fn values(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.settings.values().map(text).collect()
    }
}

/// A checked sweep, with a report for each setting.
pub struct Sweep {
    comity: String,
    keys: Vec<String>,
    points: Vec<(Vec<String>, SimulateReport)>,
}

impl SweepReport {
    /// Checks that all points have the same keys, and that their times are possible.
    ///
    /// # Errors
    /// If there are no points, their keys differ, or a time is impossible.
    pub fn check(self) -> Result<Sweep, String> {
        let SweepReport { comity, points } = self;
        let keys: Vec<String> = points.first().ok_or("it has no points")?.settings.keys().cloned().collect();
        let mut checked = Vec::new();
        for (nth, point) in points.into_iter().enumerate() {
            if !point.settings.keys().eq(&keys) {
                return Err(format!("point {nth} varies other keys than the first point"));
            }
            let values = point.values();
            let Point { scenario, runs, .. } = point;
            let report = SimulateReport { comity: comity.clone(), scenario, runs };
            report.check().map_err(|why| format!("point {nth}: {why}"))?;
            checked.push((values, report));
        }
        Ok(Sweep { comity, keys, points: checked })
    }
}

/// Returns the sweep's section of the page.
pub fn section(id: &str, file: &str, sweep: &Sweep) -> Section {
    let Sweep { comity, keys, points } = sweep;
    let runs: usize = points.iter().map(|(_, report)| report.runs.len()).sum();
    let gist = format!("{} settings of {}, {runs} runs", points.len(), keys.join(", "));
    let each: Vec<_> = points.iter().map(|(values, report)| (values, statistics::of(&report.runs))).collect();
    let columns = each.iter().map(|(_, table)| table.header.clone()).max_by_key(Vec::len).unwrap_or_default();
    let rows = each.iter().flat_map(|(values, table)| table.rows.iter().map(|row| values.iter().chain(row)));
    let rows: Vec<Vec<String>> = rows.map(|cells| cells.cloned().collect()).collect();
    let all: Vec<(Vec<String>, &SimulateReport)> =
        points.iter().map(|(values, report)| (values.clone(), report)).collect();
    let mut names: Vec<&str> = Vec::new();
    for name in points.iter().flat_map(|(_, report)| statistics::names(&report.runs)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let title = "Programs of one name, over all runs of a setting (± 95 % confidence over the runs)";
    let body = html! {
        (heading(id, "comity-lab simulate", file))
        (facts(&[
            ("varied", html! { (clean(&keys.join(", "))) }),
            ("settings", html! { (points.len()) }),
            ("runs", html! { (runs) }),
            ("simulated by", html! { "comity-lab " (clean(comity)) }),
        ]))
        @for name in names { (times(name, points)) }
        (settings(title, keys, &columns, rows))
        (percentiles(keys, &all))
    };
    Section { entries: vec![Entry { id: id.to_owned(), title: file.to_owned(), gist, is_part: false }], body }
}

/// Draws the mean time of a program with each setting.
fn times(name: &str, points: &[(Vec<String>, SimulateReport)]) -> Markup {
    let (unit, scale) = points.first().map_or(("steps", 1.0), |(_, report)| report.unit());
    let time = |report: &SimulateReport| {
        let time = statistics::mean_of(&report.runs, name, |program| statistics::time(program) * scale);
        time.value.is_finite().then(|| measured(time))
    };
    let times: Vec<_> = points.iter().filter_map(|(values, report)| Some((values.join(", "), time(report)?))).collect();
    let name = shorten(name);
    let axis =
        Scale::from_zero(times.iter().flat_map(|(_, time)| time.ends()), format!("time from arrival to end, {unit}"));
    let rows = times.into_iter().map(|(values, time)| {
        let words = format!("{name}, {values}: {:.3} {unit}", time.value);
        Row {
            name: shorten(&values),
            begins_group: false,
            picture: picture(22, &axis, &dot(&axis, time, 11, "c0", &words)),
        }
    });
    let rows: Vec<Row> = rows.collect();
    let caption = html! {
        "Mean time of " (name) " from its arrival to its end, in " (unit) ", with each setting. Lines are 95 % \
            confidence intervals of the mean over the runs; a single run has none. A setting with which it never ended \
            has no row."
    };
    let label = format!("Mean time of {name} with each of {} settings, in {unit}", rows.len());
    html! {
        h3 { "Time of " (name) }
        (Chart { label, legend: Vec::new(), rows, scale: axis, caption, dense: false }.html())
    }
}
