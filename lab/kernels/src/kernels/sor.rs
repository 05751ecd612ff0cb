//! Successive over-relaxation of a grid in two colours: two short parallel phases per sweep, bound by memory.
//!
//! SOR of the DWS paper (Table III, p-7, data-intensive), which the authors adapted from an OpenMP program that they
//! do not name. The method is that of D. Young, "Iterative methods for solving partial difference equations of
//! elliptic type" (Trans. AMS 76, 1954), for Laplace's equation, with the cells coloured like a chessboard. All red
//! cells are relaxed in parallel, then all black cells, so that the result does not depend on the order of the tasks.
//! The cells of a colour have only neighbours of the other colour, and each colour has its own array. A phase writes
//! one array and reads the other.
//!
//! The start is the solution plus some waves. Young's theory gives the amplitude of the waves after every sweep.
//!
//! A leaf relaxes 16384 cells in 10 to 25 µs.

use std::f64::consts::PI;

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::largest_difference;
use crate::plate::{Plate, TOLERANCE, Wave, sines};
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "sor",
    summary: "red-black successive over-relaxation, two parallel phases a sweep (DWS paper, data-intensive)",
    parameters: &[
        Parameter {
            key: "class",
            default: "medium",
            help: "small, medium or paper (512 x 512 cells, 40 sweeps; 1024 x 1024, 100; 2048 x 2048, 200)",
        },
        Parameter { key: "rows", default: "", help: "rows of cells, 1 to 8192; empty: the class's number" },
        Parameter { key: "columns", default: "", help: "cells in a row, 1 to 8192; empty: the class's number" },
        Parameter { key: "sweeps", default: "", help: "sweeps over all cells, 1 to 100000; empty: the class's number" },
        Parameter {
            key: "grain",
            default: "16384",
            help: "cells that one task relaxes, 1 to 67108864 (at least one colour's half of a row)",
        },
        Parameter { key: "seed", default: "1", help: "seed of the start, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "rows", "columns", "sweeps"],
        rule: "sweeps: repeats; rows and columns: width by the bands of rows, length by a band's cells, serial by all cells",
        extents,
    }),
};

/// The number of rows, columns and sweeps by class. The paper gives no size: the class paper exceeds the caches and
/// takes about a second on one core.
const SIZES: [(usize, usize, usize); 3] = [(512, 512, 40), (1024, 1024, 100), (2048, 2048, 200)];

fn prepare(parameters: &Parameters) -> Result<Sor, ParameterError> {
    let (grid, sweeps, grain) = Plate::size(parameters, &SIZES, "sweeps")?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Sor::new(grid, sweeps, grain, seed as u64))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (grid, sweeps, grain) = Plate::size(parameters, &SIZES, "sweeps")?;
    Ok(grid.extents(sweeps, grid.half_band(grain)))
}

/// The two colours of cells. Red cells have an even sum of row and column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Red,
    Black,
}

impl Colour {
    /// Returns the column of this colour's first cell in `row`, 0 or 1. Every second cell from there has the same
    /// colour.
    fn first_column(self, row: usize) -> usize {
        (row + usize::from(self == Colour::Black)) % 2
    }
}

impl Plate {
    /// Returns the number of cells of one colour in a row with its border. If a row has an odd number of cells, one
    /// colour has an unused place.
    fn half_width(self) -> usize {
        (self.columns + 2).div_ceil(2)
    }

    /// Returns the number of rows of one colour per task of `grain` cells.
    fn half_band(self, grain: usize) -> usize {
        (grain / self.half_width()).max(1)
    }

    /// Returns the range of the cells between the borders, among the cells of one colour in a row with
    /// `first_column`.
    fn between_borders(self, first_column: usize) -> std::ops::Range<usize> {
        1 - first_column..(self.columns - first_column) / 2 + 1
    }

    /// Returns the cells of a colour, border included. `value` gets their row and column.
    fn cells(self, colour: Colour, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let row = |row: usize| (0..self.half_width()).map(move |cell| (row, 2 * cell + colour.first_column(row)));
        (0..self.rows + 2).flat_map(row).map(|(row, column)| value(row, column)).collect()
    }

    /// Returns the solution: a polynomial whose value in any cell is exactly the mean of the values in its four
    /// neighbours.
    fn solution(self, row: usize, column: usize) -> f64 {
        let distance = 1.0 / (self.rows.max(self.columns) + 1) as f64;
        let (x, y) = (column as f64 * distance, row as f64 * distance);
        x * x - y * y + x * y
    }

    /// Returns the relaxation factor ω for which the slowest wave decays the fastest (Young).
    fn best_omega(self) -> f64 {
        let slowest = Wave { down: 1, across: 1, amplitude: 1.0 }.mean_of_neighbours(self);
        2.0 / (1.0 + (1.0 - slowest * slowest).sqrt())
    }
}

impl Wave {
    /// Returns (mean of a cell's four neighbours) / (value of the cell) for this wave, which is the same in every
    /// cell.
    fn mean_of_neighbours(self, grid: Plate) -> f64 {
        let cosine = |half_waves: usize, cells: usize| (PI * half_waves as f64 / (cells + 1) as f64).cos();
        (cosine(self.down, grid.rows) + cosine(self.across, grid.columns)) / 2.0
    }

    /// Returns the amplitudes of the wave in the red and in the black cells after `sweeps`. Relaxing one colour mixes
    /// its amplitude with the amplitude of the other colour, and adds no other wave.
    fn after(self, grid: Plate, omega: f64, sweeps: usize) -> (f64, f64) {
        let mean = self.mean_of_neighbours(grid);
        let (mut red, mut black) = (self.amplitude, self.amplitude);
        for _ in 0..sweeps {
            red += omega * (mean * black - red);
            black += omega * (mean * red - black);
        }
        (red, black)
    }
}

/// The cells of both colours, row by row with their borders.
#[derive(Clone, Debug, PartialEq)]
struct Colours {
    red: Vec<f64>,
    black: Vec<f64>,
}

/// A start with a known result of the relaxation.
struct Theory {
    grid: Plate,
    omega: f64,
    waves: Vec<Wave>,
}

impl Theory {
    fn random(grid: Plate, seed: u64) -> Theory {
        Theory { grid, omega: grid.best_omega(), waves: Wave::draw(grid, seed) }
    }

    /// Returns the cells after this many sweeps.
    fn after(&self, sweeps: usize) -> Colours {
        let left = self.waves.iter().map(|wave| wave.after(self.grid, self.omega, sweeps));
        let (red, black): (Vec<f64>, Vec<f64>) = left.unzip();
        Colours { red: self.sum(Colour::Red, &red), black: self.sum(Colour::Black, &black) }
    }

    /// Returns the cells of a colour, as the sum of the solution and of the waves with these amplitudes.
    fn sum(&self, colour: Colour, amplitudes: &[f64]) -> Vec<f64> {
        let Plate { rows, columns } = self.grid;
        let down: Vec<_> = self.waves.iter().map(|wave| sines(wave.down, rows)).collect();
        let across: Vec<_> = self.waves.iter().map(|wave| sines(wave.across, columns)).collect();
        self.grid.cells(colour, |row, column| {
            let waves = amplitudes.iter().zip(down.iter().zip(&across));
            let sum: f64 = waves.map(|(amplitude, (down, across))| amplitude * down[row] * across[column]).sum();
            self.grid.solution(row, column) + sum
        })
    }
}

struct Sor {
    theory: Theory,
    sweeps: usize,
    start: Colours,
    /// The number of rows of one colour per task.
    band: usize,
}

impl Sor {
    fn new(grid: Plate, sweeps: usize, grain: usize, seed: u64) -> Sor {
        let theory = Theory::random(grid, seed);
        Sor { start: theory.after(0), theory, sweeps, band: grid.half_band(grain) }
    }

    /// Relaxes all cells of a colour, given the cells of the other colour.
    fn relax<J: ForkJoin>(&self, fork_join: J, colour: Colour, cells: &mut [f64], other: &[f64]) {
        let Theory { grid, omega, .. } = self.theory;
        let width = grid.half_width();
        let inner = &mut cells[width..(grid.rows + 1) * width];
        fork_join.for_chunks_mut(inner, self.band * width, &|band, cells| {
            let first = band * self.band;
            // A band also reads one row above it and one row below it.
            let around = other[first * width..].windows(3 * width).step_by(width);
            for (row, (cells, around)) in (first + 1..).zip(cells.chunks_exact_mut(width).zip(around)) {
                let inner = grid.between_borders(colour.first_column(row));
                relax_row(&mut cells[inner.clone()], around, width, inner.start, omega);
            }
        });
    }
}

/// Relaxes the cells of a row between the borders. The first of these cells has the index `start` in the row.
/// `around` has the other colour's cells of three rows. The neighbours above and below have the index of the cell.
/// The neighbours beside the cells have the indices 0 and 1, 1 and 2, and so on.
fn relax_row(cells: &mut [f64], around: &[f64], width: usize, start: usize, omega: f64) {
    let (above, rest) = around.split_at(width);
    let (here, below) = rest.split_at(width);
    let neighbours = above[start..].iter().zip(&below[start..]).zip(here.iter().zip(&here[1..]));
    for (cell, ((above, below), (left, right))) in cells.iter_mut().zip(neighbours) {
        *cell += omega * (0.25 * ((above + below) + (left + right)) - *cell);
    }
}

impl Kernel for Sor {
    type Output = Colours;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Colours {
        let (mut red, mut black) = (fork_join.copy(&self.start.red), fork_join.copy(&self.start.black));
        for _ in 0..self.sweeps {
            self.relax(fork_join, Colour::Red, &mut red, &black);
            self.relax(fork_join, Colour::Black, &mut black, &red);
        }
        Colours { red, black }
    }

    /// Compares every cell with the solution plus the decayed waves, which are computed without any sweep.
    fn verify(&self, output: &Colours) -> Verdict {
        let expected = self.theory.after(self.sweeps);
        let red = largest_difference(&output.red, &expected.red);
        let black = largest_difference(&output.black, &expected.black);
        let Plate { rows, columns } = self.theory.grid;
        Verdict::new(
            red <= TOLERANCE && black <= TOLERANCE,
            format!(
                "{rows} x {columns} cells, {} sweeps: largest error {red:.1e} in the red cells and {black:.1e} in the \
                 black ones against Young's theory, allowed {TOLERANCE:.0e}",
                self.sweeps
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plate::WAVES;
    use crate::{OnRayon, Serial};

    fn program(rows: usize, columns: usize, sweeps: usize, grain: usize) -> Sor {
        Sor::new(Plate { rows, columns }, sweeps, grain, 7)
    }

    #[test]
    fn every_shape_and_grain_gives_the_same_verified_cells() {
        for (rows, columns, sweeps) in [(1, 1, 1), (1, 8, 2), (9, 1, 3), (8, 9, 5), (9, 8, 5), (37, 20, 60)] {
            let serial = program(rows, columns, sweeps, 1).compute(Serial);
            for grain in [1, 50, 1_000_000] {
                let program = program(rows, columns, sweeps, grain);
                let cells = program.compute(OnRayon);
                assert!(program.verify(&cells).verified, "{}", program.verify(&cells).detail);
                assert_eq!(cells, serial, "{rows} x {columns}, {sweeps} sweeps, grain {grain}");
            }
        }
    }

    #[test]
    fn a_sweep_is_that_of_the_definition() {
        let sor = program(4, 5, 1, 1);
        let mut grid = [[0.0; 7]; 6];
        let place = |row: usize, column: usize| row * sor.theory.grid.half_width() + column / 2;
        for (row, cells) in grid.iter_mut().enumerate() {
            for (column, cell) in cells.iter_mut().enumerate() {
                let colour = if (row + column) % 2 == 0 { &sor.start.red } else { &sor.start.black };
                *cell = colour[place(row, column)];
            }
        }
        for colour in 0..2 {
            for row in 1..=4 {
                for column in (1..=5).filter(|column| (row + column) % 2 == colour) {
                    let sum =
                        grid[row - 1][column] + grid[row + 1][column] + grid[row][column - 1] + grid[row][column + 1];
                    grid[row][column] += sor.theory.omega * (sum / 4.0 - grid[row][column]);
                }
            }
        }
        let output = sor.compute(Serial);
        for (row, cells) in grid.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let colour = if (row + column) % 2 == 0 { &output.red } else { &output.black };
                assert!((colour[place(row, column)] - cell).abs() < 1e-14, "({row}, {column})");
            }
        }
    }

    #[test]
    fn many_sweeps_end_at_the_solution() {
        let sor = program(20, 30, 300, 64);
        let output = sor.compute(Serial);
        let solution = sor.theory.sum(Colour::Red, &[0.0; WAVES]);
        assert!(largest_difference(&output.red, &solution) < 1e-12);
    }

    #[test]
    fn the_error_stays_far_below_the_tolerance() {
        let sor = program(300, 200, 500, 16_384);
        let (output, expected) = (sor.compute(OnRayon), sor.theory.after(500));
        assert!(largest_difference(&output.red, &expected.red) < TOLERANCE / 10.0);
        assert!(largest_difference(&output.black, &expected.black) < TOLERANCE / 10.0);
    }

    #[test]
    fn a_wrong_cell_a_lost_sweep_and_a_missing_cell_are_noticed() {
        let sor = program(40, 30, 10, 64);
        let output = sor.compute(Serial);
        assert!(sor.verify(&output).verified);
        for wrong in [1e-9, f64::NAN, f64::INFINITY] {
            let mut output = output.clone();
            output.black[5 * 16 + 4] += wrong;
            assert!(!sor.verify(&output).verified, "{wrong}");
        }
        assert!(!sor.verify(&program(40, 30, 9, 64).compute(Serial)).verified);
        assert!(!sor.verify(&Colours { red: output.red[1..].to_vec(), ..output }).verified);
    }
}
