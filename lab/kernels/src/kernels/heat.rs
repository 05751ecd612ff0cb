//! Heat on a rectangular plate: a parallel phase per time step, which is bound by memory.
//!
//! Heat of the DWS paper (Table III, p-6, data-intensive), which takes it from MIT Cilk's examples. It is the
//! explicit five-point scheme of Jacobi's kind, with two grids that swap after each step. The rows are halved until a
//! band of rows is a leaf. The border is always zero. Deviation: Cilk's program checks its result only against the
//! differential equation, so that the discretisation error limits the check. This program starts from a sum of sines.
//! For a sum of sines, the exact result of the scheme is known, so that every cell is checked to the last digits.
//!
//! A leaf updates 16384 cells in 15 to 35 µs.

use std::f64::consts::PI;

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::largest_difference;
use crate::plate::{Plate, TOLERANCE, Wave, sines};
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "heat",
    summary: "heat on a plate, five-point scheme, a parallel phase per step (DWS paper, data-intensive; MIT Cilk)",
    parameters: &[
        Parameter {
            key: "class",
            default: "medium",
            help: "small, medium or paper (512 x 512 cells, 40 steps; 4096 x 512, 40; 4096 x 1024, 100)",
        },
        Parameter { key: "rows", default: "", help: "rows of cells, 1 to 8192; empty: the class's number" },
        Parameter { key: "columns", default: "", help: "cells in a row, 1 to 8192; empty: the class's number" },
        Parameter { key: "steps", default: "", help: "time steps, 1 to 100000; empty: the class's number" },
        Parameter {
            key: "grain",
            default: "16384",
            help: "cells that one task updates, 1 to 67108864 (at least one row)",
        },
        Parameter { key: "seed", default: "1", help: "seed of the temperatures, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "rows", "columns", "steps"],
        rule: "steps: repeats; rows and columns: width by the bands of rows, length by a band's cells, serial by all cells",
        extents,
    }),
};

/// The number of rows, columns and steps by class. The paper gives no size. The classes medium and paper have the
/// sizes of the standard and the long benchmark of Cilk 5.4.6's example.
const SIZES: [(usize, usize, usize); 3] = [(512, 512, 40), (4096, 512, 40), (4096, 1024, 100)];

/// The fraction of a temperature difference that moves to each neighbour in a step: conductivity · time step /
/// distance². The scheme is stable up to a quarter.
const FLOW: f64 = 0.2;

fn prepare(parameters: &Parameters) -> Result<Heat, ParameterError> {
    let (plate, steps, grain) = Plate::size(parameters, &SIZES, "steps")?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Heat::new(plate, steps, grain, seed as u64))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (plate, steps, grain) = Plate::size(parameters, &SIZES, "steps")?;
    Ok(plate.extents(steps, plate.band(grain)))
}

impl Plate {
    /// Returns the number of cells in a row of a grid, with the border.
    fn width(self) -> usize {
        self.columns + 2
    }

    /// Returns the number of rows per task of `grain` cells.
    fn band(self, grain: usize) -> usize {
        (grain / self.columns).max(1)
    }

    /// Returns a grid with the sum of the waves, each with the given amplitude.
    fn sum_of_waves(self, waves: &[(Wave, f64)]) -> Vec<f64> {
        let mut grid = vec![0.0; (self.rows + 2) * self.width()];
        for (wave, amplitude) in waves {
            let down = sines(wave.down, self.rows);
            let across = sines(wave.across, self.columns);
            // The border stays zero.
            for (cells, down) in grid.chunks_exact_mut(self.width()).zip(down).skip(1).take(self.rows) {
                for (cell, across) in cells.iter_mut().zip(&across).skip(1).take(self.columns) {
                    *cell += amplitude * down * across;
                }
            }
        }
        grid
    }
}

impl Wave {
    /// Returns the factor by which a step changes the wave's amplitude. The wave is an eigenvector of the scheme with
    /// this eigenvalue.
    fn decay(self, plate: Plate) -> f64 {
        let square = |half_waves: usize, cells: usize| {
            let sine = (PI * half_waves as f64 / (2 * (cells + 1)) as f64).sin();
            sine * sine
        };
        1.0 - 4.0 * FLOW * (square(self.down, plate.rows) + square(self.across, plate.columns))
    }
}

struct Heat {
    plate: Plate,
    steps: usize,
    waves: Vec<Wave>,
    /// The grid before the first step.
    start: Vec<f64>,
    /// The number of rows per task.
    band: usize,
}

impl Heat {
    fn new(plate: Plate, steps: usize, grain: usize, seed: u64) -> Heat {
        let waves = Wave::draw(plate, seed);
        let amplitudes: Vec<_> = waves.iter().map(|wave| (*wave, wave.amplitude)).collect();
        let start = plate.sum_of_waves(&amplitudes);
        Heat { plate, steps, waves, start, band: plate.band(grain) }
    }

    /// Fills `new` with the temperatures one time step after `old`.
    fn step<J: ForkJoin>(&self, fork_join: J, old: &[f64], new: &mut [f64]) {
        let width = self.plate.width();
        let inner = &mut new[width..(self.plate.rows + 1) * width];
        fork_join.for_chunks_mut(inner, self.band * width, &|band, cells| {
            // A band also reads one row above it and one row below it.
            let around = old[band * self.band * width..].windows(3 * width).step_by(width);
            for (cells, around) in cells.chunks_exact_mut(width).zip(around) {
                update_row(cells, around);
            }
        });
    }

    /// Returns the grid after the last step, computed from the decay of each wave.
    fn expected(&self) -> Vec<f64> {
        let left = |wave: &Wave| (*wave, wave.amplitude * wave.decay(self.plate).powi(self.steps as i32));
        self.plate.sum_of_waves(&self.waves.iter().map(left).collect::<Vec<_>>())
    }
}

/// Updates a row, except for its first and last cell, from the three rows around it.
fn update_row(new: &mut [f64], around: &[f64]) {
    let width = new.len();
    let (above, rest) = around.split_at(width);
    let (here, below) = rest.split_at(width);
    let neighbours = above[1..].iter().zip(&below[1..]).zip(here.iter().zip(&here[2..]));
    let inner = new[1..width - 1].iter_mut().zip(&here[1..]);
    for ((new, old), ((above, below), (left, right))) in inner.zip(neighbours) {
        *new = old + FLOW * ((above + below) + (left + right) - 4.0 * old);
    }
}

impl Kernel for Heat {
    /// The grid after the last step, with its border.
    type Output = Vec<f64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<f64> {
        let mut old = vec![0.0; self.start.len()];
        let mut new = vec![0.0; self.start.len()];
        self.step(fork_join, &self.start, &mut new);
        for _ in 1..self.steps {
            std::mem::swap(&mut old, &mut new);
            self.step(fork_join, &old, &mut new);
        }
        new
    }

    /// Compares every cell with the sum of the decayed waves, which is computed without any step.
    fn verify(&self, output: &Vec<f64>) -> Verdict {
        let error = largest_difference(output, &self.expected());
        let Plate { rows, columns } = self.plate;
        Verdict::new(
            error <= TOLERANCE,
            format!(
                "{rows} x {columns} cells, {} steps: largest error {error:.1e} against the exact solution of the \
                 scheme, allowed {TOLERANCE:.0e}",
                self.steps
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn program(rows: usize, columns: usize, steps: usize, grain: usize) -> Heat {
        Heat::new(Plate { rows, columns }, steps, grain, 7)
    }

    #[test]
    fn every_shape_and_grain_gives_the_same_verified_grid() {
        for (rows, columns, steps) in [(1, 1, 1), (1, 9, 2), (9, 1, 3), (37, 20, 50), (64, 65, 7)] {
            let serial = program(rows, columns, steps, 1).compute(Serial);
            for grain in [1, 100, 1_000_000] {
                let program = program(rows, columns, steps, grain);
                let grid = program.compute(OnRayon);
                assert!(program.verify(&grid).verified, "{}", program.verify(&grid).detail);
                assert_eq!(grid, serial, "{rows} x {columns}, {steps} steps, grain {grain}");
            }
        }
    }

    #[test]
    fn a_step_is_that_of_the_definition() {
        let heat = program(2, 3, 1, 1);
        let grid = heat.compute(Serial);
        for row in 1..=2 {
            for column in 1..=3 {
                let at = |row: usize, column: usize| heat.start[row * 5 + column];
                let sum = at(row - 1, column) + at(row + 1, column) + at(row, column - 1) + at(row, column + 1);
                let expected = at(row, column) + FLOW * (sum - 4.0 * at(row, column));
                assert!((grid[row * 5 + column] - expected).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn the_error_stays_far_below_the_tolerance() {
        let program = program(300, 200, 1_000, 16_384);
        assert!(largest_difference(&program.compute(OnRayon), &program.expected()) < TOLERANCE / 100.0);
    }

    #[test]
    fn a_wrong_cell_a_lost_step_and_a_missing_cell_are_noticed() {
        let heat = program(40, 30, 10, 64);
        let grid = heat.compute(Serial);
        assert!(heat.verify(&grid).verified);
        for wrong in [1e-9, f64::NAN, f64::INFINITY] {
            let mut grid = grid.clone();
            grid[5 * 32 + 4] += wrong;
            assert!(!heat.verify(&grid).verified, "{wrong}");
        }
        assert!(!heat.verify(&program(40, 30, 9, 64).compute(Serial)).verified);
        assert!(!heat.verify(&grid[1..].to_vec()).verified);
    }
}
