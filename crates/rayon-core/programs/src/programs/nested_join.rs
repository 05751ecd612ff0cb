//! Quicksort as in the documentation of `rayon::join`: it joins down to single keys, without a serial cut-off.

use super::random_keys;
use crate::catalog::Definition;
use crate::program::{Program, same, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "nested-join",
    summary: "quicksort by recursive join without a cut-off",
    size: 500_000,
    prepare,
};

fn prepare(size: usize) -> Box<dyn Program> {
    let keys = random_keys(size);
    let mut sorted = keys.clone();
    sorted.sort();
    steps(
        move || keys.clone(),
        |mut keys| {
            quicksort(&mut keys);
            keys
        },
        move |keys| same(&keys, &sorted),
    )
}

fn quicksort(keys: &mut [u64]) {
    if keys.len() <= 1 {
        return;
    }
    let pivot = partition(keys);
    let (low, high) = keys.split_at_mut(pivot);
    rayon::join(|| quicksort(low), || quicksort(&mut high[1..]));
}

/// Moves the last key to its place, with smaller keys before it, and returns the place.
fn partition(keys: &mut [u64]) -> usize {
    let last = keys.len() - 1;
    let pivot = keys[last];
    let mut place = 0;
    for at in 0..last {
        if keys[at] < pivot {
            keys.swap(place, at);
            place += 1;
        }
    }
    keys.swap(place, last);
    place
}
