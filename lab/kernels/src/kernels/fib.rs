//! Fibonacci numbers without a cutoff: one join per node and almost no other work, so the time is the cost of a join.

use comity_graph::Scale;

use crate::definition::Definition;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "fib",
    summary: "n-th Fibonacci number by double recursion without a cutoff: measures the cost of a join",
    parameters: &[Parameter { key: "n", default: "32", help: "index of the Fibonacci number, 0 to 50" }],
    prepare: |parameters| Ok(Box::new(Fib { n: n(parameters)? })),
    scaling: Ok(Scaling { keys: &["n"], rule: "n + 1: width by the golden ratio, as the number of calls", extents }),
};

fn n(parameters: &Parameters) -> Result<u32, ParameterError> {
    Ok(parameters.number("n", 0..=50)? as u32)
}

/// The factor by which the number of calls grows if n grows by one: a call for n makes calls for n - 1 and n - 2.
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    Ok(Scale { width: GOLDEN_RATIO.powi(n(parameters)? as i32), ..Scale::default() })
}

struct Fib {
    n: u32,
}

impl Kernel for Fib {
    type Output = u64;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> u64 {
        fib(fork_join, self.n)
    }

    fn verify(&self, output: &u64) -> Verdict {
        let expected = by_addition(self.n);
        Verdict::new(*output == expected, format!("fib({}) = {output}, expected {expected}", self.n))
    }
}

fn fib<J: ForkJoin>(fork_join: J, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = fork_join.join(|| fib(fork_join, n - 1), || fib(fork_join, n - 2));
    a + b
}

fn by_addition(n: u32) -> u64 {
    let (mut a, mut b) = (0, 1);
    for _ in 0..n {
        (a, b) = (b, a + b);
    }
    a
}
