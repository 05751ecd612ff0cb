//! Figures as SVG.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// A picture with two axes.
pub struct Figure {
    /// What is to be seen.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, the first at the bottom.
    pub series: Vec<Series>,
}

/// An axis.
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
}

impl Axis {
    /// An axis that begins at zero, if the data do not begin below.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false }
    }

    /// A logarithmic axis; what is not above zero is left out.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true }
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// From where to where, with a little room at the ends.
    fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        match (least <= most, self.log) {
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
            (true, true) => (least / 1.2, most * 1.2),
            (true, false) => {
                let least = least.min(0.0);
                let room = if most > least { (most - least) * 0.05 } else { 1.0 };
                (if least < 0.0 { least - room } else { 0.0 }, most + room)
            }
        }
    }
}

/// Numbers that belong together.
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// How they are drawn.
    pub marks: Marks,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

/// How numbers are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Each for itself.
    Points,
    /// Joined.
    Line,
}

const SIZE: (u32, u32) = (960, 640);

/// Nothing is written to but a string.
pub const CANNOT_FAIL: &str = "a string takes any picture";

/// Distinct for colour-blind eyes too (Okabe and Ito 2008).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

impl Figure {
    /// The picture.
    pub fn svg(&self) -> String {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
            let area = above_a_legend(&area, &names, |nth| match self.series[nth].marks {
                Marks::Points => Sign::Dot,
                Marks::Line => Sign::Line,
            });
            let shown = || self.series.iter().flat_map(|series| self.shown(series));
            let x = self.x.range(shown().map(|point| point.0));
            let y = self.y.range(shown().map(|point| point.1));
            let (x, y) = (x.0..x.1, y.0..y.1);
            match (self.x.log, self.y.log) {
                (false, false) => self.draw(&area, x, y),
                (true, false) => self.draw(&area, x.log_scale(), y),
                (false, true) => self.draw(&area, x, y.log_scale()),
                (true, true) => self.draw(&area, x.log_scale(), y.log_scale()),
            }
        }
        let _ = writeln!(text);
        text
    }

    fn shown(&self, series: &Series) -> impl Iterator<Item = (f64, f64)> {
        series.points.iter().copied().filter(|(x, y)| self.x.shows(*x) && self.y.shows(*y))
    }

    fn draw<X, Y>(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, x: X, y: Y)
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .expect(CANNOT_FAIL);
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 13))
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .draw()
            .expect(CANNOT_FAIL);
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points = self.shown(series);
            match series.marks {
                Marks::Points => {
                    let style = colour.mix(0.5).filled();
                    chart.draw_series(points.map(|point| Circle::new(point, 2, style)))
                }
                Marks::Line => chart.draw_series(LineSeries::new(points, colour.stroke_width(2))),
            }
            .expect(CANNOT_FAIL);
        }
        area.present().expect(CANNOT_FAIL);
    }
}

/// What stands before a name in a legend.
#[derive(Clone, Copy)]
pub enum Sign {
    /// A point.
    Dot,
    /// A line.
    Line,
}

/// Of each of its lines.
const LEGEND_LINE: u32 = 24;

/// What a legend takes of a picture of this width.
pub fn legend_height(width: u32, names: &[&str]) -> u32 {
    let lines = legend_places(width, names).last().map_or(0, |(_, line)| line + 1);
    LEGEND_LINE * lines as u32 + 8
}

/// Where each name begins, from the left, and in which line.
fn legend_places(width: u32, names: &[&str]) -> Vec<(i32, i32)> {
    const MARGIN: i32 = 86;
    // The font is the viewer's, so a name's width is an estimate: letters of the size 14 are 8 wide at most, on average.
    let widths = names.iter().map(|name| 40 + 8 * name.chars().count() as i32);
    let (mut places, mut at) = (Vec::new(), (MARGIN, 0));
    for wide in widths {
        if at.0 > MARGIN && at.0 + wide > width as i32 {
            at = (MARGIN, at.1 + 1);
        }
        places.push(at);
        at.0 += wide;
    }
    places
}

/// Fills `area` with a white ground, writes a legend at its foot, where no data are, and returns what is left above it.
pub fn above_a_legend<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    names: &[&str],
    sign: impl Fn(usize) -> Sign,
) -> DrawingArea<SVGBackend<'a>, Shift> {
    area.fill(&WHITE).expect(CANNOT_FAIL);
    let (width, height) = area.dim_in_pixel();
    let (above, below) = area.split_vertically(height.saturating_sub(legend_height(width, names)));
    let places = legend_places(width, names).into_iter();
    for (((x, line), name), (nth, colour)) in places.zip(names).zip(COLOURS.iter().cycle().enumerate()) {
        let y = line * LEGEND_LINE as i32 + 10;
        match sign(nth) {
            Sign::Dot => below.draw(&Circle::new((x + 8, y), 4, colour.filled())),
            Sign::Line => below.draw(&PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))),
        }
        .expect(CANNOT_FAIL);
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        below.draw(&Text::new((*name).to_owned(), (x + 22, y - 7), style)).expect(CANNOT_FAIL);
    }
    above
}

/// As short as it is exact enough for an axis.
pub fn number(value: &f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 1e5 => format!("{value:.0e}"),
        large if large >= 10.0 => format!("{value:.0}"),
        small if small < 1e-3 => format!("{value:.0e}"),
        _ => {
            let text = format!("{value:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_names_its_axes_and_series_and_draws_each_point() {
        for (x, y) in [(false, false), (true, false), (false, true), (true, true)] {
            let axis = |label: &str, log| Axis { label: label.into(), log };
            let points = Series { name: "dots".into(), marks: Marks::Points, points: vec![(1.0, 2.0), (30.0, 4.0)] };
            let line = Series { name: "rope".into(), marks: Marks::Line, points: vec![(1.0, 2.0), (f64::NAN, 4.0)] };
            let figure =
                Figure { title: "A & B".into(), x: axis("steps", x), y: axis("cycles", y), series: vec![points, line] };
            let svg = figure.svg();
            for text in ["A &amp; B", "steps", "cycles", "dots", "rope"] {
                assert!(svg.contains(text), "{text} is missing in {svg}");
            }
            // Two points, and one in the legend.
            assert_eq!(svg.matches("<circle").count(), 3);
            assert!(!svg.contains("NaN"));
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 1.0, 12.4, 1e6, 2e-5].map(|value: f64| number(&value));
        assert_eq!(shown, ["0", "0.25", "1", "12", "1e6", "2e-5"]);
    }
}
