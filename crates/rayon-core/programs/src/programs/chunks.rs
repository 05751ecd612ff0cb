//! Simulates heat that spreads over a square plate: sweeps of a stencil, each over all rows of the plate in parallel.

use rayon::prelude::*;

use super::random_numbers;
use crate::catalog::Definition;
use crate::program::{Program, same, steps};

/// The definition of the program.
pub const DEFINITION: Definition =
    Definition { name: "chunks", summary: "par_chunks_mut: sweeps of a stencil over a plate", size: 1000, prepare };

const SWEEPS: usize = 20;

fn prepare(side: usize) -> Box<dyn Program> {
    let plate = random_numbers(side * side);
    let expected = spread(plate.clone(), |old, new| {
        for y in 0..side {
            row(old, &mut new[y * side..(y + 1) * side], y);
        }
    });
    let sweep = move |old: &[f64], new: &mut [f64]| {
        new.par_chunks_mut(side.max(1)).enumerate().for_each(|(y, new)| row(old, new, y));
    };
    steps(move || plate.clone(), move |plate| spread(plate, sweep), move |plate| same(&plate, &expected))
}

fn spread(mut plate: Vec<f64>, sweep: impl Fn(&[f64], &mut [f64])) -> Vec<f64> {
    let mut next = plate.clone();
    for _ in 0..SWEEPS {
        sweep(&plate, &mut next);
        std::mem::swap(&mut plate, &mut next);
    }
    plate
}

/// Computes the new row `y`: each place takes the mean of its neighbours, and the border stays as it is.
fn row(old: &[f64], new: &mut [f64], y: usize) {
    let side = new.len();
    if y == 0 || y + 1 == side {
        return;
    }
    let [above, here, below] = [y - 1, y, y + 1].map(|y| &old[y * side..(y + 1) * side]);
    for x in 1..side - 1 {
        new[x] = (above[x] + below[x] + here[x - 1] + here[x + 1]) / 4.0;
    }
}
