//! Fibonacci numbers without a cutoff: one join per node and next to no work, so the time is the price of a join.

use crate::catalog::Row;
use crate::{ForkJoin, Kernel, Parameter, Verdict};

/// The catalog row.
pub const ROW: Row = Row {
    name: "fib",
    summary: "the n-th Fibonacci number by double recursion, no cutoff: measures the cost of a join",
    parameters: &[Parameter { key: "n", default: "32", help: "which Fibonacci number, 0 to 50" }],
    prepare: |parameters| Ok(Box::new(Fib { n: parameters.number("n", 0..=50)? as u32 })),
};

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
