//! Figures and tables as data, which another crate draws.

/// A figure, by the name of its file.
pub type Named = (&'static str, Figure);

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
    /// Whether zero is on it, where it is not logarithmic.
    pub has_zero: bool,
    /// What stands at 1, 2 and so on in the place of these numbers, if anything does.
    pub names: Vec<String>,
}

impl Axis {
    /// An axis that begins at zero, if the data do not begin below.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false, has_zero: true, names: Vec::new() }
    }

    /// A logarithmic axis; what is not above zero is left out.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true, has_zero: false, names: Vec::new() }
    }

    /// An axis of things that have names: the first is at 1.
    pub fn named(label: impl Into<String>, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        Axis { names: names.into_iter().map(Into::into).collect(), ..Axis::linear(label) }
    }

    /// From the least number on, where zero says nothing.
    pub fn without_zero(self) -> Axis {
        Axis { has_zero: false, ..self }
    }

    /// True if the axis has a place for the value.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// From where to where, with a little room at the ends.
    pub fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        match (least <= most, self.log) {
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
            (true, true) => (least / 1.2, most * 1.2),
            (true, false) => {
                let least = if self.has_zero { least.min(0.0) } else { least };
                let room = if most > least { (most - least) * 0.05 } else { 1.0 };
                (if least == 0.0 { 0.0 } else { least - room }, most + room)
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
    /// (x, least, most), where a point has an interval: its spread, or what it may as well be.
    pub intervals: Vec<(f64, f64, f64)>,
}

impl Series {
    /// Numbers without intervals.
    pub fn new(name: impl Into<String>, marks: Marks, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), marks, points, intervals: Vec::new() }
    }

    /// Numbers at 1, 2 and so on, for an axis of things that have names.
    pub fn in_order(name: impl Into<String>, marks: Marks, numbers: impl IntoIterator<Item = f64>) -> Series {
        Series::new(name, marks, (1..).map(f64::from).zip(numbers).collect())
    }

    /// The same with their intervals.
    pub fn with_intervals(self, intervals: impl IntoIterator<Item = (f64, f64, f64)>) -> Series {
        Series { intervals: intervals.into_iter().collect(), ..self }
    }

    /// What a paper's text says, beside the numbers of the series at the place `of`.
    pub fn of_paper(name: impl Into<String>, of: usize, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, Marks::Paper { of }, points)
    }

    /// All that it needs room for.
    pub fn extent(&self) -> impl Iterator<Item = (f64, f64)> {
        let ends = self.intervals.iter().flat_map(|(x, least, most)| [(*x, *least), (*x, *most)]);
        self.points.iter().copied().chain(ends)
    }
}

/// How numbers are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Points, each for itself.
    Points,
    /// Joined; each has a mark of its own, unless there are very many.
    Line,
    /// Joined without marks: what is computed and not measured.
    Curve,
    /// A paper's: large, hollow, and in the colour of our series at the place `of`.
    Paper {
        /// Of all series.
        of: usize,
    },
    /// A paper's, that holds of all x: broken, and in the colour of our series at the place `of`.
    PaperLevel {
        /// Of all series.
        of: usize,
    },
}

/// A table of numbers, each in a shade between those of the worst and the best.
pub struct Heat {
    /// What is to be seen.
    pub title: String,
    /// A line below it.
    pub note: String,
    /// Across.
    pub columns: Vec<String>,
    /// Down, each with its cells.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// A cell.
#[derive(Clone)]
pub struct Cell {
    /// What stands there.
    pub text: String,
    /// From 0, the worst, to 1, the best; beyond, as those. Not a number: no shade, for a cell that says nothing.
    pub good: f64,
    /// It has a frame: the best of its row, say.
    pub framed: bool,
}
