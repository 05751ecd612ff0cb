//! Figures and tables as data, which another crate draws.

/// A figure and the name of its file.
pub type Named = (&'static str, Figure);

/// A picture with two axes.
pub struct Figure {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in drawing order: later series cover earlier series.
    pub series: Vec<Series>,
}

/// An axis.
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// True if the axis is logarithmic.
    pub log: bool,
    /// True if a linear axis must contain zero.
    pub has_zero: bool,
    /// Labels in place of the numbers 1, 2 and so on. Empty for an axis of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// Returns a linear axis. It begins at zero, unless the data begin below zero.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: false, has_zero: true, names: Vec::new() }
    }

    /// Returns a logarithmic axis. Only values above zero are drawn.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), log: true, has_zero: false, names: Vec::new() }
    }

    /// Returns an axis with names in place of numbers. The first name is at 1.
    pub fn named(label: impl Into<String>, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        Axis { names: names.into_iter().map(Into::into).collect(), ..Axis::linear(label) }
    }

    /// Makes the axis begin near the least value instead of at zero.
    pub fn without_zero(self) -> Axis {
        Axis { has_zero: false, ..self }
    }

    /// True if the axis has a place for the value.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// Returns the ends of the axis for these values, with a small margin.
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

/// A series of numbers.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The marks with which the numbers are drawn.
    pub marks: Marks,
    /// The points (x, y).
    pub points: Vec<(f64, f64)>,
    /// Intervals (x, least, most), each for the point at x: the spread or the uncertainty of its number.
    pub intervals: Vec<(f64, f64, f64)>,
}

impl Series {
    /// Returns a series without intervals.
    pub fn new(name: impl Into<String>, marks: Marks, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), marks, points, intervals: Vec::new() }
    }

    /// Returns a series whose numbers are at x = 1, 2 and so on, for an [`Axis::named`].
    pub fn in_order(name: impl Into<String>, marks: Marks, numbers: impl IntoIterator<Item = f64>) -> Series {
        Series::new(name, marks, (1..).map(f64::from).zip(numbers).collect())
    }

    /// Returns the series with these intervals.
    pub fn with_intervals(self, intervals: impl IntoIterator<Item = (f64, f64, f64)>) -> Series {
        Series { intervals: intervals.into_iter().collect(), ..self }
    }

    /// Returns a series of numbers from a paper's text, to be drawn in the colour of the series with index `of`.
    pub fn of_paper(name: impl Into<String>, of: usize, points: Vec<(f64, f64)>) -> Series {
        Series::new(name, Marks::Paper { of }, points)
    }

    /// Returns all points that must fit into the figure: the points of the series, and the ends of its intervals.
    pub fn extent(&self) -> impl Iterator<Item = (f64, f64)> {
        let ends = self.intervals.iter().flat_map(|(x, least, most)| [(*x, *least), (*x, *most)]);
        self.points.iter().copied().chain(ends)
    }
}

/// The marks with which numbers are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Separate points.
    Points,
    /// Joined points. Each point has a mark, unless the series has very many points.
    Line,
    /// A line without marks, for values that are computed instead of measured.
    Curve,
    /// Numbers of a paper: large hollow marks, in the colour of our series with index `of`.
    Paper {
        /// The index of our series among all series.
        of: usize,
    },
    /// A number of a paper that holds for all x: a broken line, in the colour of our series with index `of`.
    PaperLevel {
        /// The index of our series among all series.
        of: usize,
    },
}

/// A table of numbers in which the shade of a cell shows how good its number is.
pub struct Heat {
    /// The title.
    pub title: String,
    /// A line below the title.
    pub note: String,
    /// The column headers.
    pub columns: Vec<String>,
    /// The rows: a header and its cells.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// A cell of a table.
#[derive(Clone)]
pub struct Cell {
    /// The text in the cell.
    pub text: String,
    /// The shade, from 0 (worst) to 1 (best). A value below 0 is shown like 0, and a value above 1 like 1. NaN gives
    /// no shade, for a cell that is neither good nor bad.
    pub good: f64,
    /// True if the cell has a frame, for example because its value is the best of the row.
    pub framed: bool,
}
