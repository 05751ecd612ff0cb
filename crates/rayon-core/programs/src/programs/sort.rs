//! The two sorts of rayon, on random keys.

use rayon::prelude::*;

use super::random_keys;
use crate::catalog::Definition;
use crate::program::{Program, same, steps};

const KEYS: usize = 1_000_000;

/// The definition of the stable sort.
pub const STABLE: Definition = Definition {
    name: "sort",
    summary: "par_sort of random keys",
    size: KEYS,
    prepare: |size| prepare(size, |keys| keys.par_sort()),
};

/// The definition of the unstable sort.
pub const UNSTABLE: Definition = Definition {
    name: "sort-unstable",
    summary: "par_sort_unstable of random keys",
    size: KEYS,
    prepare: |size| prepare(size, |keys| keys.par_sort_unstable()),
};

fn prepare(size: usize, sort: fn(&mut [u64])) -> Box<dyn Program> {
    let keys = random_keys(size);
    let mut sorted = keys.clone();
    sorted.sort();
    steps(
        move || keys.clone(),
        move |mut keys| {
            sort(&mut keys);
            keys
        },
        move |keys| same(&keys, &sorted),
    )
}
