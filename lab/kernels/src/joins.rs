//! Programs that consist almost only of joins, for `comity-lab bench fork-join`. Each is written once and compiled
//! once per backend.
//!
//! This crate is compiled as one codegen unit, because a split changes the results: `fib` then costs 1.9 or 3.1 times
//! the serial program, with equal numbers of instructions.
//!
//! The programs are in a macro because no trait covers all backends. Each backend passes another context to closures
//! (a worker, a mutable scope with its own lifetime, nothing), and a closure cannot be generic over the context.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::abp::{self, OnAbp};
use crate::kernels::cg::Cg;
use crate::{ForkJoin, Kernel, OnComity, OnRayon, Serial};

/// A program with its input and its correct result. The correct result is computed without a backend.
pub struct Input(Given);

enum Given {
    Fib {
        n: u32,
        expected: u64,
    },
    Tree {
        nodes: Vec<u64>,
        expected: u64,
    },
    Queens {
        n: u32,
        expected: u64,
    },
    Loop {
        length: usize,
        expected: u64,
    },
    Natural {
        numbers: Vec<u64>,
        expected: u64,
    },
    Quicksort {
        numbers: Vec<u32>,
        sorted: Vec<u32>,
    },
    Cg(Box<Cg>),
    /// A program with two long leaves.
    Coarse {
        steps: u64,
        expected: u64,
    },
    /// A chain of `tasks` tasks.
    Spine {
        tasks: u32,
        expected: u64,
    },
}

/// Does the work of the `nth` piece: `steps` steps of arithmetic, each of which depends on the step before it.
pub fn piece(nth: usize, steps: u64) -> u64 {
    let mut x = black_box(nth as u64 + 1);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// The outcome of a run.
pub struct Run {
    /// The elapsed time, in seconds.
    pub seconds: f64,
    /// True if the result is correct.
    pub correct: bool,
}

/// The number of items in a leaf of the natural loop: a few microseconds of work.
const NATURAL_GRAIN: usize = 8192;

/// The number of natural loops in a run, because a single loop takes only a fraction of a millisecond.
const NATURAL_REPETITIONS: u32 = 20;

/// The number of joins around the first long leaf. There is a run for each of `COARSE_PLACES`: the number, from the
/// innermost join, of the join whose right half is the second long leaf.
const COARSE_DEPTH: u32 = 12;
const COARSE_PLACES: [u32; 4] = [1, 4, 8, 12];

/// The number of steps of [`piece`] in a task of the spine.
const SPINE_STEPS: u64 = 4_000;

/// The maximum length of a slice that is sorted with the standard library.
const QUICKSORT_LEAF: usize = 8192;

impl Input {
    /// Returns the program `fib`: a double recursion without a cutoff.
    pub fn fib(n: u32) -> Input {
        let (expected, _) = (0..n).fold((0, 1), |(a, b), _| (b, a + b));
        Input(Given::Fib { n, expected })
    }

    /// Returns a program that sums a complete binary tree of `levels` levels. The children of node `i` are `2i + 1`
    /// and `2i + 2`.
    pub fn tree(levels: u32) -> Input {
        let nodes: Vec<u64> = (0..(1 << levels) - 1).collect();
        Input(Given::Tree { expected: nodes.iter().sum(), nodes })
    }

    /// Returns a program that counts the placements of `n` queens on a board of `n` by `n`. Panics if `n` is not in 1
    /// to 13.
    pub fn queens(n: u32) -> Input {
        const SOLUTIONS: [u64; 13] = [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712];
        Input(Given::Queens { n, expected: SOLUTIONS[n as usize - 1] })
    }

    /// Returns a program with a loop of `length` iterations, each of which is a leaf.
    pub fn a_loop(length: usize) -> Input {
        Input(Given::Loop { length, expected: (0..length).map(cheap).sum() })
    }

    /// Returns a program that sums a short function over `length` numbers, in leaves that take some microseconds.
    pub fn natural(length: u64) -> Input {
        let numbers: Vec<u64> = (0..length).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        Input(Given::Natural { expected: numbers.iter().map(|number| cheap_number(*number)).sum(), numbers })
    }

    /// Returns a program that sorts `length` different numbers in place.
    pub fn quicksort(length: u32) -> Input {
        // An odd factor and a xorshift are bijections, so that all numbers differ and are in random order.
        let scatter = |i: u32| {
            let i = i.wrapping_mul(0x9e37_79b1);
            (i ^ (i >> 15)).wrapping_mul(0x85eb_ca6b)
        };
        let numbers: Vec<u32> = (0..length).map(scatter).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        Input(Given::Quicksort { numbers, sorted })
    }

    /// Returns the NAS benchmark CG (conjugate gradients), class S.
    pub fn cg() -> Input {
        Input(Given::Cg(Box::new(Cg::class_s())))
    }

    /// Returns a program of nested joins with two long leaves, of `steps` steps of [`piece`] each. The second long
    /// leaf is at one of four depths.
    pub fn coarse(steps: u64) -> Input {
        let expected = (0..=COARSE_DEPTH).fold(0, |sum: u64, nth| sum.wrapping_add(coarse(nth, 1, steps)));
        Input(Given::Coarse { steps, expected })
    }

    /// Returns a program of nested joins, which forks `tasks` tasks of some microseconds and joins them on the way
    /// back.
    pub fn spine(tasks: u32) -> Input {
        let expected = (0..=tasks).fold(0, |sum: u64, nth| sum.wrapping_add(piece(nth as usize, SPINE_STEPS)));
        Input(Given::Spine { tasks, expected })
    }

    /// Returns the number of joins in a run of `fib`, from which the bench computes the cost of a join. `None` for
    /// other programs.
    pub fn fib_joins(&self) -> Option<f64> {
        match &self.0 {
            // Each join adds one to the number of leaves, and there are fib(n + 1) leaves.
            Given::Fib { n, .. } => Some((0..=*n).fold((0.0, 1.0), |(a, b), _| (b, a + b)).0 - 1.0),
            _ => None,
        }
    }
}

/// Does some work that a compiler cannot replace by a closed formula.
fn cheap(item: usize) -> u64 {
    cheap_number(item as u64)
}

fn cheap_number(number: u64) -> u64 {
    (number ^ (number >> 3)) & 0xffff_ffff
}

fn sum_of(numbers: &[u64]) -> u64 {
    numbers.iter().map(|number| cheap_number(*number)).sum()
}

/// Does part `nth` of nested joins. The innermost part and the right half of join number `place` are long. All other
/// parts are short.
fn coarse(nth: u32, place: u32, steps: u64) -> u64 {
    // All parts have the same seed, so that their sum does not depend on `place`.
    piece(0, if nth == 0 || nth == place { steps } else { 1 })
}

fn timed<R>(body: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = body();
    (start.elapsed().as_secs_f64(), result)
}

fn checked((seconds, result): (f64, u64), expected: u64) -> Run {
    Run { seconds, correct: result == expected }
}

fn solve(cg: &Cg, fork_join: impl ForkJoin) -> Run {
    let (seconds, output) = timed(|| cg.compute(fork_join));
    Run { seconds, correct: cg.verify(&output).verified }
}

/// Splits around the median of three (Hoare). No element before the returned index is larger than any element at or
/// after this index.
fn partition(numbers: &mut [u32]) -> usize {
    let last = numbers.len() - 1;
    let mut three = [numbers[0], numbers[last / 2], numbers[last]];
    three.sort_unstable();
    let pivot = three[1];
    let (mut i, mut j) = (0, last);
    loop {
        while numbers[i] < pivot {
            i += 1;
        }
        while numbers[j] > pivot {
            j -= 1;
        }
        if i >= j {
            return i.max(1);
        }
        numbers.swap(i, j);
        i += 1;
        j -= 1;
    }
}

/// Defines the programs for a backend whose functions get `$context`, with `$join(context, a, b)` as its join.
macro_rules! workloads {
    (context: $context:ty, join: $join:path, natural: $natural:ident, cg: $cg:expr) => {
        /// Runs one program. The program that sorts uses `buffer` as memory. Returns `None` if this backend does not
        /// have the program.
        pub fn run(context: $context, input: &Input, buffer: &mut Vec<u32>) -> Option<Run> {
            Some(match &input.0 {
                Given::Fib { n, expected } => checked(timed(|| fib(context, black_box(*n))), *expected),
                Given::Tree { nodes, expected } => checked(timed(|| tree(context, nodes, 0)), *expected),
                Given::Queens { n, expected } => checked(timed(|| place_row(context, (1 << n) - 1, 0, 0)), *expected),
                Given::Loop { length, expected } => {
                    checked(timed(|| sum(context, 0..*length, 1, &|part| cheap(part.start))), *expected)
                }
                Given::Natural { numbers, expected } => {
                    let (seconds, result) = timed(|| repeat_natural(context, numbers));
                    checked((seconds / f64::from(NATURAL_REPETITIONS), result), *expected)
                }
                Given::Quicksort { numbers, sorted } => {
                    buffer.clone_from(numbers);
                    let (seconds, ()) = timed(|| quicksort(context, buffer));
                    Run { seconds, correct: buffer == sorted }
                }
                Given::Cg(cg) => solve(cg, $cg?),
                Given::Coarse { steps, expected } => {
                    let runs = COARSE_PLACES.map(|place| {
                        checked(timed(|| spine(context, COARSE_DEPTH, &|nth| coarse(nth, place, *steps))), *expected)
                    });
                    Run {
                        seconds: runs.iter().map(|run| run.seconds).fold(0.0, f64::max),
                        correct: runs.iter().all(|run| run.correct),
                    }
                }
                Given::Spine { tasks, expected } => {
                    let task = |nth| piece(nth as usize, SPINE_STEPS);
                    checked(timed(|| spine(context, *tasks, &task)), *expected)
                }
            })
        }

        fn fib(context: $context, n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = $join(context, |context| fib(context, n - 1), |context| fib(context, n - 2));
            a + b
        }

        fn tree(context: $context, nodes: &[u64], root: usize) -> u64 {
            let Some(own) = nodes.get(root) else { return 0 };
            let (a, b) = $join(
                context,
                move |context| tree(context, nodes, 2 * root + 1),
                move |context| tree(context, nodes, 2 * root + 2),
            );
            own + a + b
        }

        /// Counts the ways to fill the remaining rows. Each mask has one bit per column: the columns in `open` hold
        /// no queen, and the columns in `left` and `right` are attacked along a diagonal.
        fn place_row(context: $context, open: u32, left: u32, right: u32) -> u64 {
            if open == 0 {
                return 1;
            }
            try_columns(context, (open, left, right), open & !(left | right))
        }

        /// Tries each of `columns` in the next row, by halving the set of columns.
        fn try_columns(context: $context, board: (u32, u32, u32), columns: u32) -> u64 {
            match columns.count_ones() {
                0 => 0,
                1 => {
                    let (open, left, right) = board;
                    place_row(context, open & !columns, (left | columns) << 1, (right | columns) >> 1)
                }
                several => {
                    let mut upper = columns;
                    for _ in 0..several / 2 {
                        upper &= upper - 1;
                    }
                    let (a, b) = $join(
                        context,
                        |context| try_columns(context, board, columns & !upper),
                        |context| try_columns(context, board, upper),
                    );
                    a + b
                }
            }
        }

        /// Returns the sum of `leaf` over parts of at most `grain` items.
        fn sum<F: Fn(Range<usize>) -> u64 + Sync>(
            context: $context,
            Range { start, end }: Range<usize>,
            grain: usize,
            leaf: &F,
        ) -> u64 {
            if end - start <= grain {
                return leaf(start..end);
            }
            let middle = start + (end - start) / 2;
            let (a, b) = $join(
                context,
                move |context| sum(context, start..middle, grain, leaf),
                move |context| sum(context, middle..end, grain, leaf),
            );
            a + b
        }

        /// Nests `depth` joins, runs task 0 in the innermost join, and adds the tasks of the other joins on the way
        /// back.
        fn spine<F: Fn(u32) -> u64 + Sync>(context: $context, depth: u32, task: &F) -> u64 {
            if depth == 0 {
                return task(0);
            }
            let (a, b) = $join(context, move |context| spine(context, depth - 1, task), move |_| task(depth));
            a.wrapping_add(b)
        }

        fn repeat_natural(context: $context, numbers: &[u64]) -> u64 {
            let mut result = 0;
            for _ in 0..NATURAL_REPETITIONS {
                result = workloads!(@natural $natural, context, black_box(numbers));
            }
            result
        }

        fn quicksort(context: $context, numbers: &mut [u32]) {
            if numbers.len() <= QUICKSORT_LEAF {
                return numbers.sort_unstable();
            }
            let middle = partition(numbers);
            let (small, great) = numbers.split_at_mut(middle);
            $join(context, |context| quicksort(context, small), |context| quicksort(context, great));
        }
    };
    (@natural halving, $context:ident, $numbers:expr) => {{
        let numbers = $numbers;
        sum($context, 0..numbers.len(), NATURAL_GRAIN, &|part| sum_of(&numbers[part]))
    }};
    (@natural for_range, $context:ident, $numbers:expr) => {{
        let () = $context;
        let (numbers, total) = ($numbers, AtomicU64::new(0));
        comity::for_range(0..numbers.len(), NATURAL_GRAIN, |part| {
            total.fetch_add(sum_of(&numbers[part]), Ordering::Relaxed);
        });
        total.into_inner()
    }};
    (@natural par_iter, $context:ident, $numbers:expr) => {{
        let () = $context;
        $numbers.par_iter().map(|number| cheap_number(*number)).sum()
    }};
}

/// The serial programs: the same source without any parallelism.
pub mod serially {
    use super::*;

    fn both<RA, RB>((): (), a: impl FnOnce(()) -> RA, b: impl FnOnce(()) -> RB) -> (RA, RB) {
        let result_a = a(());
        (result_a, b(()))
    }

    workloads!(context: (), join: both, natural: halving, cg: Some(Serial));
}

/// The programs on Comity, with the worker passed to each closure.
pub mod by_worker {
    use super::*;

    workloads!(context: &comity::Worker, join: comity::Worker::join, natural: halving, cg: None::<OnComity>);
}

/// The programs on Comity, with rayon's interface.
pub mod by_comity {
    use super::*;

    #[inline(always)]
    fn join<RA: Send, RB: Send>((): (), a: impl FnOnce(()) -> RA + Send, b: impl FnOnce(()) -> RB + Send) -> (RA, RB) {
        comity::join(|| a(()), || b(()))
    }

    workloads!(context: (), join: join, natural: for_range, cg: Some(OnComity));
}

/// The programs on stock rayon.
pub mod by_rayon {
    use super::*;

    #[inline(always)]
    fn join<RA: Send, RB: Send>((): (), a: impl FnOnce(()) -> RA + Send, b: impl FnOnce(()) -> RB + Send) -> (RA, RB) {
        rayon::join(|| a(()), || b(()))
    }

    workloads!(context: (), join: join, natural: par_iter, cg: Some(OnRayon));
}

/// The programs on chili. Its join runs the right closure first, so the halves are swapped to get the same order on
/// all backends.
#[cfg(feature = "peers")]
pub mod by_chili {
    use chili::Scope;

    use super::*;

    #[inline(always)]
    fn join<RA: Send, RB: Send>(
        scope: &mut Scope<'_>,
        a: impl FnOnce(&mut Scope<'_>) -> RA + Send,
        b: impl FnOnce(&mut Scope<'_>) -> RB + Send,
    ) -> (RA, RB) {
        let (result_b, result_a) = scope.join(b, a);
        (result_a, result_b)
    }

    workloads!(context: &mut Scope<'_>, join: join, natural: halving, cg: None::<Serial>);
}

/// The programs on the bare pool of [`abp`].
pub mod by_abp {
    use super::*;

    workloads!(context: &abp::Worker, join: abp::Worker::join, natural: halving, cg: Some(OnAbp));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_elision_is_right_on_every_input_and_a_wrong_result_is_seen() {
        let inputs = [
            Input::fib(15),
            Input::tree(9),
            Input::queens(8),
            Input::a_loop(1000),
            Input::natural(20_000),
            Input::quicksort(100_000),
            Input::cg(),
            Input::coarse(1_000),
            Input::spine(100),
        ];
        for input in &inputs {
            assert!(serially::run((), input, &mut Vec::new()).unwrap().correct);
        }
        let wrong = Input(Given::Fib { n: 15, expected: 1 });
        assert!(!serially::run((), &wrong, &mut Vec::new()).unwrap().correct);
        assert_eq!(Input::fib(5).fib_joins(), Some(7.0));
    }

    #[test]
    fn a_partition_leaves_something_on_both_sides() {
        for numbers in [&[2, 1, 3][..], &[1, 1], &[2, 1], &[5, 5, 5, 5], &[1, 2, 3, 4, 5], &[9, 1, 9, 1, 9]] {
            let mut numbers = numbers.to_vec();
            let middle = partition(&mut numbers);
            let (small, great) = numbers.split_at(middle);
            assert!(small.iter().max().unwrap() <= great.iter().min().unwrap(), "{numbers:?}");
        }
    }
}
