//! Many short parallel iterators, one after the other. A thread outside of the pool runs them, so each must wake the
//! pool.

use rayon::prelude::*;

use super::random_numbers;
use crate::catalog::Definition;
use crate::program::{Program, close, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "small-jobs",
    summary: "short sums one after the other, each of 20 to 100 µs",
    size: 200,
    prepare,
};

/// The numbers of elements of the shortest and of the longest job.
const LEAST: usize = 2000;
const MOST: usize = 10_000;

fn prepare(jobs: usize) -> Box<dyn Program> {
    let numbers = random_numbers(MOST);
    let jobs: Vec<Vec<f64>> = (0..jobs).map(|nth| numbers[..LEAST + nth * 997 % (MOST - LEAST)].to_vec()).collect();
    let expected: Vec<f64> = jobs.iter().map(|job| job.iter().map(|number| number.sin()).sum()).collect();
    steps(
        || (),
        move |()| -> Vec<f64> {
            // Run the jobs one after the other, as if each depended on the previous job.
            jobs.iter().map(|job| job.par_iter().map(|number| number.sin()).sum()).collect()
        },
        move |sums| {
            if sums.len() != expected.len() {
                return Err(format!("there are {} sums instead of {}", sums.len(), expected.len()));
            }
            sums.iter().zip(&expected).try_for_each(|(sum, expected)| close(*sum, *expected))
        },
    )
}
