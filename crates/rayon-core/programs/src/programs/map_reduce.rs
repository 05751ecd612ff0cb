//! Applies a function to every number of a vector, and sums up.

use rayon::prelude::*;

use super::random_numbers;
use crate::catalog::Definition;
use crate::program::{Program, close, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "map-reduce",
    summary: "par_iter, map and sum over a vector of numbers",
    size: 4_000_000,
    prepare,
};

fn prepare(size: usize) -> Box<dyn Program> {
    let angles = random_numbers(size);
    let expected = angles.iter().map(|angle| angle.sin()).sum();
    steps(|| (), move |()| angles.par_iter().map(|angle| angle.sin()).sum::<f64>(), move |sum| close(sum, expected))
}
