//! Collects the paths of Collatz's problem for all starts: a parallel iterator over inner iterators of unknown lengths.

use std::iter::successors;

use rayon::prelude::*;

use crate::catalog::Definition;
use crate::program::{Program, same, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "flat-map",
    summary: "flat_map_iter with uneven inner lengths, collected",
    size: 30_000,
    prepare,
};

fn prepare(size: usize) -> Box<dyn Program> {
    let starts = 1..size as u64;
    let expected: Vec<u64> = starts.clone().flat_map(path).collect();
    steps(
        move || starts.clone(),
        |starts| starts.into_par_iter().flat_map_iter(path).collect::<Vec<u64>>(),
        move |steps| same(&steps, &expected),
    )
}

/// Returns the path from `start` to 1. The successor of n is 3n + 1 if n is odd, else n/2.
fn path(start: u64) -> impl Iterator<Item = u64> {
    successors(Some(start), |&step| match step {
        1 => None,
        odd if odd % 2 == 1 => Some(3 * odd + 1),
        even => Some(even / 2),
    })
}
