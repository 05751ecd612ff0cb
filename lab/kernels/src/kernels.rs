//! The programs, one file for each.

pub mod bfs;
pub mod cg;
pub mod cholesky;
pub mod clip;
pub mod ep;
pub mod fft;
pub mod fib;
pub mod ge;
pub mod heat;
pub mod io;
pub mod loop_threads;
pub mod lu;
pub mod mergesort;
pub mod mi;
pub mod mm;
pub mod nqueens;
pub mod pnn;
pub mod raytrace;
pub mod sor;
pub mod uts;
pub mod wavefront;
