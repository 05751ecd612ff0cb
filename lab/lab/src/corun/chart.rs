//! Draws co-runs: for each program, its time together divided by its time alone. If the points of a row are close
//! together, the programs were slowed down almost equally.

use std::collections::BTreeMap;

use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;

use super::report::{Corun, CorunReport};
use crate::figure::{CANNOT_FAIL, COLOURS, Sign, above_a_legend, legend_height, number};

const WIDTH: u32 = 960;
/// The height of a row on the axis.
const ROW: i32 = 100;
/// Heights in pixels: the minimum of a row, a backend within a row, and the picture without rows and legend.
const HEIGHTS: [u32; 3] = [34, 12, 118];
/// The length at which names are cut, in characters.
const LETTERS: usize = 30;

/// Draws a row for each co-run, with a line for each backend. The line connects the program with the smallest
/// slowdown and the program with the largest slowdown.
pub fn svg(report: &CorunReport) -> String {
    let rows = rows(&report.coruns);
    let backends: Vec<&str> = backends(&report.coruns);
    let all = report.coruns.iter().flat_map(times);
    let (least, most) = all.fold((1.0_f64, 2.0_f64), |(least, most), times| (least.min(times), most.max(times)));
    let (low, high) = (least / 1.1, most * 1.15);
    let mut text = String::new();
    {
        let [row, backend, rest] = HEIGHTS;
        let row = row.max(backend * backends.len() as u32);
        let size = (WIDTH, rest + row * rows.len() as u32 + legend_height(WIDTH, &backends));
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let area = above_a_legend(&area, &backends, |nth| (Sign::Dot, COLOURS[nth % COLOURS.len()]));
        let places: Vec<i32> = (0..rows.len()).map(place).collect();
        let up = (place(rows.len()) - ROW / 2..-ROW / 2).with_key_points(places);
        let powers = (-8..=16).map(|power| 2.0_f64.powi(power)).filter(|power| (low..high).contains(power)).collect();
        let mut chart = ChartBuilder::on(&area)
            .caption(caption(report), ("sans-serif", 19))
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(24 + 7 * rows.keys().map(|row| row.1.chars().count() as u32).max().unwrap_or(0))
            .build_cartesian_2d((low..high).log_scale().with_key_points(powers), up)
            .expect(CANNOT_FAIL);
        let names: Vec<&str> = rows.keys().map(|row| row.1.as_str()).collect();
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc("time together / time alone (1: not slowed down)")
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 13))
            .x_label_formatter(&number)
            .y_label_formatter(&|place| {
                names.get((place / ROW) as usize).map_or(String::new(), |name| (*name).to_owned())
            })
            .draw()
            .expect(CANNOT_FAIL);
        // The backends of a row lie one above the other.
        let gap = ROW * 4 / 5 / backends.len() as i32;
        for (row, coruns) in rows.values().enumerate() {
            for corun in coruns {
                let nth = backends.iter().position(|name| *name == corun.policy).expect("it is one of them");
                let y = place(row) + gap * nth as i32 - gap * (backends.len() as i32 - 1) / 2;
                let colour = COLOURS[nth % COLOURS.len()];
                let (least, most) = times(corun).fold((f64::MAX, f64::MIN), |(l, m), time| (l.min(time), m.max(time)));
                let line = PathElement::new([(least, y), (most, y)], colour.mix(0.6).stroke_width(3));
                chart.draw_series([line]).expect(CANNOT_FAIL);
                let dots = times(corun).map(|time| Circle::new((time, y), 5, colour.filled()));
                chart.draw_series(dots).expect(CANNOT_FAIL);
            }
        }
        area.present().expect(CANNOT_FAIL);
    }
    text.push('\n');
    text
}

/// Returns the position of a row, from above. It is an integer, because plotters formats labels at chosen points only
/// for integers.
fn place(row: usize) -> i32 {
    row as i32 * ROW
}

fn times(corun: &Corun) -> impl Iterator<Item = f64> {
    corun.programs.iter().map(|program| 1.0 + program.slowdown)
}

fn caption(report: &CorunReport) -> String {
    let workers = report.coruns.iter().map(|corun| corun.workers).max().unwrap_or(1);
    let plural = if workers == 1 { "" } else { "s" };
    let part = if report.partial { " (partial: the command was interrupted)" } else { "" };
    format!("Programs that run together, {workers} worker{plural} each, on {} cores{part}", report.machine.cores)
}

/// Returns the backends, in the order of their first co-runs.
pub fn backends(coruns: &[Corun]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for corun in coruns {
        if !names.contains(&corun.policy.as_str()) {
            names.push(&corun.policy);
        }
    }
    names
}

/// Groups the co-runs of the same programs. The keys have the order in which the groups first appear in the report,
/// followed by the label of the row.
pub fn rows(coruns: &[Corun]) -> BTreeMap<(usize, String), Vec<&Corun>> {
    let mut rows: BTreeMap<(usize, String), Vec<&Corun>> = BTreeMap::new();
    let mut places: Vec<String> = Vec::new();
    for corun in coruns {
        let name = corun.programs.iter().map(|program| program.name.as_str()).collect::<Vec<_>>().join(" + ");
        let place = places.iter().position(|known| *known == name).unwrap_or_else(|| {
            places.push(name.clone());
            places.len() - 1
        });
        rows.entry((place, label(corun))).or_default().push(corun);
    }
    rows
}

/// Makes the label of a row: the programs' names without the kernels' parameters, cut to [`LETTERS`] characters.
fn label(corun: &Corun) -> String {
    let names: Vec<&str> = corun
        .programs
        .iter()
        .map(|program| match program.kind.as_str() {
            "kernel" => program.name.split(':').next().unwrap_or(&program.name),
            _ => program.name.as_str(),
        })
        .collect();
    let label = names.join(" + ").replace(char::is_whitespace, " ");
    match label.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label,
    }
}
