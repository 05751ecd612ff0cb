//! The eight programs (§5.1, table 1).

use serde::{Deserialize, Serialize};

/// A program of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Benchmark {
    /// Breadth-first search: many short tasks.
    Bfs,
    /// Random numbers: independent computation only.
    Ep,
    /// The product of matrices.
    Mm,
    /// The rendering of a picture.
    RayTracer,
    /// Threads that compute and do not steal.
    Loop,
    /// Conjugate gradients: many short phases.
    Cg,
    /// Intersections of pairs of polygons.
    Clip,
    /// The inverse of a matrix: many short phases.
    Mi,
}

impl Benchmark {
    /// All programs, in the order of table 1.
    pub const ALL: [Benchmark; 8] = [
        Benchmark::Bfs,
        Benchmark::Ep,
        Benchmark::Mm,
        Benchmark::RayTracer,
        Benchmark::Loop,
        Benchmark::Cg,
        Benchmark::Clip,
        Benchmark::Mi,
    ];

    /// Returns the paper's name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Bfs => "BFS",
            Benchmark::Ep => "EP",
            Benchmark::Mm => "MM",
            Benchmark::RayTracer => "RayTracer",
            Benchmark::Loop => "LOOP",
            Benchmark::Cg => "CG",
            Benchmark::Clip => "CLIP",
            Benchmark::Mi => "MI",
        }
    }

    /// Returns the simulated speedup of the program on all cores, without its serial stretch at the start. It was
    /// measured under ABP, with the values of `lab/papers/src/bws/claims.toml`.
    pub(super) fn parallel_speedup(self) -> f64 {
        match self {
            Benchmark::Bfs => 26.0,
            Benchmark::Ep | Benchmark::Mm | Benchmark::RayTracer | Benchmark::Loop => 31.0,
            Benchmark::Cg => 15.0,
            Benchmark::Clip => 12.0,
            Benchmark::Mi => 8.0,
        }
    }

    /// True if the program's speedup alone is above 20 (group 1 of table 1). The other programs form group 2.
    pub fn is_scalable(self) -> bool {
        self < Benchmark::Cg
    }
}
