//! Functions with which all experiments draw their figures.

use super::{Outcome, T, Variant};
use crate::claims::{Claim, number};
use crate::figure::{Axis, Figure, Marks, Series};

/// Returns a line for each algorithm and each of these numbers of workers. If `workers` is empty, returns a line for
/// each algorithm, with the points of all numbers of workers.
pub(super) fn lines(
    outcomes: &[Outcome],
    workers: &[u32],
    x: impl Fn(&Outcome) -> f64,
    y: impl Fn(&Outcome) -> f64,
) -> Vec<Series> {
    let mut series = Vec::new();
    for variant in Variant::ALL {
        let all = if workers.is_empty() { vec![None] } else { workers.iter().copied().map(Some).collect() };
        for n in all {
            let is_one =
                |outcome: &&Outcome| outcome.point.variant == variant && n.is_none_or(|n| outcome.point.workers == n);
            let points: Vec<(f64, f64)> =
                outcomes.iter().filter(is_one).map(|outcome| (x(outcome), y(outcome))).collect();
            let name = n.map_or(variant.name().to_owned(), |n| format!("{}, {n} workers", variant.name()));
            if !points.is_empty() {
                series.push(Series::new(name, Marks::Line, points));
            }
        }
    }
    series
}

pub(super) fn division(outcome: &Outcome) -> f64 {
    T as f64 / outcome.point.work as f64
}

pub(super) fn workers_of(outcome: &Outcome) -> f64 {
    f64::from(outcome.point.workers)
}

pub(super) fn microseconds(outcome: &Outcome) -> f64 {
    outcome.point.work as f64 / 1e3
}

pub(super) fn figure(title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { title: format!("WS-LAST {title}"), x, y, series }
}

/// Adds the paper's numbers to our series. `points` lists names of series, each with the ids of claims and the x of
/// their numbers. The numbers are multiplied by `unit`.
pub(super) fn beside(
    series: &mut Vec<Series>,
    claims: &[Claim],
    points: &[(&str, &[(&str, f64)])],
    unit: f64,
    caveat: &str,
) {
    for (name, own) in points {
        let of = series.iter().position(|series| series.name == *name);
        let points: Vec<(f64, f64)> = own.iter().filter_map(|(id, x)| Some((*x, number(claims, id)? * unit))).collect();
        if let Some(of) = of.filter(|_| !points.is_empty()) {
            series.push(Series::of_paper(format!("{name}: the paper's{caveat}"), of, points));
        }
    }
}
