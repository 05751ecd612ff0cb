//! Formats tables of the outcomes of all points. Points that differ only in their policy are in successive rows.

use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_sim::scenario::Outcome;

use super::points::{Axis, Points};
use super::statistics::{self, Statistics};

/// A header, and the rows of each point.
type Parts = (Vec<&'static str>, Vec<Vec<Vec<String>>>);

/// Formats the tables, followed by sentences about all programs together.
pub fn tables(points: &Points, runs: &[Vec<Outcome>]) -> String {
    let mut text = String::new();
    let each: Vec<Statistics> = runs.iter().map(|runs| statistics::of(runs)).collect();
    // Machines have different numbers of columns. The longest header is used.
    let header = each.iter().map(|table| table.header.clone()).max_by_key(Vec::len).unwrap_or_default();
    let (rows, sentences): (Vec<_>, Vec<_>) = each.into_iter().map(|table| (table.rows, table.sentences)).unzip();
    write(&mut text, points, (header, rows));
    if points.axes.is_empty() {
        for sentence in sentences.into_iter().flatten() {
            let _ = writeln!(text, "{sentence}");
        }
    } else {
        let (headers, rows): (Vec<_>, Vec<_>) = runs.iter().map(|runs| statistics::told_of_runs(runs)).unzip();
        let header = headers.into_iter().max_by_key(Vec::len).unwrap_or_default();
        write(&mut text, points, (header, rows.into_iter().map(|row| vec![row]).collect()));
        text.push_str("Times and waste are means over the runs, of the programs that ended.\n");
    }
    let (headers, rows): (Vec<_>, Vec<_>) = runs.iter().map(|runs| statistics::percentiles(runs)).unzip();
    if rows.iter().any(|rows| !rows.is_empty()) {
        text.push_str("p50 / p90 / p99 of the programs that ended, in all runs:\n");
        write(&mut text, points, (headers.into_iter().max_by_key(Vec::len).unwrap_or_default(), rows));
    }
    text
}

fn write(text: &mut String, points: &Points, (header, rows): Parts) {
    let keys = points.axes.iter().map(|axis| axis.key.as_str());
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(keys.chain(header));
    // The policy of all programs is the last axis, so it changes from each point to the next.
    let policies = points.axes.last().filter(|axis| axis.is_policy()).map_or(1, |Axis { values, .. }| values.len());
    let each: Vec<_> = points.all.iter().zip(&rows).collect();
    for alike in each.chunks(policies) {
        let most = alike.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        for nth in 0..most {
            for (point, row) in alike.iter().filter_map(|(point, rows)| Some((point, rows.get(nth)?))) {
                table.add_row(point.values.iter().map(ToString::to_string).chain(row.iter().cloned()));
            }
        }
    }
    let _ = writeln!(text, "{table}");
}
