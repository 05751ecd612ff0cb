//! Collects the square roots of a range of numbers into a vector.

use rayon::prelude::*;

use crate::catalog::Definition;
use crate::program::{Program, same, steps};

/// The definition of the program.
pub const DEFINITION: Definition =
    Definition { name: "collect", summary: "into_par_iter, map and collect into a vector", size: 4_000_000, prepare };

fn prepare(size: usize) -> Box<dyn Program> {
    let expected: Vec<f64> = (0..size).map(element).collect();
    steps(
        || (),
        move |()| (0..size).into_par_iter().map(element).collect::<Vec<f64>>(),
        move |elements| same(&elements, &expected),
    )
}

fn element(nth: usize) -> f64 {
    (nth as f64).sqrt()
}
