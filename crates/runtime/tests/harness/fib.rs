//! A computation of joins alone, for tests that only need busy workers.

/// Returns the nth Fibonacci number, with a join for each pair of smaller ones.
pub fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = comity::join(|| fib(n - 1), || fib(n - 2));
    a + b
}
