//! NPB CG: the smallest eigenvalue of a sparse symmetric matrix by inverse iteration.
//!
//! Source: D. Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, section 2.2.3, and the loops of the NPB 3
//! OpenMP code. One timed step of the inverse iteration runs 25 steps of conjugate gradients. Each step of conjugate
//! gradients consists of four short parallel phases, with only scalar arithmetic between them. In class S a phase
//! takes microseconds, which makes the program hard for a scheduler.
//!
//! Deviation: the reference code runs one step before the clock starts and then resets its vector, which changes no
//! result. This program leaves the warm-up to the caller that repeats the run.

mod makea;
mod phase;

use std::ops::Range;

use comity_graph::Scale;

use crate::definition::Definition;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};
use makea::{Matrix, make_matrix};
use phase::sum_rows;

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "cg",
    summary: "NPB CG: conjugate gradients on a sparse matrix, many tiny parallel phases with serial gaps",
    parameters: &[
        Parameter { key: "class", default: "S", help: "NPB problem class: S, W, A or B (1400 to 75000 rows)" },
        Parameter {
            key: "grain",
            default: "64",
            help: "matrix rows in a leaf, 1 to 1000000; leaves of plain vectors are 16 times as long",
        },
    ],
    prepare: |parameters| {
        let (class, grain) = size(parameters)?;
        Ok(Box::new(Cg::new(class, grain)))
    },
    scaling: Ok(Scaling {
        keys: &["class"],
        rule: "class: repeats by the steps, width by the tasks of the matrix's rows, length by the nonzeros of a row, \
            serial by rows",
        extents,
    }),
};

/// The length of a vector leaf / the length of a matrix leaf. A matrix row costs as much as dozens of vector
/// elements.
const VECTOR_ELEMENTS_PER_ROW: usize = 16;

/// The number of steps of conjugate gradients in a step of the inverse iteration: `cgitmax` in the reference codes.
const GRADIENT_STEPS: usize = 25;

/// The maximum error of ζ.
const TOLERANCE: f64 = 1e-10;

/// Returns the class, and the number of matrix rows in a leaf.
fn size(parameters: &Parameters) -> Result<(&'static Class, usize), ParameterError> {
    let class = &CLASSES[parameters.choice("class", &["S", "W", "A", "B"])?];
    Ok((class, parameters.number("grain", 1..=1_000_000)?))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (class, grain) = size(parameters)?;
    let (rows, tasks) = (class.rows as f64, class.rows.div_ceil(grain) as f64);
    // A row of the sum of outer products has about this number of nonzeros.
    let nonzeros = ((class.nonzeros + 1) as f64).powi(2);
    let length = rows / tasks * nonzeros;
    Ok(Scale { repeats: class.steps as f64, width: tasks, length, serial: rows, ..Scale::default() })
}

/// A problem class and its published result.
struct Class {
    name: &'static str,
    rows: usize,
    /// The number of nonzeros that are drawn for each vector. The outer products of the vectors make the matrix.
    nonzeros: usize,
    /// The number of steps of the inverse iteration.
    steps: usize,
    shift: f64,
    zeta: f64,
}

static CLASSES: [Class; 4] = [
    Class { name: "S", rows: 1_400, nonzeros: 7, steps: 15, shift: 10.0, zeta: 8.597_177_507_864_8 },
    Class { name: "W", rows: 7_000, nonzeros: 8, steps: 15, shift: 12.0, zeta: 10.362_595_087_124 },
    Class { name: "A", rows: 14_000, nonzeros: 11, steps: 15, shift: 20.0, zeta: 17.130_235_054_029 },
    Class { name: "B", rows: 75_000, nonzeros: 13, steps: 75, shift: 60.0, zeta: 22.712_745_482_631 },
];

/// A problem, ready to be solved any number of times.
pub struct Cg {
    class: &'static Class,
    matrix: Matrix,
    grain: usize,
}

impl Cg {
    /// Returns class S with the catalog's grain, for a backend that is not in the catalog.
    pub fn class_s() -> Cg {
        Cg::new(&CLASSES[0], 64)
    }

    fn new(class: &'static Class, grain: usize) -> Cg {
        Cg { class, matrix: make_matrix(class.rows, class.nonzeros, class.shift), grain }
    }
}

/// The result of the last step of the inverse iteration.
#[derive(Clone, Debug)]
pub struct Estimate {
    zeta: f64,
    /// The residual ‖x − A·z‖ after the last 25 steps of conjugate gradients.
    residual: f64,
}

impl Kernel for Cg {
    type Output = Estimate;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Estimate {
        let solver = Solver { fork_join, matrix: &self.matrix, grain: self.grain };
        let mut vectors = Vectors::new(self.class.rows);
        let mut estimate = Estimate { zeta: 0.0, residual: 0.0 };
        for _ in 0..self.class.steps {
            estimate.residual = solver.solve(&mut vectors);
            let (x_z, z_z) = solver.products(&vectors.x, &vectors.z);
            estimate.zeta = self.class.shift + 1.0 / x_z;
            solver.scale(&vectors.z, 1.0 / z_z.sqrt(), &mut vectors.x);
        }
        estimate
    }

    fn verify(&self, output: &Estimate) -> Verdict {
        let error = (output.zeta - self.class.zeta).abs();
        Verdict::new(
            error <= TOLERANCE,
            format!(
                "class {}: zeta {:.13}, expected {:.13}, error {error:.1e}; residual {:.1e}",
                self.class.name, output.zeta, self.class.zeta, output.residual
            ),
        )
    }
}

/// The vectors of the iteration, under their names in the reference codes.
struct Vectors {
    /// The estimated eigenvector, and the right-hand side of A·z = x.
    x: Vec<f64>,
    /// The solution so far.
    z: Vec<f64>,
    /// The residual.
    r: Vec<f64>,
    /// The search direction.
    p: Vec<f64>,
    /// The product A·p.
    q: Vec<f64>,
}

impl Vectors {
    fn new(rows: usize) -> Vectors {
        let zero = vec![0.0; rows];
        Vectors { x: vec![1.0; rows], z: zero.clone(), r: zero.clone(), p: zero.clone(), q: zero }
    }
}

/// The parallel phases.
struct Solver<'a, J> {
    fork_join: J,
    matrix: &'a Matrix,
    grain: usize,
}

impl<J: ForkJoin> Solver<'_, J> {
    /// Solves A·z = x approximately and returns ‖x − A·z‖: `conj_grad` in the reference codes.
    fn solve(&self, vectors: &mut Vectors) -> f64 {
        let Vectors { x, z, r, p, q } = vectors;
        let mut rho = self.start(x, z, r, p);
        for _ in 0..GRADIENT_STEPS {
            self.multiply(p, q);
            let alpha = rho / self.dot(p, q);
            let previous = rho;
            rho = self.advance(alpha, (z, p), (r, q));
            self.redirect(r, rho / previous, p);
        }
        self.multiply(z, r);
        self.distance(x, r)
    }

    /// Sets z ← 0, r ← x and p ← x. Returns r·r.
    fn start(&self, x: &[f64], z: &mut [f64], r: &mut [f64], p: &mut [f64]) -> f64 {
        sum_rows(self.fork_join, (x, (z, (r, p))), self.vector_grain(), &|(x, (z, (r, p)))| {
            z.fill(0.0);
            r.copy_from_slice(x);
            p.copy_from_slice(x);
            sum_of(x, x, |x, _| x * x)
        })
    }

    /// Sets `product` ← A·`vector`.
    fn multiply(&self, vector: &[f64], product: &mut [f64]) {
        self.fork_join.for_chunks_mut(product, self.grain, &|chunk, products| {
            let first = chunk * self.grain;
            for (row, product) in (first..).zip(products) {
                *product = self.matrix.row_times(row, vector);
            }
        });
    }

    /// Sets z ← z + `alpha`·p and r ← r − `alpha`·q. Returns the new r·r.
    fn advance(&self, alpha: f64, (z, p): (&mut [f64], &[f64]), (r, q): (&mut [f64], &[f64])) -> f64 {
        sum_rows(self.fork_join, ((z, p), (r, q)), self.vector_grain(), &|((z, p), (r, q))| {
            add_scaled(z, alpha, p);
            add_scaled(r, -alpha, q);
            sum_of(r, r, |r, _| r * r)
        })
    }

    /// Sets p ← r + `beta`·p.
    fn redirect(&self, r: &[f64], beta: f64, p: &mut [f64]) {
        let leaf = self.vector_grain();
        self.fork_join.for_chunks_mut(p, leaf, &|chunk, p| {
            for (p, r) in p.iter_mut().zip(&r[chunk * leaf..]) {
                *p = r + beta * *p;
            }
        });
    }

    /// Sets x ← `factor`·z.
    fn scale(&self, z: &[f64], factor: f64, x: &mut [f64]) {
        let leaf = self.vector_grain();
        self.fork_join.for_chunks_mut(x, leaf, &|chunk, x| {
            for (x, z) in x.iter_mut().zip(&z[chunk * leaf..]) {
                *x = factor * z;
            }
        });
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        sum_rows(self.fork_join, (a, b), self.vector_grain(), &|(a, b)| sum_of(a, b, |a, b| a * b))
    }

    /// Returns the products x·z and z·z, which are computed in one phase.
    fn products(&self, x: &[f64], z: &[f64]) -> (f64, f64) {
        let leaf = |rows: Range<usize>| {
            let (x, z) = (&x[rows.clone()], &z[rows]);
            (sum_of(x, z, |x, z| x * z), sum_of(z, z, |z, _| z * z))
        };
        let add = |left: (f64, f64), right: (f64, f64)| (left.0 + right.0, left.1 + right.1);
        self.fork_join.reduce_range(0..x.len(), self.vector_grain(), &leaf, &add)
    }

    /// Returns ‖a − b‖.
    fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let square = |(a, b): (&[f64], &[f64])| sum_of(a, b, |a, b| (a - b) * (a - b));
        sum_rows(self.fork_join, (a, b), self.vector_grain(), &square).sqrt()
    }

    fn vector_grain(&self) -> usize {
        self.grain * VECTOR_ELEMENTS_PER_ROW
    }
}

/// Sets `target` ← `target` + `factor`·`source`.
fn add_scaled(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += factor * source;
    }
}

/// Sums `term` over both slices, in eight independent sums. With a single sum, each addition would wait for the
/// previous addition.
fn sum_of(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let (a_lanes, a_rest) = a.as_chunks::<8>();
    let (b_lanes, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += term(*a, *b);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn class_s(grain: usize) -> Cg {
        Cg::new(&CLASSES[0], grain)
    }

    #[test]
    fn the_result_has_the_same_bits_on_every_backend() {
        let program = class_s(16);
        let serial = program.compute(Serial);
        let parallel = program.compute(OnRayon);
        assert_eq!(serial.zeta.to_bits(), parallel.zeta.to_bits());
        assert_eq!(serial.residual.to_bits(), parallel.residual.to_bits());
    }

    #[test]
    fn a_grain_longer_than_the_matrix_verifies() {
        let program = class_s(1_000_000);
        assert!(program.verify(&program.compute(Serial)).verified);
    }

    #[test]
    fn single_rows_and_odd_lengths_are_multiplied_whole() {
        for (rows, grain) in [(1, 1), (2, 1), (17, 1), (33, 2)] {
            let matrix = make_matrix(rows, 1, -1.0);
            let solver = Solver { fork_join: Serial, matrix: &matrix, grain };
            let mut vectors = Vectors::new(rows);
            solver.multiply(&vectors.x, &mut vectors.q);
            let z = vectors.q.iter().map(|value| value * 2.0).collect::<Vec<f64>>();
            let (x_z, z_z) = solver.products(&vectors.x, &z);
            assert!((x_z - z.iter().sum::<f64>()).abs() < 1e-9, "{rows}");
            assert!((z_z - z.iter().map(|value| value * value).sum::<f64>()).abs() < 1e-9, "{rows}");
        }
    }

    #[test]
    fn a_wrong_zeta_is_refused() {
        let program = class_s(64);
        let zeta = program.class.zeta;
        assert!(program.verify(&Estimate { zeta, residual: 0.0 }).verified);
        assert!(!program.verify(&Estimate { zeta: zeta + 2e-10, residual: 0.0 }).verified);
        assert!(!program.verify(&Estimate { zeta: f64::NAN, residual: 0.0 }).verified);
    }
}
