//! A loop with a tiny body, run three times.

use rayon::prelude::*;

use crate::catalog::Definition;
use crate::program::{Program, equal, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "trivial-loop",
    summary: "par_iter_mut and for_each: 10^7 numbers plus one",
    size: 10_000_000,
    prepare,
};

const PASSES: u32 = 3;

fn prepare(size: usize) -> Box<dyn Program> {
    steps(
        // Fill with ones: for zeros, the system would provide the pages at the first access, inside the measured loop.
        move || vec![1_u32; size],
        |mut numbers| {
            for _ in 0..PASSES {
                numbers.par_iter_mut().for_each(|number| *number += 1);
            }
            numbers
        },
        move |numbers| equal(numbers.iter().filter(|number| **number == 1 + PASSES).count(), size),
    )
}
