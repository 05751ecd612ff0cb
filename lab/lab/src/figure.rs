//! Figures as SVG.

pub mod heat;

use std::fmt::Write;

use comity_papers::figure::{Axis, Figure, Marks, Series};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// The largest number of points of a line that are marked. Readers could not distinguish more marks.
const MOST_MARKED: usize = 60;

const SIZE: (u32, u32) = (960, 640);

/// The reason why drawing cannot fail: it writes only to a string.
pub const CANNOT_FAIL: &str = "a string takes any picture";

/// Colours that colour-blind readers can also tell apart (Okabe and Ito 2008).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// Draws a figure.
pub fn svg(figure: &Figure) -> String {
    Drawing(figure).svg()
}

/// Returns the label at the position `at` of an axis.
fn told(axis: &Axis, at: f64) -> String {
    if axis.names.is_empty() {
        return number(&at);
    }
    let is_place = (at - at.round()).abs() < 1e-6 && at >= 1.0;
    let name = is_place.then(|| axis.names.get(at.round() as usize - 1)).flatten();
    name.cloned().unwrap_or_default()
}

/// A figure that is being drawn.
struct Drawing<'a>(&'a Figure);

impl Drawing<'_> {
    fn svg(&self) -> String {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let names: Vec<&str> = self.0.series.iter().map(|series| series.name.as_str()).collect();
            let area = above_a_legend(&area, &names, |nth| (self.sign(nth), self.colour(nth)));
            let shown = || self.0.series.iter().flat_map(|series| series.extent().filter(|point| self.shows(*point)));
            let x = self.0.x.range(shown().map(|point| point.0));
            let y = self.0.y.range(shown().map(|point| point.1));
            let (x, y) = (x.0..x.1, y.0..y.1);
            match (self.0.x.log, self.0.y.log) {
                (false, false) => self.draw(&area, x, y),
                (true, false) => self.draw(&area, x.log_scale(), y),
                (false, true) => self.draw(&area, x, y.log_scale()),
                (true, true) => self.draw(&area, x.log_scale(), y.log_scale()),
            }
        }
        let _ = writeln!(text);
        text
    }

    fn shows(&self, (x, y): (f64, f64)) -> bool {
        self.0.x.shows(x) && self.0.y.shows(y)
    }

    fn shown(&self, series: &Series) -> impl Iterator<Item = (f64, f64)> + Clone {
        series.points.iter().copied().filter(|point| self.shows(*point))
    }

    /// Returns the label of an axis. For a logarithmic axis, the label includes the number of points at 0, which are
    /// not shown.
    fn label(&self, axis: &Axis, of: impl Fn((f64, f64)) -> f64) -> String {
        let all = self.0.series.iter().flat_map(|series| &series.points);
        match all.filter(|point| of(**point).is_finite() && !axis.shows(of(**point))).count() {
            0 => axis.label.clone(),
            1 => format!("{} (1 point at 0 is not shown)", axis.label),
            many => format!("{} ({many} points at 0 are not shown)", axis.label),
        }
    }

    /// Returns the colour of a series. A paper's numbers have the colour of the series with which they are compared.
    fn colour(&self, nth: usize) -> RGBColor {
        match self.0.series[nth].marks {
            Marks::Paper { of } | Marks::PaperLevel { of } => COLOURS[of % COLOURS.len()],
            _ => COLOURS[nth % COLOURS.len()],
        }
    }

    fn sign(&self, nth: usize) -> Sign {
        match self.0.series[nth].marks {
            Marks::Points => Sign::Dot,
            Marks::Line if self.0.series[nth].points.len() <= MOST_MARKED => Sign::MarkedLine,
            Marks::Line | Marks::Curve => Sign::Line,
            Marks::Paper { .. } => Sign::Diamond,
            Marks::PaperLevel { .. } => Sign::BrokenLine,
        }
    }

    fn draw<X, Y>(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, x: X, y: Y)
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let names = &self.0.x.names;
        // More than eight names are drawn vertically.
        let (longest, upright) = (names.iter().map(|name| name.chars().count()).max().unwrap_or(0), names.len() > 8);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.0.title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(if upright { 40 + 8 * longest as u32 } else { 48 })
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .expect(CANNOT_FAIL);
        let mut mesh = chart.configure_mesh();
        if !names.is_empty() {
            mesh.x_labels(names.len() + 2).x_max_light_lines(1);
        }
        if upright {
            mesh.x_label_style(("sans-serif", 13).into_font().transform(FontTransform::Rotate90));
        }
        // A vertical name is centred on the axis. Spaces of the same length before the name move it below the axis.
        let room = |name: &str| "\u{a0}".repeat(if upright { name.chars().count() * 3 / 2 + 1 } else { 0 });
        let told = |at: &f64| {
            let name = told(&self.0.x, *at);
            room(&name) + &name
        };
        mesh.light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(self.label(&self.0.x, |point| point.0))
            .y_desc(self.label(&self.0.y, |point| point.1))
            .axis_desc_style(("sans-serif", 16))
            .y_label_style(("sans-serif", 13))
            .x_label_formatter(&told)
            .y_label_formatter(&number)
            .draw()
            .expect(CANNOT_FAIL);
        for (nth, series) in self.0.series.iter().enumerate() {
            let (points, colour) = (self.shown(series), self.colour(nth));
            let intervals = series.intervals.iter().copied();
            let intervals = intervals.filter(|(x, least, most)| self.shows((*x, *least)) && self.shows((*x, *most)));
            let ends = intervals.clone();
            chart
                .draw_series(
                    intervals.map(|(x, least, most)| PathElement::new([(x, least), (x, most)], colour.stroke_width(1))),
                )
                .expect(CANNOT_FAIL);
            let cap = |at| EmptyElement::at(at) + PathElement::new([(-4, 0), (5, 0)], colour.stroke_width(1));
            let ends = ends.flat_map(|(x, least, most)| [cap((x, least)), cap((x, most))]);
            chart.draw_series(ends).expect(CANNOT_FAIL);
            match self.sign(nth) {
                Sign::Dot => {
                    let size = if series.points.len() > 300 { 2 } else { 3 };
                    drop(chart.draw_series(points.map(|at| Circle::new(at, size, colour.mix(0.5).filled()))));
                }
                Sign::Line => drop(chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))),
                Sign::MarkedLine => {
                    drop(chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2))));
                    drop(chart.draw_series(points.map(|at| Circle::new(at, 4, colour.filled()))));
                }
                Sign::Diamond => {
                    let diamond = |at| EmptyElement::at(at) + ring(colour) + inside();
                    drop(chart.draw_series(points.map(diamond)));
                }
                Sign::BrokenLine => {
                    drop(chart.draw_series(DashedLineSeries::new(points, 8, 5, colour.stroke_width(2))))
                }
            }
        }
        area.present().expect(CANNOT_FAIL);
    }
}

/// The sign before a name in a legend.
#[derive(Clone, Copy)]
pub enum Sign {
    /// A point.
    Dot,
    /// A line.
    Line,
    /// A line with a point on it.
    MarkedLine,
    /// A hollow diamond.
    Diamond,
    /// A broken line.
    BrokenLine,
}

/// Draws the outer part of a hollow diamond, which stays visible on top of a point. `inside` draws the white centre.
fn ring(colour: RGBColor) -> Polygon<(i32, i32)> {
    Polygon::new(diamond(9), colour.filled())
}

fn inside() -> Polygon<(i32, i32)> {
    Polygon::new(diamond(6), WHITE.filled())
}

fn diamond(half: i32) -> Vec<(i32, i32)> {
    vec![(0, -half), (half, 0), (0, half), (-half, 0)]
}

/// The height of a legend line, in pixels.
const LEGEND_LINE: u32 = 24;

/// Returns the height of a legend in a picture of this width.
pub fn legend_height(width: u32, names: &[&str]) -> u32 {
    let lines = legend_places(width, names).last().map_or(0, |(_, line)| line + 1);
    LEGEND_LINE * lines as u32 + 8
}

/// Returns where each name begins: the distance from the left, and the line.
fn legend_places(width: u32, names: &[&str]) -> Vec<(i32, i32)> {
    const MARGIN: i32 = 86;
    // The viewer chooses the font, so a name's width is an estimate: letters of size 14 have an average width of at
    // most 8.
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

/// Fills `area` with white, writes a legend at the bottom, and returns the area above the legend.
pub fn above_a_legend<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    names: &[&str],
    sign: impl Fn(usize) -> (Sign, RGBColor),
) -> DrawingArea<SVGBackend<'a>, Shift> {
    area.fill(&WHITE).expect(CANNOT_FAIL);
    let (width, height) = area.dim_in_pixel();
    let (above, below) = area.split_vertically(height.saturating_sub(legend_height(width, names)));
    let places = legend_places(width, names).into_iter();
    for (nth, ((x, line), name)) in places.zip(names).enumerate() {
        let y = line * LEGEND_LINE as i32 + 10;
        let (sign, colour) = sign(nth);
        let stroke = |from: i32, to: i32| PathElement::new([(x + from, y), (x + to, y)], colour.stroke_width(2));
        let dot = Circle::new((x + 8, y), 4, colour.filled());
        match sign {
            Sign::Dot => below.draw(&dot),
            Sign::Line => below.draw(&stroke(0, 16)),
            Sign::MarkedLine => below.draw(&stroke(0, 16)).and_then(|()| below.draw(&dot)),
            Sign::Diamond => below.draw(&(EmptyElement::at((x + 8, y)) + ring(colour) + inside())),
            Sign::BrokenLine => below.draw(&stroke(0, 6)).and_then(|()| below.draw(&stroke(11, 17))),
        }
        .expect(CANNOT_FAIL);
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        below.draw(&Text::new((*name).to_owned(), (x + 22, y - 7), style)).expect(CANNOT_FAIL);
    }
    above
}

/// Formats a number, as short as an axis allows.
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
            let axis = |label: &str, log| Axis { log, has_zero: !log, ..Axis::linear(label) };
            let points = Series::new("dots", Marks::Points, vec![(1.0, 2.0), (30.0, 4.0)]);
            let line = Series::new("rope", Marks::Curve, vec![(1.0, 2.0), (f64::NAN, 4.0)]);
            let figure =
                Figure { title: "A & B".into(), x: axis("steps", x), y: axis("cycles", y), series: vec![points, line] };
            let svg = svg(&figure);
            for text in ["A &amp; B", "steps", "cycles", "dots", "rope"] {
                assert!(svg.contains(text), "{text} is missing in {svg}");
            }
            // The picture has two points, and the legend has one.
            assert_eq!(svg.matches("<circle").count(), 3);
            assert!(!svg.contains("NaN"));
        }
    }

    #[test]
    fn a_papers_points_and_intervals_are_drawn_and_have_room() {
        let ours = Series::new("ours", Marks::Line, vec![(1.0, 2.0), (2.0, 3.0)]).with_intervals([(1.0, 1.0, 40.0)]);
        let paper = Series::of_paper("theirs", 0, vec![(3.0, 2.5)]);
        let level = Series::new("about", Marks::PaperLevel { of: 0 }, vec![(1.0, 5.0), (3.0, 5.0)]);
        let (x, y) = (Axis::linear("x").without_zero(), Axis::linear("y"));
        let figure = Figure { title: "A".into(), x, y, series: vec![ours, paper, level] };
        let svg = svg(&figure);
        // The picture and the legend each have a ring with its centre.
        assert_eq!((svg.matches("<polygon").count(), svg.matches("<circle").count()), (4, 3), "{svg}");
        // All three series have the colour of the first.
        assert!(svg.contains("#0072B2") && !svg.contains("#D55E00"), "{svg}");
        let range =
            |axis: &Axis, of: fn((f64, f64)) -> f64| axis.range(figure.series.iter().flat_map(Series::extent).map(of));
        let (x, y) = (range(&figure.x, |point| point.0), range(&figure.y, |point| point.1));
        assert!(x.0 < 1.0 && x.0 > 0.5 && x.1 > 3.0 && y.0 == 0.0 && y.1 > 40.0, "{x:?} {y:?}");
    }

    #[test]
    fn what_has_no_place_on_a_logarithmic_axis_is_said() {
        let points = Series::new("dots", Marks::Points, vec![(1.0, 0.0), (2.0, 3.0), (3.0, f64::NAN)]);
        let figure = Figure { title: "A".into(), x: Axis::log("x"), y: Axis::log("waste"), series: vec![points] };
        assert!(svg(&figure).contains("waste (1 point at 0 is not shown)"));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 1.0, 12.4, 1e6, 2e-5].map(|value: f64| number(&value));
        assert_eq!(shown, ["0", "0.25", "1", "12", "1e6", "2e-5"]);
    }
}
