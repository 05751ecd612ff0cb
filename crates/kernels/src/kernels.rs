//! One file per program.

pub mod fib;
