//! One file per program.

pub mod bfs;
pub mod cg;
pub mod clip;
pub mod ep;
pub mod fib;
pub mod loop_threads;
pub mod mergesort;
pub mod mi;
pub mod mm;
pub mod nqueens;
pub mod raytrace;
pub mod uts;
