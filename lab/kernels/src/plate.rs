//! The rectangular plates of the kernels `heat` and `sor`: their sizes, and waves whose decay is known for each
//! kernel.

use std::f64::consts::PI;

use comity_graph::Scale;

use crate::random::SplitMix;
use crate::{ParameterError, Parameters};

const LONGEST_SIDE: usize = 8_192;

/// The number of waves in the cells before the first step.
pub const WAVES: usize = 4;

/// The largest number of half-waves along one side of a plate.
const MOST_HALF_WAVES: usize = 32;

/// The largest accepted error of a cell, where the values are about 1. Rounding causes less than a hundredth of this
/// error.
pub const TOLERANCE: f64 = 1e-11;

/// A plate: the cells that a kernel updates. Its arrays have a border of one more cell on each side.
#[derive(Clone, Copy)]
pub struct Plate {
    /// The number of rows of cells.
    pub rows: usize,
    /// The number of cells in a row.
    pub columns: usize,
}

impl Plate {
    /// Returns the plate, the number of updates of all cells, and the number of cells per task. `repeats` is the key
    /// of the parameter with the number of updates.
    pub fn size(
        parameters: &Parameters,
        classes: &[(usize, usize, usize); 3],
        repeats: &str,
    ) -> Result<(Plate, usize, usize), ParameterError> {
        let (rows, columns, updates) = parameters.class(classes)?;
        let rows = parameters.number_or("rows", rows, 1..=LONGEST_SIDE)?;
        let columns = parameters.number_or("columns", columns, 1..=LONGEST_SIDE)?;
        let updates = parameters.number_or(repeats, updates, 1..=100_000)?;
        Ok((Plate { rows, columns }, updates, parameters.number("grain", 1..=LONGEST_SIDE * LONGEST_SIDE)?))
    }

    /// Returns the [extents](crate::scaling::Scaling::extents) of a run with this many updates of all cells and
    /// `band` rows per task.
    pub fn extents(self, updates: usize, band: usize) -> Scale {
        let bands = self.rows.div_ceil(band) as f64;
        let cells = (self.rows * self.columns) as f64;
        Scale { repeats: updates as f64, width: bands, length: cells / bands, serial: cells, ..Scale::default() }
    }
}

/// A wave: a product of sines that is zero on the border.
#[derive(Clone, Copy)]
pub struct Wave {
    /// The number of half-waves from the first row to the last.
    pub down: usize,
    /// The number of half-waves from the first column to the last.
    pub across: usize,
    /// The largest value.
    pub amplitude: f64,
}

impl Wave {
    /// Draws [`WAVES`] waves.
    pub fn draw(plate: Plate, seed: u64) -> Vec<Wave> {
        let mut random = SplitMix::new(seed);
        (0..WAVES).map(|_| Wave::random(plate, &mut random)).collect()
    }

    fn random(plate: Plate, random: &mut SplitMix) -> Wave {
        let mut half_waves = |cells: usize| 1 + random.below(cells.min(MOST_HALF_WAVES) as u64) as usize;
        let (down, across) = (half_waves(plate.rows), half_waves(plate.columns));
        Wave { down, across, amplitude: 0.5 + 0.5 * random.unit() }
    }
}

/// Returns a sine with `half_waves` half-waves over `cells` cells, with a border cell before them and two cells
/// behind them. The border cells are set to zero, because the rounded sine of a multiple of π is not exactly zero.
pub fn sines(half_waves: usize, cells: usize) -> Vec<f64> {
    let sine = |cell: usize| (PI * (half_waves * cell) as f64 / (cells + 1) as f64).sin();
    (0..cells + 3).map(|cell| if (1..=cells).contains(&cell) { sine(cell) } else { 0.0 }).collect()
}
