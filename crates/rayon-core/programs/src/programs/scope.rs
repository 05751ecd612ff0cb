//! Many small tasks, spawned one by one into a scope.

use crate::catalog::Definition;
use crate::program::{Program, same, steps};

/// The definition of the program.
pub const DEFINITION: Definition =
    Definition { name: "scope", summary: "many small spawns in a scope", size: 40_000, prepare };

/// The number of arithmetic steps of a task.
const STEPS: u32 = 300;

fn prepare(size: usize) -> Box<dyn Program> {
    let expected: Vec<u32> = (0..size).map(task).collect();
    steps(
        move || vec![0; size],
        |mut results| {
            rayon::scope(|scope| {
                for (nth, result) in results.iter_mut().enumerate() {
                    scope.spawn(move |_| *result = task(nth));
                }
            });
            results
        },
        move |results| same(&results, &expected),
    )
}

/// Computes the result of a task. Each step depends on the previous step.
fn task(nth: usize) -> u32 {
    (0..STEPS).fold(nth as u32 | 1, |x, _| x.wrapping_mul(747_796_405).rotate_left(7))
}
