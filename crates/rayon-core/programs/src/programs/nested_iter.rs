//! Counts pairs of points that are close to each other. A parallel iterator over all points contains a parallel
//! iterator over the preceding points.

use rayon::prelude::*;

use super::random_numbers;
use crate::catalog::Definition;
use crate::program::{Program, equal, steps};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "nested-iter",
    summary: "a parallel iterator inside of a parallel iterator",
    size: 14_000,
    prepare,
};

type Point = [f64; 2];

fn prepare(size: usize) -> Box<dyn Program> {
    let numbers = random_numbers(2 * size);
    let points: Vec<Point> = numbers.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    let before = |nth: usize| points[..nth].iter().filter(|other| are_close(other, &points[nth])).count();
    let expected = (0..size).map(before).sum();
    steps(
        || (),
        move |()| {
            let before = |nth: usize| points[..nth].par_iter().filter(|other| are_close(other, &points[nth])).count();
            (0..points.len()).into_par_iter().map(before).sum::<usize>()
        },
        move |pairs| equal(pairs, expected),
    )
}

fn are_close(a: &Point, b: &Point) -> bool {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    dx * dx + dy * dy < 0.01
}
