//! The page's charts. The drawing is SVG, and names and numbers are text of the page. Therefore the text keeps its
//! size at any width of the page, and its contrast on a dark page. Charts for SVG files are drawn by `figure.rs`.

use std::fmt::Write;

use maud::{Markup, html};

use super::page::clean;
use crate::figure::{COLOURS, number};

/// A horizontal axis.
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    label: String,
}

/// The approximate maximum number of labels on an axis.
const TICKS: f64 = 6.0;

impl Scale {
    /// Makes a linear axis from `low` to `high`.
    pub fn between(low: f64, high: f64, label: impl Into<String>) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, log: false, label: label.into() }
    }

    /// Makes a linear axis from `min(0, smallest value)` to a little more than the largest value.
    pub fn from_zero(values: impl Iterator<Item = f64>, label: impl Into<String>) -> Scale {
        let (low, high) = extremes(values.chain([0.0]));
        let room = (high - low) * 0.04;
        Scale::between(if low < 0.0 { low - room } else { 0.0 }, high + room, label)
    }

    /// Makes a logarithmic axis that contains 1 and all of `values` above zero.
    pub fn of_ratios(values: impl Iterator<Item = f64>, label: impl Into<String>) -> Scale {
        let (low, high) = extremes(values.filter(|value| *value > 0.0).chain([1.0]));
        Scale { low: low / 1.08, high: high.max(1.5) * 1.08, log: true, label: label.into() }
    }

    /// Returns the place of a value, in percent from the left. Values outside the axis are placed at its end.
    pub fn place(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        100.0 * if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns round numbers on the axis, with their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        if self.log && self.high / self.low > 4.0 {
            let every = ((self.high / self.low).log2() / (TICKS + 2.0)).ceil().max(1.0) as i32;
            let powers = (-1_000 / every..=1_000 / every).map(|nth| 2.0_f64.powi(nth * every));
            let powers: Vec<f64> = powers.filter(|power| (self.low..=self.high).contains(power)).collect();
            // With fewer than four powers, the numbers at 1.5 times a power are labelled too.
            let between =
                powers.iter().map(|power| power * 1.5).filter(|place| powers.len() < 4 && *place <= self.high);
            return powers.iter().copied().chain(between).map(|at| (at, number(&at))).collect();
        }
        let rough = (self.high - self.low) / TICKS;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
        let digits = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
        let first = (self.low / step).ceil();
        let places = (0..=2 * TICKS as u32).map(|nth| (first + f64::from(nth)) * step);
        let places: Vec<f64> = places.take_while(|place| *place <= self.high + step * 1e-6).collect();
        let largest = places.iter().fold(step, |largest, place| largest.max(place.abs()));
        // This number of digits gives neighbours different labels.
        let exact = (largest.log10().floor() - step.log10().floor()).clamp(0.0, 15.0) as usize;
        let words = |place: f64| match largest {
            ..1e6 => format!("{place:.digits$}"),
            _ if place == 0.0 => "0".to_owned(),
            _ => format!("{place:.exact$e}"),
        };
        places.into_iter().map(|place| (place, words(place))).collect()
    }

    /// Draws a faint line at each round number.
    pub fn grid(&self) -> Markup {
        let one = self.log.then(|| percent(self.place(1.0)));
        html! {
            @if let Some(one) = one { line.one x1=(one) x2=(one) y1="0" y2="100%" {} }
            @for (tick, _) in self.ticks() {
                line.grid x1=(percent(self.place(tick))) x2=(percent(self.place(tick))) y1="0" y2="100%" {}
            }
        }
    }

    fn below(&self) -> Markup {
        html! {
            div {}
            div.axis {
                @for (tick, words) in self.ticks() {
                    @let place = self.place(tick);
                    span class=[(place > 95.0).then_some("last")] style={ "left:" (percent(place)) } { (words) }
                }
            }
            div {}
            div.unit { (self.label) }
        }
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Formats a percentage as an SVG attribute, with an error of less than a pixel.
pub fn percent(percent: f64) -> String {
    format!("{percent:.2}%")
}

/// Returns the CSS class with the colours of the `nth` entry of a legend.
pub fn colour(nth: usize) -> String {
    format!("c{}", nth % COLOURS.len())
}

/// An entry of a legend: a class of colours, and a name.
pub type Key = (String, String);

/// Makes a legend of names, with colours in the order of the names.
pub fn keys<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Key> {
    names.into_iter().enumerate().map(|(nth, name)| (colour(nth), clean(name))).collect()
}

/// A row of a chart.
pub struct Row {
    /// The name at the left of the picture.
    pub name: String,
    /// True if a line separates the row from the row above it.
    pub begins_group: bool,
    /// The picture, an `svg` element.
    pub picture: Markup,
}

/// Rows above one axis.
pub struct Chart {
    /// A description of the chart, for readers who do not see it.
    pub label: String,
    /// The legend, above the rows.
    pub legend: Vec<Key>,
    /// The rows, from above.
    pub rows: Vec<Row>,
    /// The axis of all rows.
    pub scale: Scale,
    /// The sentence below the chart: what is shown, and in which units.
    pub caption: Markup,
    /// True if the rows have a small height, because there are many.
    pub dense: bool,
}

impl Chart {
    /// Returns the chart, with its legend above it and its sentence below.
    pub fn html(&self) -> Markup {
        html! {
            figure {
                div.chart role="img" aria-label=(clean(&self.label)) {
                    (legend(&self.legend))
                    div.rows.dense[self.dense] {
                        @for row in &self.rows {
                            div.name.begins[row.begins_group] title=(clean(&row.name)) { (clean(&row.name)) }
                            div class=[row.begins_group.then_some("begins")] { (row.picture) }
                        }
                        (self.scale.below())
                    }
                }
                figcaption { (self.caption) }
            }
        }
    }
}

fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            div.legend { @for (class, name) in keys { span { i class=(class) {} (name) } } }
        }
    }
}

/// Draws `what` in front of the axis's lines, as an SVG element with a height in pixels.
pub fn picture(height: usize, scale: &Scale, what: &Markup) -> Markup {
    html! { svg width="100%" height=(height) { (scale.grid()) (what) } }
}

/// A number with its interval.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// The interval that contains the number, if it is known.
    pub interval: Option<(f64, f64)>,
}

impl Measured {
    /// Returns all values that must fit on an axis.
    pub fn ends(self) -> impl Iterator<Item = f64> {
        [self.value].into_iter().chain(self.interval.into_iter().flat_map(|(low, high)| [low, high]))
    }
}

/// Draws a dot, with its interval as a line. `words` is shown when the reader points at it.
pub fn dot(scale: &Scale, at: Measured, y: usize, class: &str, words: &str) -> Markup {
    html! {
        g class=(class) {
            title { (words) }
            @if let Some((low, high)) = at.interval {
                (whisker(scale, low, high, y))
            }
            @if at.value.is_finite() { circle cx=(percent(scale.place(at.value))) cy=(y) r="4.5" {} }
        }
    }
}

fn whisker(scale: &Scale, low: f64, high: f64, y: usize) -> Markup {
    let [left, right] = [low, high].map(|end| percent(scale.place(end)));
    html! {
        line.whisker x1=(left) x2=(right) y1=(y) y2=(y) {}
        line.whisker x1=(left) x2=(left) y1=(y - 4) y2=(y + 4) {}
        line.whisker x1=(right) x2=(right) y1=(y - 4) y2=(y + 4) {}
    }
}

/// Draws a bar from `from` to `to`.
pub fn bar(scale: &Scale, (from, to): (f64, f64), (y, height): (usize, usize), class: &str, words: &str) -> Markup {
    let (left, right) = (scale.place(from), scale.place(to));
    html! {
        rect class=(class) x=(percent(left)) width=(percent(right - left)) y=(y) height=(height) { title { (words) } }
    }
}

/// The style in which a quantity over time is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// An area: everything below the quantity is coloured.
    Area,
    /// A broad line, on which another line stays visible.
    Broad,
    /// A line.
    Line,
}

impl Stroke {
    fn class(self) -> &'static str {
        match self {
            Stroke::Area => "area",
            Stroke::Broad => "under",
            Stroke::Line => "step",
        }
    }
}

/// A quantity that is constant from each step to the next.
pub struct Steps {
    /// The name, as in the legend.
    pub name: &'static str,
    /// The CSS class of its colours.
    pub class: String,
    /// The style in which it is drawn.
    pub stroke: Stroke,
    /// The steps, as pairs of a time and a height. A height lasts until the time of the next step. The last step is
    /// not drawn.
    pub values: Vec<(f64, f64)>,
}

/// Draws quantities over time, each constant between its steps.
pub fn steps(label: &str, time: &Scale, series: &[Steps], unit: &str, caption: &Markup) -> Markup {
    const HEIGHT: f64 = 200.0;
    let most = series.iter().flat_map(|series| &series.values).map(|(_, value)| *value);
    let up = Scale::from_zero(most, unit);
    let path = |series: &Steps| {
        let point = |at: f64, value: f64| (10.0 * time.place(at), HEIGHT * (1.0 - up.place(value) / 100.0));
        let mut path = String::new();
        for pair in series.values.windows(2) {
            let ((from, y), (to, _)) = (point(pair[0].0, pair[0].1), point(pair[1].0, 0.0));
            let letter = if path.is_empty() { "M" } else { "L" };
            let _ = write!(path, "{letter}{from:.2} {y:.1}H{to:.2}");
        }
        if let (true, Some(first), Some(last)) =
            (series.stroke == Stroke::Area, series.values.first(), series.values.last())
        {
            let ends = [last.0, first.0].map(|at| 10.0 * time.place(at));
            let _ = write!(path, "L{:.2} {HEIGHT}L{:.2} {HEIGHT}Z", ends[0], ends[1]);
        }
        path
    };
    let keys: Vec<Key> = series.iter().map(|series| (series.class.clone(), series.name.to_owned())).collect();
    html! {
        figure {
            div.chart role="img" aria-label=(clean(label)) {
                (legend(&keys))
                div.rows {
                    div.upright style={ "height:" (HEIGHT) "px" } {
                        @for (tick, words) in up.ticks() {
                            span style={ "bottom:" (percent(up.place(tick))) } { (words) }
                        }
                    }
                    div {
                        svg width="100%" height=(HEIGHT) viewBox={ "0 0 1000 " (HEIGHT) } preserveAspectRatio="none" {
                            @for (tick, _) in up.ticks() {
                                @let y = HEIGHT * (1.0 - up.place(tick) / 100.0);
                                line.grid x1="0" x2="1000" y1=(y) y2=(y) {}
                            }
                            @for series in series {
                                path class={ (series.class) " " (series.stroke.class()) } d=(path(series)) {}
                            }
                        }
                    }
                    (time.below())
                }
            }
            figcaption { (caption) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few_at_any_scale() {
        let words = |scale: Scale| scale.ticks().into_iter().map(|(_, words)| words).collect::<Vec<_>>();
        assert_eq!(words(Scale::between(0.0, 10.0, "")), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(words(Scale::between(0.0, 0.07, "")), ["0.00", "0.02", "0.04", "0.06"]);
        assert_eq!(words(Scale::between(0.0, 250_000.0, "")), ["0", "50000", "100000", "150000", "200000", "250000"]);
        assert_eq!(words(Scale::between(0.0, 2.5e9, "")), ["0", "5.0e8", "1.0e9", "1.5e9", "2.0e9", "2.5e9"]);
        assert_eq!(words(Scale::of_ratios([7.5].into_iter(), "")), ["1", "2", "4", "8"]);
        assert_eq!(words(Scale::of_ratios([2.0].into_iter(), "")), ["1.0", "1.5", "2.0"]);
        for (low, high) in [(0.0, 1e-12), (-3.0, 1e300), (5.0, 5.0), (1e15, 1e15 + 1.0), (0.0, f64::MAX)] {
            let scale = Scale::between(low, high, "");
            assert!(scale.ticks().len() <= 14, "{low} to {high}: {:?}", scale.ticks());
            assert!((0.0..=100.0).contains(&scale.place(f64::NAN)));
        }
        for most in [1e9, 1e300, f64::NAN] {
            let ticks = Scale::of_ratios([most].into_iter(), "").ticks().len();
            assert!((1..=14).contains(&ticks), "{most}: {ticks}");
        }
    }
}
