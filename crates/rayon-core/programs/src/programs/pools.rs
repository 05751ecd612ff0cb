//! Builds and drops a pool for each job, to measure the cost of building and dropping.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::catalog::Definition;
use crate::program::{Program, equal, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "pools",
    summary: "build a pool of two threads, install a short sum, drop it",
    size: 300,
    prepare,
};

const NUMBERS: u64 = 1000;

fn prepare(pools: usize) -> Box<dyn Program> {
    let job = || (0..NUMBERS).into_par_iter().sum::<u64>();
    steps(
        || (),
        move |()| -> u64 {
            let pool = || ThreadPoolBuilder::new().num_threads(2).build().expect("a pool of two threads");
            (0..pools).map(|_| pool().install(job)).sum()
        },
        move |sum| equal(sum, pools as u64 * (NUMBERS * (NUMBERS - 1) / 2)),
    )
}
